"""What an audit makes of values that an earlier configuration or size explains, and of what is known of kubelets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict, subject_of
from memqos.engine.answer.succession import Past, inherited, succession
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan
from memqos.engine.resize.entry import resize_pods
from memqos.engine.resize.leftovers import MEMORY_QOS, leftovers
from memqos.known import KnownDeviation, left_by_kubelet
from memqos.model.knob import ABSENT
from memqos.model.pod import Pod

__all__ = ["Was", "of_the_past"]

_UNSENT = (
    "no kubelet of this configuration sends it for this size: an earlier configuration or size may have; "
    "judge that with --was-config and --was-pods"
)
_EARLIER = "an earlier configuration or size may have left this value; check with --was-config and --was-pods"


@dataclass(frozen=True, slots=True, kw_only=True)
class Was:
    """What a node had before: the kubelet, None if it was the same; the pods, None likewise.

    config, manifests: what the files that say so are called.
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
    was: Was | None,
    known: Sequence[KnownDeviation],
    version: str,
) -> Iterator[Finding]:
    """The findings about these pods, which the plan has.

    What the past has left conforms. What a resize leaves behind in this kubelet is known, if the list has it for its
    version. No runtime answers for a value of memory QoS that the kubelet does not send.
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


def _pasts(pods: Sequence[Pod], kubelet: Kubelet, was: Was) -> Iterator[Past]:
    """What the node holds if its pods ran through the change of the configuration, of their size, or through both."""
    before = was.kubelet or kubelet
    earlier = tuple(_as_before(pods, was.pods or ()))
    first = expect(earlier, before)
    changed = first if was.kubelet is None else succession(first, expect(earlier, kubelet))
    names = [f"the configuration {was.config}"] if was.kubelet is not None else []
    if was.pods is None:
        yield Past(name=f"{names[0]}: the pods ran through the change", plan=changed)
        return
    resized = resize_pods(earlier, pods, kubelet, standing=changed).after
    name = " and ".join([*names, f"the size in {was.manifests}"])
    yield Past(name=f"{name}: the pods ran through the change", plan=resized)
    if was.kubelet is not None:
        other = succession(resize_pods(earlier, pods, before).after, expect(pods, kubelet))
        yield Past(name=f"{name}: the pods were resized before the configuration changed", plan=other)
        anew = succession(expect(pods, before), expect(pods, kubelet))
        yield Past(name=f"{names[0]}: the current pods ran through the change", plan=anew)


def _as_before(pods: Sequence[Pod], earlier: Sequence[Pod]) -> Iterator[Pod]:
    """The pods with the size that they had, as far as it is given, and the names and uids that they have now."""
    given = {(pod.namespace, pod.name): pod for pod in earlier}
    for pod in pods:
        old = given.get((pod.namespace, pod.name))
        if old is None:
            yield pod
        else:
            yield replace(old, uid=pod.uid, static=pod.static, status=None, generation=pod.generation)


def _unsent(plan: Plan) -> Iterator[tuple[Subject, str]]:
    """(subject, knob) of containers' files of memory QoS for which the kubelet sends nothing."""
    for pod in plan.pods:
        for container in pod.containers:
            for knob, one in container.cgroup.knobs.items():
                if knob in MEMORY_QOS and one.written is ABSENT:
                    yield subject_of(container.cgroup, pod), knob.value


def _unexplained(finding: Finding, *, sent: bool) -> Finding:
    """A deviation that an earlier configuration may explain; of what was not sent the runtime is not the author."""
    evidence = {**finding.evidence, "perhaps": _EARLIER if sent else _UNSENT}
    return replace(finding, set_by=finding.set_by if sent else Setter.OTHER, evidence=evidence)
