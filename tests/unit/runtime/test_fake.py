"""What the fake runtime writes, as literal text: the rules of containerd 1.7 with runc 1.1."""

import pytest

from memqos.clock import Deadline
from memqos.engine.plan import ContainerResources
from memqos.errors import RuntimeCallError
from memqos.model.path import CgroupPath
from memqos.model.traits import RuntimeTraits, WeightConversion
from memqos.runtime.base import ContainerHandle, ContainerSpec, ContainerState, Runtime, SandboxSpec
from memqos.runtime.fake import FakeRuntime
from memqos.runtime.fake_cgroups import FakeCgroups
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


def test_other_runtimes_by_their_traits(cgroups: FakeCgroups) -> None:
    traits = RuntimeTraits(name="x", weight=WeightConversion.QUADRATIC, hugetlb=True, swap_follows_memory=False)
    container = started(
        FakeRuntime(cgroups, traits=traits),
        ContainerResources(cpu_shares=1024, memory_limit_in_bytes=MI, hugepage_limits=(("2MB", 0),)),
    )
    assert shown(cgroups, container, "cpu.weight") == "100\n"
    assert shown(cgroups, container, "memory.swap.max") == "max\n"
    assert shown(cgroups, container, "hugetlb.2MB.max") == "0\n"


@pytest.mark.parametrize(
    "resources",
    [
        ContainerResources(memory_swap_limit_in_bytes=MI),
        ContainerResources(memory_limit_in_bytes=2 * MI, memory_swap_limit_in_bytes=MI),
        ContainerResources(unified={"memory.nonsense": "1"}),
        ContainerResources(unified={"memory.high": "much"}),
    ],
)
def test_what_runc_refuses(runtime: FakeRuntime, resources: ContainerResources) -> None:
    with pytest.raises(RuntimeCallError):
        started(runtime, resources)


def test_an_update_without_a_swap_limit_keeps_the_older_one(cgroups: FakeCgroups, runtime: FakeRuntime) -> None:
    container = started(runtime, ContainerResources(memory_limit_in_bytes=32 * MI, memory_swap_limit_in_bytes=64 * MI))
    runtime.update(container, ContainerResources(memory_limit_in_bytes=48 * MI), deadline=soon())
    assert shown(cgroups, container, "memory.swap.max") == "16777216\n"


def test_a_sandbox_needs_its_pods_cgroup(runtime: FakeRuntime, cgroups: FakeCgroups) -> None:
    cgroups.remove(POD)
    with pytest.raises(RuntimeCallError, match="does not exist"):
        runtime.run_sandbox(SPEC, deadline=soon())


def test_an_end_that_a_test_asks_for(runtime: FakeRuntime) -> None:
    container = started(runtime, ContainerResources())
    runtime.finish(container, exit_code=137, reason="OOMKilled")
    status = runtime.status(container, deadline=soon())
    assert (status.state, status.exit_code, status.reason) == (ContainerState.EXITED, 137, "OOMKilled")


def test_it_is_a_runtime(runtime: FakeRuntime) -> None:
    assert isinstance(runtime, Runtime)


def test_the_kernels_own_files_cannot_be_written(cgroups: FakeCgroups) -> None:
    with pytest.raises(RefusedError, match="Permission denied"):
        cgroups.put(POD, "memory.current", "0")
