"""Fakes whose containers live through restarts of systemd and of the daemon, and what is asked of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from memqos.clock import Deadline
from memqos.engine.answer.finding import Finding
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.errors import MachineryError
from memqos.model.node import CgroupDriver
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.node.requests.lifecycle import LifecycleVerbs
from memqos.place.fake import FakePlace
from tests.unit.node.asked import CATALOGUE, Asked

EVERYTHING = CATALOGUE.request("everything")
Verb = Callable[[LifecycleVerbs], Sequence[Finding]]


class Lives(Asked):
    """A fake on a machine whose systemd and daemon can be restarted, without leftovers."""

    def __init__(self, place: FakePlace, driver: CgroupDriver) -> None:
        super().__init__(place, driver)
        self.left: list[str] = []
        self.looks = 0
        self.down = 0
        place.target.on(("systemctl",), self.systemctl)
        ends = place.target.script(("sh", "-c"))
        place.target.on(
            ("sh", "-c"),
            lambda words, stdin, deadline: (
                self.look()
                if "mountinfo" in words[2]
                else self.daemon(words[4])
                if "RssAnon" in words[2] and len(words) > 4
                else ends(words, stdin, deadline)
            ),
        )

    def start(self, handle: Any, *, deadline: Any) -> None:
        """Its programs use what they are asked to, at once."""
        self.fake.start(handle, deadline=deadline)
        self.cgroups.show(self.path(handle), "memory.current", f"{32 << 20}\n")
        self.cgroups.show(self.path(handle), "memory.stat", f"anon {16 << 20}\nfile {16 << 20}\n")

    def systemctl(self, words: Sequence[str], _: bytes, __: Deadline) -> tuple[int, bytes, bytes]:
        if words[1] == "restart":
            self.down = 2
        self.happened(words)
        return 0, b"", b""

    def happened(self, words: Sequence[str]) -> None:
        """What it does to the last container."""

    def look(self) -> tuple[int, bytes, bytes]:
        return 0, "".join(f"{line}\n" for line in ["mounts /", *self.left]).encode(), b""

    def daemon(self, names: str) -> tuple[int, bytes, bytes]:
        self.looks += 1
        return 0, b"%d\n" % self.size(names), b""

    def size(self, names: str) -> int:  # noqa: ARG002 - of any daemon
        """The anonymous memory of its daemon, which goes up and down."""
        return (40 << 20) + (self.looks % 3 << 20)

    def status(self, handle: Any, *, deadline: Any) -> Any:
        if self.down:
            self.down -= 1
            raise MachineryError("it does not answer.")
        return self.fake.status(handle, deadline=deadline)


PASSING_HUGE_PAGES = dataclasses.replace(TRIXIE, hugetlb=True)
"""containerd with disable_hugetlb_controller = false, as the machines of memqos have it."""


def asked(
    verb: Verb,
    kind: type[Lives] = Lives,
    driver: CgroupDriver = CgroupDriver.SYSTEMD,
    *,
    parallel: int = 1,
    runtimes: Runtimes = PASSING_HUGE_PAGES,
) -> Sequence[Finding]:
    place = FakePlace(runtimes=PASSING_HUGE_PAGES)
    runtime: Any = kind(place, driver)
    node = node_on(place, runtime, recorder=NoRecorder(), driver=driver, runtimes=runtimes, parallel=parallel)
    with node.requests_as(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none"), LifecycleVerbs) as life:
        return verb(life)
