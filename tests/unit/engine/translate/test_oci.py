"""CRI to OCI, by containerd and CRI-O."""

import pytest

from memqos.engine.translate.oci import OciTranslation, oci_for_create, oci_for_update, unclearable
from memqos.engine.translate.resources import OciResources, Unsayable
from memqos.engine.translate.versions import RuntimeName, traits_of
from memqos.model.cri import ContainerResources

MIB = 1 << 20
CONTAINERD = traits_of("containerd", "1.7.24")
OLD_CONTAINERD = traits_of("containerd", "1.6.20")
CRIO = traits_of("cri-o", "1.36.3")
OLD_CRIO = traits_of("cri-o", "1.30.14")

BURSTABLE = ContainerResources(
    cpu_period=100_000,
    cpu_quota=50_000,
    cpu_shares=256,
    memory_limit_in_bytes=256 * MIB,
    oom_score_adj=984,
    hugepage_limits=(("2MB", 0), ("1GB", 0)),
    unified={"memory.high": "248303616", "memory.min": "134217728", "memory.oom.group": "1", "memory.swap.max": "0"},
)


def test_containerd_creates():
    found = oci_for_create(BURSTABLE, CONTAINERD, hugetlb=True)
    assert found.resources.document() == {
        "memory": {"limit": 268435456, "swap": 268435456},
        "cpu": {"shares": 256, "quota": 50000, "period": 100000},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 0}, {"pageSize": "1GB", "limit": 0}],
        "unified": {
            "memory.high": "248303616",
            "memory.min": "134217728",
            "memory.oom.group": "1",
            "memory.swap.max": "0",
        },
    }
    assert (found.oom_score_adj, found.unsayable, found.refusal) == (984, (), "")


def test_containerd_drops_huge_page_limits_by_default():
    found = oci_for_create(BURSTABLE, CONTAINERD)
    assert found.resources.hugepage_limits == ()
    assert [(left.knob, left.value) for left in found.unsayable] == [("hugetlb.2MB.max", "0"), ("hugetlb.1GB.max", "0")]
    assert "disable_hugetlb_controller" in found.unsayable[0].why


def test_unspecified_fields_are_not_in_the_document():
    assert oci_for_create(ContainerResources(), CONTAINERD) == OciTranslation(resources=OciResources(), oom_score_adj=0)
    assert OciResources().document() == {}


@pytest.mark.parametrize(
    ("traits", "asked", "controller", "swap", "unsaid"),
    [
        (CONTAINERD, (100, 0), True, 100, []),
        (traits_of("containerd", "1.6.12"), (100, 0), True, None, []),
        (CONTAINERD, (100, 0), False, None, []),
        (CONTAINERD, (100, 150), True, 150, []),
        (CONTAINERD, (100, -1), True, -1, []),
        (CONTAINERD, (100, 150), False, None, [("memory.swap.max", "50")]),
        (CONTAINERD, (100, 100), False, None, [("memory.swap.max", "0")]),
        (CONTAINERD, (100, -1), False, None, [("memory.swap.max", "max")]),
        (OLD_CONTAINERD, (100, 150), False, 150, []),
        (CONTAINERD, (0, 150), True, 150, []),
    ],
)
def test_swap_in_containerd(traits, asked, controller, swap, unsaid):
    limit, both = asked
    sent = ContainerResources(memory_limit_in_bytes=limit, memory_swap_limit_in_bytes=both)
    found = oci_for_create(sent, traits, swap_controller=controller)
    assert found.resources.memory_swap == swap
    assert [(left.knob, left.value) for left in found.unsayable] == unsaid


def test_crio_creates_with_every_cpu_field():
    found = oci_for_create(ContainerResources(memory_limit_in_bytes=64 * MIB, hugepage_limits=(("2MB", 0),)), CRIO)
    assert found.resources.document() == {
        "memory": {"limit": 67108864, "swap": 67108864},
        "cpu": {"shares": 0, "quota": 0, "period": 0, "cpus": "", "mems": ""},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 0}],
    }


@pytest.mark.parametrize(
    ("limit", "swap", "controller", "result", "unsaid"),
    [
        (64 * MIB, 96 * MIB, True, 96 * MIB, []),
        (64 * MIB, 64 * MIB, True, 64 * MIB, []),
        (64 * MIB, -1, True, -1, []),
        (64 * MIB, 0, False, None, []),
        (64 * MIB, 96 * MIB, False, None, [("memory.swap.max", str(32 * MIB))]),
        (0, 96 * MIB, True, None, [("memory.swap.max", str(96 * MIB))]),
        (0, 0, True, None, []),
    ],
)
def test_swap_in_crio(limit, swap, controller, result, unsaid):
    sent = ContainerResources(memory_limit_in_bytes=limit, memory_swap_limit_in_bytes=swap)
    found = oci_for_create(sent, CRIO, swap_controller=controller)
    assert found.resources.memory_swap == result
    assert [(left.knob, left.value) for left in found.unsayable] == unsaid
    assert not found.refusal


@pytest.mark.parametrize(
    ("limit", "swap", "oci", "refusal"),
    [
        (12 * MIB - 1, 0, RuntimeName.RUNC, "set memory limit 12582911 too low; should be at least 12582912 bytes"),
        (12 * MIB, 0, RuntimeName.RUNC, ""),
        (512_000, 0, RuntimeName.CRUN, ""),
        (511_999, 0, RuntimeName.CRUN, "set memory limit 511999 too low; should be at least 512000 bytes"),
        (
            64 * MIB,
            32 * MIB,
            RuntimeName.RUNC,
            "memory swap limit (33554432) cannot be lower than memory limit (67108864)",
        ),
    ],
)
def test_crio_refuses(limit, swap, oci, refusal):
    sent = ContainerResources(memory_limit_in_bytes=limit, memory_swap_limit_in_bytes=swap, oom_score_adj=5)
    found = oci_for_create(sent, CRIO, oci=oci)
    assert found.refusal == refusal
    assert (found.oom_score_adj is None) is bool(refusal)
    if refusal:
        assert found.resources == OciResources()


def test_containerd_updates_its_stored_spec():
    stored = oci_for_create(BURSTABLE, CONTAINERD, hugetlb=True).resources
    sent = ContainerResources(
        memory_limit_in_bytes=512 * MIB,
        cpuset_mems="0",
        hugepage_limits=(("2MB", 4194304),),
        unified={"memory.high": "max"},
    )
    found = oci_for_update(stored, sent, CONTAINERD, hugetlb=True)
    assert found.resources.document() == {
        "memory": {"limit": 536870912, "swap": 536870912},
        "cpu": {"shares": 256, "quota": 50000, "period": 100000, "mems": "0"},
        # The list grows; the last of a size wins.
        "hugepageLimits": [
            {"pageSize": "2MB", "limit": 0},
            {"pageSize": "1GB", "limit": 0},
            {"pageSize": "2MB", "limit": 4194304},
        ],
        "unified": {
            "memory.high": "max",
            "memory.min": "134217728",
            "memory.oom.group": "1",
            "memory.swap.max": "0",
        },
    }
    assert found.oom_score_adj is None
    assert found.unsayable == ()


@pytest.mark.parametrize("traits", [CONTAINERD, CRIO])
def test_no_update_changes_oom_score_adj(traits):
    found = oci_for_update(OciResources(), ContainerResources(oom_score_adj=-997), traits)
    assert [(left.knob, left.value) for left in found.unsayable] == [("oom_score_adj", "-997")]


def test_crio_sends_only_the_update():
    stored = OciResources(memory_limit=100, unified={"memory.min": "4096"})
    sent = ContainerResources(
        memory_limit_in_bytes=64 * MIB, memory_swap_limit_in_bytes=96 * MIB, unified={"memory.high": "max"}
    )
    found = oci_for_update(stored, sent, CRIO)
    assert found.resources == OciResources(memory_limit=67108864, memory_swap=67108864, unified={"memory.high": "max"})
    assert [(left.knob, left.value) for left in found.unsayable] == [("memory.swap.max", str(32 * MIB))]


@pytest.mark.parametrize(("controller", "swap"), [(True, 64 * MIB), (False, None)])
@pytest.mark.parametrize("asked", [0, 64 * MIB])
def test_a_memory_limit_alone_turns_swap_off_in_crios_update(asked, controller, swap):
    sent = ContainerResources(memory_limit_in_bytes=64 * MIB, memory_swap_limit_in_bytes=asked)
    found = oci_for_update(OciResources(), sent, CRIO, swap_controller=controller)
    assert found == OciTranslation(resources=OciResources(memory_limit=64 * MIB, memory_swap=swap))


def test_older_crio_drops_unified_in_updates():
    sent = ContainerResources(cpu_shares=512, hugepage_limits=(("2MB", 0),), unified={"memory.high": "max"})
    found = oci_for_update(OciResources(), sent, OLD_CRIO, swap_controller=False)
    assert found.resources == OciResources(cpu_shares=512)
    assert [(left.knob, left.value) for left in found.unsayable] == [("hugetlb.2MB.max", "0"), ("memory.high", "max")]


def test_a_value_cannot_be_removed():
    after = ContainerResources(cpu_shares=2, hugepage_limits=(("2MB", 0),), unified={"memory.min": "0"})
    before = ContainerResources(
        cpu_shares=256,
        cpu_quota=50_000,
        cpuset_cpus="0-1",
        memory_limit_in_bytes=256 * MIB,
        hugepage_limits=(("2MB", 0), ("1GB", 0)),
        unified={"memory.min": "4096", "memory.high": "8192", "memory.swap.high": "0"},
    )
    assert [(left.knob, left.value) for left in unclearable(before, after)] == [
        ("memory.max", "max"),
        ("cpu.max", "max 100000"),
        ("cpuset.cpus", ""),
        ("hugetlb.1GB.max", "max"),
        ("memory.high", "max"),
        ("memory.swap.high", ""),
    ]
    assert unclearable(after, after) == ()
    assert isinstance(unclearable(before, after)[0], Unsayable)
