"""`resources.limits.swap` of containers, in the preview of 1.38 (KEP-5359): what other releases and the API refuse."""

from __future__ import annotations

from memqos.engine.kubelet import Kubelet
from memqos.engine.releases.release import Release
from memqos.engine.releases.table import Novelty
from memqos.errors import ManifestError
from memqos.model.pod import Pod

__all__ = ["SWAP", "check_swap"]

SWAP = "swap"
"""The name of the resource."""


def check_swap(pod: Pod, kubelet: Kubelet) -> None:
    """ManifestError for a swap limit where the release has none, and for a request of swap, which no release has."""
    for container in pod.all_containers:
        requests, limits = container.resources.requests, container.resources.limits
        if SWAP in limits and not kubelet.release.has(Novelty.WORKLOAD_SWAP):
            first = Release(Novelty.WORKLOAD_SWAP.since)
            what = f"the API server of {kubelet.release} has no limits.swap: it is alpha in {first} (KEP-5359)."
            raise _error(pod, container.origin.get("limits.swap", ""), container.name, what)
        if SWAP in requests and not requests[SWAP].is_zero:
            what = "swap cannot be requested, only limited (KEP-5359)."
            raise _error(pod, container.origin.get("requests.swap", ""), container.name, what)


def _error(pod: Pod, origin: str, container: str, what: str) -> ManifestError:
    file, _, line = origin.rpartition(":")
    place = int(line) if line.isdecimal() else 0
    return ManifestError.at(what, file=file or pod.file, line=place, field=f"container {container}: resources")
