"""The same wrong ways without a machine: what the fake's OCI runtime is given, and what it writes, is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from memqos.engine.answer.finding import Finding
from memqos.engine.translate.resources import OciResources
from memqos.engine.translate.versions import TRIXIE
from memqos.errors import RuntimeCallError
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.node.fake import NoRecorder
from memqos.node.on_place import node_on
from memqos.place.fake import FakePlace
from memqos.runtime.fake_cgroups import FakeCgroups
from tests.unit.node.asked import Asked
from tests.unit.node.test_conversing import Speaks
from tests.unit.node.test_living import Lives
from tests.wrong_runtimes.claims import asked_on
from tests.wrong_runtimes.program import WAYS, Way

VERB_OF = {"StartContainer": "start", "UpdateContainerResources": "update"}
KIND_OF: Mapping[str, type[Asked]] = {"cri": Speaks, "lifecycle": Lives}


def resources_of(document: Mapping[str, Any]) -> OciResources:
    """linux.resources as the engine has them."""
    memory, cpu = document.get("memory", {}), document.get("cpu", {})
    return OciResources(
        memory_limit=memory.get("limit"),
        memory_reservation=memory.get("reservation"),
        memory_swap=memory.get("swap"),
        cpu_shares=cpu.get("shares"),
        cpu_quota=cpu.get("quota"),
        cpu_period=cpu.get("period"),
        cpus=cpu.get("cpus"),
        mems=cpu.get("mems"),
        hugepage_limits=tuple((one["pageSize"], one["limit"]) for one in document.get("hugepageLimits", ())),
        unified=document.get("unified", {}),
    )


class Cgroup:
    """A container's cgroup as a wrong way sees it."""

    def __init__(self, cgroups: FakeCgroups, path: CgroupPath) -> None:
        self._cgroups, self._path = cgroups, path

    @property
    def parent(self) -> Cgroup:
        return Cgroup(self._cgroups, self._path.parent)

    def siblings(self) -> Iterator[Cgroup]:
        for path in self._cgroups.below([self._path.parent]):
            if path.parent == self._path.parent and path != self._path:
                yield Cgroup(self._cgroups, path)

    def write(self, name: str, text: str) -> None:
        self._cgroups.put(self._path, name, text)


def make_wrong(runtime: Asked, way: Way) -> None:
    """Let the OCI runtime below the fake's CRI runtime be wrong in this way."""
    right, run_in = runtime.fake.write_as_oci, runtime.cgroups.run_in
    changes: Mapping[str, Callable[[Any], object] | None] = {"start": way.create, "update": way.update}
    updates: Counter[CgroupPath] = Counter()

    def write(
        method: str, cgroup: CgroupPath, resources: OciResources, stored: OciResources | None = None
    ) -> CgroupPath:
        verb = VERB_OF.get(method, "")
        updates[cgroup] += verb == "update"
        if verb in way.instead or (verb == "update" and updates[cgroup] == way.skips):
            return cgroup
        change = (way.create if way.of_sandboxes else None) if not verb else changes[verb]
        document: dict[str, Any] = resources.document()
        if change is not None and way.of_sandboxes != bool(verb):
            change(document)
        holder = right(method, cgroup, resources_of(document), stored)
        if verb in way.after:
            way.after[verb](Cgroup(runtime.cgroups, holder))
        if verb in way.refuses:
            details = "it did not work"
            raise RuntimeCallError(details, data={"method": method, "code": "UNKNOWN", "details": details})
        return holder

    def run(path: CgroupPath, oom_score_adj: int) -> None:
        process = {"oomScoreAdj": oom_score_adj}
        if way.process is not None:
            way.process(process)
        run_in(path, process.get("oomScoreAdj", 0))

    runtime.fake.write_as_oci = write  # type: ignore[method-assign]
    runtime.cgroups.run_in = run  # type: ignore[method-assign]


def judged(way: str, claim: str, driver: CgroupDriver = CgroupDriver.SYSTEMD) -> Sequence[Finding]:
    """What this claim finds of a runtime that is wrong in this way, on a node in memory."""
    place = FakePlace(runtimes=TRIXIE)
    runtime: Any = KIND_OF.get(claim.partition("/")[0], Asked)(place, driver)
    make_wrong(runtime, WAYS[way])
    node = node_on(place, runtime, recorder=NoRecorder(), driver=driver, runtimes=TRIXIE)
    with asked_on(node) as asking:
        return asking.find(claim)
