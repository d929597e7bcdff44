"""Requests made directly of the runtime under test in a running pod, and what must hold after them.

No kubelet rules are involved: a container is created with one request, updated with others, and judged as a whole. Its
neighbours are judged as well: no request for one container may change another's files, or the pod's.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from memqos.catalog.requests import AnyRequestCase, OciRequestCase
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import SYSTEM_CLOCK, Deadline, wait_or_last
from memqos.enactor.base import AdmittedPod
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.engine.answer.unrequested_files import Unnamed, unnamed_findings
from memqos.engine.answer.verdict import OOM_SCORE_ADJ, PROCESSES, judge_cgroup, outside_finding
from memqos.engine.cgroup.interface_files import SUBTREE_CONTROL, is_unknown_file
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import PlannedCgroup
from memqos.engine.translate.memory_policy import DEFAULT_POLICY
from memqos.engine.translate.requested import (
    AnyRequest,
    OciRequest,
    RequestedContainer,
    oom_score_adj_of,
    requested,
    requested_again,
    resources_of,
)
from memqos.engine.translate.requested_files import requested_cgroup, requested_settings, scope_cgroup
from memqos.engine.translate.specification import unspecified
from memqos.engine.translate.versions import Feature
from memqos.errors import MachineryError, NonconformanceError, RuntimeCallError, TargetError
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.path import CgroupPath
from memqos.model.pod import Container
from memqos.model.reading import FileText, NoFile, Reading
from memqos.node.pods.population import Population, SettingFiles, huge_pages_of, place_outside, still_runs
from memqos.node.pods.recorder import Recorder
from memqos.node.pods.refusal import (
    NAME,
    SUBJECT,
    refused_finding,
    refused_next,
    request_finding,
    taken_finding,
    taken_next,
    unobservable_request,
)
from memqos.node.requests.ends import nonconforming, not_ended
from memqos.node.requests.native_requests import ask_for_container, ask_for_update
from memqos.node.requests.reported import oom_event_findings, stats_findings
from memqos.node.requests.surroundings import (
    CONTROLLERS,
    SCOPE_FILES,
    changed_files,
    expected_policy,
    kept_findings,
    policy_finding,
    scope_findings,
    score_finding,
    uncounted_findings,
    written_by_others,
)
from memqos.runtime.base import (
    Capability,
    ContainerHandle,
    ContainerState,
    Runtime,
)

__all__ = ["Requests"]

CPUSETS = (Knob.CPUSET_CPUS, Knob.CPUSET_MEMS)
REMOVED_SECONDS = 10.0
"""Seconds to clean up a refused container; a runtime that left something once gets less the next time."""
REMOVED_AGAIN_SECONDS = 1.0
READ_SECONDS = 60.0
REQUEST_SECONDS = 60.0
BESIDE, UPDATED = "beside", "updated"
"""The containers that run while other cases are judged."""
LATER_SECONDS = 10.0
"""The least time after an update before its effects, and its side effects, are read."""
BASELINE = "asked-for-nothing"
"""The container whose settings the others' settings are compared with."""
OF_SCOPES = frozenset({Knob.PIDS_MAX, Knob.HUGETLB_2MB_MAX, Knob.HUGETLB_1GB_MAX})
"""The files of a scope that hold a default under any properties; the other files may be set by a property."""
_NOTHING = ContainerResources()


@dataclass(slots=True)
class UpdatedPair:
    """Two containers of a pod; one was updated. containers: by name, each with its requests so far.

    asker: creates and reads them. before: the files of the pod and of the other container before the update. updated:
    LATER_SECONDS after the last update. asked: the last request, with those before it. failure: what failed on the way.
    """

    asker: Requests
    pod: AdmittedPod
    containers: dict[str, tuple[RequestedContainer, ContainerHandle]] = field(default_factory=dict)
    before: Mapping[CgroupPath, Mapping[str, FileText]] = field(default_factory=dict)
    updated: Deadline = field(default_factory=lambda: Deadline.after(0))
    asked: RequestedContainer | None = None
    failure: MachineryError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """The verb of suites that call the runtime directly. parallel: pods created at the same time (>= 1).

    A container's surroundings are read before and after a request and must not change: the pod of `population`, whose
    first container is the neighbour, and the cgroups above. kubelet: the node's; only its runtime settings are used.
    recorder: records what is judged, and by what. settings: of the machine. left: what refused requests left behind.
    baseline: the settings of a container with an empty request, once needed. standing: the containers that wait to be
    judged, by case.
    """

    tree: CgroupTree
    kubelet: Kubelet
    population: Population
    recorder: Recorder
    settings: SettingFiles
    left: list[str] = field(default_factory=list)
    runtime: Runtime
    parallel: int = 1
    baseline: dict[str, FileText] = field(default_factory=dict)
    standing: dict[str, UpdatedPair] = field(default_factory=dict)

    @property
    def pod(self) -> AdmittedPod:
        """The pod for requested containers, the first of the population."""
        return next(iter(self.population.pods.values()))

    def apart(self) -> Requests:
        """The same pod, in which this one's containers run next to those of others."""
        pod = dataclasses.replace(self.pod, containers=dict(self.pod.containers), requested=dict(self.pod.requested))
        population = dataclasses.replace(self.population, pods={pod.pod.uid: pod})
        return dataclasses.replace(self, population=population)

    def nothing_left(self, pod: AdmittedPod, below: frozenset[str]) -> Finding:
        """After a refusal the pod's cgroup has what it had before; systemd takes a moment to remove a scope."""
        now = wait_or_last(
            "nothing is left below the pod's cgroup",
            lambda: self.below(pod),
            until=lambda names: names <= below,
            deadline=Deadline.after(REMOVED_AGAIN_SECONDS if self.left else REMOVED_SECONDS),
        )
        left = sorted(now - below)
        self.left.extend(left)
        return Finding(
            verdict=Verdict.of(not left),
            subject=SUBJECT,
            cgroup=str(pod.planned.cgroup.path),
            knob="cgroup",
            set_by=Setter.RUNTIME,
            expected="nothing left",
            # Container names are unique: what is left behind is evidence.
            observed="a cgroup is left" if left else "nothing left",
            evidence={"left": ", ".join(left)} if left else {},
        )

    def below(self, pod: AdmittedPod) -> frozenset[str]:
        """The names in the pod's cgroup."""
        folder = self.tree.hierarchy.folder(pod.planned.cgroup.path)
        return frozenset(self.tree.target.list(folder, deadline=Deadline.after(READ_SECONDS)) or ())

    def neighbours(self, pod: AdmittedPod) -> Mapping[CgroupPath, Mapping[str, FileText]]:
        """The settings of the pod's cgroup, of its own containers', of its QoS class and of the node."""
        names = [container.name for container in pod.pod.containers]
        containers = (self.population.path_of(pod.pod, name) for name in names)
        paths = [pod.planned.cgroup.path, *containers, *pod.planned.cgroup.path.ancestors]
        files = [knob.value for knob in (*self.kubelet.files.planned, *CPUSETS)]
        settings = self.settings.names(pod.planned.cgroup.path)
        return {path: seen.files for path, seen in self.read(paths, [*files, *settings]).cgroups.items()}

    def read(self, paths: Sequence[CgroupPath], names: Sequence[str]) -> Reading:
        """The judged files."""
        reading = self.tree.read_cgroups(paths, names, deadline=Deadline.after(READ_SECONDS))
        self.recorder.reading(reading)
        return reading

    def kept(
        self,
        before: Mapping[CgroupPath, Mapping[str, FileText]],
        after: Mapping[CgroupPath, Mapping[str, FileText]],
    ) -> list[Finding]:
        """One finding for each neighbour, or for each of its files that changed."""
        return [*self.population.traced(kept_findings(before, after))]

    def judge(self, case: AnyRequestCase) -> Sequence[Finding]:
        """Create a container with these requests, read everything, remove it, and judge the readings.

        A refused request deviates if the runtime starts other containers; so does an accepted one that must be refused.
        Updates are not observable if the runtime has none. Raises MachineryError if it starts no container at all.
        """
        if case.updates and Capability.UPDATE not in self.runtime.capabilities:
            why = f"{self.runtime.name} has no command that updates a container"
            return [unobservable_request(why, update=True, expected="taken")]
        if case.later:
            return self._judged_later(case)
        oci = self.kubelet.runtimes.oci
        if _checks(case) and not oci.has(Feature.CHECKS_BEFORE_UPDATE):
            return [unobservable_request(f"{oci} does not read checkBeforeUpdate", update=True)]
        if case.refused and expected_policy(case.create, self.runtime.capabilities) == DEFAULT_POLICY:
            return [unobservable_request(f"{oci} does not read linux.memoryPolicy", update=False)]
        pod = self.pod
        before, below = self.neighbours(pod), self.below(pod)
        with self.removing(pod):
            findings = self._asked(case, pod, below)
            after = self.neighbours(pod)
            findings += self.kept(before, after)
            findings += written_by_others(pod.planned.cgroup, before)
            for path, name, text in changed_files(before, after):
                # Some files take no former text back: an empty cpuset.mems is ENOSPC while a process runs.
                with contextlib.suppress(TargetError):
                    self.tree.write(path, name, text, deadline=_soon())
        return findings

    def judge_stats(self, case: AnyRequestCase) -> Sequence[Finding]:
        """The reported memory of a new container that uses some, compared with its files; see `stats_findings`.

        DeadlineError if its memory does not settle.
        """
        pod = self.pod
        with self.removing(pod):
            handle = self._create(pod, case.create)
            path = self.kubelet.layout.container(pod.planned.cgroup.path, handle.id)
            page_size = self.kubelet.host.page_size
            return stats_findings(self.runtime, self.tree, handle, path, page_size=page_size, deadline=_soon())

    def judge_oom_event(self, case: OciRequestCase, program: Container) -> Sequence[Finding]:
        """Whether the runtime's `events` report an OOM kill of a container that runs this program.

        DeadlineError if it does not end.
        """
        pod = self.pod
        template = dataclasses.replace(program, name=NAME)
        with self.removing(pod):
            handle = ask_for_container(self.runtime, pod, template, case.create, deadline=_soon(), follow=True)
            return oom_event_findings(self.runtime, handle, deadline=_soon())

    def stand(self, case: AnyRequestCase) -> None:
        """Create what `judge` reads later for such a case; it stays while other cases are judged.

        A container is created and updated after another one with the same request. Errors are raised by `judge`.
        """
        if case.name not in self.standing and Capability.UPDATE in self.runtime.capabilities:
            pod = self.pod
            self.standing[case.name] = UpdatedPair(self, pod)
            try:
                self._made_to_stand(case, self.standing[case.name])
            except MachineryError as error:
                self.standing[case.name].failure = error

    def _made_to_stand(self, case: AnyRequestCase, standing: UpdatedPair) -> None:
        for name in (BESIDE, UPDATED):
            container = standing.asked = requested(case.create, self.kubelet.runtimes, self.kubelet.host)
            handle = self._create(standing.pod, case.create, name)
            standing.containers[name] = (container, handle)
        standing.before = self.neighbours(standing.pod)
        for update in case.updates:
            container = standing.asked = requested_again(container, update)
            ask_for_update(self.runtime, handle, update, deadline=_soon())
            standing.containers[UPDATED] = (container, handle)
        standing.updated = Deadline.after(LATER_SECONDS)

    def _judged_later(self, case: AnyRequestCase) -> Sequence[Finding]:
        """The readings of both containers and their pod some seconds after the last update of one of them."""
        self.stand(case)
        standing = self.standing.pop(case.name)
        return standing.asker.look_at(standing)

    def look_at(self, standing: UpdatedPair) -> Sequence[Finding]:
        """The containers in this one's pod, which are removed afterwards."""
        pod = standing.pod
        with self.removing(pod, BESIDE), self.removing(pod, UPDATED):
            if isinstance(standing.failure, RuntimeCallError) and standing.asked is not None:
                return self._refused(standing, standing.failure, standing.asked)
            if standing.failure is not None:
                raise standing.failure
            if (left := standing.updated.remaining) > 0:
                SYSTEM_CLOCK.sleep(left)
            found: list[Finding] = []
            for container, handle in standing.containers.values():
                found += self.shown(container, pod, handle)
            return [*found, *self.kept(standing.before, self.neighbours(pod))]

    def _refused(self, standing: UpdatedPair, error: RuntimeCallError, asked: RequestedContainer) -> Sequence[Finding]:
        """The refusal of this request, and its effects; its containers are removed by the caller."""
        update = len(asked.requests) > 1
        told = refused_finding(error, asked, update=update)
        if not update:
            # Another case may be using its own name in this pod.
            return [told, self._next(standing.pod, error, told, UPDATED)]
        before, handle = standing.containers[UPDATED]
        return [told, *self.shown(before, standing.pod, handle), self._next_update(handle)]

    def _asked(self, case: AnyRequestCase, pod: AdmittedPod, below: frozenset[str]) -> list[Finding]:
        """The findings for the requests in order, until one is refused or should have been."""
        container = requested(case.create, self.kubelet.runtimes, self.kubelet.host)
        handle, before = None, container
        requests: Sequence[AnyRequest] = case.requests
        for number, request in enumerate(requests):
            why = case.refused if number == len(case.updates) else ""
            try:
                if handle is None:
                    handle = self._create(pod, request)
                else:
                    before, container = container, requested_again(container, request)
                    ask_for_update(self.runtime, handle, request, deadline=_soon())
            except RuntimeCallError as error:
                told = refused_finding(error, container, why=why, update=bool(number))
                if handle is not None:
                    return [told, *self.shown(before, pod, handle), self._next_update(handle)]
                self.remove(pod)
                return [told, self.nothing_left(pod, below), self._next(pod, error, told)]
            if must := why or container.refusal:
                return [taken_finding(must, container, update=bool(number))]
            if 1 < len(case.updates) > number and (wrong := self._wrong(container, pod, handle)):
                return wrong
        assert handle is not None  # noqa: S101 - the first request creates it
        taken = request_finding(Verdict.CONFORMS, update=bool(case.updates), expected="taken", observed="taken")
        return [taken, *self.shown(container, pod, handle)]

    def _wrong(self, container: RequestedContainer, pod: AdmittedPod, handle: ContainerHandle) -> list[Finding]:
        """Deviations after a request that is not the last, for a case with several updates."""
        return [one for one in self.shown(container, pod, handle) if one.verdict is Verdict.DEVIATES]

    def _create(self, pod: AdmittedPod, request: AnyRequest, name: str = NAME) -> ContainerHandle:
        template = dataclasses.replace(pod.pod.containers[0], name=name)
        return ask_for_container(self.runtime, pod, template, request, deadline=_soon())

    def shown(self, container: RequestedContainer, pod: AdmittedPod, handle: ContainerHandle) -> list[Finding]:
        """The files of the container's cgroup."""
        parent, subject = pod.planned.cgroup.path, Subject.of_container(handle.name)
        knobs = [knob for knob in Knob if knob in container.named or knob in {*self.kubelet.files.planned, *CPUSETS}]
        planned = requested_cgroup(container, knobs, name=handle.name, parent=parent)
        path = self.kubelet.layout.container(parent, handle.id)
        self.recorder.plan(self.population.plan, requested=planned)
        settings = self.settings.names(path)
        reading = self.read([path], [*(knob.value for knob in knobs), *settings])
        findings = list(judge_cgroup(planned, path, subject, reading, enacted_by=Setter.RUNTIME))
        files = reading.cgroups[path].files
        # A lost limit of huge pages loses the reservations' limit too.
        lost = {one.knob.replace(".max", ".rsvd.max") for one in findings if one.verdict is Verdict.DEVIATES}
        unnamed = self._unnamed(container, {name: files[name] for name in settings}, {*knobs, *lost}, pod)
        findings += unnamed_findings(path, files, unnamed, subject=subject)
        scope = self.kubelet.layout.whole(parent, handle.id)
        if scope != path and container.runtimes.oci.modelled:
            findings += self._of_scope(container, planned, scope, pod)
        score = self._score(oom_score_adj_of(container.requests[0]), path, subject)
        findings.append(score)
        if score.verdict is Verdict.NOT_OBSERVABLE:
            # A container without a process in its cgroup runs elsewhere or has ended.
            state = self.runtime.status(handle, deadline=_soon()).state
            absent = reading.cgroups[path].has_no_file
            knob = "cgroup" if absent else PROCESSES
            findings.insert(0, outside_finding(path, subject=subject, knob=knob, state=state))
            # It cannot be killed there: only the runtime knows where it runs.
            self.runtime.stop(handle, grace=0, deadline=_soon())
        elif policy := expected_policy(container.requests[0], self.runtime.capabilities):
            seen = self.tree.read_first_processes([path], "numa_maps", deadline=_soon()).get(path, "")
            findings.append(policy_finding(path, policy, seen, subject=subject))
        elif files.get(Knob.MEMORY_MAX) is NoFile.NO_FILE:
            controllers = self.read([path, parent], [CONTROLLERS])
            findings += uncounted_findings(path, parent, controllers, subject=subject)
        asked = [request for request in container.requests if isinstance(request, ContainerResources)]
        if not asked:
            # Hops are traced only for CRI requests.
            return findings
        pod.requested[handle.name] = tuple(asked)
        return [*self.population.traced(findings)]

    def _of_scope(
        self, container: RequestedContainer, planned: PlannedCgroup, scope: CgroupPath, pod: AdmittedPod
    ) -> list[Finding]:
        """Findings on the systemd scope above a container's own cgroup."""
        subject = Subject.of_container(planned.container)
        of_scope = scope_cgroup(container, name=planned.container, parent=pod.planned.cgroup.path)
        settings = self.settings.names(scope)
        names = [knob.value for knob in (*of_scope.knobs, *SCOPE_FILES)]
        held = self.read([scope], [*names, *settings]).cgroups[scope].files
        found = list(scope_findings(planned, of_scope, scope, held, subject=subject))
        judged = {SUBTREE_CONTROL, *(knob.value for knob in Knob if knob in container.named or knob not in OF_SCOPES)}
        unnamed = self._unnamed(container, {name: held[name] for name in settings}, judged, pod)
        return [*found, *unnamed_findings(scope, held, unnamed, subject=subject.scope())]

    def _unnamed(
        self,
        container: RequestedContainer,
        files: Mapping[str, FileText],
        judged: Collection[str],
        pod: AdmittedPod,
    ) -> Unnamed:
        """Findings on settings of a container's cgroup, or of its scope. files: the settings that it has."""
        text = files.get(Knob.PIDS_MAX)
        return Unnamed(
            judged=judged,
            begun=huge_pages_of([one for one in map(resources_of, container.requests) if one is not None]),
            requested=requested_settings(container, judged),
            tasks_max=self.settings.tasks_max if isinstance(text, str) and text.strip() != "max" else "",
            baseline=self._baseline(pod) if any(map(is_unknown_file, files)) else {},
            unmodelled="" if container.runtimes.oci.modelled else unspecified(container.runtimes.oci),
        )

    def _baseline(self, pod: AdmittedPod) -> Mapping[str, FileText]:
        """The settings of a container with an empty request in the pod, created and removed once."""
        if not self.baseline:
            with self.removing(pod, BASELINE):
                handle = self._create(pod, _NOTHING, BASELINE)
                path = self.kubelet.layout.container(pod.planned.cgroup.path, handle.id)
                self.baseline.update(self.read([path], self.settings.names(path)).cgroups[path].files)
        return self.baseline

    def _score(self, asked: int, path: CgroupPath, subject: Subject) -> Finding:
        """oom_score_adj of the container's first process, set at creation and unchanged by updates."""
        seen = self.tree.read_first_processes([path], OOM_SCORE_ADJ, deadline=_soon()).get(path, "").strip()
        return score_finding(path, str(asked), seen, subject=subject)

    def _next(self, pod: AdmittedPod, error: RuntimeCallError, told: Finding, name: str = NAME) -> Finding:
        """After a refusal the next request is accepted; after a wrong refusal, a second one is a MachineryError."""
        try:
            self._create(pod, _NOTHING, name)
        except RuntimeCallError as again:
            if told.verdict is Verdict.DEVIATES:
                # A runtime that starts nothing proves nothing about this request.
                raise error from None
            return refused_next(again, update=False)
        return taken_next(update=False)

    def _next_update(self, handle: ContainerHandle) -> Finding:
        """After a refused update an empty update is accepted, unless the runtime kept something of the refused one."""
        try:
            self.runtime.update(handle, _NOTHING, deadline=_soon())
        except RuntimeCallError as error:
            return refused_next(error, update=True)
        return taken_next(update=True)

    @contextlib.contextmanager
    def removing(self, pod: AdmittedPod, name: str = NAME) -> Iterator[None]:
        """Remove the container created in this context at its end; the first error is raised."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(MachineryError, NonconformanceError):
                self.remove(pod, name)
            raise
        self.remove(pod, name)

    def remove(self, pod: AdmittedPod, name: str = NAME) -> None:
        """Kill it in the kernel and remove it: StopContainer would start more programs and adds nothing here.

        NonconformanceError with its finding if it runs without a process in its cgroup; then the runtime ends it.
        """
        handle = pod.containers.pop(name, None)
        if handle is None:
            return
        parent, deadline = pod.planned.cgroup.path, _soon()
        path, whole = self.kubelet.layout.container(parent, handle.id), self.kubelet.layout.whole(parent, handle.id)
        pids = self.tree.processes(path, deadline=deadline)
        self.tree.kill([whole], deadline=deadline)
        outside = None
        runs = still_runs(self.runtime, handle)
        where = place_outside(self.tree, whole, pids) if runs else ""
        if runs and (where or not pids):
            subject = Subject.of_container(handle.name)
            outside = outside_finding(path, subject=subject, state=ContainerState.RUNNING, where=where)
            # It cannot be killed there: only the runtime knows where it runs.
            self.runtime.stop(handle, grace=0, deadline=deadline)
        status = wait_or_last(
            "the runtime knows that the container has ended",
            lambda: self.runtime.status(handle, deadline=_soon()),
            until=lambda status: status.state is not ContainerState.RUNNING,
            deadline=deadline,
        )
        runs = outside is None and status.state is ContainerState.RUNNING
        late = not_ended(self.tree, path, status, deadline=_soon()) if runs else None
        # Even then: its name would be taken for the next one.
        self.runtime.remove(handle, deadline=_soon())
        if outside:
            raise nonconforming(outside)
        if late:
            raise late


def _checks(case: AnyRequestCase) -> bool:
    """Whether an update of it must be refused because of the container's usage."""
    return any(isinstance(one, OciRequest) and one.resources.check_before_update for one in case.updates)


def _soon() -> Deadline:
    return Deadline.after(REQUEST_SECONDS)
