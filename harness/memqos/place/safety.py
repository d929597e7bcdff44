"""Whether a machine that is there may be used at all: nobody else's pods are on it, and nothing manages them."""

from __future__ import annotations

from collections.abc import Iterable

from memqos.cgroupfs.hierarchy import Hierarchy
from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError
from memqos.model.path import ROOT
from memqos.place.base import OfferedRuntime
from memqos.runtime.cri import connect
from memqos.target.base import Target, checked

__all__ = ["require_free", "require_rights"]

KUBELETS = ("kubelet", "kubelite", "k3s", "k0s", "rke2")
"""The programs that are a kubelet, or contain one, by the beginnings of their names."""

_LOOK = """\
id -u
for file in /proc/[0-9]*/comm; do read -r name <"$file" && echo "$name"; done 2>/dev/null
exit 0
"""

_SHOWN = 3


def require_rights(target: Target, *, deadline: Deadline) -> None:
    """Raise EnvironmentNotAbleError unless we are root there and no kubelet runs. Nothing is changed."""
    user, *names = checked(target.run(["sh", "-c", _LOOK], deadline=deadline), where=target.address).text.split("\n")
    if user != "0":
        raise EnvironmentNotAbleError(
            "cgroups and runtimes need root, and we are not.",
            where=target.address,
            next_step="Let ssh in as root, or run memqos as root for local://.",
        )
    if kubelets := sorted({name for name in names if name.startswith(KUBELETS)}):
        raise EnvironmentNotAbleError(
            f"a kubelet runs there ({', '.join(kubelets)}), and memqos would be in its place.",
            where=target.address,
            next_step="Drain the node and stop it, or name a machine without one.",
        )


def require_free(target: Target, hierarchy: Hierarchy, offers: Iterable[OfferedRuntime], *, deadline: Deadline) -> None:
    """Raise EnvironmentNotAbleError if there are cgroups or sandboxes of other people's pods. Nothing is changed."""
    names = target.list(hierarchy.folder(ROOT), deadline=deadline) or ()
    if found := [name for name in names if name.startswith(("kubepods", "kubelet"))]:
        raise EnvironmentNotAbleError(
            f"there are cgroups of a kubelet: {', '.join(found)}.",
            where=target.address,
            next_step="Remove what a kubelet left (kubeadm reset), or name a machine that never had one.",
        )
    for socket in sorted({offer.socket for offer in offers} - {""}):
        with target.forward(socket) as local, connect(local, name=socket, deadline=deadline) as runtime:
            if others := runtime.foreign_sandboxes(deadline=deadline):
                more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
                raise EnvironmentNotAbleError(
                    f"{socket} has pods that are not ours: {', '.join(others[:_SHOWN])}{more}.",
                    where=target.address,
                    next_step="Name a machine without pods.",
                )
