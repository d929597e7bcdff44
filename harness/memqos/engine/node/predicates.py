"""Pods that a Linux kubelet never runs, whatever room it has: those for another operating system, and unscheduled ones.

Source: kubelet lifecycle/predicate.go `rejectPodAdmissionBasedOnOSSelector`, `rejectPodAdmissionBasedOnOSField`,
scheduler nodeaffinity; scheduler SchedulingGates. `spec.os` came with 1.23 behind the gate IdentifyPodOS, which is on
from 1.24; schedulingGates with 1.26 behind PodSchedulingReadiness, which is on from 1.27. An API server with such a
gate off drops the field.
"""

from __future__ import annotations

from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input, Reason, Refusal, RefusedBy
from memqos.engine.releases.gates import enabled, stage
from memqos.engine.releases.table import Family, Gate
from memqos.model.pod import Pod

__all__ = ["predicate_refusal", "scheduling_refusal"]

_LINUX = "linux"
_PREDICATES = "kubelet lifecycle predicateAdmitHandler"


def predicate_refusal(pod: Pod, kubelet: Kubelet) -> Refusal | None:
    """Why the kubelet rejects a pod that is not for Linux; None for every other pod."""
    if pod.os_label not in {"", _LINUX} and stage(Gate.IDENTIFY_POD_OS, kubelet.release):
        return _rejected(
            pod,
            kubelet,
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
            Input("metadata.labels[kubernetes.io/os]", pod.os_label, pod.file),
        )
    if pod.os not in {"", _LINUX} and _on(Gate.IDENTIFY_POD_OS, kubelet):
        return _rejected(
            pod,
            kubelet,
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
            Input("spec.os.name", pod.os, pod.origin.get("os", pod.file)),
        )
    if pod.not_on_linux:
        return _rejected(
            pod,
            kubelet,
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
            Input("node selector", pod.not_on_linux, pod.file),
        )
    return None


def _on(gate: Gate, kubelet: Kubelet) -> bool:
    return enabled(gate, kubelet.release, kubelet.settings.feature_gates)


def _rejected(pod: Pod, kubelet: Kubelet, reason_name: str, message: str, given: Input) -> Refusal:
    return Refusal(
        pod=pod.uid,
        name=f"{pod.namespace}/{pod.name}",
        reason_name=reason_name,
        message=message,
        reason=Reason(
            rule="a Linux kubelet runs no pod that is for another operating system",
            revision=kubelet.revisions[Family.NODE],
            source=_PREDICATES,
            inputs=(given,),
        ),
    )


def scheduling_refusal(pod: Pod, kubelet: Kubelet) -> Refusal | None:
    """Why no kubelet has the pod: its scheduling gates; None without them, and for a static pod."""
    if not pod.scheduling_gates or pod.static or not _on(Gate.SCHEDULING_READINESS, kubelet):
        return None
    return Refusal(
        pod=pod.uid,
        name=f"{pod.namespace}/{pod.name}",
        reason_name="SchedulingGated",
        message="Scheduling is blocked due to non-empty scheduling gates",
        reason=Reason(
            rule="a pod is bound to no node before all of its scheduling gates are removed",
            revision="",
            source="scheduler plugin SchedulingGates",
            inputs=(Input("spec.schedulingGates", ", ".join(pod.scheduling_gates), pod.file),),
        ),
        by=RefusedBy.SCHEDULER,
    )
