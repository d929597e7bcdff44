"""Faults of OCI runtimes in the fake runtime: changes its requests and writes as the program in a machine does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from memqos.clock import Deadline
from memqos.engine.translate.resources import OciResources
from memqos.errors import RuntimeCallError
from memqos.model.path import CgroupPath
from memqos.mutants.programs.oci_runtime import Counts, applies, changed, write_all
from memqos.mutants.table import OciFault
from memqos.runtime.base import ContainerHandle
from memqos.runtime.fake import FakeRuntime
from memqos.runtime.fake_cgroups import FakeCgroups

__all__ = ["plant_runtime", "why_not"]

_VERBS = {"StartContainer": "create", "UpdateContainerResources": "update", "update": "update"}
"""The OCI runtime verb for each method of the fake; its start also creates."""
_ACTS = frozenset({"late", "loop", "acts", "unit", "spec", "answer", "restores", "parent", "options", "program"})


def why_not(fault: OciFault) -> str:
    """The part of a fault that the fake lacks; "" if it has all of it."""
    given = [name for name in sorted(_ACTS) if getattr(fault, name)]
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
