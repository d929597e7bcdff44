"""What was given and a release does not know yet: which fields, and what comes of them there.

Source: kubelet `DecodeKubeletConfiguration`, which decodes strictly, and where that fails for an unknown field decodes
once more without minding it (v1beta1, from 1.17 on); types of kubelet.config.k8s.io/v1beta1 from 1.22 to 1.37. A pod's
unknown fields do not outlive the API server, nor the kubelet's own decoding of a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Ignored
from memqos.engine.release import Release
from memqos.model.node import KubeletSettings
from memqos.model.pod import ContainerKind, Pod

__all__ = ["ignored"]

_OLDEST = 22
_SINCE = {
    "registerWithTaints": 23,
    "shutdownGracePeriodByPodPriority": 23,
    "registerNode": 23,
    "localStorageCapacityIsolation": 25,
    "tracing": 25,
    "topologyManagerPolicyOptions": 26,
    "containerRuntimeEndpoint": 27,
    "enableSystemLogQuery": 27,
    "imageServiceEndpoint": 27,
    "maxParallelImagePulls": 27,
    "imageMaximumGCAge": 29,
    "containerLogMaxWorkers": 30,
    "containerLogMonitorInterval": 30,
    "podLogsDir": 30,
    "failCgroupV1": 31,
    "crashLoopBackOff": 32,
    "singleProcessOOMKill": 32,
    "imagePullCredentialsVerificationPolicy": 33,
    "mergeDefaultEvictionSettings": 33,
    "preloadedImagesVerificationAllowlist": 33,
    "userNamespaces": 33,
    "memoryReservationPolicy": 36,
    "tlsCurvePreferences": 36,
}
"""Fields of a KubeletConfiguration to the first release whose kubelet has them; every other field is older."""

_RESIZE_POLICY_SINCE = 27
_SIDECARS_SINCE = 28
_POD_LEVEL_SINCE = 32


def ignored(pods: Iterable[Pod], kubelet: Kubelet) -> tuple[Ignored, ...]:
    """Every field of the configuration and of the pods that the release does not know, in the order given."""
    return (*_settings(kubelet.settings, kubelet.release), *_pods(pods, kubelet.release))


def _settings(settings: KubeletSettings, release: Release) -> Iterator[Ignored]:
    for field, origin in settings.origin.items():
        since = _SINCE.get(field, _OLDEST)
        if not release.since(since):
            yield Ignored(
                field=field,
                origin=origin,
                what=f"the kubelet of {release} does not know this field, which came with 1.{since}: it logs "
                '"Using lenient decoding as strict decoding failed" and goes on without it',
            )


def _pods(pods: Iterable[Pod], release: Release) -> Iterator[Ignored]:
    for pod in pods:
        name = f"pod {pod.namespace}/{pod.name}"
        if pod.resources is not None and not release.since(_POD_LEVEL_SINCE):
            yield _dropped(name, "spec.resources", pod.file, release, _POD_LEVEL_SINCE)
        for container in pod.all_containers:
            own = f"container {container.name} of {name}"
            if container.kind is ContainerKind.SIDECAR and not release.since(_SIDECARS_SINCE):
                yield _dropped(own, "restartPolicy", pod.file, release, _SIDECARS_SINCE)
            if container.resize_policy and not release.since(_RESIZE_POLICY_SINCE):
                yield _dropped(own, "resizePolicy", pod.file, release, _RESIZE_POLICY_SINCE)


def _dropped(of: str, field: str, origin: str, release: Release, since: int) -> Ignored:
    return Ignored(
        field=f"{field} of {of}",
        origin=origin,
        what=f"Kubernetes {release} does not know this field, which came with 1.{since}: it is dropped",
    )
