"""The Docker Engine: its errors, its stored and passed values, and memqos's request to it for a CRI request."""

import pytest

from memqos.engine.translate import docker as dockerd
from memqos.engine.translate import oci
from memqos.engine.translate.resources import OciResources
from memqos.engine.translate.versions import RuntimeName, traits_of
from memqos.model.cri import ContainerResources

MIB = 1 << 20
DOCKER = traits_of(RuntimeName.DOCKER, "26.1.5")
TWICE = "Memory limit should be smaller than already set memoryswap limit, update the memoryswap at the same time"


@pytest.mark.parametrize(
    ("asked", "held", "document"),
    [
        ({}, {}, {}),
        ({"Memory": 0, "CpusetMems": ""}, {}, {}),
        # As much swap as memory.
        (
            {"Memory": 67108864},
            {"Memory": 67108864, "MemorySwap": 134217728},
            {"memory": {"limit": 67108864, "swap": 134217728}},
        ),
        (
            {"Memory": 67108864, "MemorySwap": 0},
            {"Memory": 67108864, "MemorySwap": 134217728},
            {"memory": {"limit": 67108864, "swap": 134217728}},
        ),
        # -1 is stored and not passed on.
        (
            {"Memory": 67108864, "MemorySwap": -1},
            {"Memory": 67108864, "MemorySwap": -1},
            {"memory": {"limit": 67108864}},
        ),
        ({"MemoryReservation": 6291456}, {"MemoryReservation": 6291456}, {"memory": {"reservation": 6291456}}),
        (
            {"CpuShares": 512, "CpuQuota": -1, "CpuPeriod": 100000, "CpusetCpus": "0", "CpusetMems": "1"},
            {"CpuShares": 512, "CpuQuota": -1, "CpuPeriod": 100000, "CpusetCpus": "0", "CpusetMems": "1"},
            {"cpu": {"shares": 512, "quota": -1, "period": 100000, "cpus": "0", "mems": "1"}},
        ),
        ({"OomScoreAdj": -999}, {"OomScoreAdj": -999}, {}),
        ({"PidsLimit": 100}, {"PidsLimit": 100}, {"unified": {"pids.max": "100"}}),
        ({"PidsLimit": -1}, {"PidsLimit": -1}, {"unified": {"pids.max": "max"}}),
    ],
)
def test_values_stored_and_passed_on_by_a_creation(asked, held, document):
    answer = dockerd.docker_created(asked)
    assert (answer.refusal, answer.held, answer.resources.document()) == ("", held, document)


def test_without_a_swap_controller_swap_is_not_limited():
    assert dockerd.docker_created({"Memory": 67108864}, swap_controller=False).held["MemorySwap"] == -1
    answer = dockerd.docker_updated({"Memory": 67108864}, {"Memory": 134217728}, swap_controller=False)
    assert answer.resources.document() == {"memory": {"limit": 134217728}}


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        ({"Memory": 6291455}, "Minimum memory limit allowed is 6MB"),
        ({"Memory": -1}, "Minimum memory limit allowed is 6MB"),
        ({"Memory": 6291456}, ""),
        (
            {"Memory": 67108864, "MemorySwap": 67108863},
            "Minimum memoryswap limit should be larger than memory limit, see usage",
        ),
        ({"Memory": 67108864, "MemorySwap": 67108864}, ""),
        ({"MemorySwap": 67108864}, "You should always set the Memory limit when using Memoryswap limit, see usage"),
        ({"MemorySwap": -1}, ""),
        ({"MemoryReservation": 6291455}, "Minimum memory reservation allowed is 6MB"),
        (
            {"Memory": 67108864, "MemoryReservation": 67108865},
            "Minimum memory limit can not be less than memory reservation limit, see usage",
        ),
        ({"Memory": 67108864, "MemoryReservation": 67108864}, ""),
        ({"CpuPeriod": 999}, "CPU cfs period can not be less than 1ms (i.e. 1000) or larger than 1s (i.e. 1000000)"),
        ({"CpuPeriod": 1000}, ""),
        ({"CpuPeriod": 1000000}, ""),
        (
            {"CpuPeriod": 1000001},
            "CPU cfs period can not be less than 1ms (i.e. 1000) or larger than 1s (i.e. 1000000)",
        ),
        ({"CpuQuota": 999}, "CPU cfs quota can not be less than 1ms (i.e. 1000)"),
        ({"CpuQuota": 1000}, ""),
        ({"OomScoreAdj": 1000}, ""),
        ({"OomScoreAdj": 1001}, "Invalid value 1001, range for oom score adj is [-1000, 1000]"),
        ({"OomScoreAdj": -1001}, "Invalid value -1001, range for oom score adj is [-1000, 1000]"),
    ],
)
def test_errors_of_a_creation(asked, refusal):
    answer = dockerd.docker_created(asked)
    assert answer.refusal == refusal
    assert (answer.held == {}) is bool(refusal)


HELD = {"Memory": 67108864, "MemorySwap": 83886080, "CpuShares": 512}


@pytest.mark.parametrize(
    ("asked", "held", "document"),
    [
        ({}, HELD, {}),
        # A missing field is not passed on, and its value stays.
        ({"Memory": 58720256}, {**HELD, "Memory": 58720256}, {"memory": {"limit": 58720256}}),
        ({"Memory": 83886080}, {**HELD, "Memory": 83886080}, {"memory": {"limit": 83886080}}),
        (
            {"Memory": 134217728, "MemorySwap": 134217728},
            {**HELD, "Memory": 134217728, "MemorySwap": 134217728},
            {"memory": {"limit": 134217728, "swap": 134217728}},
        ),
        ({"MemorySwap": -1}, {**HELD, "MemorySwap": -1}, {}),
        ({"MemorySwap": 100663296}, {**HELD, "MemorySwap": 100663296}, {"memory": {"swap": 100663296}}),
        ({"CpusetMems": "1"}, {**HELD, "CpusetMems": "1"}, {"cpu": {"mems": "1"}}),
        ({"OomScoreAdj": 5}, HELD, {}),
    ],
)
def test_values_stored_and_passed_on_by_an_update(asked, held, document):
    answer = dockerd.docker_updated(HELD, asked)
    assert (answer.refusal, answer.held, answer.resources.document()) == ("", held, document)


@pytest.mark.parametrize(
    ("held", "asked", "refusal"),
    [
        (HELD, {"Memory": 83886081}, TWICE),
        ({"Memory": 67108864, "MemorySwap": -1}, {"Memory": 58720256}, TWICE),
        ({}, {"Memory": 67108864}, TWICE),
        (HELD, {"Memory": 1048576}, "Minimum memory limit allowed is 6MB"),
    ],
)
def test_errors_of_an_update(held, asked, refusal):
    answer = dockerd.docker_updated(held, asked)
    assert (answer.refusal, answer.held, answer.resources.document()) == (refusal, held, {})


def test_a_cri_request_through_docker():
    sent = ContainerResources(
        memory_limit_in_bytes=64 * MIB,
        memory_swap_limit_in_bytes=80 * MIB,
        cpu_shares=512,
        oom_score_adj=500,
        unified={"memory.low": "8388608", "memory.high": "50331648"},
    )
    found = oci.oci_for_create(sent, DOCKER)
    assert found.resources == OciResources(
        memory_limit=67108864, memory_swap=83886080, memory_reservation=8388608, cpu_shares=512
    )
    assert (found.oom_score_adj, found.refusal) == (500, "")
    [left] = found.unsayable
    assert (left.knob, left.value, left.wordless) == ("memory.high", "50331648", True)
    limit = oci.oci_for_update(found.resources, ContainerResources(memory_limit_in_bytes=96 * MIB), DOCKER)
    assert limit.resources == OciResources(
        memory_limit=100663296, memory_swap=100663296, memory_reservation=8388608, cpu_shares=512
    )
    assert limit.oom_score_adj is None
    other = oci.oci_for_update(found.resources, ContainerResources(cpuset_mems="1", oom_score_adj=5), DOCKER)
    assert other.resources == OciResources(
        memory_limit=67108864, memory_swap=83886080, memory_reservation=8388608, cpu_shares=512, mems="1"
    )
    assert [(left.knob, left.value) for left in other.unsayable] == [("oom_score_adj", "5")]


@pytest.mark.parametrize(
    ("sent", "swap", "left"),
    [
        ({"memory_limit_in_bytes": 64 * MIB, "memory_swap_limit_in_bytes": -1}, None, [("memory.swap.max", "max")]),
        ({"memory_swap_limit_in_bytes": 96 * MIB}, 100663296, []),
        ({"memory_limit_in_bytes": -1}, 83886080, [("memory.max", "max")]),
        ({"memory_limit_in_bytes": -1, "memory_swap_limit_in_bytes": 96 * MIB}, 100663296, [("memory.max", "max")]),
        ({"hugepage_limits": (("2MB", 0),)}, 83886080, [("hugetlb.2MB.max", "0")]),
    ],
)
def test_values_that_an_update_through_docker_cannot_express(sent, swap, left):
    stored = OciResources(memory_limit=64 * MIB, memory_swap=80 * MIB)
    found = oci.oci_for_update(stored, ContainerResources(**sent), DOCKER)
    assert found.resources.memory_limit == 67108864
    assert found.resources.memory_swap == swap
    assert [(one.knob, one.value) for one in found.unsayable] == left
    assert all(one.wordless for one in found.unsayable)


def test_unlimited_swap_stays_unlimited():
    stored = OciResources(memory_limit=64 * MIB)
    found = dockerd.docker_request(ContainerResources(cpu_shares=5), stored=stored)
    assert found.host_config == {"Memory": 67108864, "MemorySwap": -1, "CpuShares": 5}
    assert found.unsayable == ()


def test_all_stored_values_are_sent_again():
    stored = OciResources(
        memory_limit=64 * MIB,
        memory_swap=64 * MIB,
        memory_reservation=16 * MIB,
        cpu_shares=512,
        cpu_quota=50000,
        cpu_period=100000,
        cpus="0-1",
        mems="0",
        unified={"pids.max": "100"},
    )
    assert dockerd.docker_request(ContainerResources(), stored=stored).host_config == {
        "Memory": 67108864,
        "MemorySwap": 67108864,
        "MemoryReservation": 16777216,
        "CpuShares": 512,
        "CpuQuota": 50000,
        "CpuPeriod": 100000,
        "CpusetCpus": "0-1",
        "CpusetMems": "0",
        "PidsLimit": 100,
    }


def test_docker_refuses_invalid_values():
    too_little = ContainerResources(memory_limit_in_bytes=64 * MIB, memory_swap_limit_in_bytes=32 * MIB)
    refusal = "Minimum memoryswap limit should be larger than memory limit, see usage"
    found = oci.oci_for_create(too_little, DOCKER)
    assert (found.refusal, found.resources, found.oom_score_adj) == (refusal, OciResources(), None)
    assert oci.oci_for_update(OciResources(), too_little, DOCKER).refusal == refusal
    no_amount = oci.oci_for_create(ContainerResources(unified={"memory.low": "plenty"}), DOCKER)
    assert "plenty" in no_amount.refusal
