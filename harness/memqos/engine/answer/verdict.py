"""The verdict: a plan held against a reading, knob by knob, and whether containers' processes are in their cgroups.

What could not be observed says why and never conforms. Everything is judged, nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict, setter_of, subject_of
from memqos.engine.plan import Expected, Plan, PlannedCgroup, PlannedContainer, Reason
from memqos.engine.pod.qos import BURSTABLE_SCORES
from memqos.model.knob import Knob, KnobValue, knobs_of
from memqos.model.node import CgroupVersion
from memqos.model.path import CgroupPath
from memqos.model.reading import FileText, NoFile, Reading, Unreadable

__all__ = [
    "EVENTS",
    "NOT_READ",
    "NOT_STARTED",
    "OOM_SCORE_ADJ",
    "PROCESSES",
    "VERSION_UNKNOWN",
    "ContainerIds",
    "Unsure",
    "judge",
    "judge_cgroup",
    "judge_node",
    "judge_pod",
    "judged_files",
    "outside_finding",
    "processes_finding",
]

PROCESSES, EVENTS = "cgroup.procs", "cgroup.events"

_REASON = Reason(
    rule="a container's processes are in its cgroup, where the kernel bounds and counts them",
    revision="",
    source="OCI runtime specification, config-linux.md, cgroupsPath; kernel cgroup-v2.rst, Processes",
)


def outside_finding(
    path: CgroupPath, *, subject: Subject, knob: str = PROCESSES, state: str = "", where: str = ""
) -> Finding:
    """A started container has no cgroup below its pod's, where the kubelet looks, or no process in it.

    knob: what of it is missing, "cgroup" itself or "cgroup.procs". state: what the runtime says of the container, "" if
    it was not asked. where: the cgroup in which its processes run, "" if that is not known.
    """
    return Finding(
        verdict=Verdict.DEVIATES,
        subject=subject,
        cgroup=str(path),
        knob=knob,
        set_by=Setter.RUNTIME,
        expected="there",
        observed=f"none, of a container that is {state}" if state else "none",
        reason=_REASON,
        evidence={"its processes run in": where} if where else {},
    )


def processes_finding(path: CgroupPath, files: Mapping[str, FileText], *, subject: Subject) -> Finding | None:
    """What cgroup.procs and cgroup.events say of a container that runs; None if the first was not read."""
    text, events = (files.get(name) for name in (PROCESSES, EVENTS))
    if not isinstance(text, str):
        return None
    if not text.strip() and "populated 1" not in str(events):
        return outside_finding(path, subject=subject)
    return Finding(
        verdict=Verdict.CONFORMS,
        subject=subject,
        cgroup=str(path),
        knob=PROCESSES,
        set_by=Setter.RUNTIME,
        expected="there",
        observed="there",
        reason=_REASON,
    )


ContainerIds = Mapping[tuple[str, str], str]
"""(pod uid, container name) to the id that the runtime gave the container."""

Unsure = Callable[[PlannedCgroup, Knob], str]
"""Why the plan itself cannot be sure of a knob of a cgroup; "" where it is."""

OOM_SCORE_ADJ = "oom_score_adj"
"""Not a control file: a reading may keep the value of a container's first process under this name."""

_BURSTABLE_SCORES = frozenset(map(str, BURSTABLE_SCORES))

NOT_STARTED = "no container of this name was started"
NOT_READ = "the reading has no such cgroup"
"""Why nothing is observed of a container that does not run."""

VERSION_UNKNOWN = "versions of the runtime differ here, and this one's version is not known"


def judged_files(version: CgroupVersion) -> tuple[str, ...]:
    """The control files that a reading needs for everything to be judged."""
    return tuple(str(knob) for knob in knobs_of(version))


def _sure(_cgroup: PlannedCgroup, _knob: Knob) -> str:
    return ""


def judge(
    plan: Plan, reading: Reading, *, enacted_by: Setter, ids: ContainerIds, unsure: Unsure = _sure
) -> tuple[Finding, ...]:
    """One finding for every knob of every planned cgroup, in the plan's order.

    enacted_by: what carried the plan out above containers. ids: which cgroup a planned container became; a container
    without an id is not observable. oom_score_adj is judged for the containers of which the reading holds it, and so is
    whether their processes are in their cgroups, by cgroup.procs. Where the
    plan has a container in a cgroup below its scope and the reading has no such cgroup, the scope itself is judged; of
    runtimes that are not modelled, the cgroup whose name has the id. Of a container in a sandbox no process is looked
    for. A
    container that the runtime must refuse conforms if it is not there. unsure: what it gives a reason for is not
    observable, whatever the file holds.
    """
    findings = list(judge_node(plan, reading, enacted_by=enacted_by, unsure=unsure))
    for pod in plan.pods:
        findings += judge_pod(plan, pod.uid, reading, enacted_by=enacted_by, ids=ids, unsure=unsure)
    return tuple(findings)


def judge_node(plan: Plan, reading: Reading, *, enacted_by: Setter, unsure: Unsure = _sure) -> tuple[Finding, ...]:
    """The cgroups above pods: kubepods, the QoS classes, the reserved ones."""
    findings: list[Finding] = []
    for cgroup in (*plan.reserved, plan.node, *plan.qos):
        findings += judge_cgroup(cgroup, cgroup.path, subject_of(cgroup), reading, unsure, enacted_by=enacted_by)
    return tuple(findings)


def judge_pod(
    plan: Plan, uid: str, reading: Reading, *, enacted_by: Setter, ids: ContainerIds, unsure: Unsure = _sure
) -> tuple[Finding, ...]:
    """One pod and its containers; KeyError if the plan has no pod of this uid."""
    pod = plan.pod(uid)
    own, name = pod.cgroup, subject_of(pod.cgroup, pod)
    findings = list(judge_cgroup(own, own.path, name, reading, unsure, enacted_by=enacted_by))
    for container in pod.containers:
        name = subject_of(container.cgroup, pod)
        container_id = ids.get((uid, container.name))
        if container.refusal:
            findings.append(_refused(container, name, created=container_id is not None))
            continue
        if container_id is None:
            there = _There(container.cgroup, container.cgroup.path, name, enacted_by)
            findings += [there.unseen(expected, NOT_STARTED) for expected in container.cgroup.knobs.values()]
            continue
        layout = plan.layout_of(pod)
        path = layout.found(container.cgroup.path, container_id, reading.cgroups)
        findings += judge_cgroup(container.cgroup, path, name, reading, unsure, enacted_by=enacted_by)
        if layout.sandboxed:
            continue
        text = reading.file(path, OOM_SCORE_ADJ)
        if isinstance(text, str):
            shown = text.strip("\n ")
            findings.append(_oom_score_adj(container, name, path, shown, user_namespace=plan.user_namespace))
        seen = reading.cgroups.get(path)
        if seen is not None and (inside := processes_finding(path, seen.files, subject=name)) is not None:
            findings.append(inside)
    return tuple(findings)


_UNPRIVILEGED = (
    "the kubelet runs in a user namespace (KEP-2033), where no process can lower oom_score_adj below what it was "
    "started with"
)


def _oom_score_adj(
    container: PlannedContainer, name: Subject, path: CgroupPath, observed: str, *, user_namespace: bool
) -> Finding:
    expected, why_not = container.oom_score_adj, ""
    digits = observed.removeprefix("-")
    verdict = Verdict.CONFORMS if observed == str(expected) else Verdict.DEVIATES
    if not (digits.isascii() and digits.isdigit()):
        why_not = "the file does not parse: it holds no number"
    elif verdict is Verdict.DEVIATES and container.oom_score_adj_unsure and observed in _BURSTABLE_SCORES:
        why_not = f"{container.oom_score_adj_unsure}: {expected} by what is allocated now, {observed} as it is seen"
    elif verdict is Verdict.DEVIATES and user_namespace and int(observed) > expected:
        why_not = f"{_UNPRIVILEGED}: {expected} is planned, {observed} was seen"
    return Finding(
        verdict=Verdict.NOT_OBSERVABLE if why_not else verdict,
        subject=name,
        cgroup=str(path),
        knob=OOM_SCORE_ADJ,
        set_by=Setter.RUNTIME,
        expected=str(expected),
        observed=observed,
        reason=container.oom_score_adj_reason,
        why_not=why_not,
    )


def _refused(container: PlannedContainer, name: Subject, *, created: bool) -> Finding:
    return Finding(
        verdict=Verdict.DEVIATES if created else Verdict.CONFORMS,
        subject=name,
        cgroup=str(container.cgroup.path),
        knob="creation",
        set_by=Setter.RUNTIME,
        expected=f"refused ({container.refusal})",
        observed="created" if created else "not created",
    )


def judge_cgroup(
    cgroup: PlannedCgroup,
    path: CgroupPath,
    name: Subject,
    reading: Reading,
    unsure: Unsure = _sure,
    *,
    enacted_by: Setter,
) -> Iterator[Finding]:
    """Every knob of one planned cgroup, which was found at this path; name: what a reader calls it."""
    there = _There(cgroup, path, name, enacted_by)
    seen = reading.cgroups.get(path)
    for expected in cgroup.knobs.values():
        if seen is None:
            yield there.unseen(expected, NOT_READ)
            continue
        text, why_not = seen.files.get(expected.knob.value), unsure(cgroup, expected.knob)
        if why_not and isinstance(text, str):
            yield there.unseen(expected, why_not, observed=text.strip())
        else:
            yield there.judged(expected, text)


@dataclass(frozen=True, slots=True)
class _There:
    """A planned cgroup at the place where it was found, or looked for."""

    cgroup: PlannedCgroup
    path: CgroupPath
    name: Subject
    enacted_by: Setter

    def judged(self, expected: Expected, text: FileText | None) -> Finding:
        """What its file holds, held against what is expected of it; None for one that was not read."""
        if text is None:
            return self.unseen(expected, "the file was not read")
        if isinstance(text, NoFile):
            return self.unseen(expected, "no such file: the controller is missing or not enabled there")
        if isinstance(text, Unreadable):
            return self.unseen(expected, f"the file could not be read: {text.reason}")
        try:
            observed: KnobValue = expected.knob.parse(text)
        except ValueError as error:
            return self.unseen(expected, f"the file does not parse: {error}", observed=text.strip())
        why_not = expected.unasked or expected.unmodelled or expected.unsettled
        why_not = why_not or (VERSION_UNKNOWN if expected.undecided else "")
        if why_not:
            return self.unseen(expected, why_not, observed=text.strip())
        deviates = observed != expected.value
        return Finding(
            verdict=Verdict.DEVIATES if deviates else Verdict.CONFORMS,
            subject=self.name,
            cgroup=str(self.path),
            knob=expected.knob.value,
            set_by=self._set_by(expected, deviates=deviates),
            expected=str(expected.value),
            observed=text.strip(),
            reason=expected.reason,
        )

    def unseen(self, expected: Expected, why_not: str, *, observed: str = "") -> Finding:
        """What could not be observed, and why not."""
        return Finding(
            verdict=Verdict.NOT_OBSERVABLE,
            subject=self.name,
            cgroup=str(self.path),
            knob=expected.knob.value,
            set_by=self._set_by(expected),
            expected=expected.shown,
            observed=observed,
            reason=expected.reason,
            why_not=why_not,
        )

    def _set_by(self, expected: Expected, *, deviates: bool = False) -> Setter:
        return setter_of(expected, self.cgroup.level, self.path, enacted_by=self.enacted_by, deviates=deviates)
