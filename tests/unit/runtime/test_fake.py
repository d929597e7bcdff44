"""The values that the fake runtime writes, as literal text: the rules of containerd 1.7 with runc 1.1."""

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from memqos.clock import Deadline
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.errors import RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.path import CgroupPath
from memqos.runtime.base import ContainerHandle, ContainerSpec, ContainerState, Runtime, SandboxSpec
from memqos.runtime.fake import FakeRuntime
from memqos.runtime.fake_cgroups import FAKE_HIERARCHY, FakeCgroups
from memqos.target.fake import RefusedError

POD = CgroupPath.parse("/pod.slice")
SPEC = SandboxSpec(name="p", namespace="n", uid="1", cgroup_parent="/pod.slice", log_directory="/l")
MI = 1 << 20


@pytest.fixture
def cgroups() -> FakeCgroups:
    cgroups = FakeCgroups()
    cgroups.make(POD)
    return cgroups


@pytest.fixture
def runtime(cgroups: FakeCgroups) -> FakeRuntime:
    return FakeRuntime(cgroups)


def soon() -> Deadline:
    return Deadline.after(5)


def started(runtime: FakeRuntime, resources: ContainerResources) -> ContainerHandle:
    sandbox = runtime.run_sandbox(SPEC, deadline=soon())
    container = runtime.create(sandbox, ContainerSpec(name="a", image="i", resources=resources), deadline=soon())
    runtime.start(container, deadline=soon())
    return container


def shown(cgroups: FakeCgroups, container: ContainerHandle, name: str) -> str:
    return cgroups.text(POD.child(f"cri-containerd-{container.id}.scope"), name)


@pytest.mark.parametrize(
    ("resources", "name", "text"),
    [
        (ContainerResources(memory_limit_in_bytes=64 * MI), "memory.max", "67108864\n"),
        (ContainerResources(memory_limit_in_bytes=64 * MI), "memory.swap.max", "0\n"),
        (ContainerResources(memory_limit_in_bytes=64 * MI, memory_swap_limit_in_bytes=-1), "memory.swap.max", "max\n"),
        (
            ContainerResources(memory_limit_in_bytes=64 * MI, memory_swap_limit_in_bytes=80 * MI),
            "memory.swap.max",
            "16777216\n",
        ),
        (ContainerResources(), "memory.max", "max\n"),
        (ContainerResources(cpu_shares=1024), "cpu.weight", "39\n"),
        (ContainerResources(cpu_quota=5000, cpu_period=100_000), "cpu.max", "5000 100000\n"),
        (ContainerResources(cpu_quota=-1, cpu_period=50_000), "cpu.max", "max 50000\n"),
        (ContainerResources(cpuset_mems="1"), "cpuset.mems", "1\n"),
        (ContainerResources(hugepage_limits=(("2MB", 0),)), "hugetlb.2MB.max", "max\n"),
        (ContainerResources(unified={"memory.high": "12345"}), "memory.high", "12288\n"),
        (
            ContainerResources(memory_limit_in_bytes=64 * MI, unified={"memory.max": "4096"}),
            "memory.max",
            "4096\n",
        ),
    ],
)
def test_what_a_container_gets(
    cgroups: FakeCgroups, runtime: FakeRuntime, resources: ContainerResources, name: str, text: str
) -> None:
    assert shown(cgroups, started(runtime, resources), name) == text


def test_other_runtimes_by_their_versions(cgroups: FakeCgroups) -> None:
    """The quadratic weight (runc 1.3.2), huge pages, and a memory limit without a swap limit (before 1.6.13)."""
    runtimes = Runtimes(cri=traits_of("containerd", "1.6.12"), oci=traits_of("runc", "1.3.2"), hugetlb=True)
    container = started(
        FakeRuntime(cgroups, runtimes=runtimes),
        ContainerResources(cpu_shares=1024, memory_limit_in_bytes=MI, hugepage_limits=(("2MB", 0),)),
    )
    assert shown(cgroups, container, "cpu.weight") == "100\n"
    assert shown(cgroups, container, "memory.swap.max") == "max\n"
    assert shown(cgroups, container, "hugetlb.2MB.max") == "0\n"


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        (ContainerResources(memory_swap_limit_in_bytes=MI), "unable to set swap limit without memory limit"),
        (
            ContainerResources(memory_limit_in_bytes=2 * MI, memory_swap_limit_in_bytes=MI),
            r"memory\+swap limit should be >= memory limit",
        ),
        (ContainerResources(unified={"memory.nonsense": "1"}), "memory.nonsense: No such file or directory"),
        (ContainerResources(unified={"memory.high": "much"}), "unified resource 'memory.high'"),
        (ContainerResources(unified={"a/b": "1"}), "must be a file name"),
        (ContainerResources(cpuset_mems="x"), "'cpuset.mems' conversion error"),
    ],
)
def test_what_runc_refuses(runtime: FakeRuntime, resources: ContainerResources, words: str) -> None:
    with pytest.raises(RuntimeCallError, match=words) as caught:
        started(runtime, resources)
    assert caught.value.where == "StartContainer"


def test_what_cri_o_refuses_itself(cgroups: FakeCgroups) -> None:
    runtime = FakeRuntime(cgroups, runtimes=Runtimes(cri=traits_of("cri-o", "1.32.0"), oci=traits_of("crun", "1.21")))
    with pytest.raises(RuntimeCallError, match="set memory limit 4096 too low") as caught:
        started(runtime, ContainerResources(memory_limit_in_bytes=4096))
    assert caught.value.where == "CreateContainer"


def test_crun_writes_below_the_scope_and_cri_o_drops_unified_in_updates(cgroups: FakeCgroups) -> None:
    runtime = FakeRuntime(cgroups, runtimes=Runtimes(cri=traits_of("cri-o", "1.32.0"), oci=traits_of("crun", "1.21")))
    container = started(runtime, ContainerResources(memory_limit_in_bytes=64 * MI, unified={"memory.min": "1048576"}))
    update = ContainerResources(memory_limit_in_bytes=32 * MI, unified={"memory.min": "2097152"})
    runtime.update(container, update, deadline=soon())
    holder = POD.child(f"crio-{container.id}.scope").child("container")
    assert cgroups.text(holder, "memory.max") == "33554432\n"
    assert cgroups.text(holder, "memory.min") == "1048576\n"


def test_an_update_without_a_swap_limit_means_no_swap(cgroups: FakeCgroups, runtime: FakeRuntime) -> None:
    container = started(runtime, ContainerResources(memory_limit_in_bytes=32 * MI, memory_swap_limit_in_bytes=64 * MI))
    runtime.update(container, ContainerResources(memory_limit_in_bytes=48 * MI), deadline=soon())
    assert shown(cgroups, container, "memory.swap.max") == "0\n"
    runtime.update(container, ContainerResources(cpu_shares=512), deadline=soon())
    assert shown(cgroups, container, "memory.max") == "50331648\n"


def test_a_sandbox_needs_its_pods_cgroup(runtime: FakeRuntime, cgroups: FakeCgroups) -> None:
    cgroups.remove(POD)
    with pytest.raises(RuntimeCallError, match="does not exist"):
        runtime.run_sandbox(SPEC, deadline=soon())


def test_a_test_can_end_a_container(runtime: FakeRuntime) -> None:
    container = started(runtime, ContainerResources())
    runtime.finish(container, exit_code=137, reason="OOMKilled")
    status = runtime.status(container, deadline=soon())
    assert (status.state, status.exit_code, status.reason) == (ContainerState.EXITED, 137, "OOMKilled")


def test_a_test_can_move_a_container(runtime: FakeRuntime, cgroups: FakeCgroups) -> None:
    container = started(runtime, ContainerResources(memory_limit_in_bytes=64 * MI))
    before = runtime.cgroup_of(container)
    runtime.misplace(container, CgroupPath.parse("/elsewhere"))
    assert (str(runtime.cgroup_of(container)), before in cgroups) == ("/elsewhere", True)
    assert runtime.state_of(container) is ContainerState.RUNNING
    assert runtime.resources_of(container).memory_limit_in_bytes == 64 * MI
    assert (runtime.container_ids, len(runtime.sandbox_ids)) == ({container.id}, 1)


def test_a_stored_specification_is_not_written(runtime: FakeRuntime, cgroups: FakeCgroups) -> None:
    container = started(runtime, ContainerResources(memory_limit_in_bytes=64 * MI))
    stored = runtime.specification_of(container)
    runtime.remember(container, replace(stored, memory_limit=32 * MI))
    assert runtime.specification_of(container).memory_limit == 32 * MI
    assert cgroups.text(runtime.cgroup_of(container), "memory.max") == f"{64 * MI}\n"


def test_the_cgroup_of_an_ended_container_stays_if_it_is_kept(runtime: FakeRuntime, cgroups: FakeCgroups) -> None:
    runtime.keeps_cgroups = True
    container = started(runtime, ContainerResources(memory_limit_in_bytes=64 * MI))
    path = runtime.cgroup_of(container)
    assert cgroups.text(path, "cgroup.procs") == "1\n"
    runtime.finish(container, exit_code=0)
    assert (cgroups.text(path, "cgroup.procs"), cgroups.text(path, "memory.max")) == ("", f"{64 * MI}\n")
    runtime.remove(container, deadline=soon())
    assert path not in cgroups


def test_a_cgroup_loses_a_file_and_earlier_readings_stay(cgroups: FakeCgroups) -> None:
    before = cgroups.snapshot()
    cgroups.lose_file(POD, "memory.min")
    assert cgroups.texts(POD, ["memory.min"]) == {"memory.min": None}
    assert before[POD]["memory.min"] == "0\n"
    with pytest.raises(KeyError):
        cgroups.lose_file(POD, "memory.min")


def test_it_is_a_runtime(runtime: FakeRuntime) -> None:
    assert isinstance(runtime, Runtime)


def test_the_kernels_own_files_cannot_be_written(cgroups: FakeCgroups) -> None:
    with pytest.raises(RefusedError, match="Permission denied"):
        cgroups.put(POD, "memory.current", "0")


def test_cgroups_come_and_go_while_others_look(cgroups):
    """Every iteration sees a snapshot of the cgroups, however often threads take turns."""
    for number in range(100):
        cgroups.make(POD.child(f"stays-{number}"))
    stays = cgroups.below([POD])
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def come_and_go() -> None:
        for number in range(100):
            cgroups.make(POD.child(f"container-{number}"))
            cgroups.remove(POD.child(f"container-{number}"))

    def look() -> None:
        for _ in range(100):
            cgroups.below([POD])
            cgroups.list(FAKE_HIERARCHY.folder(POD))

    try:
        with ThreadPoolExecutor(max_workers=4) as pool:
            for one in [pool.submit(work) for work in (come_and_go, look, come_and_go, look)]:
                one.result()
    finally:
        sys.setswitchinterval(before)
    assert cgroups.below([POD]) == stays
