"""The verdict: compares a plan with a reading, knob by knob, and checks the place of containers' processes.

Every planned value gets a finding; one that is not observable has a reason and never conforms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict, setter_of, subject_of
from memqos.engine.plan import Expected, Plan, PlannedCgroup, PlannedContainer, Reason
from memqos.engine.pod.qos import BURSTABLE_SCORES
from memqos.model.knob import Knob, KnobValue, knobs_of
from memqos.model.node import CgroupVersion
from memqos.model.path import CgroupPath
from memqos.model.reading import CgroupReading, FileText, NoFile, Reading, Unreadable

__all__ = [
    "CGROUP",
    "EVENTS",
    "NOT_READ",
    "NOT_STARTED",
    "NO_CGROUP",
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

_OTHER_DRIVER = (
    "the runtime takes the slice for the name of a cgroup: its cgroup driver is cgroupfs, the kubelet's is systemd "
    "(containerd: SystemdCgroup = true in the runtime's options)"
)
PROCESSES, EVENTS, CGROUP = "cgroup.procs", "cgroup.events", "cgroup"

_REASON = Reason(
    rule="a container's processes are in its cgroup, where the kernel bounds and counts them",
    revision="",
    source="OCI runtime specification, config-linux.md, cgroupsPath; kernel cgroup-v2.rst, Processes",
)


def outside_finding(
    path: CgroupPath, *, subject: Subject, knob: str = PROCESSES, state: str = "", where: str = "", cause: str = ""
) -> Finding:
    """A started container has no cgroup below its pod's, where the kubelet expects it, or no process in it.

    knob: the missing part, "cgroup" or "cgroup.procs". state: the container's state as the runtime reports it, "" if
    not asked. where: the cgroup in which its processes run, "" if unknown. cause: the likely reason, "" for none.
    """
    evidence = {"its processes run in": where, "the cause": cause}
    return Finding(
        verdict=Verdict.DEVIATES,
        subject=subject,
        cgroup=str(path),
        knob=knob,
        set_by=Setter.RUNTIME,
        expected="there",
        observed=f"none, of a container that is {state}" if state else "none",
        reason=_REASON,
        evidence={name: text for name, text in evidence.items() if text},
    )


def processes_finding(path: CgroupPath, files: Mapping[str, FileText], *, subject: Subject) -> Finding | None:
    """The finding about a running container from cgroup.procs and cgroup.events; None if the first was not read."""
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
"""(pod uid, container name) to the runtime's container id."""

Unsure = Callable[[PlannedCgroup, Knob], str]
"""Why the plan is uncertain about a knob of a cgroup; "" where it is certain."""

OOM_SCORE_ADJ = "oom_score_adj"
"""Not an interface file: a reading may have the value of a container's first process under this name."""

_BURSTABLE_SCORES = frozenset(map(str, BURSTABLE_SCORES))

NOT_STARTED = "no container of this name was started"
NOT_READ = "the reading has no such cgroup"
NO_CGROUP = "the cgroup does not exist"
"""Why a container that does not run is not observable."""

VERSION_UNKNOWN = "versions of the runtime differ here, and this one's version is not known"


def judged_files(version: CgroupVersion) -> tuple[str, ...]:
    """The interface files that a reading needs for a complete verdict: the knobs, and one that every cgroup has."""
    core = "cgroup.controllers" if version is CgroupVersion.V2 else "cgroup.clone_children"
    return (*(str(knob) for knob in knobs_of(version)), core)


def _sure(_cgroup: PlannedCgroup, _knob: Knob) -> str:
    return ""


def judge(
    plan: Plan, reading: Reading, *, enacted_by: Setter, ids: ContainerIds, unsure: Unsure = _sure
) -> tuple[Finding, ...]:
    """One finding for every knob of every planned cgroup, in the plan's order.

    enacted_by: the program that enacts the plan above containers. ids: the runtime's ids of the planned containers; a
    container without an id is not observable. oom_score_adj and the presence of processes (cgroup.procs) are judged if
    the reading has them. If the plan has a container in a cgroup below its scope and the reading has no such cgroup,
    the scope itself is judged; for runtimes that are not modelled, the cgroup whose name contains the id. A container
    in a sandbox is not searched for processes. A container that the runtime must refuse conforms if it is absent.
    unsure: a knob for which it gives a reason is not observable, whatever the file holds.
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
        elif seen is None and own.path in reading.cgroups and (where := _outside(own.path, container_id, reading)):
            cause = _OTHER_DRIVER if ".slice:" in where.name else ""
            findings.append(outside_finding(path, subject=name, knob=CGROUP, where=str(where), cause=cause))
    return tuple(findings)


def _outside(pod: CgroupPath, container_id: str, reading: Reading) -> CgroupPath | None:
    """The cgroup that a runtime made for a container outside its pod's, by a name that ends in the container's id.

    Of a runtime whose cgroup driver differs from the kubelet's: /system.slice/kubepods-podUID.slice:cri-containerd:ID.
    Mounts and conmon have names of their own around the id. A container of crun is below that cgroup. Another name
    inside the pod's cgroup is that of another runtime than the one told, which breaks no rule.
    """
    name = re.compile(rf"(?:.*[:-])?{re.escape(container_id)}(?:\.scope)?")
    found = [one for one in reading.cgroups if name.fullmatch(one.name) and "conmon" not in one.name]
    return min((one for one in found if not one.below(pod)), key=str, default=None)


_UNPRIVILEGED = (
    "the kubelet runs in a user namespace (KEP-2033), where no process can lower oom_score_adj below what it was "
    "started with"
)


def _oom_score_adj(
    container: PlannedContainer, name: Subject, path: CgroupPath, observed: str, *, user_namespace: bool
) -> Finding:
    expected, why_not = container.oom_score_adj, ""
    digits = observed.removeprefix("-")
    holds = observed == str(expected)
    if not (digits.isascii() and digits.isdigit()):
        why_not = "the file does not parse: it holds no number"
    elif not holds and container.oom_score_adj_unsure and observed in _BURSTABLE_SCORES:
        why_not = f"{container.oom_score_adj_unsure}: expected {expected} by the allocation, observed {observed}"
    elif not holds and user_namespace and int(observed) > expected:
        why_not = f"{_UNPRIVILEGED}: planned {expected}, observed {observed}"
    return Finding(
        verdict=Verdict.of(holds, why_not),
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
        verdict=Verdict.of(not created),
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
    """Every knob of one planned cgroup found at this path; name: its name for readers."""
    there = _There(cgroup, path, name, enacted_by)
    seen = reading.cgroups.get(path)
    for expected in cgroup.knobs.values():
        if seen is None:
            yield there.unseen(expected, NOT_READ)
            continue
        text, why_not = seen.files.get(expected.knob.value), unsure(cgroup, expected.knob)
        if isinstance(text, NoFile):
            yield there.unseen(expected, _why_no_file(seen))
        elif why_not and isinstance(text, str):
            yield there.unseen(expected, why_not, observed=text.strip())
        else:
            yield there.judged(expected, text)


def _why_no_file(seen: CgroupReading) -> str:
    """Why a file does not exist: a reading without any file shows no controller either."""
    if seen.is_missing:
        return NO_CGROUP
    if seen.has_no_file:
        return "no such file: the cgroup does not exist, or has none of the requested controllers"
    return "no such file: the controller is missing or not enabled there"


@dataclass(frozen=True, slots=True)
class _There:
    """A planned cgroup at the path where it was found or expected."""

    cgroup: PlannedCgroup
    path: CgroupPath
    name: Subject
    enacted_by: Setter

    def judged(self, expected: Expected, text: str | Unreadable | None) -> Finding:
        """The comparison of a file's text with its expected value; None for a file that was not read."""
        if text is None:
            return self.unseen(expected, "the file was not read")
        if isinstance(text, Unreadable):
            return self.unseen(expected, f"the file could not be read: {text.reason}")
        try:
            observed: KnobValue = expected.knob.parse(text)
        except ValueError as error:
            return self.unseen(expected, f"the file does not parse: {error}", observed=text.strip())
        why_not = expected.inexpressible or expected.unmodelled or expected.unsettled
        why_not = why_not or (VERSION_UNKNOWN if expected.undecided else "")
        if why_not:
            return self.unseen(expected, why_not, observed=text.strip())
        deviates = observed != expected.value
        return Finding(
            verdict=Verdict.of(not deviates),
            subject=self.name,
            cgroup=str(self.path),
            knob=expected.knob.value,
            set_by=self._set_by(expected, deviates=deviates),
            expected=str(expected.value),
            observed=text.strip(),
            reason=expected.reason,
        )

    def unseen(self, expected: Expected, why_not: str, *, observed: str = "") -> Finding:
        """A finding that is not observable, with its reason."""
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
