"""What happens in a container's life that is no request: restarts of what stands around it, and other containers.

Every file must hold afterwards what was asked for, as before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from memqos.catalog.requests import RequestCase
from memqos.clock import SYSTEM_CLOCK, Deadline, wait
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.translate.requested import RequestedContainer, requested, requested_again
from memqos.engine.translate.versions import RuntimeName
from memqos.errors import DeadlineError, MachineryError
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.node.pods.refusing import SUBJECT
from memqos.node.requests.containers import Containers, observed, soon
from memqos.node.requests.inventory import Inventory, anonymous_memory_of, inventory_of
from memqos.runtime.base import ContainerHandle, ContainerState
from memqos.target.base import checked
from memqos.workload.command import PROGRAM, Exit, arguments

__all__ = ["Life"]

RESTART_SECONDS = 120.0
RESETTLED_SECONDS = 3.0
"""After which systemd has written what it writes once it was loaded anew; it says so to nobody."""
UNASKED_SECONDS = 3.0
"""How long a container is left alone, to see whether its values stay."""
GONE_SECONDS = 15.0
ASKED_OFTEN = 20
"""How many times stats are asked for in a row."""
FEW, MANY = 3, 50
"""Pods that come and go, as many at a time as are started at a time."""
SETTLING, LAST = 20, 5
"""During how many of the first a daemon comes to have all that it keeps, and how many of the last show what is more."""
GROWTH = 8 << 20
"""Bytes that it may have more at the end: a collector of garbage is not always of one mind."""

DAEMONS: Mapping[RuntimeName, Sequence[str]] = {
    RuntimeName.CONTAINERD: ("containerd",),
    RuntimeName.CRIO: ("crio",),
    RuntimeName.DOCKER: ("dockerd", "containerd"),
}
"""The processes of a daemon, by the names that the kernel has for them."""

_NOTHING = ContainerResources()


class Life(Containers):
    """The verbs of suites about what a container lives through; each gives the findings of one claim."""

    def systemd_reloaded(self, case: RequestCase) -> Sequence[Finding]:
        """After systemctl daemon-reload: systemd writes the files of its units anew."""
        return _without_groups_beside(self._through(case, lambda _: self._resettle("daemon-reload")))

    def systemd_replaced(self, case: RequestCase) -> Sequence[Finding]:
        """After systemctl daemon-reexec, the same with systemd itself started anew."""
        return _without_groups_beside(self._through(case, lambda _: self._resettle("daemon-reexec")))

    def daemon_restarted(self, case: RequestCase) -> Sequence[Finding]:
        """After a restart of the runtime's daemon: the container still runs, and has its values."""
        return self._through(case, self._restart_daemon)

    def updated_after_a_restart(self, case: RequestCase) -> Sequence[Finding]:
        """The first update after that changes what it names, and nothing that was asked for before."""
        with self._running(case.create) as handle:
            self._restart_daemon(handle)
            return self._shown(self._updated(handle, case), self._pod, handle)

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

    def exec_in_it(self, case: RequestCase) -> Sequence[Finding]:
        """After a program was run in it."""
        argv = (PROGRAM, *arguments([Exit()]))
        return self._through(case, lambda handle: self.runtime.exec(handle, argv, deadline=soon()))

    def asked_for_stats(self, case: RequestCase) -> Sequence[Finding]:
        """After its stats and its status were asked for many times."""

        def ask(handle: ContainerHandle) -> None:
            for _ in range(ASKED_OFTEN):
                self._cri.stats(handle, deadline=soon())
                self.runtime.status(handle, deadline=soon())

        return self._through(case, ask)

    def made_again(self, case: RequestCase) -> Sequence[Finding]:
        """After it was killed and made anew, as a kubelet does: it has its values, and none of its old counts."""
        with self._running(case.create) as handle:
            self._end(handle)
        with self._running(case.create) as handle:
            path = self._cgroup_of(handle)
            events = self._files(path, ("memory.events",))["memory.events"]
            counts = {line.split()[-1] for line in str(events).splitlines() if line.startswith("oom")}
            fresh = observed("memory.events", "0", ", ".join(sorted(counts)), cgroup=str(path))
            return [*self._shown(self._asked_for(case.create), self._pod, handle), fresh]

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

    def left_by_few(self, kind: str) -> Sequence[Finding]:
        """What a few pods with a container each leave that came and went. kind: a field of Inventory."""
        return [self._left_over(kind, self._after_few)]

    def left_by_many(self, kind: str) -> Sequence[Finding]:
        """The same of many."""
        return [self._left_over(kind, self._after_many)]

    def daemon_after_many(self) -> Sequence[Finding]:
        """The daemon's anonymous memory while many pods came and went: it does not grow with them."""
        cri = self.kubelet.runtimes.cri
        if cri.called or cri.runtime not in DAEMONS:
            return [_grown("", f"which processes are the daemon of {self.runtime.name} is not known")]
        _, sizes = self._many
        before = max(size for number, size in sizes.items() if number < SETTLING)
        after = min(size for number, size in sizes.items() if number >= MANY - LAST)
        if not before:
            return [_grown("", f"no process is called {' or '.join(DAEMONS[cri.runtime])}")]
        return [_grown("no" if after <= before + GROWTH else f"from {before} to {after} bytes")]

    def _left_over(self, kind: str, left: Inventory) -> Finding:
        return observed(kind, "nothing left", ", ".join(getattr(left, kind)) or "nothing left")

    @cached_property
    def _after_few(self) -> Inventory:
        return self._churned(FEW)[0]

    @property
    def _after_many(self) -> Inventory:
        return self._many[0]

    @cached_property
    def _many(self) -> tuple[Inventory, Mapping[int, int]]:
        return self._churned(MANY)

    def _churned(self, times: int) -> tuple[Inventory, Mapping[int, int]]:
        """What so many sandboxes and containers left behind, and the daemon's size after the first and last of them."""
        before, sizes = self._inventory(), dict[int, int]()
        programs = DAEMONS.get(self.kubelet.runtimes.cri.runtime, ())

        def comes_and_goes(number: int) -> None:
            with self._second_sandbox(f"churn-{number}") as sandbox, self._running(_NOTHING, sandbox=sandbox):
                pass
            if programs and not SETTLING <= number < times - LAST:
                sizes[number] = anonymous_memory_of(self.tree.target, programs)

        with ThreadPoolExecutor(max_workers=self.parallel, thread_name_prefix="churn") as pool:
            try:
                for one in [pool.submit(comes_and_goes, number) for number in range(times)]:
                    one.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        try:
            left = wait(
                "nothing is left of pods that are gone",
                lambda: self._inventory().beyond(before),
                until=lambda left: not left,
                deadline=Deadline.after(GONE_SECONDS),
            )
        except DeadlineError:
            left = self._inventory().beyond(before)
        return left, sizes

    def _inventory(self) -> Inventory:
        return inventory_of(self.tree.target, self.tree.hierarchy.folder(self._pod.planned.cgroup.path))

    def _through(self, case: RequestCase, happens: Callable[[ContainerHandle], object]) -> Sequence[Finding]:
        """A new container's files, and what stands beside it, after something happened."""
        with self._running(case.create) as handle:
            return self._held(self._asked_for(case.create), handle, happens)

    def _held(
        self, container: RequestedContainer, handle: ContainerHandle, happens: Callable[[ContainerHandle], object]
    ) -> Sequence[Finding]:
        """The container's files, and what stands beside it, after something happened; they were right before it."""
        early = [one for one in self._shown(container, self._pod, handle) if one.verdict is Verdict.DEVIATES]
        if early:
            return early
        before = self._neighbours(self._pod)
        happens(handle)
        state = self.runtime.status(handle, deadline=soon()).state
        return [
            observed("state", ContainerState.RUNNING.value, state.value),
            *self._shown(container, self._pod, handle),
            *self._kept(before, self._neighbours(self._pod)),
        ]

    def _asked_for(self, resources: ContainerResources) -> RequestedContainer:
        return requested(resources, self.kubelet.runtimes, self.kubelet.host)

    def _systemctl(self, *words: str) -> None:
        target = self.tree.target
        checked(target.run(["systemctl", *words], deadline=Deadline.after(RESTART_SECONDS)), where=target.address)

    def _resettle(self, verb: str) -> None:
        """Let systemd load its units anew, and do in its own time what it then finds to do."""
        self._systemctl(verb)
        SYSTEM_CLOCK.sleep(RESETTLED_SECONDS)

    def _restart_daemon(self, handle: ContainerHandle) -> None:
        """Restart the service of the CRI runtime, and wait until it answers again."""
        self._systemctl("restart", self.kubelet.runtimes.cri.runtime.value.replace("-", ""))
        deadline = Deadline.after(RESTART_SECONDS)

        def answers() -> bool:
            try:
                self.runtime.status(handle, deadline=deadline)
            except MachineryError:
                # A daemon that starts refuses connections at first, and then has not read its containers yet.
                return False
            return True

        wait("the runtime's daemon answers again", answers, deadline=deadline)


def _grown(seen: str, why_not: str = "") -> Finding:
    expected = f"no, or by {GROWTH >> 20} MiB at most"
    return observed("growth of the daemon", expected, expected if seen == "no" else seen, why_not=why_not)


def _without_groups_beside(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Without memory.oom.group of the neighbours, which a kubelet asks for: systemd resets it, a claim of its own."""
    return [one for one in findings if one.subject == SUBJECT or one.knob != Knob.MEMORY_OOM_GROUP]
