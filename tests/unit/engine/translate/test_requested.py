"""Direct requests to a runtime: the expected text of each file, with or without a request."""

import pytest

from memqos.engine.translate.requested import OciRequest, requested, requested_again
from memqos.engine.translate.requested_files import requested_cgroup, requested_settings
from memqos.engine.translate.resources import OciResources, RuntimeHost
from memqos.engine.translate.runc import set_by_update
from memqos.engine.translate.runtimes import BUNDLES, TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.node import CgroupVersion
from memqos.model.path import CgroupPath

HOST = RuntimeHost()
POD = CgroupPath.parse("/pod.slice")
MI = 1 << 20
V2 = (
    Knob.MEMORY_MIN,
    Knob.MEMORY_LOW,
    Knob.MEMORY_HIGH,
    Knob.MEMORY_MAX,
    Knob.MEMORY_SWAP_MAX,
    Knob.CPU_WEIGHT,
    Knob.CPUSET_MEMS,
    Knob.HUGETLB_2MB_MAX,
)
FIRST = ContainerResources(
    memory_limit_in_bytes=64 * MI,
    cpu_shares=1024,
    cpuset_mems="0",
    hugepage_limits=(("2MB", 4 * MI),),
    unified={"memory.min": "8388608", "memory.high": "50000000"},
)
LIMIT = ContainerResources(memory_limit_in_bytes=96 * MI)


def shown(container, knobs=V2):
    return {
        knob.value: one.shown for knob, one in requested_cgroup(container, knobs, name="a", parent=POD).knobs.items()
    }


def test_every_file_has_an_expectation():
    assert shown(requested(FIRST, Runtimes(cri=BUNDLES, oci=TRIXIE.oci), HOST)) == {
        "memory.min": "8388608",
        "memory.low": "0",
        "memory.high": "49999872",
        "memory.max": "67108864",
        "memory.swap.max": "0",
        "cpu.weight": "39",
        "cpuset.mems": "0",
        "hugetlb.2MB.max": "4194304",
    }


def test_an_update_keeps_other_values():
    container = requested_again(requested(FIRST, Runtimes(cri=BUNDLES, oci=TRIXIE.oci), HOST), LIMIT)
    assert shown(container) == {
        "memory.min": "8388608",
        "memory.low": "0",
        "memory.high": "49999872",
        "memory.max": "100663296",
        "memory.swap.max": "0",
        "cpu.weight": "39",
        "cpuset.mems": "0",
        "hugetlb.2MB.max": "4194304",
    }


CRI_O = Runtimes(cri=traits_of("cri-o", "1.32.13"), oci=TRIXIE.oci)


def rule(container, knob):
    return requested_cgroup(container, [knob], name="a", parent=POD).knobs[knob].reason.rule


@pytest.mark.parametrize("version", ["1.30", "1.36.0"])
def test_an_update_of_unified_is_expected_even_if_cri_o_drops_it(version):
    runtimes = Runtimes(cri=traits_of("cri-o", version), oci=TRIXIE.oci)
    higher = ContainerResources(unified={"memory.high": "60000000"})
    assert shown(requested_again(requested(FIRST, runtimes, HOST), higher))["memory.high"] == "59998208"


def test_a_reason_names_dropped_values_until_a_request_passes():
    container = requested_again(requested(FIRST, CRI_O, HOST), ContainerResources(unified={"memory.max": "83886080"}))
    assert rule(container, Knob.MEMORY_MAX) == (
        "memory.max is as an update requests, but it is dropped on the way: CRI-O before 1.36 drops unified in updates"
    )
    assert shown(container, [Knob.MEMORY_MAX]) == {"memory.max": "83886080"}
    again = requested_again(container, LIMIT)
    assert rule(again, Knob.MEMORY_MAX) == "memory.max is as an update requests"
    assert shown(again, [Knob.MEMORY_MAX]) == {"memory.max": "100663296"}


@pytest.mark.parametrize(("swap", "shows"), [(96 * MI, "33554432"), (-1, "max"), (64 * MI, "0"), (0, "0")])
def test_an_update_of_swap_is_expected_though_cri_o_ignores_it(swap, shows):
    first = ContainerResources(memory_limit_in_bytes=64 * MI, memory_swap_limit_in_bytes=80 * MI)
    update = ContainerResources(memory_limit_in_bytes=64 * MI, memory_swap_limit_in_bytes=swap)
    container = requested_again(requested(first, CRI_O, HOST), update)
    assert shown(container, [Knob.MEMORY_SWAP_MAX]) == {"memory.swap.max": shows}


def test_huge_pages_are_expected_though_containerd_drops_them():
    container = requested(FIRST, Runtimes(cri=TRIXIE.cri, oci=TRIXIE.oci, hugetlb=False), HOST)
    assert shown(container, [Knob.HUGETLB_2MB_MAX]) == {"hugetlb.2MB.max": "4194304"}


def test_swap_is_not_expected_without_its_file():
    first = ContainerResources(memory_limit_in_bytes=64 * MI, memory_swap_limit_in_bytes=80 * MI)
    container = requested(first, Runtimes(cri=TRIXIE.cri, oci=TRIXIE.oci), RuntimeHost(swap_file=False))
    assert Knob.MEMORY_SWAP_MAX not in container.named


def test_differing_versions_are_undecided():
    runtimes = Runtimes(cri=BUNDLES, oci=traits_of("runc", ""))
    assert shown(requested(FIRST, runtimes, HOST), [Knob.CPU_WEIGHT]) == {"cpu.weight": "100 or 39"}


@pytest.mark.parametrize(
    ("request_", "refusal"),
    [
        (ContainerResources(memory_swap_limit_in_bytes=MI), "unable to set swap limit without memory limit"),
        (
            ContainerResources(memory_limit_in_bytes=2 * MI, memory_swap_limit_in_bytes=MI),
            "memory+swap limit should be >= memory limit",
        ),
        (ContainerResources(unified={"memory.high": "1.5G"}), "memory.high"),
        (ContainerResources(unified={"a/b": "1"}), "must be a file name"),
    ],
)
def test_refusals_of_the_runtime_and_the_kernel(request_, refusal):
    cgroupfs = Runtimes(cri=BUNDLES, oci=TRIXIE.oci)
    container = requested(request_, cgroupfs, HOST)
    assert refusal in container.refusal
    assert not container.in_doubt
    with pytest.raises(ValueError, match="cannot be updated"):
        requested_again(container, LIMIT)


def test_an_update_that_is_refused_changes_nothing():
    before = requested(FIRST, TRIXIE, HOST)
    less = ContainerResources(memory_swap_limit_in_bytes=MI)
    after = requested_again(before, less)
    assert "memory+swap limit should be >= memory limit" in after.refusal
    assert shown(after) == shown(before)


def test_a_refusal_of_some_versions_is_in_doubt():
    unlimited = ContainerResources(memory_limit_in_bytes=-1, memory_swap_limit_in_bytes=64 * MI)
    container = requested(unlimited, Runtimes(cri=BUNDLES, oci=traits_of("runc", "1.2")), HOST)
    assert container.in_doubt
    assert not container.refusal
    assert requested_again(container, LIMIT).refusal == ""


def test_reasons_name_the_request_and_its_field():
    container = requested_again(requested(FIRST, TRIXIE, HOST), ContainerResources(unified={"memory.high": "60000000"}))
    reasons = {knob: one.reason for knob, one in requested_cgroup(container, V2, name="a", parent=POD).knobs.items()}
    assert reasons[Knob.MEMORY_HIGH].rule == "memory.high is as an update requests"
    assert [(one.name, one.value, one.origin) for one in reasons[Knob.MEMORY_HIGH].inputs] == [
        ('unified["memory.high"]', "60000000", "CRI request 2")
    ]
    assert reasons[Knob.MEMORY_MAX].rule == "memory.max is as the creation requests and no later update names it"
    assert reasons[Knob.MEMORY_MAX].revision == "containerd 1.7.24 with runc 1.1.15"
    assert "linux.resources" in reasons[Knob.MEMORY_MAX].source
    assert reasons[Knob.MEMORY_LOW].rule == "no request names memory.low: the kernel's default applies"


def test_huge_pages_of_a_size_have_its_limit_as_input():
    runtimes = Runtimes(cri=BUNDLES, oci=TRIXIE.oci)
    [reason] = [
        one.reason
        for one in requested_cgroup(
            requested(FIRST, runtimes, HOST), [Knob.HUGETLB_2MB_MAX], name="a", parent=POD
        ).knobs.values()
    ]
    assert [(one.name, one.value) for one in reason.inputs] == [("hugepage_limits 2MB", "4194304")]


def test_an_unrequested_write_of_the_runtime_has_a_reason():
    container = requested(ContainerResources(cpu_period=50_000), Runtimes(cri=BUNDLES, oci=TRIXIE.oci), HOST)
    [expected] = requested_cgroup(container, [Knob.CPU_MAX], name="a", parent=POD).knobs.values()
    assert expected.shown == "max 50000"
    swap = requested(ContainerResources(unified={"memory.max": "67108864"}), TRIXIE, HOST)
    assert shown(swap, [Knob.MEMORY_SWAP_MAX]) == {"memory.swap.max": "max"}


def test_on_cgroup_v1_the_files_are_others():
    host = RuntimeHost(cgroup_version=CgroupVersion.V1)
    container = requested(LIMIT, TRIXIE, host)
    found = requested_cgroup(container, [Knob.MEMORY_LIMIT_IN_BYTES, Knob.CPU_SHARES], name="a", parent=POD).knobs
    assert found[Knob.MEMORY_LIMIT_IN_BYTES].shown == "100663296"
    assert "cgroup-v1" in found[Knob.CPU_SHARES].reason.source
    assert found[Knob.CPU_SHARES].shown == "1024"


DOCKER = Runtimes(cri=traits_of("docker", "26.1.5"), oci=TRIXIE.oci)


def test_values_without_a_field_of_docker_are_not_requested():
    container = requested(FIRST, DOCKER, HOST)
    planned = requested_cgroup(container, V2, name="a", parent=POD).knobs
    assert {knob.value: one.shown for knob, one in planned.items() if not one.inexpressible} == {
        "memory.low": "0",
        "memory.max": "67108864",
        "memory.swap.max": "0",
        "cpu.weight": "39",
        "cpuset.mems": "0",
    }
    assert {knob.value: one.inexpressible for knob, one in planned.items() if one.inexpressible} == {
        "memory.min": "HostConfig has no field for memory.min: MemoryReservation is memory.low.",
        "memory.high": "HostConfig has no field for memory.high.",
        "hugetlb.2MB.max": "HostConfig has no field for huge page limits.",
    }
    again = requested_again(container, LIMIT)
    assert shown(again, [Knob.MEMORY_MAX]) == {"memory.max": "100663296"}
    assert sorted(again.inexpressible) == ["hugetlb.2MB.max", "memory.high", "memory.min"]


def test_requests_in_dockers_form():
    container = requested({"Memory": 64 * MI, "MemoryReservation": 16 * MI, "CpuShares": 1024}, DOCKER, HOST)
    assert shown(container, V2[:6]) == {
        "memory.min": "0",
        "memory.low": "16777216",
        "memory.high": "max",
        "memory.max": "67108864",
        "memory.swap.max": "67108864",
        "cpu.weight": "39",
    }
    container = requested_again(container, {"Memory": 32 * MI})
    assert shown(container, [Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX, Knob.MEMORY_LOW]) == {
        "memory.max": "33554432",
        "memory.swap.max": "67108864",
        "memory.low": "16777216",
    }
    planned = requested_cgroup(container, V2, name="a", parent=POD).knobs
    reason = planned[Knob.MEMORY_MAX].reason
    assert (reason.rule, reason.revision) == (
        "memory.max is as an update requests",
        "docker 26.1.5 with runc 1.1.15",
    )
    assert [(one.name, one.value, one.origin) for one in reason.inputs] == [("Memory", "33554432", "Docker request 2")]
    assert planned[Knob.MEMORY_LOW].reason.source == "docker 26.1.5; OCI runtime specification, linux.resources"


FORKY_DOCKER = Runtimes(cri=traits_of("docker", "28.5.2"), oci=traits_of("runc", "1.3.6"))


@pytest.mark.parametrize(
    ("update", "limit", "swap", "low"),
    [
        ({"Memory": 72 * MI}, "75497472", "8388608", "16777216"),
        ({"MemorySwap": 96 * MI}, "67108864", "33554432", "16777216"),
        ({"MemoryReservation": 24 * MI}, "67108864", "16777216", "25165824"),
        ({"Memory": 72 * MI, "MemorySwap": 72 * MI}, "75497472", "0", "16777216"),
        ({"CpuShares": 256}, "67108864", "16777216", "16777216"),
    ],
)
def test_newer_runc_keeps_values_that_dockers_update_does_not_name(update, limit, swap, low):
    first = {"Memory": 64 * MI, "MemorySwap": 80 * MI, "MemoryReservation": 16 * MI}
    container = requested_again(requested(first, FORKY_DOCKER, HOST), update)
    assert shown(container, [Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX, Knob.MEMORY_LOW]) == {
        "memory.max": limit,
        "memory.swap.max": swap,
        "memory.low": low,
    }


def test_newer_runc_keeps_values_that_docker_does_not_pass_on():
    """Docker cannot send -1 for memory+swap: it stays 80 MiB."""
    first = ContainerResources(memory_limit_in_bytes=64 * MI, memory_swap_limit_in_bytes=80 * MI)
    update = ContainerResources(memory_limit_in_bytes=72 * MI, memory_swap_limit_in_bytes=-1)
    container = requested_again(requested(first, FORKY_DOCKER, HOST), update)
    assert shown(container, [Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]) == {
        "memory.max": "75497472",
        "memory.swap.max": "8388608",
    }


def test_newer_runc_sets_no_swap_limit_for_a_memory_limit_of_max():
    before, sent = OciResources(memory_limit=64 * MI, memory_swap=80 * MI), OciResources(memory_limit=-1)
    assert set_by_update(sent, before, FORKY_DOCKER.oci) == OciResources(memory_limit=-1, memory_swap=0)
    assert set_by_update(sent, before, TRIXIE.oci) == sent


def test_requests_in_dockers_form_that_docker_or_the_oci_runtime_refuses():
    assert requested({"Memory": MI}, DOCKER, HOST).refusal == "Minimum memory limit allowed is 6MB"
    container = requested_again(requested({"Memory": 64 * MI}, DOCKER, HOST), {"MemorySwap": 96 * MI})
    assert container.refusal == "unable to set swap limit without memory limit"
    assert shown(container, [Knob.MEMORY_SWAP_MAX]) == {"memory.swap.max": "67108864"}
    assert requested({"Memory": MI}, DOCKER, HOST).inexpressible == {}


def test_other_files_in_unified_have_the_kernels_text():
    container = requested(
        ContainerResources(unified={"memory.min": "4096", "memory.swap.high": "8193", "io.weight": "200"}), TRIXIE, HOST
    )
    assert requested_settings(container, {"memory.min"}) == {"memory.swap.high": "8192", "io.weight": None}
    again = requested_again(container, ContainerResources(unified={"memory.swap.high": "max"}))
    assert requested_settings(again, {"memory.min"}) == {"memory.swap.high": "max", "io.weight": None}


def test_so_do_files_in_a_bundle_and_docker_has_none():
    runtimes = Runtimes(cri=BUNDLES, oci=TRIXIE.oci)
    bundle = OciRequest(resources=OciResources(unified={"memory.zswap.writeback": "0"}))
    assert requested_settings(requested(bundle, runtimes, HOST), set()) == {"memory.zswap.writeback": "0"}
    assert requested_settings(requested({"Memory": 64 * MI}, runtimes, HOST), set()) == {}


def test_reservations_of_huge_pages_are_those_that_runc_writes():
    huge = OciResources(hugepage_limits=(("2MB", 5 * MI), ("1GB", 0), ("64KB", 1 << 62)))
    container = requested(OciRequest(resources=huge), Runtimes(cri=BUNDLES, oci=TRIXIE.oci), HOST)
    shown_ = {"hugetlb.2MB.rsvd.max": "4194304", "hugetlb.1GB.rsvd.max": "0", "hugetlb.64KB.rsvd.max": None}
    assert requested_settings(container, set()) == shown_
    more = OciRequest(resources=OciResources(hugepage_limits=(("1GB", 1 << 30),)))
    assert requested_settings(requested_again(container, more), set()) == {**shown_, "hugetlb.1GB.rsvd.max": None}


def test_reservations_of_huge_pages_are_left_to_other_runtimes_and_kernels():
    huge = ContainerResources(hugepage_limits=(("2MB", 4 * MI),))
    crun = Runtimes(cri=TRIXIE.cri, oci=traits_of("crun", "1.21"), hugetlb=True)
    old = Runtimes(cri=TRIXIE.cri, oci=traits_of("runc", "1.1.9"), hugetlb=True)
    passes = Runtimes(cri=TRIXIE.cri, oci=TRIXIE.oci, hugetlb=True)
    assert requested_settings(requested(huge, passes, HOST), set()) == {"hugetlb.2MB.rsvd.max": "4194304"}
    for runtimes in (crun, old, Runtimes(cri=TRIXIE.cri, oci=TRIXIE.oci, hugetlb=False)):
        assert requested_settings(requested(huge, runtimes, HOST), set()) == {}
    assert requested_settings(requested(huge, passes, RuntimeHost(hugetlb_reservations=False)), set()) == {}
