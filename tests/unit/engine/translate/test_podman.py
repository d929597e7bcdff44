"""What Podman's Docker-compatible API makes of a request; the numbers follow from podman 5.4.2's source."""

from __future__ import annotations

import pytest

from memqos.engine.translate.oci import oci_for_create, oci_for_update
from memqos.engine.translate.podman import podman_created, podman_request, podman_updated, through_podman
from memqos.engine.translate.resources import OciResources
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath

MIB = 1 << 20
PODMAN = traits_of("podman", "5.4.2")


@pytest.mark.parametrize(
    ("asked", "limit", "swap"),
    [
        ({}, None, None),
        ({"Memory": 64 * MIB}, 67108864, 134217728),
        ({"Memory": 64 * MIB, "MemorySwap": 80 * MIB}, 67108864, 83886080),
        # containers_create.go passes only a MemorySwap above 0 on; LimitToSwap then doubles the memory.
        ({"Memory": 64 * MIB, "MemorySwap": -1}, 67108864, 134217728),
        ({"MemorySwap": 80 * MIB}, None, 83886080),
        ({"Memory": 1}, 1, 2),
    ],
)
def test_memory_and_swap_of_a_creation(asked: dict[str, int], limit: int | None, swap: int | None) -> None:
    made = podman_created(asked)
    assert (made.memory_limit, made.memory_swap) == (limit, swap)


def test_without_a_swap_controller_no_swap_is_limited() -> None:
    assert podman_created({"Memory": 64 * MIB}, swap_controller=False).memory_swap is None


def test_the_other_fields_of_a_creation() -> None:
    made = podman_created(
        {
            "MemoryReservation": 32 * MIB, "CpuShares": 512, "CpuQuota": 50000, "CpuPeriod": 100000, "CpusetCpus": "0",
            "CpusetMems": "1", "PidsLimit": 100,
        }
    )  # fmt: skip
    assert made == OciResources(
        memory_reservation=33554432,
        cpu_shares=512,
        cpu_quota=50000,
        cpu_period=100000,
        cpus="0",
        mems="1",
        unified={"pids.max": "100"},
    )
    assert podman_created({"CpuQuota": -1}).cpu_quota is None


@pytest.mark.parametrize(("limit", "text"), [(0, "2048"), (-1, "max"), (7, "7")])
def test_a_container_has_a_limit_of_processes(limit: int, text: str) -> None:
    assert podman_created({"PidsLimit": limit}).unified == {"pids.max": text}


def test_an_update_passes_on_all_that_is_kept() -> None:
    stored = OciResources(memory_limit=64 * MIB, memory_swap=80 * MIB, cpu_shares=2, unified={"pids.max": "2048"})
    assert podman_updated(stored, {"CpuShares": 512, "Memory": 0}) == OciResources(
        memory_limit=67108864, memory_swap=83886080, cpu_shares=512, unified={"pids.max": "2048"}
    )
    changed = podman_updated(stored, {"MemorySwap": -1, "PidsLimit": 5})
    assert (changed.memory_swap, changed.unified) == (-1, {"pids.max": "5"})


def test_unlimited_swap_cannot_be_asked_for_in_a_creation() -> None:
    sent = ContainerResources(memory_limit_in_bytes=64 * MIB, unified={"memory.swap.max": "max"})
    made = through_podman(sent)
    assert made.resources.memory_swap == 134217728
    [left] = made.unsayable
    assert (left.knob, left.value, left.wordless) == (Knob.MEMORY_SWAP_MAX, "max", True)
    assert "drops a MemorySwap of -1" in left.why
    again = podman_request(sent, stored=made.resources)
    assert again.host_config["MemorySwap"] == -1
    assert not again.unsayable


def test_small_amounts_are_asked_for() -> None:
    made = through_podman(ContainerResources(memory_limit_in_bytes=1 * MIB, unified={"memory.low": "4096"}))
    assert (made.resources.memory_limit, made.resources.memory_swap) == (1048576, 1048576)
    assert made.resources.memory_reservation == 4096
    assert not made.unsayable


def test_what_has_no_field_stays_unsaid() -> None:
    made = through_podman(ContainerResources(unified={"memory.min": "4096", "memory.high": "8192"}))
    assert [left.knob for left in made.unsayable] == ["memory.min", "memory.high"]


def test_a_text_that_is_no_amount_is_a_refusal() -> None:
    made = through_podman(ContainerResources(unified={"memory.max": "much"}))
    assert made.refusal
    assert made.resources == OciResources()


def test_podman_stands_where_a_cri_runtime_does() -> None:
    sent = ContainerResources(memory_limit_in_bytes=64 * MIB, oom_score_adj=981)
    made = oci_for_create(sent, PODMAN)
    assert (made.resources.memory_limit, made.resources.memory_swap, made.oom_score_adj) == (67108864, 67108864, 981)
    updated = oci_for_update(made.resources, ContainerResources(memory_limit_in_bytes=96 * MIB), PODMAN)
    assert (updated.resources.memory_limit, updated.resources.memory_swap) == (100663296, 100663296)
    assert updated.oom_score_adj is None


def test_where_podman_keeps_containers() -> None:
    pod = CgroupPath.parse("/pod.slice")
    runtimes = Runtimes(cri=PODMAN, oci=traits_of("crun", "1.21"))
    assert str(runtimes.layout(CgroupDriver.SYSTEMD).container(pod, "1a")) == "/pod.slice/libpod-1a.scope/container"
    assert str(runtimes.layout(CgroupDriver.CGROUPFS).container(pod, "1a")) == "/pod.slice/libpod-1a"
    assert not runtimes.passes_huge_pages
    assert not runtimes.sandboxed
