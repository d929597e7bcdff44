"""Deviations that an earlier configuration, an earlier size or a known fault of the kubelet explains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict, subject_of
from memqos.engine.answer.succession import Past, inherited
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan
from memqos.engine.resize.entry import resize_pods
from memqos.engine.resize.leftovers import MEMORY_QOS, leftovers
from memqos.engine.resize.takeover import taken_over
from memqos.known import KnownDeviation, left_by_kubelet
from memqos.model.knob import ABSENT
from memqos.model.pod import Pod

__all__ = ["EarlierState", "of_the_past"]

_UNSENT = (
    "no kubelet of this configuration sends it for this size: an earlier configuration or size may have; "
    "judge that with --was-config and --was-pods"
)
_EARLIER = "an earlier configuration or size may have left this value; check with --was-config and --was-pods"


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierState:
    """The node's earlier kubelet and pods; None for unchanged ones.

    config, manifests: the names of their files.
    """

    kubelet: Kubelet | None = None
    pods: tuple[Pod, ...] | None = None
    config: str = ""
    manifests: str = ""


def of_the_past(
    findings: Sequence[Finding],
    plan: Plan,
    pods: Sequence[Pod],
    kubelet: Kubelet,
    *,
    was: EarlierState | None,
    known: Sequence[KnownDeviation],
    version: str,
) -> Iterator[Finding]:
    """The findings about these planned pods, with explanations.

    A value that the earlier state left conforms. A value that a resize leaves behind is known if the list has the fault
    for this kubelet's version. A memory QoS value that the kubelet does not send is not attributed to the runtime.
    """
    if was is not None:
        findings = tuple(inherited(findings, tuple(_pasts(pods, kubelet, was))))
    found = leftovers(findings, plan, pods, kubelet)
    unsent = frozenset(_unsent(plan))
    for finding in findings:
        cause = found.get((finding.subject, finding.knob), "")
        told = left_by_kubelet(finding, cause, known, version=version, driver=str(kubelet.driver))
        if told.verdict is Verdict.DEVIATES and finding.knob in MEMORY_QOS and was is None:
            yield _unexplained(told, sent=(finding.subject, finding.knob) not in unsent)
        else:
            yield told


def _pasts(pods: Sequence[Pod], kubelet: Kubelet, was: EarlierState) -> Iterator[Past]:
    """The possible values of a node whose pods were running while the configuration, their size, or both changed."""
    before = was.kubelet or kubelet
    earlier = tuple(_as_before(pods, was.pods or ()))
    first = expect(earlier, before)
    changed = first if was.kubelet is None else _taken_over(first, earlier, before, kubelet)
    names = [f"the configuration {was.config}"] if was.kubelet is not None else []
    if was.pods is None:
        yield Past(name=f"{names[0]}: the pods ran through the change", plan=changed)
        return
    resized = resize_pods(earlier, pods, kubelet, standing=changed).after
    name = " and ".join([*names, f"the size in {was.manifests}"])
    yield Past(name=f"{name}: the pods ran through the change", plan=resized)
    if was.kubelet is not None:
        other = _taken_over(resize_pods(earlier, pods, before).after, pods, before, kubelet)
        yield Past(name=f"{name}: the pods were resized before the configuration changed", plan=other)
        anew = _taken_over(expect(pods, before), pods, before, kubelet)
        yield Past(name=f"{names[0]}: the current pods ran through the change", plan=anew)


def _taken_over(plan: Plan, pods: Sequence[Pod], before: Kubelet, kubelet: Kubelet) -> Plan:
    return taken_over(plan, expect(pods, kubelet), pods, kubelet, earlier=[before])


def _as_before(pods: Sequence[Pod], earlier: Sequence[Pod]) -> Iterator[Pod]:
    """The pods with their earlier sizes, if given, and their current names and uids."""
    given = {(pod.namespace, pod.name): pod for pod in earlier}
    for pod in pods:
        old = given.get((pod.namespace, pod.name))
        if old is None:
            yield pod
        else:
            yield replace(old, uid=pod.uid, static=pod.static, status=None, generation=pod.generation)


def _unsent(plan: Plan) -> Iterator[tuple[Subject, str]]:
    """(subject, knob) of the containers' memory QoS files for which the kubelet sends no value."""
    for pod in plan.pods:
        for container in pod.containers:
            for knob, one in container.cgroup.knobs.items():
                if knob in MEMORY_QOS and one.written is ABSENT:
                    yield subject_of(container.cgroup, pod), knob.value


def _unexplained(finding: Finding, *, sent: bool) -> Finding:
    """The deviation with a hint at an earlier configuration; values that were not sent lose the runtime as setter."""
    evidence = {**finding.evidence, "perhaps": _EARLIER if sent else _UNSENT}
    return replace(finding, set_by=finding.set_by if sent else Setter.OTHER, evidence=evidence)
