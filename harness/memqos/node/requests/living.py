"""What happens in a container's life that is no request: restarts of what stands around it, and other containers.

Every file must hold afterwards what was asked for, as before.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence

from memqos.catalog.requests import RequestCase
from memqos.clock import SYSTEM_CLOCK, Deadline, wait
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.translate.requested import RequestedContainer, requested, requested_again
from memqos.errors import MachineryError
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.node.pods.refusing import NAME, SUBJECT
from memqos.node.requests.churning import Churning
from memqos.node.requests.containers import observed, soon
from memqos.node.requests.moment import Outcomes, Waiting, Within, anywhere, passed, settled
from memqos.node.requests.verbs import together, verb
from memqos.runtime.base import ContainerHandle, ContainerState
from memqos.target.base import checked
from memqos.workload.command import Anon

__all__ = ["Life"]

RESTART_SECONDS = 120.0
UNASKED_SECONDS = 6.0
"""How long a container is left alone, to see whether its values stay."""
ENTRANT = 1 << 20
"""Bytes of a program that is run in a container, in two seconds."""
ASKED_OFTEN = 20
"""How many times stats are asked for in a row."""


class Life(Churning):
    """The verbs of suites about what a container lives through; each gives the findings of one claim."""

    @together
    def systemd_reloaded(self, cases: Mapping[str, RequestCase], within: Within = anywhere) -> Outcomes:
        """After systemctl daemon-reload: systemd writes the files of its units anew. It is reloaded once for all cases.

        within: see `memqos.node.requests.moment`; so it is in all verbs that take several cases.
        """
        return self._stood(cases, lambda: self._resettle("daemon-reload"), within)

    @together
    def systemd_replaced(self, cases: Mapping[str, RequestCase], within: Within = anywhere) -> Outcomes:
        """After systemctl daemon-reexec, the same with systemd itself started anew."""
        return self._stood(cases, lambda: self._resettle("daemon-reexec"), within)

    @together
    def daemon_restarted(self, cases: Mapping[str, RequestCase], within: Within = anywhere) -> Outcomes:
        """After a restart of the runtime's daemon: each container still runs, and has its values.

        The updates of a case are the first that are asked for after it: they change what they name, and nothing else.
        """
        if not self.kubelet.runtimes.cri.modelled:
            why = f"which service is the daemon of {self.runtime.name} is not known"
            return {name: settled([observed("state", "", "", why_not=why)]) for name in cases}
        return self._together(Life._outlives, cases, self._restart, within)

    @verb
    def left_alone(self, case: RequestCase) -> Sequence[Finding]:
        """Created, updated, and some seconds later, in which nobody asked for anything."""
        with self._running(case.create) as handle:
            return self._held(self._updated(handle, case), handle, lambda _: SYSTEM_CLOCK.sleep(UNASKED_SECONDS))

    def _updated(self, handle: ContainerHandle, case: RequestCase) -> RequestedContainer:
        """The container after a case's updates."""
        container = self._asked_for(case.create)
        for update in case.updates:
            self.runtime.update(handle, update, deadline=soon())
            container = requested_again(container, update)
        return container

    @verb
    def exec_in_it(self, case: RequestCase) -> Sequence[Finding]:
        """After a program was run in it, which was in its cgroup with its oom_score_adj while it ran."""
        program = Anon(size=ENTRANT, step=ENTRANT // 16, rate=ENTRANT // 2)
        seen: list[Finding] = []
        score = case.create.oom_score_adj
        held = self._through(case, lambda handle: seen.extend(self._entered(handle, score, program)[1]))
        return [*seen, *held]

    @verb
    def asked_for_stats(self, case: RequestCase) -> Sequence[Finding]:
        """After its stats and its status were asked for many times."""

        def ask(handle: ContainerHandle) -> None:
            for _ in range(ASKED_OFTEN):
                self._cri.stats(handle, deadline=soon())
                self.runtime.status(handle, deadline=soon())

        return self._through(case, ask)

    @verb
    def made_again(self, case: RequestCase) -> Sequence[Finding]:
        """After it was killed and made anew, as a kubelet does: it has its values, and none of its old counts.

        So it does after the case's updates, if there are any.
        """
        with self._running(case.create) as handle:
            self._end(handle)
        with self._running(case.create) as handle:
            path = self._cgroup_of(handle)
            events = self._files(path, ("memory.events",))["memory.events"]
            counts = {line.split()[-1] for line in str(events).splitlines() if line.startswith("oom")}
            fresh = observed("memory.events", "0", ", ".join(sorted(counts)), cgroup=str(path))
            created = [*self._shown(self._asked_for(case.create), self._pod, handle), fresh]
            if not case.updates:
                return created
            wrong = [one for one in created if one.verdict is Verdict.DEVIATES]
            return wrong or [fresh, *self._shown(self._updated(handle, case), self._pod, handle)]

    @verb
    def written_by_others(self, case: RequestCase) -> Sequence[Finding]:
        """A foreign write is seen in its file alone, and an update that asks for the same again undoes it."""
        container = self._asked_for(case.create)
        with self._running(case.create) as handle:
            path = self._cgroup_of(handle)
            self.tree.write(path, Knob.MEMORY_HIGH, "max", deadline=soon())
            shown = self._shown(container, self._pod, handle)
            drifted = ", ".join(sorted(one.knob for one in shown if one.verdict is Verdict.DEVIATES))
            self.runtime.update(handle, case.create, deadline=soon())
            found = observed("drift", Knob.MEMORY_HIGH, drifted, cgroup=str(path))
            return [found, *self._shown(container, self._pod, handle)]

    def _through(self, case: RequestCase, happens: Callable[[ContainerHandle], object]) -> Sequence[Finding]:
        """A new container's files, and what stands beside it, after something happened."""
        with self._running(case.create) as handle:
            return self._held(self._asked_for(case.create), handle, happens)

    def _held(
        self, container: RequestedContainer, handle: ContainerHandle, happens: Callable[[ContainerHandle], object]
    ) -> Sequence[Finding]:
        """The container's files, and what stands beside it, after something happened; they were right before it."""
        one = self._right_before(container, handle, lambda: container)
        return passed({SUBJECT: one}, lambda: happens(handle), _all_are_seen)[SUBJECT].result()

    def _stood(self, cases: Mapping[str, RequestCase], happens: Callable[[], object], within: Within) -> Outcomes:
        """A container of each case, and what stands beside them, after something happened to all."""
        return self._together(Life._stands, cases, happens, within)

    def _together(
        self,
        wait_with: Callable[[Life, RequestCase], Waiting],
        cases: Mapping[str, RequestCase],
        happens: Callable[[], object],
        within: Within,
    ) -> Outcomes:
        """All stand before the first is seen, and are seen again before the first goes.

        When something comes or goes beside a container, systemd may write its files anew.
        """
        each = {name: wait_with(self._apart(), case) for name, case in cases.items()}
        return passed(each, _all_stand, happens, _all_are_seen, within=within)

    def _stands(self, case: RequestCase) -> Waiting:
        """A container that waits until those of other cases stand as well, and is then seen and waits again."""
        with self._running(case.create, name=_one_of_several()) as handle:
            yield
            container = self._asked_for(case.create)
            return _without_groups_beside((yield from self._right_before(container, handle, lambda: container)))

    def _outlives(self, case: RequestCase) -> Waiting:
        """The same, with the case's updates once the daemon answers again."""
        with self._running(case.create, name=_one_of_several()) as handle:
            yield

            def updated() -> RequestedContainer:
                self._let_answer(handle)
                return self._updated(handle, case)

            return (yield from self._right_before(self._asked_for(case.create), handle, updated))

    def _right_before(
        self, container: RequestedContainer, handle: ContainerHandle, after: Callable[[], RequestedContainer]
    ) -> Waiting:
        """The container's files, and what stands beside it, which were right before it waited.

        after: what has to be there then. It waits once more before it goes.
        """
        early = [one for one in self._shown(container, self._pod, handle) if one.verdict is Verdict.DEVIATES]
        if early:
            return early
        before = self._neighbours(self._pod)
        yield
        container = after()
        state = self.runtime.status(handle, deadline=soon()).state
        found = [
            observed("state", ContainerState.RUNNING.value, state.value),
            *self._shown(container, self._pod, handle),
            *self._kept(before, self._neighbours(self._pod)),
        ]
        yield
        return found

    def _asked_for(self, resources: ContainerResources) -> RequestedContainer:
        return requested(resources, self.kubelet.runtimes, self.kubelet.host)

    def _systemctl(self, *words: str) -> None:
        target = self.tree.target
        checked(target.run(["systemctl", *words], deadline=Deadline.after(RESTART_SECONDS)), where=target.address)

    def _resettle(self, verb: str) -> None:
        """Let systemd load its units anew, and do what it then finds to do.

        It writes the files of all units that it put down for that before it answers the next request (manager_loop in
        src/core/manager.c); the second is for what it puts down while it does so.
        """
        self._systemctl(verb)
        for _ in range(2):
            self._systemctl("show", "--property=Version")

    def _restart(self) -> None:
        """Restart the service of the CRI runtime."""
        self._systemctl("restart", self.kubelet.runtimes.cri.runtime.value.replace("-", ""))

    def _let_answer(self, handle: ContainerHandle) -> None:
        """Wait until the daemon answers for a container again."""
        deadline = Deadline.after(RESTART_SECONDS)

        def answers() -> bool:
            try:
                self.runtime.status(handle, deadline=deadline)
            except MachineryError:
                # A daemon that starts refuses connections at first, and then has not read its containers yet.
                return False
            return True

        wait("the runtime's daemon answers again", answers, deadline=deadline)


def _all_stand() -> None:
    """Nothing happens but that."""


def _all_are_seen() -> None:
    """Nor here."""


def _one_of_several() -> str:
    """A name that no other container of the pod has."""
    return f"{NAME}-{uuid.uuid4().hex[:8]}"


def _without_groups_beside(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Without memory.oom.group of the neighbours, which a kubelet asks for: systemd resets it, a claim of its own."""
    return [one for one in findings if one.subject == SUBJECT or one.knob != Knob.MEMORY_OOM_GROUP]
