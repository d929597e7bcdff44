"""The plugin RuntimeClass: a new pod's overhead, which is that of its class and nothing else.

Source: plugin/pkg/admission/runtimeclass `setOverhead`, `validateOverhead`. The same in 1.22 to 1.37, with the gate
PodOverhead, which is on by default from 1.18 and gone from 1.26. Of a class's scheduling only the operating system is
read: the rest changes no value.
"""

from __future__ import annotations

from dataclasses import replace

from memqos.engine.admission.denial import Denial, forbidden
from memqos.engine.plan import Input
from memqos.model.pod import Pod, ResourceList, Submission

__all__ = ["admit_runtime_class"]

_PLUGIN = "plugin RuntimeClass"


def admit_runtime_class(pod: Pod, submission: Submission) -> Pod | Denial:
    """The pod with its class's overhead; a denial for an unknown class, or an overhead that is not the class's."""
    name = pod.runtime_class_name
    found = next((one for one in submission.beside.runtime_classes if one.name == name), None)
    if name and found is None:
        return forbidden(
            pod,
            f'pod rejected: RuntimeClass "{name}" not found',
            plugin=_PLUGIN,
            rule="the RuntimeClass that a new pod names must exist; give its manifest beside the pod's",
            inputs=(Input("runtimeClassName", name, pod.origin.get("runtimeClassName", "")),),
        )
    if found is not None:
        pod = replace(pod, runtime_handler=found.handler)
    if found is not None and found.not_on_linux:
        pod = replace(pod, not_on_linux=f"{found.not_on_linux} of RuntimeClass {found.name}")
    if found is None or found.overhead is None:
        if not pod.overhead:
            return pod
        error = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        return _overhead_denied(pod, error)
    if pod.overhead and not _equal(pod.overhead, found.overhead):
        return _overhead_denied(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    origin = {
        f"overhead.{resource}": f"{place} (RuntimeClass {found.name})" for resource, place in found.origin.items()
    }
    return replace(pod, overhead=found.overhead, origin={**pod.origin, **origin})


def _equal(one: ResourceList, other: ResourceList) -> bool:
    return dict(one) == dict(other)


def _overhead_denied(pod: Pod, error: str) -> Denial:
    rule = "a new pod may give only the overhead of its RuntimeClass"
    given = tuple(
        Input(f"overhead.{name}", str(amount), pod.origin.get(f"overhead.{name}", ""))
        for name, amount in pod.overhead.items()
    )
    return forbidden(pod, error, plugin=_PLUGIN, rule=rule, inputs=given)
