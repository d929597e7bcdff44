"""Enactors by name. One that comes from elsewhere, such as a real kubelet, adds its maker to `ENACTORS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memqos.cgroupfs.tree import CgroupTree
from memqos.enactor.base import Enactor, Patience
from memqos.enactor.kubelets_place import KubeletsPlace
from memqos.engine.cgroup.layout import Layout
from memqos.errors import UnknownNameError
from memqos.runtime.base import Runtime

__all__ = ["ENACTORS", "MEMQOS", "Site", "make_enactor", "require_enactor"]

MEMQOS = "memqos"
"""The name of memqos in the kubelet's place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What an enactor works with on one place.

    layout: where the runtime keeps containers. parallel: pods started at the same time (>= 1). patience: with pods that
    fail, shared by places of one kind; None starts afresh.
    """

    runtime: Runtime
    tree: CgroupTree
    layout: Layout
    parallel: int = 1
    patience: Patience | None = None


def _memqos(site: Site) -> Enactor:
    return KubeletsPlace(
        runtime=site.runtime, tree=site.tree, layout=site.layout, parallel=site.parallel, patience=site.patience
    )


ENACTORS: dict[str, Callable[[Site], Enactor]] = {MEMQOS: _memqos}
"""The maker of each enactor by its name."""


def require_enactor(name: str) -> None:
    """UnknownNameError, which lists the names, unless there is an enactor of this name."""
    if name not in ENACTORS:
        raise UnknownNameError.of("enactor", name, sorted(ENACTORS), where="enactor")


def make_enactor(name: str, site: Site) -> Enactor:
    """The enactor of this name on this site. Raises UnknownNameError, which lists the names."""
    require_enactor(name)
    return ENACTORS[name](site)
