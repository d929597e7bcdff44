"""What was given and has no effect: fields that a release does not know yet, and numbers that a kubelet passes over.

Source: kubelet `DecodeKubeletConfiguration`, which decodes strictly, and where that fails for an unknown field decodes
once more without minding it (v1beta1, from 1.17 on); types of kubelet.config.k8s.io/v1beta1 from 1.22 to 1.37. A pod's
unknown fields do not outlive the API server, nor the kubelet's own decoding of a file. No validation of the kubelet
looks at podPidsLimit (`podContainerManagerImpl.EnsureExists` does: above 0), nor at the zones of reservedMemory before
the Memory Manager's policy Static does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Ignored
from memqos.engine.releases.release import Release
from memqos.engine.releases.table import FIELDS, POD_FIELDS, RELEASES
from memqos.engine.translate.annotations import annotation_notes
from memqos.model.node import KubeletSettings
from memqos.model.pod import ContainerKind, Pod

__all__ = ["ignored", "ignored_annotations"]

_NO_LIMIT = -1


def ignored(pods: Iterable[Pod], kubelet: Kubelet) -> tuple[Ignored, ...]:
    """Every field of the configuration and of the pods that has no effect in the release, in the order given."""
    settings = kubelet.settings
    return (*_settings(settings, kubelet.release), *_numbers(settings), *_pods(pods, kubelet.release))


def ignored_annotations(pods: Iterable[Pod], kubelet: Kubelet) -> Iterator[Ignored]:
    """The annotations of admitted pods that have to do with resources and change nothing here, with the reason."""
    for pod in pods:
        if pod.annotations:
            runtimes = kubelet.runtimes.of_class(pod.runtime_class_name, pod.runtime_handler)
            names = tuple(one.name for one in pod.all_containers)
            for name, what in annotation_notes(pod.annotations, names, runtimes):
                field = f"annotation {name} of pod {pod.namespace}/{pod.name}"
                yield Ignored(field=field, origin=pod.file, what=what)


def _numbers(settings: KubeletSettings) -> Iterator[Ignored]:
    """Numbers that mean nothing, and that a kubelet takes without a word; -1 is the way to say no limit."""
    limit = settings.pod_pids_limit
    if limit is not None and limit < 1 and limit != _NO_LIMIT:
        what = f"{limit} is no limit to the kubelet, as is every number below 1; it is said with {_NO_LIMIT}"
        yield Ignored(field="podPidsLimit", origin=settings.origin.get("podPidsLimit", ""), what=what)
    for zone, _ in settings.reserved_memory or ():
        if zone < 0:
            what = f"no machine has a zone {zone}; the kubelet looks at zones under memoryManagerPolicy Static alone"
            yield Ignored(field="reservedMemory", origin=settings.origin.get("reservedMemory", ""), what=what)


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
