"""Pods that come and go: what they leave behind, and whether the runtime's daemon grows with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

from memqos.clock import Deadline, wait
from memqos.engine.answer.finding import Finding
from memqos.engine.translate.versions import RuntimeName
from memqos.errors import DeadlineError
from memqos.model.cri import ContainerResources
from memqos.node.requests.containers import Containers, observed
from memqos.node.requests.inventory import Inventory, anonymous_memory_of, inventory_of
from memqos.node.requests.verbs import verb

__all__ = ["Churning"]

GONE_SECONDS = 15.0
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


@dataclass
class _Churn:
    """Pods that came and went. before: what was there. gone: how many. left: by how many what was left of them.

    sizes: the daemon's by the number of the pod that went last.
    """

    before: Inventory
    gone: int = 0
    left: dict[int, Inventory] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)


class Churning(Containers):
    """The verbs of suites about pods that come and go; each gives the findings of one claim."""

    @verb
    def left_by_few(self, kind: str) -> Sequence[Finding]:
        """What a few pods with a container each leave that came and went. kind: a field of Inventory."""
        return [self._left_over(kind, FEW)]

    @verb
    def left_by_many(self, kind: str) -> Sequence[Finding]:
        """The same of many, of which those few are the first if they came and went."""
        return [self._left_over(kind, MANY)]

    @verb
    def daemon_after_many(self) -> Sequence[Finding]:
        """The daemon's anonymous memory while many pods came and went: it does not grow with them."""
        cri = self.kubelet.runtimes.cri
        if cri.called or cri.runtime not in DAEMONS:
            return [_grown("", f"which processes are the daemon of {self.runtime.name} is not known")]
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
        """What so many sandboxes and containers left behind, of which some may have come and gone already."""
        churn = self._churn
        if times not in churn.left:
            self._come_and_go(range(churn.gone, times))
            churn.gone = max(churn.gone, times)
            churn.left[times] = self._left_since(churn.before)
        return churn.left[times]

    def _come_and_go(self, numbers: range) -> None:
        """Pods with these numbers; of the first and last of many the daemon's size is kept."""
        programs = DAEMONS.get(self.kubelet.runtimes.cri.runtime, ())

        def comes_and_goes(number: int) -> None:
            with self._second_sandbox(f"churn-{number}") as sandbox, self._running(_NOTHING, sandbox=sandbox):
                pass
            if programs and not SETTLING <= number < MANY - LAST:
                self._churn.sizes[number] = anonymous_memory_of(self.tree.target, programs)

        with ThreadPoolExecutor(max_workers=self.parallel, thread_name_prefix="churn") as pool:
            try:
                for one in [pool.submit(comes_and_goes, number) for number in numbers]:
                    one.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _left_since(self, before: Inventory) -> Inventory:
        """What is left after some time that is given it."""
        try:
            return wait(
                "nothing is left of pods that are gone",
                lambda: self._inventory().beyond(before),
                until=lambda left: not left,
                deadline=Deadline.after(GONE_SECONDS),
            )
        except DeadlineError:
            return self._inventory().beyond(before)

    def _inventory(self) -> Inventory:
        return inventory_of(self.tree.target, self.tree.hierarchy.folder(self._pod.planned.cgroup.path))


def _grown(seen: str, why_not: str = "") -> Finding:
    expected = f"no, or by {GROWTH >> 20} MiB at most"
    return observed("growth of the daemon", expected, expected if seen == "no" else seen, why_not=why_not)
