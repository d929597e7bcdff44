"""CRI servers in memory: one that speaks as a right one does, and ones that are each wrong in one way."""

# ruff: noqa: ARG002 - a wrong runtime does not look at all that it is given

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from memqos.errors import RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.runtime.base import ContainerState
from tests.unit.node.asked import Asked

MIB = 1 << 20
STAT = "anon {anon}\ninactive_file 8388608\npgfault 300\npgmajfault 2\n"


class Speaks(Asked):
    """A fake whose containers use 16 MiB of anonymous memory and as much of files, or are killed beyond their limit."""

    now = 1_800_000_000
    """Seconds of its machine's clock."""

    def __init__(self, place: Any, driver: Any) -> None:
        super().__init__(place, driver)
        place.target.on(("date", "+%s"), lambda *_: (0, b"%d\n" % self.now, b""))

    def stats(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.stats(handle, deadline=deadline)
        return {**told, "memory": {"timestamp": str(self.now * 10**9), **told["memory"]}}

    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        self.run(handle)

    def run(self, handle: Any) -> None:
        path = self.path(handle)
        for one in (path, path.parent):
            if one in self.cgroups:
                self.use(one, 16 * MIB)
        if handle.name == "requested" and str(64 * MIB) in self.args:
            self.kill(handle)

    def kill(self, handle: Any) -> None:
        self.fake.finish(handle, exit_code=137, reason="OOMKilled")

    def use(self, path: CgroupPath, anon: int) -> None:
        self.cgroups.show(path, "memory.current", f"{anon + 17 * MIB}\n")
        self.cgroups.show(path, "memory.peak", f"{anon + 18 * MIB}\n")
        self.cgroups.show(path, "memory.stat", STAT.format(anon=anon))

    def create(self, sandbox: Any, spec: Any, *, deadline: Any) -> Any:
        self.args = spec.args
        return super().create(sandbox, spec, deadline=deadline)

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.fake.update(handle, resources, deadline=deadline)
        if resources.memory_limit_in_bytes == 8 * MIB:
            self.kill(handle)

    def exec(self, handle: Any, argv: tuple[str, ...], *, deadline: Any) -> tuple[int, bytes, bytes]:
        if str(64 * MIB) not in argv:
            return self.fake.exec(handle, argv, deadline=deadline)
        path = self.path(handle)
        if self.cgroups.text(path, "memory.oom.group").strip() == "1":
            self.kill(handle)
            raise RuntimeCallError("gone.", data={"method": "exec", "code": "UNKNOWN", "details": "gone"})
        self.cgroups.show(path, "memory.events", "low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\noom_group_kill 0\n")
        return 137, b"", b""


class WrongDriver(Speaks):
    reported_driver = CgroupDriver.CGROUPFS


class PutsTheSandboxElsewhere(Speaks):
    def run_sandbox(self, spec: Any, *, deadline: Any) -> Any:
        handle = self.fake.run_sandbox(spec, deadline=deadline)
        self.cgroups.remove(self.fake.sandbox_cgroup_of(handle))
        return handle


class LimitsTheSandbox(Speaks):
    def run_sandbox(self, spec: Any, *, deadline: Any) -> Any:
        handle = self.fake.run_sandbox(spec, deadline=deadline)
        self.cgroups.put(self.fake.sandbox_cgroup_of(handle), "memory.max", "1048576")
        return handle


class LimitsThePod(Speaks):
    def run_sandbox(self, spec: Any, *, deadline: Any) -> Any:
        if spec.resources.memory_limit_in_bytes == 96 * MIB:
            self.cgroups.put(CgroupPath.parse(spec.cgroup_parent), "memory.max", str(96 * MIB))
        return self.fake.run_sandbox(spec, deadline=deadline)

    def update_sandbox(self, sandbox: Any, *, overhead: Any, resources: Any, deadline: Any) -> None:
        self.cgroups.put(
            CgroupPath.parse(sandbox.spec.cgroup_parent), "memory.max", str(resources.memory_limit_in_bytes)
        )


class LeavesTheSandbox(Speaks):
    def remove_sandbox(self, sandbox: Any, *, deadline: Any) -> None:
        """Report success."""


class DropsEarlyUpdates(Speaks):
    """It accepts updates of a container that was not started, and forgets them."""

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        if self.fake.state_of(handle) == "running":
            self.fake.update(handle, resources, deadline=deadline)


class RefusesLateUpdates(Speaks):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        if self.fake.state_of(handle) == "exited":
            raise RuntimeCallError("no.", data={"method": "update", "code": "UNKNOWN", "details": "not running"})
        self.fake.update(handle, resources, deadline=deadline)


class RaisesTheDead(Speaks):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.cgroups.make(self.path(handle))


class KeepsCgroupsOfTheDead(Speaks):
    """As CRI-O does without systemd, until the container is removed."""

    def __init__(self, place: Any, driver: Any) -> None:
        super().__init__(place, driver)
        self.fake.keeps_cgroups = True


class SaysTheOldLimit(Speaks):
    def status(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.status(handle, deadline=deadline)
        return dataclasses.replace(
            told, resources=dataclasses.replace(told.resources, memory_limit_in_bytes=64 * MIB, unified={})
        )


class SaysWhatItRefused(Speaks):
    told: ContainerResources | None = None

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.told = resources
        self.fake.update(handle, resources, deadline=deadline)

    def status(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.status(handle, deadline=deadline)
        unified = {**told.resources.unified, **(self.told.unified if self.told else {})}
        return dataclasses.replace(told, resources=dataclasses.replace(told.resources, unified=unified))


class SaysStatsTooHigh(Speaks):
    """As if it counted four megabytes of every 16 twice."""

    def stats(self, handle: Any, *, deadline: Any) -> Any:
        return _more(self.fake.stats(handle, deadline=deadline))

    def sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        told = self.fake.sandbox_stats(sandbox, deadline=deadline)["linux"]["memory"]
        return {"linux": {"memory": {name: {"value": str(int(one["value"]) + 4 * MIB)} for name, one in told.items()}}}


class ListsTooMuch(Speaks):
    """As if only the lists counted four megabytes twice."""

    def listed_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        return [_more(one) for one in self.fake.listed_stats(sandbox, deadline=deadline)]

    def listed_sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        told = self.fake.listed_sandbox_stats(sandbox, deadline=deadline)
        return [{**one, "linux": _more(one["linux"])} for one in told]

    def sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        linux = self.fake.sandbox_stats(sandbox, deadline=deadline)["linux"]
        return {"linux": {**linux, "containers": [_more(one) for one in linux["containers"]]}}


def _more(entry: Any) -> Any:
    values = {name: {"value": str(int(one["value"]) + 4 * MIB)} for name, one in entry["memory"].items()}
    return {**entry, "memory": values}


class Remembers(Speaks):
    """It answers each call with what it answered first, and memory grows between calls."""

    def __init__(self, place: Any, driver: Any) -> None:
        super().__init__(place, driver)
        self.first: dict[str, Any] = {}

    def _kept(self, name: str, ask: Callable[[], Any]) -> Any:
        answer = self.first.setdefault(name, copy.deepcopy(ask()))
        path = self.path(self.handles[-1])
        for one in (path, path.parent):
            self.use(one, 16 * MIB * (1 + len(self.asked)))
        self.asked.append(name)
        return answer

    @functools.cached_property
    def asked(self) -> list[str]:
        return []

    def listed_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        return self._kept("list", lambda: self.fake.listed_stats(sandbox, deadline=deadline))

    def sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        return self._kept("pod", lambda: self.fake.sandbox_stats(sandbox, deadline=deadline))

    def listed_sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        return self._kept("pods", lambda: self.fake.listed_sandbox_stats(sandbox, deadline=deadline))


class ListsContainersOfPodsTooHigh(Speaks):
    def listed_sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        told = self.fake.listed_sandbox_stats(sandbox, deadline=deadline)
        return [
            {**one, "linux": {**one["linux"], "containers": [_more(inner) for inner in one["linux"]["containers"]]}}
            for one in told
        ]


class ClockIsLate(Speaks):
    def stats(self, handle: Any, *, deadline: Any) -> Any:
        told = super().stats(handle, deadline=deadline)
        told["memory"]["timestamp"] = str((self.now - 10) * 10**9)
        return told


class HasNoTime(Speaks):
    def stats(self, handle: Any, *, deadline: Any) -> Any:
        return self.fake.stats(handle, deadline=deadline)


class HasNoMemory(Speaks):
    def stats(self, handle: Any, *, deadline: Any) -> Any:
        # The time is read after memory has settled.
        told = self.fake.stats(handle, deadline=deadline)
        return {name: value for name, value in told.items() if name != "memory"}


class SaysMore(Speaks):
    def status(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.status(handle, deadline=deadline)
        unified = {**told.resources.unified, "memory.low": "4096"}
        return dataclasses.replace(
            told, resources=dataclasses.replace(told.resources, memory_limit_in_bytes=MIB, unified=unified)
        )


class RunsForEver(Speaks):
    """It reports what has ended as running."""

    def status(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.status(handle, deadline=deadline)
        return dataclasses.replace(told, state=ContainerState.RUNNING) if handle.name == "requested" else told


class ListsNothing(Speaks):
    def listed_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        return []

    def listed_sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        return []

    def sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        return {"linux": {**self.fake.sandbox_stats(sandbox, deadline=deadline)["linux"], "containers": []}}


class ListsTwice(Speaks):
    def listed_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        return 2 * list(self.fake.listed_stats(sandbox, deadline=deadline))


class DoesNotList(Speaks):
    def listed_sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        raise RuntimeCallError("no.", data={"method": "list", "code": "UNIMPLEMENTED", "details": "unknown method"})


class FailsToList(Speaks):
    def listed_sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        raise RuntimeCallError("no.", data={"method": "list", "code": "UNKNOWN", "details": "failed"})


class FailsToCount(Speaks):
    def stats(self, handle: Any, *, deadline: Any) -> Any:
        raise RuntimeCallError("no.", data={"method": "stats", "code": "UNKNOWN", "details": "failed"})

    def sandbox_stats(self, sandbox: Any, *, deadline: Any) -> Any:
        raise RuntimeCallError("no.", data={"method": "stats", "code": "UNKNOWN", "details": "failed"})


class RemovesNoContainer(Speaks):
    def remove(self, handle: Any, *, deadline: Any) -> None:
        pass


class RemovesNoSandbox(Speaks):
    def remove_sandbox(self, sandbox: Any, *, deadline: Any) -> None:
        pass


class ForgetsTheScore(Speaks):
    def status(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.status(handle, deadline=deadline)
        return dataclasses.replace(told, resources=dataclasses.replace(told.resources, oom_score_adj=0))


class ForgetsHugePages(Speaks):
    def status(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.status(handle, deadline=deadline)
        return dataclasses.replace(told, resources=dataclasses.replace(told.resources, hugepage_limits=()))


class SaysTheLimitAsAvailable(Speaks):
    def stats(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.stats(handle, deadline=deadline)
        told["memory"]["available_bytes"] = {"value": str(48 * MIB)}
        return told


class SaysRssIsTheWorkingSet(Speaks):
    def stats(self, handle: Any, *, deadline: Any) -> Any:
        told = super().stats(handle, deadline=deadline)
        return {**told, "memory": {**told["memory"], "rss_bytes": told["memory"]["working_set_bytes"]}}


class SaysTheWorkingSetIsTheUsage(Speaks):
    def stats(self, handle: Any, *, deadline: Any) -> Any:
        told = super().stats(handle, deadline=deadline)
        return {**told, "memory": {**told["memory"], "working_set_bytes": told["memory"]["usage_bytes"]}}


class SaysOomKilledAlways(Speaks):
    def status(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.status(handle, deadline=deadline)
        return dataclasses.replace(told, reason="OOMKilled")


class SaysAPeriod(Speaks):
    def status(self, handle: Any, *, deadline: Any) -> Any:
        told = self.fake.status(handle, deadline=deadline)
        return dataclasses.replace(told, resources=dataclasses.replace(told.resources, cpu_period=50000))


class RefusesExecs(Speaks):
    def exec(self, handle: Any, argv: tuple[str, ...], *, deadline: Any) -> tuple[int, bytes, bytes]:
        raise RuntimeCallError("no.", data={"method": "ExecSync", "code": "UNKNOWN", "details": "failed"})


class FailsToUpdateSandboxes(Speaks):
    code = "UNKNOWN"

    def update_sandbox(self, sandbox: Any, *, overhead: Any, resources: Any, deadline: Any) -> None:
        data = {"method": "UpdatePodSandboxResources", "code": self.code, "details": "failed"}
        raise RuntimeCallError("no.", data=data)


class DoesNotUpdateSandboxes(FailsToUpdateSandboxes):
    code = "UNIMPLEMENTED"


class SaysError(Speaks):
    def kill(self, handle: Any) -> None:
        self.fake.finish(handle, exit_code=137, reason="Error")


class ExecsElsewhere(Speaks):
    """Programs that it execs are in a cgroup of their own."""

    def use(self, path: CgroupPath, anon: int) -> None:
        super().use(path, anon)
        self.cgroups.show(path, "memory.peak", f"{MIB}\n")

    def exec(self, handle: Any, argv: tuple[str, ...], *, deadline: Any) -> tuple[int, bytes, bytes]:
        return 0, b"", b""


class ScoresExecs(Speaks):
    """Programs that it execs have a score of their own."""

    def exec(self, handle: Any, argv: tuple[str, ...], *, deadline: Any) -> tuple[int, bytes, bytes]:
        self.fake.exec_score = 0
        return super().exec(handle, argv, deadline=deadline)


class FailsToExec(Speaks):
    def exec(self, handle: Any, argv: tuple[str, ...], *, deadline: Any) -> tuple[int, bytes, bytes]:
        return 126, b"", b""


class KillsAll(Speaks):
    def exec(self, handle: Any, argv: tuple[str, ...], *, deadline: Any) -> tuple[int, bytes, bytes]:
        self.cgroups.show(
            self.path(handle), "memory.events", "low 0\nhigh 0\nmax 9\noom 1\noom_kill 2\noom_group_kill 1\n"
        )
        return 137, b"", b""


class KillsTheContainerToo(Speaks):
    """A program that exec starts is killed last, for an inherited score, and the container's cgroup goes with it."""

    def exec(self, handle: Any, argv: tuple[str, ...], *, deadline: Any) -> tuple[int, bytes, bytes]:
        self.cgroups.remove(self.path(handle))
        self.fake.finish(handle, exit_code=137)
        return 137, b"", b""


class ChecksBefore(Speaks):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        raise RuntimeCallError("no.", data={"method": "update", "code": "UNKNOWN", "details": "it uses more"})


class KillsAndRefuses(ChecksBefore):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.kill(handle)
        super().update(handle, resources, deadline=deadline)


class EndsAndRefuses(ChecksBefore):
    """Like crun without a cgroup, before the daemon has noticed."""

    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.cgroups.remove(self.path(handle))
        super().update(handle, resources, deadline=deadline)


class WritesAndRefuses(ChecksBefore):
    def update(self, handle: Any, resources: ContainerResources, *, deadline: Any) -> None:
        self.fake.update(handle, resources, deadline=deadline)
        super().update(handle, resources, deadline=deadline)


class OtherCode(Speaks):
    def kill(self, handle: Any) -> None:
        self.fake.finish(handle, exit_code=1, reason="OOMKilled")
