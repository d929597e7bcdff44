"""Validation of a new pod, once admission has changed it: what defaults can make wrong.

What a manifest says itself is checked when it is read; a LimitRange's default or a recommendation may then put a
request above a limit. Source: pkg/apis/core/validation `validateResourceRequirements`,
`validatePodResourceConsistency`.
"""

from __future__ import annotations

from collections.abc import Iterator

from memqos.engine.admission.denial import Denial, invalid
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input
from memqos.engine.pod.hugepages import PREFIX
from memqos.engine.pod.sums import aggregate
from memqos.model.pod import Container, Pod, Resources

__all__ = ["check_resources"]

_Fault = tuple[str, tuple[Input, ...]]
"""The API server's message, and the values that are at odds."""


def check_resources(pod: Pod, kubelet: Kubelet) -> Denial | None:
    """Why the pod's resources are invalid; None if they are not."""
    found = [
        *_of_containers("initContainers", pod.init_containers),
        *_of_containers("containers", pod.containers),
        *(_of_pod(pod, pod.resources) if kubelet.pod_level and pod.resources is not None else ()),
    ]
    if not found:
        return None
    inputs = tuple(dict.fromkeys(one for _, own in found for one in own))
    rule = "a request must not exceed its limit, nor what is asked for a container what is asked for its pod"
    return invalid(pod, [message for message, _ in found], rule=rule, inputs=inputs)


def _of_containers(field: str, containers: tuple[Container, ...]) -> Iterator[_Fault]:
    for index, one in enumerate(containers):
        limits = one.resources.limits
        for name, request in one.resources.requests.items():
            limit = limits.get(name)
            path = f"spec.{field}[{index}].resources"
            inputs = tuple(
                Input(f"{part}.{name} of container {one.name}", str(value), one.origin.get(f"{part}.{name}", ""))
                for part, value in (("requests", request), ("limits", limit))
                if value is not None
            )
            if limit is None:
                if name.startswith(PREFIX):
                    yield f"{path}.limits: Required value: Limit must be set for non overcommitable resources", inputs
            elif name.startswith(PREFIX) and request != limit:
                what = f"must be equal to {name} limit of {limit.canonical()}"
                yield f'{path}.requests: Invalid value: "{request.canonical()}": {what}', inputs
            elif limit < request:
                what = f"must be less than or equal to {name} limit of {limit.canonical()}"
                yield f'{path}.requests: Invalid value: "{request.canonical()}": {what}', inputs


def _of_pod(pod: Pod, own: Resources) -> Iterator[_Fault]:
    """Pod-level requests that containers exceed together, and pod-level limits that one of them exceeds."""
    for name, asked in aggregate(pod).items():
        whole = own.requests.get(name)
        if whole is not None and whole < asked:
            what = f"must be greater than or equal to aggregate container requests of {asked.canonical()}"
            given = Input(f"resources.requests.{name}", str(whole), pod.origin.get(f"resources.requests.{name}", ""))
            yield f'spec.resources.requests[{name}]: Invalid value: "{whole.canonical()}": {what}', (given,)
    for index, one in enumerate(pod.containers):
        for name, limit in one.resources.limits.items():
            whole = own.limits.get(name)
            if whole is not None and whole < limit:
                what = f"must be less than or equal to pod limits of {whole.canonical()}"
                path = f"spec.resources.containers[{index}][{name}].limits"
                given = Input(
                    f"limits.{name} of container {one.name}", str(limit), one.origin.get(f"limits.{name}", "")
                )
                yield f'{path}: Invalid value: "{limit.canonical()}": {what}', (given,)
