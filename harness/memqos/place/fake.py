"""A place in memory: for developing suites without a machine, and for tests of memqos itself.

Its runtime does what memqos believes of containerd and runc, its cgroups round as a kernel does, and nothing runs in
it, so it can only agree with memqos: it never gives conformance results.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from memqos.clock import Deadline
from memqos.engine.translate.versions import TRIXIE, RuntimeName, Runtimes
from memqos.errors import MachineryError
from memqos.model.knob import Knob, Text
from memqos.model.node import CgroupDriver, CgroupVersion, NodeFacts, NumaZone
from memqos.model.read_back import read_back
from memqos.place.base import KeptPlace, OciProgram, OfferedRuntime, PlaceState, RequestRecorder, Sources, offered
from memqos.place.fake_guest import FakeAgent, FakeSampler
from memqos.place.health import Health
from memqos.probe.facts import TargetFacts
from memqos.runtime.fake import FakeRuntime
from memqos.runtime.fake_cgroups import FAKE_HIERARCHY, FAKE_LEGACY, FakeCgroups
from memqos.runtime.fake_docker import FakeDockerRuntime
from memqos.runtime.fake_oci import FakeOciRuntime
from memqos.target.fake import FakeAnswer, FakeTarget

__all__ = ["FAKE_FACTS", "FAKE_RUNTIME", "FakePlace"]

_GIB = 1 << 30

FAKE_FACTS = NodeFacts(
    memory=2 * _GIB,
    swap=_GIB // 2,
    cpus=2,
    zones=tuple(NumaZone(id=number, memory=_GIB, cpus=(number,)) for number in (0, 1)),
    hugepage_sizes=(),
    kernel="6.12",
)
"""Two zones of 1 GiB with a CPU each, and half a GiB of swap."""

_KINDS: Mapping[RuntimeName, type[FakeRuntime]] = {
    RuntimeName.DOCKER: FakeDockerRuntime,
    RuntimeName.BUNDLES: FakeOciRuntime,
}

FAKE_RUNTIME = "fake"
"""The one runtime of a fake place."""


class FakePlace:
    """The Place port in memory. runtimes: of which CRI and OCI runtime its runtime is the likeness.

    Pods with init containers never come up on it: nothing runs, so none ends.
    """

    def __init__(self, *, facts: NodeFacts = FAKE_FACTS, runtimes: Runtimes = TRIXIE) -> None:
        legacy = facts.cgroup_version is CgroupVersion.V1
        hierarchy = FAKE_LEGACY if legacy else FAKE_HIERARCHY
        zones = str(read_back(Knob.CPUSET_MEMS, Text(",".join(str(zone.id) for zone in facts.zones)), facts.page_size))
        self._cgroups = FakeCgroups(page_size=facts.page_size, hierarchy=hierarchy, zones=zones)
        self._engines = runtimes
        self._runtimes: dict[CgroupDriver, FakeRuntime] = {}
        self._target = FakeTarget(
            files={"/proc/sys/kernel/osrelease": f"{facts.kernel}\n".encode()},
            mounts=self._cgroups.mounts,
            commands={
                **self._cgroups.commands(),
                **FakeAgent(self._cgroups).commands(),
                ("sh", "-c"): self._end_containers,
                ("systemctl", "show", "--property=DefaultTasksMax"): lambda *_: (0, b"DefaultTasksMax=2354\n", b""),
            },
        )
        self.facts = TargetFacts(
            node=facts, hierarchy=hierarchy, controllers=frozenset({"memory"}), pressure=not legacy
        )
        self.sampler = FakeSampler(self._cgroups, self._target)
        self.is_disposable = False
        self.origin = ""
        self.evidence = Sources()
        self.provenance: Mapping[str, object] = {"kind": "in memory"}
        self._health = Health()

    @property
    def target(self) -> FakeTarget:
        """Files in a dictionary and cgroups in memory."""
        self.check_alive()
        return self._target

    @property
    def runtimes(self) -> Mapping[str, OfferedRuntime]:
        """The one, under either driver."""
        offer = OfferedRuntime(
            name=FAKE_RUNTIME,
            socket="",
            handlers=dict.fromkeys(CgroupDriver, ""),
            oci=OciProgram(name=FAKE_RUNTIME, version="0"),
        )
        return {offer.name: offer}

    def runtime(self, driver: CgroupDriver) -> FakeRuntime:
        """The runtime under this driver: one and the same for as long as the place is there."""
        if driver not in self._runtimes:
            kind = _KINDS.get(self._engines.cri.runtime, FakeRuntime)
            self._runtimes[driver] = kind(self._cgroups, driver=driver, runtimes=self._engines)
        return self._runtimes[driver]

    @contextlib.contextmanager
    def connect(
        self,
        runtime: str,
        driver: CgroupDriver,
        *,
        record: RequestRecorder,  # noqa: ARG002 - what is asked in memory leaves no record
        deadline: Deadline,  # noqa: ARG002 - nothing takes time here
    ) -> Iterator[FakeRuntime]:
        """Speak to it."""
        self.check_alive()
        offered(self, runtime, driver)
        yield self.runtime(driver)

    def break_down(self, error: MachineryError) -> None:
        """From now on this is its failure."""
        self._health.fail(error)

    def check_alive(self) -> None:
        """Raise its failure."""
        self._health.check()

    def examine(self, error: MachineryError) -> None:  # noqa: ARG002 - there is nothing that would not be known
        """Raise its failure."""
        self.check_alive()

    @property
    def condition(self) -> PlaceState:
        """As it was told."""
        return self._health.condition

    @property
    def spoilt(self) -> str:
        """As it was told."""
        return self._health.spoilt

    def spoil(self, reason: str) -> None:
        """Remember the first reason."""
        self._health.spoil(reason)

    def origin_is_whole(self) -> bool:
        """It was made of nothing."""
        return True

    def keep(self) -> KeptPlace:
        """It cannot be kept."""
        raise MachineryError("a place in memory ends with the process that it is in.")

    def _end_containers(self, words: Sequence[str], _: bytes, __: Deadline) -> FakeAnswer:
        """The kernel's kill of the processes of some cgroups; the words behind the script name their folders."""
        folders = {word.removesuffix("/cgroup.kill") for word in words[4:]}
        for runtime in self._runtimes.values():
            runtime.finish_all(folders)
        return 0, b"", b""
