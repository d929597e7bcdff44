"""What `memqos expect --resize` answers: what becomes of pods whose resources change while they run."""

from __future__ import annotations

import json
from collections.abc import Mapping

from memqos.engine.kubelet import Kubelet
from memqos.engine.resize import Usage, resize_pods
from memqos.engine.resize.explain import resize_document, resize_reasons, resize_text
from memqos.model.knob import Knob
from memqos.model.pod import Pod

__all__ = ["resizes_text"]


def resizes_text(
    pods: tuple[Pod, ...],
    desired: tuple[Pod, ...],
    kubelet: Kubelet,
    used: Mapping[tuple[str, str], int],
    *,
    knob: Knob | None,
    as_json: bool,
) -> str:
    """The answer about pods of this kubelet that change while they run.

    used: bytes by pod's uid and container's name. knob: the one that is explained, None for all of it.
    """
    found = resize_pods(pods, desired, kubelet, usage=_pod_usage(used, pods))
    if as_json:
        return json.dumps(resize_document(found), indent=1)
    return resize_text(found) if knob is None else resize_reasons(found, knob)


def _pod_usage(used: Mapping[tuple[str, str], int], pods: tuple[Pod, ...]) -> dict[str, Usage]:
    """By pod: what its containers use, and the pod as a whole where each of its containers was named."""
    found = {}
    for pod in pods:
        own = {name: size for (uid, name), size in used.items() if uid == pod.uid}
        whole = all(one.name in own for one in pod.containers)
        found[pod.uid] = Usage(pod=sum(own.values()) if whole else None, containers=own)
    return found
