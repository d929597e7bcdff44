"""Enactors by name. An enactor of another package adds its maker to `ENACTORS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memqos.cgroupfs.tree import CgroupTree
from memqos.enactor.base import Enactor, Patience
from memqos.enactor.kubelet.enactor import Kubelet
from memqos.enactor.kubelet.session import KubeletSession
from memqos.enactor.kubelet_stand_in import KubeletStandIn
from memqos.engine.cgroup.layout import Layout
from memqos.errors import UnknownNameError, UsageError
from memqos.runtime.base import KubeletsRuntime, Runtime

__all__ = ["ENACTORS", "KUBELET", "MEMQOS", "KubeletAccess", "Maker", "Site", "make_enactor", "require_enactor"]

MEMQOS = "memqos"
"""The name of the kubelet stand-in."""


KUBELET = "kubelet"
"""The name of a real kubelet in the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletAccess:
    """A kubelet in the machine: its supervisor, its binaries, and the CRI server that it uses.

    binaries: paths in the machine by the minor versions of their releases, the kubelet under test first. handler: of
    the runtime under test, "" for the server's default. socket: a path in the machine.
    """

    session: KubeletSession
    binaries: Mapping[int, str]
    handler: str
    socket: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The parts of a machine that an enactor uses.

    layout: the runtime's cgroup layout. parallel: pods started at the same time (>= 1). patience: time limits of
    starts, shared by machines of one kind; None for new ones. kubelet: the kubelet in the machine, None without one.
    """

    runtime: Runtime
    tree: CgroupTree
    layout: Layout
    parallel: int = 1
    patience: Patience | None = None
    kubelet: KubeletAccess | None = None


def _memqos(site: Site) -> Enactor:
    return KubeletStandIn(
        runtime=site.runtime, tree=site.tree, layout=site.layout, parallel=site.parallel, patience=site.patience
    )


def _kubelet(site: Site) -> Enactor:
    if site.kubelet is None or not isinstance(site.runtime, KubeletsRuntime):
        raise UsageError(
            "a kubelet requires a binary and a CRI runtime.",
            where="enactor",
            next_step="Give --kubelet-binary PATH, with containerd or CRI-O as runtime.",
        )
    return Kubelet(
        site.kubelet.session,
        tree=site.tree,
        runtime=site.runtime,
        handler=site.kubelet.handler,
        socket=site.kubelet.socket,
        binaries=site.kubelet.binaries,
    )


Maker = Callable[[Site], Enactor]

ENACTORS: dict[str, Maker] = {MEMQOS: _memqos, KUBELET: _kubelet}
"""The maker of each enactor by its name."""


def require_enactor(name: str) -> None:
    """Raise UnknownNameError, which lists the names, unless this name exists."""
    if name not in ENACTORS:
        raise UnknownNameError.of("enactor", name, sorted(ENACTORS), where="enactor")


def make_enactor(enactor: str | Maker, site: Site) -> Enactor:
    """The enactor of this name on this site, or the one that this maker makes.

    Raises UnknownNameError, which lists the names.
    """
    if not isinstance(enactor, str):
        return enactor(site)
    require_enactor(enactor)
    return ENACTORS[enactor](site)
