"""The plugin Priority: a new pod's priority, from its PriorityClass or from the one for pods that name none.

Source: plugin/pkg/admission/priority `admitPod`; pkg/apis/scheduling `SystemPriorityClasses`. The same in 1.22 to 1.37.
"""

from __future__ import annotations

from dataclasses import replace

from memqos.engine.admission.denial import Denial, forbidden
from memqos.engine.plan import Input
from memqos.model.cluster import ClusterObjects, PriorityClass
from memqos.model.pod import Pod, Submission

__all__ = ["HIGHEST_USER_DEFINABLE", "SYSTEM_CLASSES", "admit_priority"]

HIGHEST_USER_DEFINABLE = 1_000_000_000
"""The largest value of a PriorityClass that is not the system's."""

_BUILT_IN = "built into the API server"
SYSTEM_CLASSES = {
    name: PriorityClass(name=name, value=value, origin=_BUILT_IN)
    for name, value in (("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000))
}
"""The classes that every API server makes when it starts."""

_NO_CLASS = PriorityClass(name="", value=0, origin="no PriorityClass is the global default")
_PLUGIN = "plugin Priority"


def admit_priority(pod: Pod, submission: Submission) -> Pod | Denial:
    """The pod with the name and value of its class; a denial for an unknown class, or a field that disagrees."""
    found = _class_of(pod, submission.beside)
    if found is None:
        return forbidden(
            pod,
            f"no PriorityClass with name {pod.priority_class_name} was found",
            plugin=_PLUGIN,
            rule="the PriorityClass that a new pod names must exist; give its manifest beside the pod's",
            inputs=(_named(pod),),
        )
    if pod.priority is not None and pod.priority != found.value:
        error = (
            f"the integer value of priority ({pod.priority}) must not be provided in pod spec; priority admission "
            f"controller computed {found.value} from the given PriorityClass name"
        )
        given = Input("priority", str(pod.priority), pod.origin.get("priority", ""))
        return _disagrees(pod, error, given, found)
    policy = submission.preemption_policy
    if policy and policy != found.preemption_policy:
        error = (
            f"the string value of PreemptionPolicy ({policy}) must not be provided in pod spec; priority admission "
            f"controller computed {found.preemption_policy} from the given PriorityClass name"
        )
        return _disagrees(pod, error, Input("preemptionPolicy", policy, pod.file), found)
    origin = {**pod.origin, "priority": found.origin}
    if not pod.priority_class_name and found.name:
        origin["priorityClassName"] = f"{found.origin}, globalDefault"
    return replace(pod, priority=found.value, priority_class_name=found.name, origin=origin)


def _class_of(pod: Pod, beside: ClusterObjects) -> PriorityClass | None:
    """The class that a pod names, None if there is none of that name; else the global default of the lowest value."""
    name = pod.priority_class_name
    if name:
        given = {one.name: one for one in beside.priority_classes}
        return SYSTEM_CLASSES.get(name) or given.get(name)
    defaults = [one for one in beside.priority_classes if one.global_default]
    return min(defaults, key=lambda one: one.value, default=_NO_CLASS)


def _named(pod: Pod) -> Input:
    return Input("priorityClassName", pod.priority_class_name, pod.origin.get("priorityClassName", ""))


def _disagrees(pod: Pod, error: str, given: Input, found: PriorityClass) -> Denial:
    rule = "a new pod may give only the priority and preemptionPolicy of its PriorityClass"
    named = Input("PriorityClass", f"{found.name or 'none'} ({found.value})", found.origin)
    return forbidden(pod, error, plugin=_PLUGIN, rule=rule, inputs=(given, named))
