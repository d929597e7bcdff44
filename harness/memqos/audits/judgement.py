"""Judges a recorded tree: selects and plans its pods, compares the values, and decides what is not observable."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memqos.audits.answer import Audit
from memqos.audits.explained_values import of_the_past
from memqos.audits.live import still
from memqos.audits.node_answers import described
from memqos.audits.question import Question
from memqos.catalog.allocation_state import STATUS_MANAGER, checkpoints_of, with_checkpoints, with_status_manager_state
from memqos.catalog.recorded_contents import Recognised, killers, named_by_status, recognise, with_writers
from memqos.catalog.recorded_trees import RecordedTree
from memqos.enactor.base import Order
from memqos.engine.admission.entry import admitted
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict, subject_of
from memqos.engine.answer.verdict import NO_CGROUP, NOT_READ, NOT_STARTED, OOM_SCORE_ADJ, Unsure
from memqos.engine.cgroup import layout
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.node.cgroup_driver import disagreement
from memqos.engine.node.remarks import BEFORE_START
from memqos.engine.numa.admit import start
from memqos.engine.numa.policies import MemoryPolicy, Policies
from memqos.engine.numa.state import StartRefusal, restore
from memqos.engine.numa.table import NumaTable
from memqos.engine.plan import Level, Plan, PlannedCgroup, RefusedBy, Remark
from memqos.engine.pod.qos import pod_qos
from memqos.errors import UsageError
from memqos.model.knob import ABSENT, Knob
from memqos.model.pod import ContainerState, Pod
from memqos.model.reading import FileText, Reading
from memqos.node.pods.population import recorded_population

__all__ = ["judged"]

_SHARES = frozenset({Knob.CPU_WEIGHT, Knob.CPU_SHARES})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedPods:
    """The given pods, sorted.

    present: those with a container or at least a cgroup in the tree. absent: those that should be in the tree, or that
    the kubelet refused. ended: how many have ended and are gone. ending: those that have ended but still have cgroups.
    elsewhere: how many are bound to another node, or to none yet.
    """

    present: tuple[Pod, ...]
    absent: tuple[Pod, ...]
    ended: int
    ending: tuple[Pod, ...]
    elsewhere: int

    def uncounted(self, missing: Iterable[Pod]) -> tuple[str, ...]:
        """Why the kubelet may or may not include pods in the sums above pods: they are starting or ending."""
        found = [f"pod {_name(pod)} {_ended(pod)}, and its cgroup still exists" for pod in self.ending]
        for pod in missing:
            if pod.deleted:
                found.append(f"pod {_name(pod)} is being deleted")
            elif pod.status is not None and pod.phase == "Pending":
                found.append(f"pod {_name(pod)} is Pending")
            elif pod.status is not None and pod.phase == "Running":
                found.append(f"pod {_name(pod)} runs by its status, and has no cgroup here")
        return tuple(found)


def sorted_out(found: Recognised, here: Collection[str]) -> AuditedPods:
    """Sort the given pods. here: the uids of all pods with a cgroup in the tree."""
    every = (*found.present, *found.absent)
    ended = {pod.uid for pod in every if pod.has_ended}
    nodes = {pod.node for pod in (*found.present, *(one for one in found.absent if one.uid in here)) if pod.node}
    absent = [pod for pod in found.absent if pod.uid not in ended and pod.uid not in here]
    elsewhere = {pod.uid for pod in absent if _is_elsewhere(pod, nodes)}
    begun = [pod for pod in found.absent if pod.uid not in ended and pod.uid in here]
    return AuditedPods(
        present=(*(pod for pod in found.present if pod.uid not in ended), *begun),
        absent=tuple(pod for pod in absent if pod.uid not in elsewhere),
        ended=len([pod for pod in every if pod.has_ended and pod.uid not in here]),
        ending=tuple(pod for pod in every if pod.has_ended and pod.uid in here),
        elsewhere=len(elsewhere),
    )


def _is_elsewhere(pod: Pod, nodes: Collection[str]) -> bool:
    """Whether a pod is bound to another node than the pods of the tree, or to none yet."""
    if pod.controller is not None:
        return True
    return pod.node not in nodes if pod.node and nodes else pod.waits_for_node


def why_missing(pod: Pod, *, several: bool) -> str:
    """Why a given pod without a container in the tree is not judged, from its status if possible."""
    if pod.has_ended:
        return f"it {_ended(pod)}, and the kubelet has not removed its cgroup yet"
    if several:
        return "the tree has several pods of this name, and none of its uid"
    none = "the tree has no container of this pod"
    if pod.deleted:
        return f"{none}: it is being deleted"
    return f"{none}: it is Pending" if pod.status is not None and pod.phase == "Pending" else none


def by_status(findings: Iterable[Finding], plan: Plan, pods: Iterable[Pod]) -> Iterator[Finding]:
    """The findings; those about containers that do not run quote their status.

    The kubelet lowers the CPU shares of a pod that is being deleted, so these are not observable.
    """
    given = {pod.uid: pod for pod in pods}
    why: dict[Subject, str] = {}
    deleted: set[Subject] = set()
    for planned in plan.pods:
        pod = given.get(planned.uid)
        if pod is None:
            continue
        if pod.deleted:
            deleted.add(subject_of(planned.cgroup, planned))
        told = _told(pod)
        why |= {subject_of(one.cgroup, planned): told[one.name] for one in planned.containers if one.name in told}
    for finding in findings:
        if finding.subject in deleted and finding.knob in _SHARES and finding.verdict is Verdict.DEVIATES:
            what = "the pod is being deleted, and the kubelet lowers the cpu shares of such a pod's cgroup"
            yield finding.unsure(what)
        elif finding.subject in why and finding.why_not in {NOT_STARTED, NOT_READ, NO_CGROUP}:
            yield replace(finding, why_not=f"{finding.why_not}: {why[finding.subject]}")
        else:
            yield finding


def _told(pod: Pod) -> Mapping[str, str]:
    """By name, the status of the containers that do not run."""
    words = {ContainerState.WAITING: "it waits", ContainerState.TERMINATED: "it has terminated"}
    statuses = pod.status.containers.values() if pod.status is not None else ()
    return {
        one.name: f"{words[one.state]} ({one.reason or 'no reason given'})" for one in statuses if one.state in words
    }


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _ended(pod: Pod) -> str:
    reason = pod.status.reason if pod.status is not None else ""
    return f"has ended ({reason or pod.phase})"


ADMISSION = "admission"
COUNTERS = "counters"
"""The start of a note about facts without influence on any value."""

_KNOBS = frozenset(knob.value for knob in Knob)
_RUNTIME_INIT = re.compile(r"\b(?:runc|crun)[\s\0]+(?:init|create)\b|\brunc:\[")
"""The command line and the process name of runc's init process: runc:[2:INIT]."""


def judged(question: Question) -> Audit:
    """Compare the tree with the plan; UsageError for a recorded state that no kubelet of this configuration accepts."""
    here = frozenset(_pod_cgroups(question))
    question = replace(question, tree=named_by_status(question.tree, question.pods, here))
    found = recognise(question.pods, question.tree, static=question.static)
    found = replace(found, present=tuple(_allocated(pod, question) for pod in found.present))
    sorted_pods = sorted_out(found, here)
    doubts = {**_doubts(sorted_pods.present, question.kubelet), **dict(_unlisted(sorted_pods.present, question.tree))}
    present = [replace(pod, submission=None) if pod.uid in doubts else pod for pod in sorted_pods.present]
    absent = sorted_pods.absent
    # Absent pods must be refused or are missing: the tree's sums do not include them.
    plan = _plan(question, (*present, *absent))
    refused = {refusal.pod for refusal in plan.refusals}
    missing = [pod for pod in absent if pod.uid not in refused]
    if missing:
        plan = _plan(question, [*present, *(pod for pod in absent if pod.uid in refused)])
    planned = {pod.uid for pod in plan.pods} | {pod.uid for pod in sorted_pods.ending}
    nameless = [uid for uid in here if uid not in planned and uid not in question.tree.sandboxes]
    strangers = (*found.strangers, *(f"(uid {uid})" for uid in sorted(nameless)))
    plan = replace(plan, unmodelled={**plan.unmodelled, **doubts})
    population = recorded_population(
        question.tree, Order(kubelet=question.kubelet, plan=plan, pods=(*present, *absent)), found.ids
    )
    numa_unknown = _numa_unknown(question, plan, len(strangers))
    unsure = _unsure(numa_unknown, len(strangers), plan.unmodelled, sorted_pods.uncounted(missing))
    findings = by_status(population.judge(unsure=unsure), plan, present)
    findings = _explained(_without_rules(_unmade_unseen(findings, population.reading), plan), question, plan, present)
    return Audit(
        question=question,
        plan=replace(plan, remarks=tuple(_remarks(question, plan))),
        findings=(
            *with_writers(findings, question.tree, (*present, *absent)),
            *_admission(plan, {pod.uid for pod in present}, unsure=numa_unknown),
            *(
                _missing_pod(pod, why_missing(pod, several=pod.name in found.ambiguous))
                for pod in (*missing, *sorted_pods.ending)
            ),
        ),
        strangers=strangers,
        elsewhere=sorted_pods.elsewhere,
        ended=sorted_pods.ended,
        ids=found.ids,
        present=tuple(present),
        describe=described,
    )


def _explained(
    findings: Iterable[Finding], question: Question, plan: Plan, present: Sequence[Pod]
) -> Iterator[Finding]:
    """The findings, with the deviations that the node's past, its unknown configuration or motion explains."""
    found = of_the_past(
        tuple(findings),
        plan,
        [pod for pod in present if plan.has(pod.uid)],
        question.kubelet,
        was=question.was,
        known=question.known,
        version=question.version or str(question.kubelet.release),
    )
    return still(_unless_unknown(found, question.unknown), question.tree, plan, present, question.kubelet)


def _allocated(pod: Pod, question: Question) -> Pod:
    """The pod with the resources in the checkpoint that a kubelet of this release reads."""
    tree, read = question.tree, checkpoints_of(question.kubelet.release)
    if STATUS_MANAGER in read:
        return with_status_manager_state(pod, tree.status_manager)
    return with_checkpoints(pod, tree.allocated, tree.actuated) if read else pod


def _remarks(question: Question, plan: Plan) -> Iterator[Remark]:
    """The plan's notes, and one if the configuration or an option names another cgroup driver than the tree shows."""
    kubelet = question.kubelet
    about, what = disagreement(
        kubelet.release, kubelet.settings, kubelet.runtimes, seen=question.tree.driver, said=question.driver
    )
    if what:
        yield Remark(about, kubelet.settings.origin.get(about, ""), what)
    yield from _another_root(question, plan)
    yield from (one for one in plan.remarks if one.about not in BEFORE_START)
    yield from killers(question.tree)
    for name, what in question.tree.notes.items():
        if name != COUNTERS:
            yield Remark(name, question.tree.source, what)


def _another_root(question: Question, plan: Plan) -> Iterator[Remark]:
    """The note that the node's kubepods is below another cgroup than the configuration's cgroupRoot."""
    kubelet, there = question.kubelet, question.tree.reading.cgroups
    ending = plan.node.path.name.rpartition("-")[2]
    named = [path for path in there if path.name == ending or path.name.endswith(f"-{ending}")]
    depth = min((len(path.parts) for path in named), default=0)
    nearest = [path for path in named if len(path.parts) == depth]
    if plan.node.path in there or len(nearest) != 1 or not kubelet.cgroups_per_qos:
        return
    root = "/" + "/".join(layout.name_of_path(nearest[0], kubelet.driver)[:-1])
    what = f"kubepods is {nearest[0]} on this node, so its kubelet has cgroupRoot {root}: give --set cgroupRoot={root}"
    yield Remark("cgroupRoot", kubelet.settings.origin.get("cgroupRoot", ""), what)


def _unless_unknown(findings: Iterable[Finding], why: str) -> Iterator[Finding]:
    """The findings; deviations become *not observable* if the plan lacks something that the kubelet depends on."""
    for finding in findings:
        deviates = why and finding.verdict is Verdict.DEVIATES
        yield finding.unsure(why) if deviates else finding


def _without_rules(findings: Iterable[Finding], plan: Plan) -> Iterator[Finding]:
    """The findings; oom_score_adj of pods that the rules cannot plan is not observable either."""
    unmodelled = {str(plan.pod(uid).cgroup.path): why for uid, why in plan.unmodelled.items() if plan.has(uid)}
    for finding in findings:
        why = next((why for path, why in unmodelled.items() if finding.cgroup.startswith(path)), "")
        if why and finding.knob == OOM_SCORE_ADJ:
            yield finding.unsure(why)
        else:
            yield finding


def _pod_cgroups(question: Question) -> Iterator[str]:
    """The uids of all pods that have a cgroup in the tree."""
    kubelet = question.kubelet
    if not kubelet.cgroups_per_qos:
        return
    root = layout.kubepods_name(kubelet.settings.cgroup_root)
    for path in question.tree.reading.cgroups:
        uid = layout.pod_uid(layout.name_of_path(path, kubelet.driver), root)
        if uid:
            yield uid


def _doubts(running: Sequence[Pod], kubelet: Kubelet) -> Mapping[str, str]:
    """By uid, running pods whose values the given objects do not determine, with the reason."""
    outcome = admitted(running, kubelet)
    found = dict(outcome.undetermined)
    for pod in running:
        computed, told = pod_qos(pod, pod_level=kubelet.pod_level), None if pod.status is None else pod.status.qos
        if told not in {None, computed}:
            found[pod.uid] = f"its status has the class {told}, and its spec implies {computed}: this is not its spec"
    for refusal in outcome.refusals:
        found[refusal.pod] = (
            f"the API server rejects it with the objects that were given ({refusal.message}), but it runs: the "
            "cluster has other objects"
        )
    return found


def _unlisted(running: Iterable[Pod], tree: RecordedTree) -> Iterator[tuple[str, str]]:
    """By uid, running pods with a container that their manifest lacks, such as one that a webhook added."""
    ends = {part.removesuffix(".scope").rpartition("-")[2] for path in tree.reading.cgroups for part in path.parts[-2:]}
    names: dict[str, list[str]] = {}
    for one in tree.containers:
        if one.id in ends:
            names.setdefault(one.uid, []).append(one.name)
    for pod in running:
        given = {one.name for one in pod.all_containers}
        more = sorted(set(names.get(pod.uid, ())) - given)
        if more:
            yield pod.uid, f"the node runs a container {more[0]} of this pod, which its manifest does not have"


def _unsure(numa_nodes: str, strangers: int, unmodelled: Mapping[str, str], uncounted: Sequence[str]) -> Unsure:
    """Why values cannot be compared with the plan: sums over pods that were not given, and unmodelled pods.

    numa_nodes: why the NUMA nodes of pods are unknown; "" if they are known. unmodelled: by uid, why the rules do not
    determine that pod's values, and so the sums above it. uncounted: why the kubelet may include further pods in those
    sums.
    """

    def why(cgroup: PlannedCgroup, knob: Knob) -> str:
        if cgroup.pod in unmodelled:
            return unmodelled[cgroup.pod]
        if unmodelled and knob in cgroup.summed:
            return f"it is computed from what all pods request, and {next(iter(unmodelled.values()))}"
        if strangers and knob in cgroup.summed:
            return f"it is computed from what all pods of the node request, and {_count(strangers)} not given"
        if uncounted and knob in cgroup.summed:
            return f"it is computed from what all pods request, and the kubelet may count one or not: {uncounted[0]}"
        if knob is Knob.CPUSET_MEMS and cgroup.knobs[knob].written is not ABSENT:
            return numa_nodes
        return ""

    return why


def _numa_unknown(question: Question, plan: Plan, strangers: int) -> str:
    """Why it is unknown which NUMA nodes are free for the given pods; "" if it is known."""
    kubelet = question.kubelet
    policies = Policies.of(kubelet.settings, kubelet.release)
    if question.tree.checkpoint is not None or policies.memory is MemoryPolicy.NONE:
        return ""
    if strangers:
        return (
            f"other pods may hold memory of its NUMA nodes: {_count(strangers)} not given, and memory_manager_state is "
            "missing"
        )
    contenders = len({refusal.pod for refusal in plan.refusals if refusal.by is RefusedBy.KUBELET} | _bound(plan))
    if contenders > 1:
        return (
            f"its NUMA nodes depend on the order in which the kubelet admitted {contenders} pods, and "
            "memory_manager_state is missing"
        )
    return ""


def _bound(plan: Plan) -> set[str]:
    """The uids of pods with a container that is bound to NUMA nodes."""
    return {
        pod.uid
        for pod in plan.pods
        for one in pod.containers
        if Knob.CPUSET_MEMS in one.cgroup.knobs and one.cgroup.knobs[Knob.CPUSET_MEMS].written is not ABSENT
    }


def _count(strangers: int) -> str:
    return "1 of them was" if strangers == 1 else f"{strangers} of them were"


def _table(question: Question) -> NumaTable | None:
    """The recorded state of the Memory Manager: pods keep their NUMA nodes, in any order of arrival."""
    kubelet = question.kubelet
    policies = Policies.of(kubelet.settings, kubelet.release)
    if question.tree.checkpoint is None or policies.memory is MemoryPolicy.NONE:
        return None
    table = restore(question.tree.checkpoint, start(kubelet.node, kubelet.settings, policies), policies)
    if isinstance(table, StartRefusal):
        raise UsageError(
            f"a kubelet with this configuration and node does not start from the recorded state: {table.message}.",
            where=f"{question.tree.source}: memory_manager_state",
            next_step="Give the configuration and the node of the recording.",
        )
    return table


def _plan(question: Question, pods: Sequence[Pod]) -> Plan:
    return expect(pods, question.kubelet, table=_table(question))


def _missing_pod(pod: Pod, why_not: str) -> Finding:
    return Finding(
        verdict=Verdict.NOT_OBSERVABLE,
        subject=Subject.of_pod(pod.namespace, pod.name),
        cgroup="",
        knob=ADMISSION,
        set_by=Setter.KUBELET,
        expected="ended" if pod.has_ended else "running",
        observed="",
        why_not=why_not,
    )


def _admission(plan: Plan, running: Collection[str], *, unsure: str) -> Iterator[Finding]:
    """Findings about refused pods: one that runs nevertheless deviates.

    unsure: why the refusals are uncertain. A refusal by the API server or the scheduler is not a finding about the
    node; a running pod has lost its scheduling gates.
    """
    for refusal in plan.refusals:
        if refusal.by is not RefusedBy.KUBELET:
            continue
        runs = refusal.pod in running
        yield Finding(
            verdict=Verdict.of(not runs, unsure),
            subject=Subject(level=Level.POD, pod=refusal.name),
            cgroup="",
            knob=ADMISSION,
            set_by=Setter.KUBELET,
            expected=f"refused ({refusal.reason_name})",
            observed="running" if runs else "not running",
            reason=refusal.reason,
            why_not=unsure,
        )


def _unmade_unseen(findings: Iterable[Finding], reading: Reading) -> Iterator[Finding]:
    """The findings; those about a container that the runtime was still creating are not observable.

    runc makes the cgroup, puts its own `runc init` into it, and only then writes the files and becomes the container's
    process. A recording in between says nothing about any of these files.
    """
    files = {str(path): cgroup.files for path, cgroup in reading.cgroups.items()}
    given = tuple(findings)
    by_cgroup: dict[str, list[Finding]] = {}
    for finding in given:
        by_cgroup.setdefault(finding.cgroup, []).append(finding)
    why = {cgroup: _why_unmade(own, files.get(cgroup, {})) for cgroup, own in by_cgroup.items()}
    for finding in given:
        if why[finding.cgroup] and finding.verdict is not Verdict.NOT_OBSERVABLE:
            yield finding.unsure(why[finding.cgroup])
        else:
            yield finding


def _why_unmade(findings: Iterable[Finding], files: Mapping[str, FileText]) -> str:
    """Why a cgroup is not judged; "" if it is."""
    for name, text in files.items():
        if name not in _KNOBS and isinstance(text, str) and _RUNTIME_INIT.search(text):
            return "the container was being created: its first process was still the runtime's"
    own = tuple(findings)
    deviating = {finding.knob for finding in own if finding.verdict is Verdict.DEVIATES}
    if OOM_SCORE_ADJ in deviating and len(deviating) > 1 and all(map(_is_untouched, own)):
        return (
            "the container was being created, or its files were never written: all of them have the kernel's "
            "defaults, and "
            "its first process does not have its oom_score_adj"
        )
    return ""


def _is_untouched(finding: Finding) -> bool:
    """Whether the file shows the kernel's default, or was not read."""
    if finding.knob not in _KNOBS or finding.verdict is Verdict.NOT_OBSERVABLE:
        return True
    knob = Knob(finding.knob)
    return knob.is_default(knob.parse(finding.observed))
