"""`memqos.audit`: the same audit as the command, for Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TypeVar

from memqos.audits.answer import Audit
from memqos.audits.judgement import judged
from memqos.audits.question import AuditOptions, Required
from memqos.catalog.data import data_root
from memqos.catalog.kubelet_config import load_settings
from memqos.catalog.node_facts import load_facts
from memqos.catalog.pods import load_pods
from memqos.catalog.recorded_trees import RecordedTree, load_tree
from memqos.catalog.runtimes import runtimes_named, runtimes_recorded
from memqos.engine.faults import KUBELET
from memqos.engine.releases.release import Variant
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.systemd import SYSTEMD
from memqos.errors import UnknownNameError, UsageError
from memqos.known import KnownDeviation, load_all
from memqos.model.node import CgroupDriver, KubeletSettings, NodeFacts
from memqos.model.pod import Pod

__all__ = ["audit", "known_of_kubelets"]

_E = TypeVar("_E", CgroupDriver, Variant)

_STEPS = {
    Required.PODS: "Give the pods' manifests with pods=.",
    Required.RELEASE: "Give the release with kubernetes=.",
    Required.NODE: "Give the facts of the node with node=.",
}


def audit(
    recording: RecordedTree | str | Path,
    *,
    pods: str | Path | Pod | Iterable[str | Path | Pod] | None = None,
    kubelet_config: KubeletSettings | str | Path | Sequence[str | Path] | None = None,
    overrides: Sequence[str] = (),
    flags: Sequence[str] = (),
    kubernetes: str | None = None,
    runtime: Runtimes | str | None = None,
    node: NodeFacts | str | Path | None = None,
    driver: str | None = None,
    variant: str = Variant.SHIPPED.value,
    static: bool = False,
    was_config: KubeletSettings | str | Path | Sequence[str | Path] | None = None,
    was_pods: str | Path | Pod | Iterable[str | Path | Pod] | None = None,
    known: Iterable[str | Path] = (),
) -> Audit:
    """Audit a recorded node: one finding for each interface file that the kubelet's rules set. Prints nothing.

    recording: a file that `memqos collect` wrote, or the result of `load_tree`. Each other argument replaces a part of
    the recording; None keeps it. pods: a manifest's path, a `Pod`, or several of them. kubelet_config: settings, a
    path, or several paths merged in order. overrides, flags: fields ("featureGates.MemoryQoS=true") and command line
    flags on top of it. kubernetes: "1.36". runtime: "crun@1.21", "cri-o@1.36+crun@1.21", or `Runtimes`. node: facts or
    their file. driver: "systemd" or "cgroupfs". variant: "shipped", "mended", "documented" or "draft". static: all pods
    are static. was_config, was_pods: the earlier configuration and pods of the node; values that these left conform.
    known: files of known deviations besides memqos's own list; entries about the kubelet apply.

    Raises UsageError for an unreadable file, an unknown name, and data that neither the recording nor an argument has;
    ManifestError with file, line and field for wrong content.
    """
    tree = _tree(recording, overrides, flags, configured=kubelet_config is not None)
    configures = kubelet_config is not None or (tree.settings is None and (overrides or flags))
    given = AuditOptions(
        runtimes=_runtimes(runtime, tree),
        pods=None if pods is None else _pods(pods),
        settings=_settings(kubelet_config, overrides, flags) if configures else None,
        config=_names(kubelet_config) or ("kubelet_config" if kubelet_config is not None else ""),
        node=load_facts(node) if isinstance(node, str | Path) else node,
        release=kubernetes,
        driver=None if driver is None else _named(driver, CgroupDriver, "cgroup driver"),
        variant=_named(variant, Variant, "variant"),
        static=static,
        known=known_of_kubelets(known),
        was_settings=None if was_config is None else _settings(was_config),
        was_pods=None if was_pods is None else _pods(was_pods),
        was_config=_names(was_config) or "was_config",
        was_manifests=_names(was_pods) or "was_pods",
    )
    return judged(given.about(tree, steps=_STEPS))


def known_of_kubelets(files: Iterable[str | Path] = ()) -> tuple[KnownDeviation, ...]:
    """The kubelet's known deviations: memqos's own, and those in these files; errors as `load_all`."""
    if not files:
        return _own()
    every = load_all((data_root() / "vm" / "known.toml", *map(Path, files)))
    return tuple(one for one in every if one.runtime == KUBELET)


@cache
def _own() -> tuple[KnownDeviation, ...]:
    """The entries of memqos's own list, read once."""
    return tuple(one for one in load_all((data_root() / "vm" / "known.toml",)) if one.runtime == KUBELET)


def _tree(
    recording: RecordedTree | str | Path, overrides: Sequence[str], flags: Sequence[str], *, configured: bool
) -> RecordedTree:
    """The recording, with fields and flags added to its own configuration unless another one is given."""
    if not isinstance(recording, RecordedTree):
        return load_tree(recording) if configured else load_tree(recording, overrides, flags)
    if (overrides or flags) and not configured and recording.settings is not None:
        step = "Give them to load_tree, or give the recording's path."
        raise UsageError("a loaded recording has its settings already.", where="overrides, flags", next_step=step)
    return recording


def _settings(
    given: KubeletSettings | str | Path | Sequence[str | Path] | None,
    overrides: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> KubeletSettings:
    if not isinstance(given, KubeletSettings):
        return load_settings(given, overrides, flags)
    if overrides or flags:
        step = "Give the configuration's path, or settings that have these fields."
        raise UsageError(
            "`overrides` and `flags` need a configuration file, not KubeletSettings.",
            where="overrides, flags",
            next_step=step,
        )
    return given


def _runtimes(given: Runtimes | str | None, tree: RecordedTree) -> Runtimes:
    """The runtimes; it is unknown which annotations the recorded ones act on."""
    if isinstance(given, Runtimes):
        return given
    found = runtimes_recorded(tree.runtimes)
    if given is not None:
        found = runtimes_named(given, found)
    systemd = int(tree.runtimes.get("systemd", SYSTEMD))
    return replace(found, systemd=systemd, hugetlb=tree.hugetlb, allowance=replace(found.allowance, known=False))


def _pods(given: str | Path | Pod | Iterable[str | Path | Pod]) -> tuple[Pod, ...]:
    """The given pods, and those in manifests; files that are given together are read together."""
    several = (given,) if isinstance(given, str | Path | Pod) else tuple(given)
    paths = [one for one in several if not isinstance(one, Pod)]
    return (*(one for one in several if isinstance(one, Pod)), *(load_pods(paths) if paths else ()))


def _names(given: object) -> str:
    """The names of the files, "" for values."""
    if isinstance(given, str | Path):
        return str(given)
    several = given if isinstance(given, list | tuple) else ()
    return ", ".join(str(one) for one in several if isinstance(one, str | Path))


def _named(name: str, kind: type[_E], what: str) -> _E:
    try:
        return kind(name)
    except ValueError:
        raise UnknownNameError.of(what, name, [one.value for one in kind]) from None
