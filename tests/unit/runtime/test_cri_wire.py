import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memqos.errors import RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver
from memqos.runtime import cri_wire
from memqos.runtime.base import (
    Capability,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    Mount,
    RuntimeVersion,
    SandboxHandle,
    SandboxSpec,
)
from memqos.runtime.proto import cri_pb2

GOLDEN = Path(__file__).parents[2] / "golden" / "cri"

RESOURCES = ContainerResources(
    cpu_period=100_000,
    cpu_quota=50_000,
    cpu_shares=512,
    memory_limit_in_bytes=104_857_600,
    memory_swap_limit_in_bytes=125_829_120,
    oom_score_adj=983,
    cpuset_cpus="0-1",
    cpuset_mems="1",
    hugepage_limits=(("2MB", 4_194_304), ("1GB", 0)),
    unified={"memory.min": "52428800", "memory.high": "94371840", "memory.oom.group": "1"},
)
SANDBOX = SandboxSpec(
    name="web",
    namespace="default",
    uid="0b95e612-912b",
    cgroup_parent="/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0b95e612_912b.slice",
    log_directory="/var/log/pods/web",
    resources=ContainerResources(memory_limit_in_bytes=104_857_600, cpu_shares=512),
    overhead=ContainerResources(memory_limit_in_bytes=16_777_216),
)
CONTAINER = ContainerSpec(
    name="app",
    image="memqos.local/memload:1",
    command=("/memload",),
    args=("hold",),
    mounts=(Mount(container_path="/memqos", host_path="/run/memqos/app", readonly=True),),
    resources=RESOURCES,
)


def golden(name: str) -> object:
    return json.loads((GOLDEN / name).read_text())


def test_a_sandbox_request() -> None:
    assert cri_wire.message_json(cri_wire.sandbox_request(SANDBOX, "crun")) == golden("run_pod_sandbox.json")


def test_a_container_request_repeats_the_sandbox() -> None:
    request = cri_wire.create_request(SandboxHandle(id="5a6cf583", spec=SANDBOX), CONTAINER)
    assert cri_wire.message_json(request) == golden("create_container.json")


def test_an_update_request_omits_unspecified_fields() -> None:
    request = cri_wire.update_request(
        "ede1f105", ContainerResources(memory_limit_in_bytes=1 << 30, unified={"memory.high": "max"})
    )
    assert cri_wire.message_json(request) == golden("update_container_resources.json")


def test_empty_resources_are_an_empty_message() -> None:
    assert cri_wire.resources_to_wire(ContainerResources()).SerializeToString() == b""


def test_a_container_knows_its_log() -> None:
    handle = cri_wire.container_handle(SandboxHandle(id="5a6cf583", spec=SANDBOX), CONTAINER, "ede1f105")
    assert handle.log_path == "/var/log/pods/web/app.log"
    assert cri_wire.log_name(dataclasses.replace(CONTAINER, log="app-2.log")) == "app-2.log"


amounts = st.integers(-(2**63), 2**63 - 1)
texts = st.text(max_size=12)


@given(
    st.builds(
        ContainerResources,
        cpu_period=amounts,
        cpu_quota=amounts,
        cpu_shares=amounts,
        memory_limit_in_bytes=amounts,
        memory_swap_limit_in_bytes=amounts,
        oom_score_adj=amounts,
        cpuset_cpus=texts,
        cpuset_mems=texts,
        hugepage_limits=st.lists(st.tuples(texts, st.integers(0, 2**64 - 1)), max_size=3).map(tuple),
        unified=st.dictionaries(texts, texts, max_size=3),
    )
)
def test_resources_survive_the_wire(resources: ContainerResources) -> None:
    data = cri_wire.resources_to_wire(resources).SerializeToString()
    assert cri_wire.resources_from_wire(cri_pb2.LinuxContainerResources.FromString(data)) == resources


def status_reply(**fields: object) -> cri_pb2.ContainerStatusResponse:
    return cri_pb2.ContainerStatusResponse(status=cri_pb2.ContainerStatus(**fields))


def test_a_running_container_has_no_exit_code() -> None:
    status = cri_wire.status_from_wire(status_reply(state=cri_pb2.CONTAINER_RUNNING))
    assert (status.state, status.exit_code, status.resources) == (ContainerState.RUNNING, None, None)


def test_an_exit_with_zero_differs_from_no_exit() -> None:
    status = cri_wire.status_from_wire(status_reply(state=cri_pb2.CONTAINER_EXITED, reason="Completed"))
    assert (status.state, status.exit_code, status.reason) == (ContainerState.EXITED, 0, "Completed")


def test_reported_resources_differ_from_missing_ones() -> None:
    said = cri_pb2.ContainerResources(linux=cri_pb2.LinuxContainerResources(memory_limit_in_bytes=4096))
    assert cri_wire.status_from_wire(status_reply(resources=said)).resources == ContainerResources(
        memory_limit_in_bytes=4096
    )
    windows = cri_pb2.ContainerResources()
    assert cri_wire.status_from_wire(status_reply(resources=windows)).resources is None


def test_a_state_of_a_later_cri_is_unknown() -> None:
    assert cri_wire.container_state_from_wire(17) is ContainerState.UNKNOWN


def status_with(info: dict[str, str]) -> ContainerStatus:
    return ContainerStatus(
        state=ContainerState.RUNNING, exit_code=None, reason="", message="", resources=None, info=info
    )


def test_the_pid_is_in_the_verbose_answer() -> None:
    assert cri_wire.pid_from_info(status_with({"info": '{"sandboxID": "x", "pid": 4711}'})) == 4711


@pytest.mark.parametrize(
    "info", [{}, {"info": ""}, {"info": "[]"}, {"info": "{}"}, {"info": '{"pid": 0}'}, {"info": '{"pid": "7"}'}]
)
def test_an_answer_without_a_pid_is_an_error(info: dict[str, str]) -> None:
    with pytest.raises(RuntimeCallError, match="pid"):
        cri_wire.pid_from_info(status_with(info))


@pytest.mark.parametrize(
    ("name", "version", "updates_unified"),
    [
        ("containerd", "1.7.24~ds1", True),
        ("cri-o", "1.35.6", False),
        ("cri-o", "1.36.0", True),
        ("cri-o", "v2.0.1", True),
        ("cri-o", "unknown", False),
        ("somebody-else", "0.1", True),
    ],
)
def test_capabilities_depend_on_the_version(name: str, version: str, updates_unified: bool) -> None:
    found = cri_wire.capabilities_of(RuntimeVersion(name=name, version=version, api_version="v1"), reports_driver=True)
    assert (Capability.UPDATE_UNIFIED in found) is updates_unified
    assert Capability.CGROUP_DRIVER_REPORT in found


def test_an_unreported_driver_is_no_capability() -> None:
    version = RuntimeVersion(name="containerd", version="1.7.24", api_version="v1")
    assert Capability.CGROUP_DRIVER_REPORT not in cri_wire.capabilities_of(version, reports_driver=False)


def test_a_driver_report() -> None:
    linux = cri_pb2.LinuxRuntimeConfiguration(cgroup_driver=cri_pb2.CGROUPFS)
    assert cri_wire.cgroup_driver_from_wire(cri_pb2.RuntimeConfigResponse(linux=linux)) is CgroupDriver.CGROUPFS
    assert cri_wire.cgroup_driver_from_wire(cri_pb2.RuntimeConfigResponse()) is CgroupDriver.SYSTEMD
