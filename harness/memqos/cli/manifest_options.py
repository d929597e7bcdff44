"""The options about the manifests of pods, and what is said of those that were read: shared by the pages that plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from memqos.catalog.pods import Manifests, load_manifests
from memqos.catalog.workloads import MOST_PODS, Replicas
from memqos.cli.terminal import say
from memqos.errors import UsageError
from memqos.model.pod import Pod

__all__ = ["ManifestOptions", "manifest_options"]

_REPLICAS = re.compile(r"(?:(?:([^/=]+)/)?([^/=]+)=)?([0-9]{1,9})", re.ASCII)
_MOST_NAMED = 12

_OPTIONS = (
    click.option("-R", "--recursive", is_flag=True, help="Read the folders below a folder of manifests too."),
    click.option(
        "--replicas",
        multiple=True,
        metavar="[[NAMESPACE/]NAME=]N",
        help="How many pods each Deployment, ReplicaSet, ReplicationController, StatefulSet, or the one of this name, "
        "has on the node; else all of its spec.replicas. May be repeated. A DaemonSet has one pod per node, a Job or "
        "CronJob as many as run at a time.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestOptions:
    """What was said about manifests."""

    recursive: bool = False
    replicas: tuple[str, ...] = ()

    def load(self, paths: Iterable[str]) -> tuple[Pod, ...]:
        """The pods in these files and folders; errors as `load_manifests`. Notes say what was passed over."""
        found = load_manifests(paths, replicas=_replicas(self.replicas), recursive=self.recursive)
        _say_passed_over(found.passed_over)
        _say_idle(found)
        return found.pods


def _replicas(texts: Iterable[str]) -> Replicas:
    """What texts like "3" and "team/web=2" say; UsageError for another text."""
    every: int | None = None
    named: dict[tuple[str, str], int] = {}
    for text in texts:
        parts = _REPLICAS.fullmatch(text)
        if parts is None or int(parts[3]) > MOST_PODS:
            what = f"'{text[:80]}' does not say a number of pods from 0 to {MOST_PODS}."
            raise UsageError(what, where="--replicas", next_step="Write 3, or web=3, or team/web=3.")
        if parts[2] is None:
            every = int(parts[3])
        else:
            named[parts[1] or "default", parts[2]] = int(parts[3])
    return Replicas(every=every, named=named)


def _say_passed_over(kinds: Mapping[str, int]) -> None:
    if not kinds:
        return
    texts = [f"{kind or 'without apiVersion and kind'} ({count})" for kind, count in sorted(kinds.items())]
    more = f" and {len(texts) - _MOST_NAMED} more kinds" if len(texts) > _MOST_NAMED else ""
    say(f"memqos: note: passed over, since they make no pods: {', '.join(texts[:_MOST_NAMED])}{more}.", err=True)


def _say_idle(found: Manifests) -> None:
    """A note on workloads that have no pods here; UsageError where nothing else was given."""
    if not found.idle:
        return
    names = ", ".join(map(str, found.idle[:_MOST_NAMED]))
    more = f" and {len(found.idle) - _MOST_NAMED} more" if len(found.idle) > _MOST_NAMED else ""
    if not found.pods:
        step = "--replicas says how many of their pods are on the node."
        raise UsageError(f"there is nothing to plan: no pods of {names}{more}.", next_step=step)
    say(f"memqos: note: no pods of {names}{more}.", err=True)


def manifest_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a page the options that make `ManifestOptions`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
