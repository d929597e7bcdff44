"""Docker's stats compared with the kernel's files, in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.errors import UsageError
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.node.requests.reported import stats_findings
from memqos.place.fake import FakePlace
from memqos.runtime.base import ContainerHandle, ContainerSpec, SandboxSpec
from memqos.runtime.fake import FakeDockerRuntime

RUNTIMES = Runtimes(cri=traits_of("docker", "26.1.5"), oci=TRIXIE.oci)
POD = CgroupPath.parse("/pod")
SANDBOX = SandboxSpec(name="p", namespace="n", uid="1", cgroup_parent=str(POD), log_directory="/l")
CONTAINER = ContainerSpec(name="a", image="memqos.local/memload:1")
STAT = "anon 41943040\nfile 4096\nkernel_stack 16384\n"
TOLD: Mapping[str, Any] = {
    "memory_stats": {
        "usage": 50000000,
        "limit": 134217728,
        "stats": {"anon": 41943040, "file": 4096, "kernel_stack": 16384},
    }
}


class Messenger(FakeDockerRuntime):
    """Returns a test's stats."""

    told: Mapping[str, Any] = TOLD

    def stats(self, container: ContainerHandle, *, deadline: Deadline) -> Mapping[str, object]:  # noqa: ARG002
        return self.told


def soon() -> Deadline:
    return Deadline.after(5)


def judged(told: Mapping[str, Any], *, stat: str = STAT) -> Sequence[Finding]:
    place = FakePlace(runtimes=RUNTIMES)
    cgroups = place.cgroups
    cgroups.make(POD)
    runtime = Messenger(cgroups, driver=CgroupDriver.CGROUPFS, runtimes=RUNTIMES)
    runtime.told = told
    sandbox = runtime.run_sandbox(SANDBOX, deadline=soon())
    handle = runtime.create_as(sandbox, CONTAINER, {"Memory": 134217728, "MemorySwap": 134217728}, deadline=soon())
    runtime.start(handle, deadline=soon())
    path = RUNTIMES.layout(CgroupDriver.CGROUPFS).container(POD, handle.id)
    cgroups.show(path, "memory.current", "50000000\n")
    if stat:
        cgroups.show(path, "memory.stat", stat)
    return stats_findings(
        runtime, CgroupTree(place.target, cgroups.hierarchy), handle, path, page_size=4096, deadline=soon()
    )


def with_memory(**changes: Any) -> Mapping[str, Any]:
    return {"memory_stats": {**TOLD["memory_stats"], **changes}}


def test_stats_that_agree() -> None:
    found = judged(TOLD)
    assert [finding.knob for finding in found] == [
        "stats usage", "stats limit", "stats anon", "stats file", "stats kernel_stack",
    ]  # fmt: skip
    assert {finding.verdict for finding in found} == {Verdict.CONFORMS}
    assert (found[0].expected, found[1].expected) == ("from 49737856 to 50262144", "134217728")


@pytest.mark.parametrize(
    ("told", "knobs"),
    [
        (with_memory(usage=49737856), set()),
        (with_memory(usage=49737855), {"stats usage"}),
        (with_memory(usage=50262145), {"stats usage"}),
        (with_memory(limit=134217729), {"stats limit"}),
        (with_memory(stats={"anon": 0, "file": 4096, "kernel_stack": 16384}), {"stats anon"}),
        (with_memory(stats=None), {"stats anon", "stats file", "stats kernel_stack"}),
        ({}, {"stats usage", "stats limit", "stats anon", "stats file", "stats kernel_stack"}),
    ],
)
def test_stats_that_do_not(told: Mapping[str, Any], knobs: set[str]) -> None:
    assert {finding.knob for finding in judged(told) if finding.verdict is Verdict.DEVIATES} == knobs


def test_a_missing_file_is_not_observable() -> None:
    found = {finding.knob: finding for finding in judged(TOLD, stat="")}
    assert found["stats anon"].verdict is Verdict.NOT_OBSERVABLE
    assert found["stats usage"].verdict is Verdict.CONFORMS


def test_another_runtime_has_none() -> None:
    place = FakePlace()
    with pytest.raises(UsageError, match="fake reports no stats"):
        stats_findings(
            place.runtime(CgroupDriver.CGROUPFS),
            CgroupTree(place.target, place.cgroups.hierarchy),
            ContainerHandle(id="a", name="a", sandbox=None, log_path=""),  # type: ignore[arg-type]
            POD,
            page_size=4096,
            deadline=soon(),
        )
