"""PURE: a pod that the kubelet's rules do not admit on this node, as a finding."""

from __future__ import annotations

from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.plan import Plan
from memqos.model.pod import Pod

__all__ = ["refusal_finding"]


def refusal_finding(plan: Plan, pod: Pod, *reason_names: str) -> Finding:
    """The plan refuses this pod for a reason that bears one of these names, and has no cgroup for it.

    It is the rules' own word on the zones that this machine really has; set_by is memqos, which obeys it.
    """
    refusal = next((one for one in plan.refusals if one.pod == pod.uid), None)
    observed = "admitted" if refusal is None else f"refused: {refusal.reason_name}"
    return Finding(
        verdict=Verdict.CONFORMS if refusal is not None and refusal.reason_name in reason_names else Verdict.DEVIATES,
        subject=f"pod {pod.namespace}/{pod.name}",
        cgroup=str(plan.node.path),
        knob="admission",
        set_by=Setter.MEMQOS,
        expected=f"refused: {' or '.join(reason_names)}",
        observed=observed,
        reason=None if refusal is None else refusal.reason,
        evidence={} if refusal is None else {"message": refusal.message},
    )
