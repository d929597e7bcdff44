"""PURE: a container's surroundings: its neighbours, the place of its cgroup, its process's score.

Also the systemd scope above a container's own cgroup, which may limit it further.

On cgroup v2 crun keeps a container's processes in a cgroup below the scope. The container's files hold the requested
values, but the kernel applies the tighter of both limits, and effective protection is at most the scope's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.engine.answer.verdict import OOM_SCORE_ADJ, judge_cgroup
from memqos.engine.plan import PlannedCgroup, Reason
from memqos.engine.translate.memory_policy import DEFAULT_POLICY, policy_in
from memqos.engine.translate.requested import AnyRequest, OciRequest
from memqos.engine.translate.requested_files import PROTECTION
from memqos.model.knob import MAX, Bytes, Knob, KnobValue
from memqos.model.path import CgroupPath
from memqos.model.reading import CgroupReading, FileText, Reading
from memqos.runtime.base import Capability

__all__ = [
    "CONTROLLERS",
    "SCOPE_FILES",
    "changed_files",
    "expected_policy",
    "kept_findings",
    "policy_finding",
    "scope_findings",
    "score_finding",
    "uncounted_findings",
    "written_by_others",
]

CONTROLLERS = "cgroup.controllers"
"""The controllers that the parent's cgroup.subtree_control enables for a cgroup."""

_BESIDE = Subject.of_machine("a neighbouring cgroup")


def kept_findings(
    before: Mapping[CgroupPath, Mapping[str, FileText]], after: Mapping[CgroupPath, Mapping[str, FileText]]
) -> list[Finding]:
    """One finding for each cgroup, or for each of its files that changed."""
    findings: list[Finding] = []
    for path, files in before.items():
        changed = [name for name in files if after[path][name] != files[name]]
        findings += [
            _neighbour(path, name, expected=str(files[name]).strip(), observed=str(after[path][name]).strip())
            for name in changed
        ] or [_neighbour(path, "interface files", expected="as before", observed="as before")]
    return findings


def changed_files(
    before: Mapping[CgroupPath, Mapping[str, FileText]], after: Mapping[CgroupPath, Mapping[str, FileText]]
) -> Iterator[tuple[CgroupPath, str, str]]:
    """The former text of each file that changed, to be written back: no later case may be judged by the change."""
    for path, files in before.items():
        for name, text in files.items():
            now = after[path][name]
            if isinstance(text, str) and isinstance(now, str) and now != text:
                yield path, name, text


def written_by_others(pod: PlannedCgroup, before: Mapping[CgroupPath, Mapping[str, FileText]]) -> Iterator[Finding]:
    """Values of a pod's own cgroup that changed between the kubelet's write and the first request.

    Only the kubelet writes there: memqos in its place, which started the sandbox and the first containers.
    """
    reading = Reading(source="", at=0.0, cgroups={pod.path: CgroupReading(path=pod.path, files=before[pod.path])})
    for found in judge_cgroup(pod, pod.path, _BESIDE, reading, enacted_by=Setter.RUNTIME):
        if found.verdict is Verdict.DEVIATES:
            yield _neighbour(pod.path, found.knob, expected=found.expected, observed=found.observed)


def uncounted_findings(path: CgroupPath, pod: CgroupPath, reading: Reading, *, subject: Subject) -> Iterator[Finding]:
    """Findings on a container whose memory is not counted although its pod's is. reading: CONTROLLERS of both.

    The program that creates cgroups of containers enables their controllers; without them they have no memory files.
    """
    own, above = (reading.cgroups[one].files[CONTROLLERS] for one in (path, pod))
    if isinstance(own, str) and isinstance(above, str) and "memory" in above.split() and "memory" not in own.split():
        yield Finding(
            verdict=Verdict.DEVIATES,
            subject=subject,
            cgroup=str(path),
            knob=CONTROLLERS,
            set_by=Setter.RUNTIME,
            expected="memory",
            observed=own.strip(),
        )


def score_finding(path: CgroupPath, asked: str, seen: str, *, subject: Subject) -> Finding:
    """The oom_score_adj of a container's first process against the request. seen: "" without a process."""
    why_not = "" if seen else "no process is in the container's cgroup"
    return Finding(
        verdict=Verdict.of(seen == asked, why_not),
        subject=subject,
        cgroup=str(path),
        knob=OOM_SCORE_ADJ,
        set_by=Setter.RUNTIME,
        expected=asked,
        observed=seen,
        why_not=why_not,
    )


def expected_policy(asked: AnyRequest, capabilities: Collection[Capability]) -> str:
    """The memory policy of the container's first process, "" if the request has none.

    A runtime must ignore a field that it does not know (OCI config.md, "Extensibility").
    """
    if not isinstance(asked, OciRequest) or asked.memory_policy is None:
        return ""
    return asked.memory_policy.shown if Capability.MEMORY_POLICY in capabilities else DEFAULT_POLICY


def policy_finding(path: CgroupPath, policy: str, numa_maps: str, *, subject: Subject) -> Finding:
    """The NUMA memory policy of a container's first process. policy: as expected. numa_maps: "" without a process."""
    seen = policy_in(numa_maps)
    why_not = "" if seen else "no process in the container's cgroup has a readable numa_maps"
    return Finding(
        verdict=Verdict.of(seen == policy, why_not),
        subject=subject,
        cgroup=str(path),
        knob="memory policy",
        set_by=Setter.RUNTIME,
        expected=policy,
        observed=seen,
        why_not=why_not,
    )


def _neighbour(path: CgroupPath, knob: str, *, expected: str, observed: str) -> Finding:
    return Finding(
        verdict=Verdict.of(expected == observed),
        subject=_BESIDE,
        cgroup=str(path),
        knob=knob,
        set_by=Setter.RUNTIME,
        expected=expected,
        observed=observed,
    )


_LIMITS = (Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX)
"""A cgroup's limit on everything below it, in bytes or max."""

SCOPE_FILES = (*PROTECTION, *_LIMITS)

_WIDE_ENOUGH = Reason(
    rule="an ancestor must not limit a cgroup below the cgroup's own limit",
    revision="kernel cgroup v2",
    source="kernel cgroup-v2.rst, top-down constraint",
)


def scope_findings(
    container: PlannedCgroup, own: PlannedCgroup, path: CgroupPath, files: Mapping[str, FileText], *, subject: Subject
) -> Iterator[Finding]:
    """One finding for each of these files that the scope has; none for a file without a certain expected value.

    container: the values that the container's own cgroup must hold, and that the scope's limits must allow. own: the
    values that the scope itself must hold. files: its contents by name; a missing file limits nothing.
    """
    for knob in dict.fromkeys((*own.knobs, *_LIMITS)):
        exact = own.knobs.get(knob)
        expected, text = exact or container.knobs.get(knob), files.get(knob)
        if (
            expected is None
            or expected.inexpressible
            or expected.unmodelled
            or expected.undecided
            or not isinstance(text, str)
        ):
            continue
        observed = knob.parse(text)
        right = observed == expected.value if exact else _covers(observed, expected.value)
        yield Finding(
            verdict=Verdict.of(right),
            subject=subject.scope(),
            cgroup=str(path),
            knob=f"{knob} of the scope",
            set_by=Setter.RUNTIME,
            expected=str(expected.value) if exact else f"at least {expected.value}",
            observed=text.strip(),
            reason=expected.reason if exact else _WIDE_ENOUGH,
        )


def _covers(limit: KnobValue, asked: KnobValue) -> bool:
    if limit is MAX:
        return True
    return isinstance(limit, Bytes) and isinstance(asked, Bytes) and limit >= asked
