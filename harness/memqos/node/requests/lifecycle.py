"""Events in a container's life other than requests: restarts around it, and other containers.

Every file must afterwards hold its requested value, as before.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

from memqos.catalog.requests import RequestCase
from memqos.clock import SYSTEM_CLOCK, Deadline, wait, wait_or_last
from memqos.enactor.base import AdmittedPod
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.translate.requested import RequestedContainer, requested
from memqos.engine.translate.versions import RuntimeName
from memqos.errors import MachineryError
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.node.pods.refusal import NAME, SUBJECT
from memqos.node.requests.container_requests import Requests
from memqos.node.requests.containers import (
    HELD_IN_ALL,
    OF_EACH_KIND,
    OF_USE,
    Containers,
    observed,
    soon,
    taken_findings,
)
from memqos.node.requests.inventory import Inventory, anonymous_memory_of, inventory_of
from memqos.node.requests.verbs import Outcomes, PendingConditions, Within, anywhere, passed, settled, together, verb
from memqos.runtime.base import ContainerHandle, ContainerState, SpeaksOci
from memqos.target.base import checked
from memqos.threads import submit
from memqos.workload.command import PROGRAM, Anon, arguments

__all__ = ["LifecycleVerbs"]

GONE_SECONDS = 15.0
STOPPED_SECONDS = 10.0
FEW, MANY = 3, 50
"""Pods that come and go; as many at a time as are started at a time."""
SETTLING, LAST = 20, 5
"""The first pods, during which a daemon reaches its steady state, and the last ones, which show growth."""
GROWTH = 8 << 20
"""Bytes of growth that are tolerated: garbage collection is not deterministic."""

DAEMONS: Mapping[RuntimeName, Sequence[str]] = {
    RuntimeName.CONTAINERD: ("containerd",),
    RuntimeName.CRIO: ("crio",),
    RuntimeName.DOCKER: ("dockerd", "containerd"),
    RuntimeName.PODMAN: ("podman",),
}
"""The process names of a daemon in the kernel."""

_NOTHING = ContainerResources()


@dataclass
class _Churn:
    """Pods that came and went. before: the inventory before. gone: how many. left: what was left, by number of pods.

    sizes: the daemon's memory by the number of the last pod.
    """

    before: Inventory
    gone: int = 0
    left: dict[int, Inventory] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)


def _grown(seen: str, why_not: str = "") -> Finding:
    expected = f"no, or by {GROWTH >> 20} MiB at most"
    return observed("growth of the daemon", expected, expected if seen == "no" else seen, why_not=why_not)


RESTART_SECONDS = 120.0
UNASKED_SECONDS = 6.0
"""How long a container is left alone to check that its values stay."""
ENTRANT = 1 << 20
"""Bytes of a program that runs in a container for two seconds, or for four while it is updated."""
SEVERAL = 4
"""How many containers run in one pod at the same time."""
ASKED_OFTEN = 20
"""How many times stats are requested in a row."""


@dataclass(frozen=True)
class LifecycleVerbs:
    """The verbs of suites about a container's life; each returns the findings of one claim."""

    requests: Requests

    @property
    def containers(self) -> Containers:
        """Creates the containers that the verbs look at."""
        return Containers(self.requests)

    @verb
    def left_by_few(self, kind: str) -> Sequence[Finding]:
        """What a few removed pods with a container each leave behind. kind: a field of Inventory."""
        return [self._left_over(kind, FEW)]

    @verb
    def left_by_many(self, kind: str) -> Sequence[Finding]:
        """The same for many pods; pods created and removed earlier count as the first of these."""
        return [self._left_over(kind, MANY)]

    @verb
    def daemon_after_many(self) -> Sequence[Finding]:
        """The daemon's anonymous memory while many pods came and went: it does not grow with them."""
        cri = self.requests.kubelet.runtimes.cri
        if cri.called or cri.runtime not in DAEMONS:
            return [_grown("", f"which processes are the daemon of {self.requests.runtime.name} is not known")]
        self._churned(MANY)
        sizes = self._churn.sizes
        before = max(size for number, size in sizes.items() if number < SETTLING)
        after = min(size for number, size in sizes.items() if number >= MANY - LAST)
        if not before:
            return [_grown("", f"no process is called {' or '.join(DAEMONS[cri.runtime])}")]
        return [_grown("no" if after <= before + GROWTH else f"from {before} to {after} bytes")]

    def _left_over(self, kind: str, times: int) -> Finding:
        return observed(kind, "nothing left", ", ".join(getattr(self._churned(times), kind)) or "nothing left")

    @cached_property
    def _churn(self) -> _Churn:
        return _Churn(before=self._inventory())

    def _churned(self, times: int) -> Inventory:
        """What this many sandboxes and containers left behind; some of them may have been removed before."""
        churn = self._churn
        if times not in churn.left:
            self._come_and_go(range(churn.gone, times))
            churn.gone = max(churn.gone, times)
            churn.left[times] = self._left_since(churn.before)
        return churn.left[times]

    def _come_and_go(self, numbers: range) -> None:
        """Pods with these numbers; the daemon's size is recorded for the first and last of many."""
        programs = DAEMONS.get(self.requests.kubelet.runtimes.cri.runtime, ())

        def comes_and_goes(number: int) -> None:
            with (
                self.containers.second_sandbox(f"churn-{number}") as sandbox,
                self.containers.running(_NOTHING, sandbox=sandbox),
            ):
                pass
            if programs and not SETTLING <= number < MANY - LAST:
                self._churn.sizes[number] = anonymous_memory_of(self.requests.tree.target, programs)

        with ThreadPoolExecutor(max_workers=self.requests.parallel, thread_name_prefix="churn") as pool:
            try:
                for one in [submit(pool, comes_and_goes, number) for number in numbers]:
                    one.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _left_since(self, before: Inventory) -> Inventory:
        """What is still left after a grace period."""
        return wait_or_last(
            "nothing is left of removed pods",
            lambda: self._inventory().beyond(before),
            until=lambda left: not left,
            deadline=Deadline.after(GONE_SECONDS),
        )

    def _inventory(self) -> Inventory:
        return inventory_of(
            self.requests.tree.target, self.requests.tree.hierarchy.folder(self.requests.pod.planned.cgroup.path)
        )

    @together
    def systemd_reloaded(self, cases: Mapping[str, RequestCase], within: Within = anywhere) -> Outcomes:
        """After systemctl daemon-reload: systemd rewrites the files of its units. One reload serves all cases.

        within: see `memqos.node.requests.verbs`; the same in all verbs that take several cases.
        """
        return self._stood(cases, lambda: self._resettle("daemon-reload"), within)

    @together
    def systemd_replaced(self, cases: Mapping[str, RequestCase], within: Within = anywhere) -> Outcomes:
        """After systemctl daemon-reexec: the same with systemd itself restarted."""
        return self._stood(cases, lambda: self._resettle("daemon-reexec"), within)

    @together
    def daemon_restarted(self, cases: Mapping[str, RequestCase], within: Within = anywhere) -> Outcomes:
        """After a restart of the runtime's daemon: each container still runs, and has its values.

        The updates of a case are the first after the restart: they change what they name, and nothing else.
        """
        if not self.requests.kubelet.runtimes.cri.modelled:
            why = f"which service is the daemon of {self.requests.runtime.name} is not known"
            return {name: settled([observed("state", "", "", why_not=why)]) for name in cases}
        return self._together(LifecycleVerbs._outlives, cases, self._restart, within)

    @verb
    def left_alone(self, case: RequestCase) -> Sequence[Finding]:
        """Created, updated, entered by an exec, read some seconds later without any request in between, and updated."""
        program = (PROGRAM, *arguments([Anon(size=ENTRANT)]))

        def happens(handle: ContainerHandle) -> None:
            self.requests.runtime.exec(handle, program, deadline=soon())
            SYSTEM_CLOCK.sleep(UNASKED_SECONDS)

        with self.containers.running(case.create) as handle:
            found = self._held(self._updated(handle, case), handle, happens)
            if any(one.verdict is Verdict.DEVIATES for one in found):
                return found
            container = self.containers.updated(handle, self._asked_for(case.create), case.create)
            return [*found, *self.requests.shown(container, self.requests.pod, handle)]

    @verb
    def updated_in_use(self, case: RequestCase) -> Sequence[Finding]:
        """Updates to limits above what a container uses apply, take nothing from it, and count no event."""
        with self.containers.running(case.create, *OF_EACH_KIND) as handle:
            path = self.containers.settled(handle, HELD_IN_ALL)
            before = self.containers.files(path, OF_USE)
            container = self._updated(handle, case)
            taken = taken_findings(before, self.containers.files(path, OF_USE), str(path), self.containers.stock)
            return [*taken, *self.requests.shown(container, self.requests.pod, handle)]

    def _updated(self, handle: ContainerHandle, case: RequestCase) -> RequestedContainer:
        """The container after a case's updates."""
        container = self._asked_for(case.create)
        for update in case.updates:
            container = self.containers.updated(handle, container, update)
        return container

    @verb
    def exec_in_it(self, case: RequestCase) -> Sequence[Finding]:
        """After a program ran in it, in its cgroup and with its oom_score_adj."""
        program = Anon(size=ENTRANT, step=ENTRANT // 16, rate=ENTRANT // 2)
        seen: list[Finding] = []
        score = case.create.oom_score_adj
        held = self._through(case, lambda handle: seen.extend(self.containers.entered(handle, score, program)))
        return [*seen, *held]

    @verb
    def stats_requested(self, case: RequestCase) -> Sequence[Finding]:
        """After its stats and its status were requested many times."""

        def ask(handle: ContainerHandle) -> None:
            for _ in range(ASKED_OFTEN):
                self.containers.cri.stats(handle, deadline=soon())
                self.requests.runtime.status(handle, deadline=soon())

        return self._through(case, ask)

    @verb
    def made_again(self, case: RequestCase) -> Sequence[Finding]:
        """After it was killed and recreated, as a kubelet does: it has its values, and none of its old counts.

        The same after the case's updates and an exec, if there are any updates.
        """
        with self.containers.running(case.create) as handle:
            self.containers.end(handle)
        with self.containers.running(case.create) as handle:
            path = self.containers.cgroup_of(handle)
            events = self.containers.files(path, ("memory.events",))["memory.events"]
            counts = {line.split()[-1] for line in str(events).splitlines() if line.startswith("oom")}
            fresh = observed("memory.events", "0", ", ".join(sorted(counts)), cgroup=str(path))
            created = [*self.requests.shown(self._asked_for(case.create), self.requests.pod, handle), fresh]
            if not case.updates:
                return created
            if wrong := [one for one in created if one.verdict is Verdict.DEVIATES]:
                return wrong
            container = self._updated(handle, case)
            self.requests.runtime.exec(handle, (PROGRAM, *arguments([Anon(size=ENTRANT)])), deadline=soon())
            return [fresh, *self.requests.shown(container, self.requests.pod, handle)]

    @verb
    def before_its_start(self, case: RequestCase) -> Sequence[Finding]:
        """The files of a container that was created and not started, and its files once it runs."""
        if not isinstance(self.requests.runtime, SpeaksOci):
            why = "a CRI runtime creates the cgroup of a container when it starts it"
            return [observed("cgroup", "", "", why_not=why)]
        pod = self.requests.pod
        with self.requests.removing(pod):
            with self.containers.judging_refusals(case.create, pod):
                handle = self.containers.made(case.create)
            container = self._asked_for(case.create)
            created = self.requests.shown(container, pod, handle)
            if any(one.verdict is Verdict.DEVIATES for one in created):
                return created
            self.requests.runtime.start(handle, deadline=soon())
            return self.requests.shown(container, pod, handle)

    @verb
    def several_in_a_pod(self, case: RequestCase) -> Sequence[Finding]:
        """The files of several containers of a pod that run at the same time, and again after updates of every second.

        Of those that deviate, only the first container's findings are given: one fault shows in each of them.
        """
        with contextlib.ExitStack() as stack:
            handles = [
                stack.enter_context(self.containers.running(case.create, name=_one_of_several()))
                for _ in range(SEVERAL)
            ]
            containers = [(self._asked_for(case.create), one) for one in handles]
            if wrong := self._first_wrong(containers):
                return wrong
            for number in range(1, SEVERAL, 2):
                containers[number] = (self._updated(handles[number], case), handles[number])
            wrong = self._first_wrong([*containers[1::2], *containers])
            return wrong or self.requests.shown(containers[-1][0], self.requests.pod, handles[-1])

    def _first_wrong(self, containers: Sequence[tuple[RequestedContainer, ContainerHandle]]) -> Sequence[Finding]:
        """The deviations of the first of these containers that has any."""
        for container, handle in containers:
            shown = self.requests.shown(container, self.requests.pod, handle)
            if wrong := [one for one in shown if one.verdict is Verdict.DEVIATES]:
                return wrong
        return ()

    @verb
    def updated_after_exec(self, case: RequestCase) -> Sequence[Finding]:
        """Its files after a program ran in it and the case's updates were made."""
        with self.containers.running(case.create) as handle:
            program = (PROGRAM, *arguments([Anon(size=ENTRANT)]))
            self.requests.runtime.exec(handle, program, deadline=soon())
            return self.requests.shown(self._updated(handle, case), self.requests.pod, handle)

    @verb
    def updated_during_exec(self, case: RequestCase) -> Sequence[Finding]:
        """A program that runs in it goes on through the case's updates, which apply."""
        program = Anon(size=ENTRANT, step=ENTRANT // 16, rate=ENTRANT // 4)
        with self.containers.running(case.create) as handle:
            seen, container = self.containers.entered_during(lambda: self._updated(handle, case), handle, None, program)
            return [*seen, *self.requests.shown(container, self.requests.pod, handle)]

    @verb
    def neighbour_stopped(self, case: RequestCase) -> Sequence[Finding]:
        """A stopped container has ended; that changes neither its pod nor its neighbours nor the cgroups above."""
        requests, pod = self.requests, self.requests.pod
        before = requests.neighbours(pod)
        with self.containers.running(case.create) as handle:
            requests.runtime.stop(handle, grace=0, deadline=soon())
            # An OCI runtime has only sent the signal.
            status = wait_or_last(
                "the container has ended",
                lambda: requests.runtime.status(handle, deadline=soon()),
                until=lambda status: status.state is ContainerState.EXITED,
                deadline=Deadline.after(STOPPED_SECONDS),
            )
        stopped = observed("state", ContainerState.EXITED.value, status.state.value)
        return [stopped, *_without_groups_beside(requests.kept(before, requests.neighbours(pod)), pod)]

    @verb
    def written_by_others(self, case: RequestCase) -> Sequence[Finding]:
        """A foreign write shows in its file alone, and an update with the same values again undoes it."""
        container = self._asked_for(case.create)
        with self.containers.running(case.create) as handle:
            path = self.containers.cgroup_of(handle)
            self.requests.tree.write(path, Knob.MEMORY_HIGH, "max", deadline=soon())
            shown = self.requests.shown(container, self.requests.pod, handle)
            drifted = ", ".join(sorted(one.knob for one in shown if one.verdict is Verdict.DEVIATES))
            self.containers.updated(handle, container, case.create)
            found = observed("drift", Knob.MEMORY_HIGH, drifted, cgroup=str(path))
            return [found, *self.requests.shown(container, self.requests.pod, handle)]

    def _through(self, case: RequestCase, happens: Callable[[ContainerHandle], object]) -> Sequence[Finding]:
        """A new container's files and its surroundings, after an event."""
        with self.containers.running(case.create) as handle:
            return self._held(self._asked_for(case.create), handle, happens)

    def _held(
        self, container: RequestedContainer, handle: ContainerHandle, happens: Callable[[ContainerHandle], object]
    ) -> Sequence[Finding]:
        """The container's files and its surroundings, after an event; they were right before it."""
        one = self._right_before(container, handle, lambda: container)
        return passed({NAME: one}, lambda: happens(handle), _all_are_seen)[NAME].result()

    def _stood(self, cases: Mapping[str, RequestCase], happens: Callable[[], object], within: Within) -> Outcomes:
        """A container of each case and their surroundings, after an event for all of them."""
        return self._together(LifecycleVerbs._stands, cases, happens, within)

    def _together(
        self,
        wait_with: Callable[[LifecycleVerbs, RequestCase], PendingConditions],
        cases: Mapping[str, RequestCase],
        happens: Callable[[], object],
        within: Within,
    ) -> Outcomes:
        """All are created before the first is read, and are read again before the first is removed.

        When a unit appears or goes next to a container, systemd may rewrite its files.
        """
        each = {name: wait_with(LifecycleVerbs(self.requests.apart()), case) for name, case in cases.items()}
        return passed(each, _all_stand, happens, _all_are_seen, within=within)

    def _stands(self, case: RequestCase) -> PendingConditions:
        """A container that waits until those of other cases run too, is then read, and waits again."""
        with self.containers.running(case.create, name=_one_of_several()) as handle:
            container = self._asked_for(case.create) if case.refused else self._updated(handle, case)
            yield
            found = yield from self._right_before(container, handle, lambda: container)
            return _without_groups_beside(found, self.requests.pod)

    def _outlives(self, case: RequestCase) -> PendingConditions:
        """The same, with the case's updates once the daemon answers again."""
        with self.containers.running(case.create, name=_one_of_several()) as handle:
            yield

            def updated() -> RequestedContainer:
                self._let_answer(handle)
                return self._updated(handle, case)

            return (yield from self._right_before(self._asked_for(case.create), handle, updated))

    def _right_before(
        self, container: RequestedContainer, handle: ContainerHandle, after: Callable[[], RequestedContainer]
    ) -> PendingConditions:
        """The container's files and its surroundings, which were right before it waited.

        after: the expected values then. It waits once more before it is removed.
        """
        early = [
            one for one in self.requests.shown(container, self.requests.pod, handle) if one.verdict is Verdict.DEVIATES
        ]
        if early:
            return early
        before = self.requests.neighbours(self.requests.pod)
        yield
        container = after()
        state = self.requests.runtime.status(handle, deadline=soon()).state
        found = [
            observed("state", ContainerState.RUNNING.value, state.value),
            *self.requests.shown(container, self.requests.pod, handle),
            *self.requests.kept(before, self.requests.neighbours(self.requests.pod)),
        ]
        yield
        return found

    def _asked_for(self, resources: ContainerResources) -> RequestedContainer:
        return requested(resources, self.requests.kubelet.runtimes, self.requests.kubelet.host)

    def _systemctl(self, *words: str) -> None:
        target = self.requests.tree.target
        checked(target.run(["systemctl", *words], deadline=Deadline.after(RESTART_SECONDS)), where=target.address)

    def _resettle(self, verb: str) -> None:
        """Have systemd reload its units, and apply what it then finds to apply.

        Before it answers the next request it writes the files of all units queued for that (manager_loop in
        src/core/manager.c); the second request covers units queued meanwhile.
        """
        self._systemctl(verb)
        for _ in range(2):
            self._systemctl("show", "--property=Version")

    def _restart(self) -> None:
        """Restart the service of the CRI runtime."""
        self._systemctl("restart", self.requests.kubelet.runtimes.cri.runtime.value.replace("-", ""))

    def _let_answer(self, handle: ContainerHandle) -> None:
        """Wait until the daemon answers for a container again."""
        deadline = Deadline.after(RESTART_SECONDS)

        def answers() -> bool:
            try:
                self.requests.runtime.status(handle, deadline=deadline)
            except MachineryError:
                # A starting daemon first refuses connections, and then has not loaded its containers yet.
                return False
            return True

        wait("the runtime's daemon answers again", answers, deadline=deadline)


def _all_stand() -> None:
    """An event that does nothing else."""


def _all_are_seen() -> None:
    """Nor here."""


def _one_of_several() -> str:
    """A name that no other container of the pod has."""
    return f"{NAME}-{uuid.uuid4().hex[:8]}"


def _without_groups_beside(findings: Sequence[Finding], pod: AdmittedPod) -> Sequence[Finding]:
    """Without the resets of memory.oom.group of the pod's own containers, which systemd makes: a claim of its own."""
    above = {str(path) for path in (pod.planned.cgroup.path, *pod.planned.cgroup.path.ancestors)}
    return [
        one
        for one in findings
        if one.subject == SUBJECT or one.cgroup in above or one.knob != Knob.MEMORY_OOM_GROUP or one.observed != "0"
    ]
