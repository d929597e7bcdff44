"""Mutants in memory: each gets a new fake runtime, or a new enactor over it, with its fault.

Faults of OCI runtimes change the fake's requests and writes as the program in a machine does.
"""

from __future__ import annotations

import contextlib
import fnmatch
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from memqos.claims import Claim
from memqos.clock import Deadline
from memqos.engine.translate.resources import OciResources
from memqos.engine.translate.runtimes import BUNDLES, TRIXIE, Runtimes
from memqos.engine.translate.versions import RuntimeName, traits_of
from memqos.errors import RuntimeCallError
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.model.pod import ContainerKind
from memqos.mutants import cri_server
from memqos.mutants.cri_server import WrongServer
from memqos.mutants.programs.oci_runtime import Counts, applies, changed, write_all
from memqos.mutants.rigs import Catalogue, PlanUnderMutant, RequestsUnderMutant, unmarked
from memqos.mutants.table import Mutant, OciFault, PlanFault
from memqos.mutants.trial import SystemUnderMutant
from memqos.mutants.wrong_enactor import Switch
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.node.node_under_test import NodeUnderTest
from memqos.place.fake import FakePlace
from memqos.runtime.base import ContainerHandle
from memqos.runtime.fake import FakeRuntime
from memqos.runtime.fake_cgroups import FakeCgroups

__all__ = ["FakeRig", "imitated_traits"]

_VERBS = {"StartContainer": "create", "UpdateContainerResources": "update", "update": "update"}
"""The OCI runtime verb for each method of the fake; its start also creates."""
_OF_PROGRAMS = frozenset(
    {
        "uses", "uses_under_load", "stats_in_time", "pod_uses", "pod_uses_under_load", "pod_counts_uses", "lists_uses",
        "lists_uses_under_load", "lists_pod_uses", "lists_pod_uses_under_load", "lists_pod_counts_uses",
        "exec_is_charged", "exec_is_bound", "oom_kill_reported", "group_is_killed", "limited_below_use",
        "updated_in_use",
    }
)  # fmt: skip
"""The verbs of claims about what a program in a container does."""
_ACTS = frozenset({"late", "loop", "acts", "unit", "spec", "answer", "restores", "parent", "options", "of", "program"})


def missing_part(fault: OciFault) -> str:
    """The part of a fault that the fake lacks; "" if it has all of it."""
    given = [name for name in sorted(_ACTS) if getattr(fault, name)]
    given += [name for name in ("age", "uses") if getattr(fault.only, name)]
    return f"the fakes have no '{given[0]}'" if given else ""


def plant_runtime(runtime: FakeRuntime, cgroups: FakeCgroups, fault: OciFault) -> None:
    """Add a fault to the OCI runtime of this fake from now on."""
    planted = _FaultyRuntime(runtime, cgroups, fault.document())
    runtime.write_as_oci = planted.write  # type: ignore[method-assign]
    runtime.exec = planted.exec  # type: ignore[method-assign]
    runtime.remove = planted.remove  # type: ignore[method-assign]
    cgroups.run_in = planted.run_in  # type: ignore[method-assign]


class _Cgroup:
    """A container's cgroup, with the interface of the program's `Folder`."""

    def __init__(self, cgroups: FakeCgroups, path: CgroupPath) -> None:
        self._cgroups, self._path = cgroups, path

    def at(self, level: str) -> Iterator[_Cgroup]:
        """The cgroups of a level, relative to this container."""
        scope = self._path.parent if self._path.name == "container" else self._path
        if level in {"container", "scope"}:
            yield _Cgroup(self._cgroups, self._path if level == "container" else scope)
        elif level == "siblings":
            for path in self._cgroups.below([scope.parent]):
                inner = path.name == "container"
                own = path.parent if inner else path
                if (
                    own.parent == scope.parent
                    and own != scope
                    and (inner or path.child("container") not in self._cgroups)
                ):
                    yield _Cgroup(self._cgroups, path)
        else:
            path = scope.parent
            for _ in range({"pod": 0, "class": 1, "node": 2}[level]):
                path = path.parent
            yield _Cgroup(self._cgroups, path)

    def write(self, name: str, text: str) -> None:
        """Write a value as the kernel accepts it; with a sign it is added to the current amount."""
        if text.startswith(("+", "-")):
            held = self._cgroups.text(self._path, name).strip()
            if not held.isdecimal():
                return
            text = str(int(held) + int(text))
        self._cgroups.put(self._path, name, text)


class _FaultyRuntime:
    """A fault in a fake: the history of its containers, and the fake's original methods."""

    def __init__(self, runtime: FakeRuntime, cgroups: FakeCgroups, fault: dict[str, Any]) -> None:
        self._fault = fault
        self._cgroups = cgroups
        self._runtime = runtime
        self._write, self._exec, self._remove = runtime.write_as_oci, runtime.exec, runtime.remove
        self._run_in = cgroups.run_in
        self._numbers: Counter[CgroupPath] = Counter()
        self._deleted: Counter[CgroupPath] = Counter()
        self._counts: dict[CgroupPath, Counts] = {}
        self._started: CgroupPath | None = None

    def write(
        self, method: str, cgroup: CgroupPath, asked: OciResources, stored: OciResources | None = None
    ) -> CgroupPath:
        """The fake's method with the fault. method: "RunPodSandbox" for a sandbox."""
        verb, sandbox = _VERBS.get(method, "create"), method == "RunPodSandbox"
        if sandbox != bool(self._fault.get("sandbox")):
            return self._write(method, cgroup, asked, stored)
        counts = self._counted(cgroup, verb)
        document: dict[str, Any] = asked.document()
        wrong = applies(self._fault, verb, counts, document)
        if wrong and self._fault.get("skip"):
            return cgroup
        if wrong and self._fault.get("fail") == "before":
            raise _failure(method)
        if wrong:
            changed(document, self._fault.get("change", []))
        holder = self._write(method, cgroup, resources_of(document), stored)
        also_starts = verb == "create" and applies(self._fault, "start", counts, document)
        if wrong or also_starts:
            write_all(self._fault, _Cgroup(self._cgroups, holder))
        if wrong and self._fault.get("fail") == "after":
            raise _failure(method)
        return holder

    def _counted(self, cgroup: CgroupPath, verb: str) -> Counts:
        pod = cgroup.parent
        if verb == "create":
            self._numbers[pod] += 1
            self._counts[cgroup] = Counts(number=self._numbers[pod], again=self._deleted[pod] > 0)
            self._started = cgroup
        else:
            self._counts.setdefault(cgroup, Counts()).updates += 1
        return self._counts[cgroup]

    def run_in(self, path: CgroupPath, oom_score_adj: int) -> None:
        """The first process of a container, whose oom_score_adj the fault may change."""
        process = {"oomScoreAdj": oom_score_adj}
        counts = self._counts.get(self._started) if self._started is not None else None
        if counts is not None and self._started in {path, path.parent} and applies(self._fault, "create", counts, {}):
            changed(process, self._fault.get("process", []))
        self._run_in(path, process.get("oomScoreAdj", 0))

    def exec(
        self, container: ContainerHandle, argv: tuple[str, ...], *, deadline: Deadline
    ) -> tuple[int, bytes, bytes]:
        """The fake's method, followed by the fault's writes."""
        answer = self._exec(container, argv, deadline=deadline)
        cgroup = self._runtime.cgroup_of(container)
        self._counts.setdefault(cgroup, Counts()).entered = True
        self._happened("exec", cgroup)
        return answer

    def remove(self, container: ContainerHandle, *, deadline: Deadline) -> None:
        """The same."""
        try:
            cgroup = self._runtime.cgroup_of(container)
        except RuntimeCallError:
            cgroup = None
        self._remove(container, deadline=deadline)
        if cgroup is not None:
            self._happened("delete", cgroup)
            self._deleted[cgroup.parent] += 1

    def _happened(self, verb: str, cgroup: CgroupPath) -> None:
        counts = self._counts.get(cgroup)
        if counts is not None and applies(self._fault, verb, counts, {}):
            inner = cgroup.child("container")
            write_all(self._fault, _Cgroup(self._cgroups, inner if inner in self._cgroups else cgroup))


def resources_of(document: Mapping[str, Any]) -> OciResources:
    """linux.resources as the engine's type."""
    memory, cpu = document.get("memory") or {}, document.get("cpu") or {}
    return OciResources(
        memory_limit=memory.get("limit"),
        memory_reservation=memory.get("reservation"),
        memory_swap=memory.get("swap"),
        check_before_update=memory.get("checkBeforeUpdate"),
        cpu_shares=cpu.get("shares"),
        cpu_quota=cpu.get("quota"),
        cpu_period=cpu.get("period"),
        cpus=cpu.get("cpus"),
        mems=cpu.get("mems"),
        hugepage_limits=tuple((one["pageSize"], one["limit"]) for one in document.get("hugepageLimits") or ()),
        unified=document.get("unified") or {},
    )


def _failure(method: str) -> RuntimeCallError:
    details = "it did not work"
    return RuntimeCallError(details, data={"method": method, "code": "UNKNOWN", "details": details})


def imitated_traits(runtime: str) -> Runtimes:
    """The traits that the fake imitates for a runtime's name: "containerd+crun", "oci:runc".

    containerd passes limits of huge pages on, as the machines' containerd is configured to.
    """
    oci = TRIXIE.oci if runtime.endswith("runc") else traits_of(RuntimeName.CRUN, "1.21")
    return Runtimes(cri=BUNDLES if runtime.startswith("oci:") else TRIXIE.cri, oci=oci, hugetlb=True)


class FakeRig:
    """A rig in memory. runtime: the name of the imitated_traits runtime."""

    lanes = 1
    pool = None

    def __init__(self, runtime: str, driver: CgroupDriver, catalogue: Catalogue) -> None:
        self.name = f"fake of {runtime}"
        self._runtime, self._driver, self._catalogue = runtime, driver, catalogue
        self._runtimes = imitated_traits(runtime)
        self._switch = Switch(catalogue.kubelets)
        self.case_choice = catalogue.case_choice(self._runtimes, patient=False)
        self._plain, _ = self._node(None)

    def why_not(self, mutant: Mutant) -> str:
        """Why this mutant cannot run on the fakes or this runtime; "" if it can."""
        if mutant.runtimes and not any(fnmatch.fnmatch(self._runtime, one) for one in mutant.runtimes):
            return f"it is only for {' and '.join(mutant.runtimes)}"
        if mutant.driver not in {"", str(self._driver)}:
            return f"it is only for the {mutant.driver} driver"
        if not mutant.fake or mutant.machine is not None:
            return "the fakes do not have this fault"
        if mutant.cri is not None and self._runtime.startswith("oci:"):
            return "no CRI server is above the runtime"
        if mutant.oci is None:
            waits = mutant.plan is not None and any(map(self._has_init_containers, mutant.plan.pods))
            return "init containers do not end on the fakes" if waits else ""
        missing = [one.file for one in mutant.oci.write if one.file not in self._files]
        return f"the fakes have no {missing[0]}" if missing else missing_part(mutant.oci)

    def _has_init_containers(self, pod: str) -> bool:
        return any(one.kind is ContainerKind.INIT for one in self._catalogue.pod(pod).init_containers)

    @cached_property
    def _files(self) -> frozenset[str]:
        """The interface files of a cgroup below the root."""
        cgroups, one = FakePlace(runtimes=self._runtimes).cgroups, CgroupPath.parse("/system.slice")
        cgroups.make(one)
        return frozenset(cgroups.snapshot()[one])

    def lacks(self, claim: Claim) -> str:
        """As `Rig.lacks` of the node."""
        if claim.asks is not None and claim.asks.verb in _OF_PROGRAMS:
            return "the fakes run no programs that use memory"
        return next((why for need in claim.needs if (why := self._plain.why_not(need))), "")

    def is_exclusive(self, mutant: Mutant) -> bool:  # noqa: ARG002 - each has a node of its own
        """None is."""
        return False

    @contextlib.contextmanager
    def under(self, mutant: Mutant | None, lane: int) -> Iterator[SystemUnderMutant]:  # noqa: ARG002
        """A node in memory, made for the mutant."""
        node, plant = self._node(mutant, at_once=mutant is not None and mutant.needs_new_pod)
        if mutant is not None and mutant.plan is not None:
            self._switch.fault = mutant.plan
            try:
                yield PlanUnderMutant(node, mutant.plan, self._catalogue, unmarked, self._switch)
            finally:
                self._switch.fault = PlanFault()
            return
        pod, kubelet = self._catalogue.pod("best-effort"), self._catalogue.kubelet("v1.36-none")
        with node.requests_of_each([pod], kubelet) as [pod_requests]:
            plant()
            yield RequestsUnderMutant(pod_requests, self._catalogue, unmarked)

    def _node(self, mutant: Mutant | None, *, at_once: bool = True) -> tuple[NodeUnderTest, Callable[[], None]]:
        """A new node and the switch for its fault; at_once: set the fault right away."""
        place = FakePlace(runtimes=self._runtimes)
        runtime = place.runtime(self._driver)

        def plant() -> None:
            if mutant is not None and mutant.oci is not None:
                plant_runtime(runtime, place.cgroups, mutant.oci)
            elif mutant is not None and mutant.cri is not None:
                server.set_fault(mutant.cri)

        server = WrongServer()
        if mutant is not None and mutant.cri is not None:
            cri_server.plant_server(runtime, server)

        if at_once:
            plant()
        node = node_on(
            place,
            runtime,
            recorder=NoRecorder(),
            driver=self._driver,
            runtimes=self._runtimes,
            enactor=self._switch.enactor,
        )
        return node, plant if not at_once else lambda: None
