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
from memqos.engine.release_table import FIELDS, POD_FIELDS, RELEASES
from memqos.model.node import KubeletSettings
from memqos.model.pod import ContainerKind, Pod

__all__ = ["ignored"]


def ignored(pods: Iterable[Pod], kubelet: Kubelet) -> tuple[Ignored, ...]:
    """Every field of the configuration and of the pods that the release does not know, in the order given."""
    return (*_settings(kubelet.settings, kubelet.release), *_pods(pods, kubelet.release))


def _settings(settings: KubeletSettings, release: Release) -> Iterator[Ignored]:
    for field, origin in settings.origin.items():
        since = Release(FIELDS.get(field, RELEASES[0]))
        if release < since:
            yield Ignored(
                field=field,
                origin=origin,
                what=f"the kubelet of {release} does not know this field, which came with {since}: it logs "
                '"Using lenient decoding as strict decoding failed" and goes on without it',
            )


def _pods(pods: Iterable[Pod], release: Release) -> Iterator[Ignored]:
    for pod in pods:
        name = f"pod {pod.namespace}/{pod.name}"
        given = [("spec.resources", name)] if pod.resources is not None else []
        for container in pod.all_containers:
            own = f"container {container.name} of {name}"
            given += [("restartPolicy", own)] if container.kind is ContainerKind.SIDECAR else []
            given += [("resizePolicy", own)] if container.resize_policy else []
        for field, of in given:
            since = Release(POD_FIELDS[field])
            if release < since:
                yield Ignored(
                    field=f"{field} of {of}",
                    origin=pod.file,
                    what=f"Kubernetes {release} does not know this field, which came with {since}: it is dropped",
                )
