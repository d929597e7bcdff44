"""The options about pod manifests, and the notes on the manifests; shared by the pages that plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import click

from memqos.catalog.manifest_objects import Effect, OtherKind
from memqos.catalog.pods import Manifests, load_manifests
from memqos.catalog.workloads import MOST_PODS, Replicas
from memqos.cli.terminal import say
from memqos.errors import UnknownNameError, UsageError
from memqos.model.cluster import NO_OBJECTS, ClusterObjects
from memqos.model.pod import Pod

__all__ = ["ManifestOptions", "manifest_options", "others_document", "pods_of_one_node"]

_REPLICAS = re.compile(r"(?:(?:([^/=]+)/)?([^/=]+)=)?([0-9]{1,9})", re.ASCII)
_MOST_NAMED = 12
_BUILT_IN = {"default", "kube-system", "kube-public", "kube-node-lease"}
"""The namespaces that every API server creates."""

_OPTIONS = (
    click.option("-R", "--recursive", is_flag=True, help="Read the folders below a folder of manifests too."),
    click.option(
        "--replicas",
        multiple=True,
        metavar="[[NAMESPACE/]NAME=]N",
        help="How many pods each Deployment, ReplicaSet, ReplicationController, StatefulSet, or the one of this name, "
        "has on the node. Default: all of its spec.replicas. May be repeated. A DaemonSet has one pod per node, a Job "
        "or CronJob as many as run at a time.",
    ),
    click.option(
        "-n",
        "--namespace",
        default="",
        metavar="NAME",
        help="The namespace of objects without one, as for kubectl. Default: default.",
    ),
    click.option(
        "--vpa",
        is_flag=True,
        help="Apply the recommendation in the status of a VerticalPodAutoscaler to new pods, as its webhook does.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestOptions:
    """The options about manifests."""

    recursive: bool = False
    replicas: tuple[str, ...] = ()
    namespace: str = ""
    vpa: bool = False

    def load(self, paths: Iterable[str], cluster: ClusterObjects = NO_OBJECTS) -> Manifests:
        """The contents of these files and folders; errors as `load_manifests`. Notes list ignored objects.

        cluster: objects for admission from other files.
        """
        found = load_manifests(
            paths,
            replicas=_replicas(self.replicas),
            recursive=self.recursive,
            namespace=self.namespace,
            recommendations=self.vpa,
            cluster=cluster,
        )
        _say_skipped(found.skipped)
        _say_others(found.others)
        _say_idle(found)
        _say_of_pods(found)
        return found


def _replicas(texts: Iterable[str]) -> Replicas:
    """Replicas from texts like "3" and "team/web=2". Raises UsageError for another text."""
    every: int | None = None
    named: dict[tuple[str, str], int] = {}
    for text in texts:
        parts = _REPLICAS.fullmatch(text)
        if parts is None or int(parts[3]) > MOST_PODS:
            what = f"'{text[:80]}' is not a number of pods from 0 to {MOST_PODS}."
            raise UsageError(what, where="--replicas", next_step="Write 3, or web=3, or team/web=3.")
        if parts[2] is None:
            every = int(parts[3])
        else:
            named[parts[1] or "default", parts[2]] = int(parts[3])
    return Replicas(every=every, named=named)


def _say_skipped(files: Sequence[str]) -> None:
    for one in files[:_MOST_NAMED]:
        say(f"memqos: note: skipped: {one}.", err=True)
    if len(files) > _MOST_NAMED:
        say(f"memqos: note: skipped: {len(files) - _MOST_NAMED} more.", err=True)


_HEADS = {
    Effect.NONE: "ignored, since they neither create nor change pods",
    Effect.CHANGES_PODS: "not applied, though it may change pods",
    Effect.MAKES_PODS: "ignored, though it may create pods",
    Effect.COUNTS_PODS: "ignored, though it may change the number of pods",
    Effect.REFUSES_PODS: "ignored, though it may reject pods",
    Effect.SETS_NODE: "ignored, since it is about nodes",
    Effect.UNKNOWN: "ignored, though it may create or change pods",
}


def _say_others(others: Iterable[OtherKind]) -> None:
    """A note for each effect, with the reason."""

    def rank(one: OtherKind) -> tuple[int, str]:
        return list(Effect).index(one.effect), one.why

    for (_, why), group in groupby(sorted(others, key=rank), key=rank):
        kinds = list(group)
        texts = [f"{one.kind or 'without apiVersion and kind'} ({one.count})" for one in kinds]
        more = f" and {len(texts) - _MOST_NAMED} more kinds" if len(texts) > _MOST_NAMED else ""
        tail = f": {why}" if why else ""
        say(f"memqos: note: {_HEADS[kinds[0].effect]}: {', '.join(texts[:_MOST_NAMED])}{more}{tail}.", err=True)


def others_document(others: Iterable[OtherKind]) -> list[dict[str, object]]:
    """The same as JSON."""
    return [{"kind": one.kind, "count": one.count, "effect": one.effect.value, "why": one.why} for one in others]


def _say_of_pods(found: Manifests) -> None:
    """Notes on pods that are being deleted, and on namespaces without a Namespace object."""
    deleting = [f"{pod.namespace}/{pod.name}" for pod in found.pods if pod.deleted and not pod.has_ended]
    if deleting:
        what = "planned: a pod that is being deleted keeps its cgroups until its containers have stopped"
        say(f"memqos: note: {', '.join(deleting[:_MOST_NAMED])}: {what}.", err=True)
    known = {one.name for one in found.cluster.namespaces}
    strange = sorted({pod.namespace for pod in found.pods if pod.submission is not None} - known - _BUILT_IN)
    if known and strange:
        what = "not among the given Namespaces: the API server rejects pods of a namespace that does not exist"
        say(f"memqos: note: namespace {', '.join(strange[:_MOST_NAMED])}: {what}.", err=True)


def _say_idle(found: Manifests) -> None:
    """A note on workloads without pods. Raises UsageError if the input has nothing else."""
    if not found.idle:
        return
    names = ", ".join(map(str, found.idle[:_MOST_NAMED]))
    more = f" and {len(found.idle) - _MOST_NAMED} more" if len(found.idle) > _MOST_NAMED else ""
    if not found.pods:
        step = "Set how many of their pods are on the node with --replicas."
        raise UsageError(f"nothing to plan: no pods of {names}{more}.", next_step=step)
    say(f"memqos: note: no pods of {names}{more}.", err=True)


def manifest_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a page the options that make `ManifestOptions`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def pods_of_one_node(pods: Sequence[Pod], node: str | None) -> tuple[Pod, ...]:
    """The pods that have cgroups on the node of this name. None: all pods are taken to be on one node.

    Pods that have ended are left out. If any pod is bound to a node, unbound pods are left out too. Notes report both.
    Raises UnknownNameError for a node without bound pods, UsageError if no pod is left.
    """
    nodes = sorted({pod.node for pod in pods if pod.node})
    if node is not None and node not in nodes:
        raise UnknownNameError.of("node with pods", node, nodes, where="--node-name")
    running = [pod for pod in pods if not pod.has_ended]
    placed = [pod for pod in running if not (nodes and pod.waits_for_node)]
    _note(len(pods) - len(running), "ended (status.phase Succeeded or Failed)")
    _note(len(running) - len(placed), "not been bound to a node yet")
    if not placed:
        raise UsageError("none of the pods has cgroups.", next_step="Give pods that are running or pending.")
    if node is not None:
        return tuple(pod for pod in placed if pod.node == node)
    if len(nodes) > 1:
        say(
            f"memqos: note: these pods are bound to {len(nodes)} nodes and are planned as if they were on one; "
            "--node-name selects one.",
            err=True,
        )
    return tuple(placed)


def _note(count: int, what: str) -> None:
    if count:
        pods = "1 pod has" if count == 1 else f"{count} pods have"
        rest = "is left out: it has no cgroups" if count == 1 else "are left out: they have no cgroups"
        say(f"memqos: note: {pods} {what}, and {rest}.", err=True)
