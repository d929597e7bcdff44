"""Every kind of reason once, with the first knob that has it."""

from collections.abc import Iterator

from memqos.engine.answer.explain import reason_lines
from memqos.engine.answer.finding import subject_of
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan, Reason
from memqos.model.knob import ABSENT
from tests.golden.reasons.nodes import PLANS, Planned


def kubelet_of(planned: Planned) -> Kubelet:
    more = {name: one for name, one in planned.more.items() if name != "fit"}
    return Kubelet.of(node=planned.node, settings=planned.settings, release=planned.release, **more)


def plan_of(planned: Planned, *, reasons: bool = True) -> Plan:
    return expect(planned.pods, kubelet_of(planned), reasons=reasons, fit=planned.more.get("fit", False))


def explained(plan: Plan) -> Iterator[tuple[str, Reason]]:
    """The name of a value with a reason, and the reason."""
    pods = {pod.uid: pod for pod in plan.pods}
    for cgroup in plan.cgroups():
        where = subject_of(cgroup, pods.get(cgroup.pod))
        for knob, one in cgroup.knobs.items():
            text = f"not written, reads {one.value}" if one.written is ABSENT else str(one.written)
            yield f"{knob} of {where}: {text}", one.reason
    for pod in plan.pods:
        yield f"QoS class of pod '{pod.name}': {pod.qos}", pod.qos_reason
        for container in pod.containers:
            yield f"oom_score_adj of '{container.name}': {container.oom_score_adj}", container.oom_score_adj_reason
    for refusal in plan.refusals:
        yield f"refused: {refusal.name}: {refusal.reason_name}: {refusal.message}", refusal.reason
    for knob, reason in plan.unavailable.items():
        yield f"{knob} of no cgroup", reason


def kind(reason: Reason) -> object:
    """The kind of a reason: its text without numbers and lines of files."""
    shown = "=" in reason.arithmetic, ";" in reason.arithmetic
    inputs = tuple((one.name, "" if ".yaml" in one.origin else one.origin) for one in reason.inputs)
    return reason.rule, reason.source, reason.rounding, shown, inputs, tuple(kind(one) for one in reason.because)


def book() -> Iterator[str]:
    seen = set()
    for planned in PLANS:
        yield f"== {planned.title}"
        for head, reason in explained(plan_of(planned)):
            if kind(reason) not in seen:
                seen.add(kind(reason))
                yield "\n".join([head, *reason_lines(reason, indent="  ")])
