"""Removing a kubelet's pods: a few through the kubelet, many without it.

The next pods may have the same uids, unlike in a cluster, so nothing of these may be left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.enactor.base import AdmittedPod
from memqos.enactor.kubelet.pod_status import Json, sandbox_of
from memqos.enactor.kubelet.session import KubeletSession
from memqos.errors import RuntimeCallError
from memqos.model.path import CgroupPath
from memqos.runtime.base import KubeletsRuntime, SandboxHandle
from memqos.target.base import checked
from memqos.threads import submit

__all__ = ["Removal"]

_END_SECONDS = 180.0
_CALL_SECONDS = 60.0
_AT_A_TIME = 8
_SANDBOXES_AT_A_TIME = 4
_TRIES = 4
_REST_SECONDS = 1.0
_MOST_BY_KUBELET = 3
"""A kubelet takes longer to remove more than these than to start again: on an emulated machine eleven seconds for each
pod, and thirty to start."""

_FOLDERS = "/var/lib/kubelet/pods"
_REMOVE_FOLDERS = f"""
awk '{{print $2}}' /proc/self/mounts | grep '^{_FOLDERS}/' | sort -r | while read -r mount; do umount "$mount"; done
rm -rf {_FOLDERS}/*
"""
"""A shell program that removes the folders of all pods and their memory-backed volumes."""

_GRACE = 1
"""Seconds; with a grace period of 0 the API server removes the pod by force, and the kubelet never sees it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Removes pods. pods: those admitted, by uid. handler: the runtime's, as in `Kubelet`."""

    session: KubeletSession
    tree: CgroupTree
    runtime: KubeletsRuntime
    handler: str
    pods: Mapping[str, AdmittedPod]

    def remove(self, kept: frozenset[str]) -> None:
        """Remove all pods but those with these uids.

        A few are deleted through the kubelet, which runs on. If many leave and none is kept, the kubelet is stopped;
        empty cgroups and its checkpoints are then left for the next plan to remove, since no kubelet runs as it wants.
        The same holds if the kubelet has ended.
        """
        leaving = [one["metadata"] for one in self._items() if one["metadata"]["uid"] not in kept]
        is_stopped = bool(leaving) and self.session.config is None
        if is_stopped or (not kept and len(leaving) > _MOST_BY_KUBELET):
            self._remove_without_kubelet(leaving)
        else:
            self._remove_through_kubelet(leaving, kept)

    def _remove_through_kubelet(self, leaving: Sequence[Json], kept: frozenset[str]) -> None:
        """Delete these pods, by their metadata, until the kubelet has no worker for them (kubelet_working_pods)."""
        # A kubelet ends all pods at once; with dozens on an emulated machine the runtime answers none of them in time.
        for first in range(0, len(leaving), _AT_A_TIME):
            self._end_pods(leaving[first : first + _AT_A_TIME])
        self._remove_sandboxes(kept)
        if leaving:
            self.session.until(
                "the kubelet has forgotten them",
                lambda: self.session.counted("kubelet_working_pods") <= len(kept),
                Deadline.after(_END_SECONDS),
            )

    def _end_pods(self, leaving: Sequence[Json]) -> None:
        """Delete these pods, and wait until neither they nor their cgroups are there."""
        uids = {one["uid"] for one in leaving}
        paths = [one.planned.cgroup.path for uid, one in self.pods.items() if uid in uids]
        self._delete(leaving, grace=_GRACE)
        # Kill the workloads first, so that the runtime does not wait for them.
        self.tree.kill(paths, deadline=Deadline.after(_CALL_SECONDS))

        def are_gone() -> bool:
            left = [one for one in self._items() if one["metadata"]["uid"] in uids]
            return not left and not any(map(self._is_there, paths))

        self.session.until("the kubelet has removed all pods", are_gone, Deadline.after(_END_SECONDS))

    def _remove_without_kubelet(self, leaving: Sequence[Json]) -> None:
        """Stop the kubelet, and remove these pods from the API, from the runtime, and from the kubelet's folder."""
        self.session.stop()
        self._delete(leaving, grace=0)
        paths = [one.planned.cgroup.path for one in self.pods.values()]
        self.tree.kill(paths, deadline=Deadline.after(_CALL_SECONDS))
        self._remove_sandboxes(frozenset())
        target = self.tree.target
        checked(target.run(["sh", "-c", _REMOVE_FOLDERS], deadline=Deadline.after(_CALL_SECONDS)), where=target.address)

    def _delete(self, leaving: Sequence[Json], *, grace: int) -> None:
        self.session.order("delete", names=[(one["namespace"], one["name"]) for one in leaving], grace=grace)

    def _remove_sandboxes(self, kept: frozenset[str]) -> None:
        """Remove all sandboxes of all pods but these uids, also of pods that never started.

        A kubelet leaves ended sandboxes to its garbage collection, and takes the containers in them for those of the
        next pod with the uid.
        """
        gone = {uid: one.planned for uid, one in self.pods.items() if uid not in kept}
        if not gone:
            return
        found = self.runtime.sandboxes(deadline=Deadline.after(_CALL_SECONDS))
        with ThreadPoolExecutor(_SANDBOXES_AT_A_TIME) as pool:
            removed = [
                submit(pool, self._remove_sandbox, sandbox_of(gone[uid], one, handler=self.handler))
                for one, uid in found.items()
                if uid in gone
            ]
        for one in removed:
            one.result()

    def _remove_sandbox(self, sandbox: SandboxHandle) -> None:
        """Remove a sandbox, again if the runtime refuses: containerd does while it still removes a container of it."""
        deadline = Deadline.after(_END_SECONDS)
        for _ in range(_TRIES - 1):
            try:
                self.runtime.remove_sandbox(sandbox, deadline=deadline)
            except RuntimeCallError:
                deadline.clock.sleep(_REST_SECONDS)
            else:
                return
        self.runtime.remove_sandbox(sandbox, deadline=deadline)

    def _items(self) -> list[Json]:
        return self.session.objects("v1", "pods")

    def _is_there(self, path: CgroupPath) -> bool:
        return (
            self.tree.target.list(self.tree.hierarchy.folder(path), deadline=Deadline.after(_CALL_SECONDS)) is not None
        )
