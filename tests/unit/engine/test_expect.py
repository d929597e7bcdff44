"""Plans of nodes: a container under each revision, the levels above it, drivers, and values as read back."""

from dataclasses import replace
from fractions import Fraction

import pytest

from memqos.engine.cgroup.interface_files import CONTROL_FILES
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import UNEXPLAINED, Level
from memqos.errors import UnknownNameError
from memqos.model.knob import ABSENT, Bytes, Knob, Number
from memqos.model.node import CgroupDriver, CgroupVersion, KubeletSettings
from tests.unit.engine.pods import NODE, ON, amounts, container, equal, pod
from tests.unit.engine.reading import BURSTABLE, MI, TIERED, knobs, memory, written

HALF_RESERVED = KubeletSettings(feature_gates={"QOSReserved": True}, qos_reserved={"memory": 50})


# The files of the same Burstable container (64Mi to 200Mi) under each revision.
@pytest.mark.parametrize(
    ("release", "settings_", "files"),
    [
        (
            "1.22",
            ON,
            {"memory.min": "67108864", "memory.high": "167772160", "memory.max": "209715200", "memory.swap.max": "0"},
        ),
        (
            "1.27",
            ON,
            {"memory.min": "67108864", "memory.high": "195452928", "memory.max": "209715200", "memory.swap.max": "0"},
        ),
        (
            "1.28",
            ON,
            {
                "memory.min": "67108864",
                "memory.high": "195452928",
                "memory.max": "209715200",
                "memory.swap.max": "0",
                "memory.oom.group": "1",
            },
        ),
        (
            "1.36",
            ON,
            {
                "memory.min": "0",
                "memory.low": "0",
                "memory.high": "195452928",
                "memory.max": "209715200",
                "memory.swap.max": "0",
                "memory.oom.group": "1",
            },
        ),
        (
            "1.36",
            TIERED,
            {
                "memory.low": "67108864",
                "memory.high": "195452928",
                "memory.max": "209715200",
                "memory.swap.max": "0",
                "memory.oom.group": "1",
            },
        ),
        ("1.36", KubeletSettings(), {"memory.max": "209715200", "memory.swap.max": "0", "memory.oom.group": "1"}),
        (
            "1.37",
            KubeletSettings(),
            {
                "memory.min": "0",
                "memory.low": "0",
                "memory.max": "209715200",
                "memory.swap.max": "0",
                "memory.oom.group": "1",
            },
        ),
        (
            "1.37",
            replace(TIERED, throttling_factor=Fraction(9, 10)),
            {
                "memory.low": "67108864",
                "memory.high": "195452928",
                "memory.max": "209715200",
                "memory.swap.max": "0",
                "memory.oom.group": "1",
            },
        ),
        (
            "1.37",
            KubeletSettings(feature_gates={"MemoryQoS": False}),
            {"memory.high": "max", "memory.max": "209715200", "memory.swap.max": "0", "memory.oom.group": "1"},
        ),
    ],
)
def test_a_burstable_container(release, settings_, files):
    plan = expect([pod(container(*BURSTABLE))], Kubelet.of(node=NODE, settings=settings_, release=release))
    assert memory(knobs(plan)) == files


@pytest.mark.parametrize(
    ("release", "node", "burstable"),
    [
        ("1.22", {"memory.min": 128 * MI}, {"memory.min": 64 * MI}),
        ("1.36", {"memory.min": 128 * MI}, {"memory.low": 64 * MI}),
        ("1.37", {"memory.min": 128 * MI, "memory.low": 64 * MI}, {"memory.low": 64 * MI}),
    ],
)
def test_levels_above_pods(release, node, burstable):
    pods = [pod(container(*BURSTABLE)), pod(equal("100m", "64Mi"), name="g")]
    settings_ = TIERED if release != "1.22" else ON
    plan = expect(pods, Kubelet.of(node=NODE, settings=settings_, release=release))
    found = {
        cgroup.path.name: {name: value for name, value in written(cgroup).items() if name.startswith("memory")}
        for cgroup in (plan.node, *plan.qos)
    }
    assert found["kubepods"] == {**{name: Bytes(count) for name, count in node.items()}, "memory.max": Bytes(8 << 30)}
    assert found["burstable"] == {name: Bytes(count) for name, count in burstable.items()}
    assert found["besteffort"] == {}


def test_the_gate_off_in_137_resets():
    off = KubeletSettings(feature_gates={"MemoryQoS": False})
    plan = expect([pod(container(*BURSTABLE))], Kubelet.of(node=NODE, settings=off, release="1.37"))
    assert plan.node.knobs[Knob.MEMORY_MIN].written == plan.node.knobs[Knob.MEMORY_LOW].written == Bytes(0)
    burstable, besteffort = plan.qos
    assert burstable.knobs[Knob.MEMORY_LOW].written == Bytes(0)
    assert burstable.knobs[Knob.MEMORY_MIN].written is ABSENT
    assert besteffort.knobs[Knob.MEMORY_LOW].written is ABSENT
    assert plan.pods[0].cgroup.knobs[Knob.MEMORY_LOW].written is ABSENT


def test_every_cgroup_lists_every_knob():
    plan = expect(
        [pod(container(*BURSTABLE))],
        Kubelet.of(
            node=NODE,
            settings=replace(
                ON,
                system_reserved=amounts({"memory": "1Gi"}),
                system_reserved_cgroup="/sysres",
                enforce_node_allocatable=("pods", "system-reserved"),
            ),
            release="1.36",
        ),
    )
    cgroups = list(plan.cgroups())
    assert [cgroup.level for cgroup in cgroups] == [
        Level.RESERVED,
        Level.NODE,
        Level.QOS,
        Level.QOS,
        Level.POD,
        Level.CONTAINER,
    ]
    for cgroup in cgroups:
        above = cgroup.level in {Level.NODE, Level.RESERVED}
        assert tuple(cgroup.knobs) == (
            *CONTROL_FILES[CgroupVersion.V2].planned,
            Knob.HUGETLB_2MB_MAX,
            Knob.HUGETLB_1GB_MAX,
            *((Knob.CPUSET_CPUS,) if above else ()),
        )
        for knob, one in cgroup.knobs.items():
            assert one.knob is knob
            assert one.reason.rule
            assert one.reason.source
            if one.written is ABSENT:
                assert one.value == knob.kernel_default


def test_values_are_read_back_in_pages():
    plan = expect(
        [pod(container({"memory": "63488001"}, {"memory": "159457281"}))],
        Kubelet.of(node=NODE, settings=ON, release="1.27"),
    )
    one = plan.pods[0].containers[0].cgroup.knobs[Knob.MEMORY_MAX]
    assert (one.written, one.value) == (Bytes(159457281), Bytes(159457280))
    larger = expect(
        [pod(container({"memory": "63488001"}, {"memory": "159457281"}))],
        Kubelet.of(node=replace(NODE, page_size=65536), settings=ON, release="1.27"),
    )
    assert larger.pods[0].containers[0].cgroup.knobs[Knob.MEMORY_MAX].value == Bytes(159449088)


def test_without_reasons():
    plan = expect([pod(container(*BURSTABLE))], Kubelet.of(node=NODE, settings=ON, release="1.27"), reasons=False)
    full = expect([pod(container(*BURSTABLE))], Kubelet.of(node=NODE, settings=ON, release="1.27"))
    for bare, explained in zip(plan.cgroups(), full.cgroups(), strict=True):
        assert bare.path == explained.path
        for knob, one in bare.knobs.items():
            assert one.reason is UNEXPLAINED
            assert (one.written, one.value) == (explained.knobs[knob].written, explained.knobs[knob].value)
    assert plan.pods[0].qos_reason is plan.pods[0].containers[0].oom_score_adj_reason is UNEXPLAINED


def test_unknown_release():
    with pytest.raises(UnknownNameError):
        expect([], Kubelet.of(node=NODE, release="1.21"))


@pytest.mark.parametrize(
    ("given_", "configured", "driver", "path"),
    [
        (None, None, CgroupDriver.CGROUPFS, "/kubepods/poduid-p"),
        (None, CgroupDriver.SYSTEMD, CgroupDriver.SYSTEMD, "/kubepods.slice/kubepods-poduid_p.slice"),
        (CgroupDriver.CGROUPFS, CgroupDriver.SYSTEMD, CgroupDriver.CGROUPFS, "/kubepods/poduid-p"),
    ],
)
def test_drivers(given_, configured, driver, path):
    plan = expect(
        [pod(equal("1", "1Gi"))],
        Kubelet.of(node=NODE, settings=KubeletSettings(cgroup_driver=configured), release="1.36", driver=given_),
    )
    assert plan.driver is driver
    assert str(plan.pod("uid-p").cgroup.path) == path
    with pytest.raises(KeyError):
        plan.pod("other")


def test_custom_root():
    plan = expect([], Kubelet.of(node=NODE, settings=KubeletSettings(cgroup_root="/a/b"), release="1.36"))
    assert str(plan.node.path) == "/a/b/kubepods"


def test_without_cgroups_per_qos():
    settings_ = KubeletSettings(cgroups_per_qos=False, cgroup_root="/pods", enforce_node_allocatable=("none",))
    plan = expect([pod(container(*BURSTABLE))], Kubelet.of(node=NODE, settings=settings_, release="1.36"))
    assert (str(plan.node.path), plan.qos, dict(plan.node.knobs)) == ("/pods", (), {})
    assert (str(plan.pods[0].cgroup.path), dict(plan.pods[0].cgroup.knobs)) == ("/pods", {})
    assert knobs(plan)["memory.max"] == Bytes(200 * MI)


def test_capacity_without_enforcement():
    reserved = amounts({"memory": "1Gi", "cpu": "1"})
    for keys, memory_max, weight in ((None, 7 << 30, 118), (("none",), 8 << 30, 157), ((), 8 << 30, 157)):
        settings_ = KubeletSettings(system_reserved=reserved, enforce_node_allocatable=keys)
        node = expect([], Kubelet.of(node=NODE, settings=settings_, release="1.36")).node
        assert node.knobs[Knob.MEMORY_MAX].written == Bytes(memory_max)
        assert node.knobs[Knob.CPU_WEIGHT].written == Number(weight)
    nothing_left = KubeletSettings(system_reserved=amounts({"memory": "8Gi"}), eviction_hard={})
    assert (
        expect([], Kubelet.of(node=NODE, settings=nothing_left, release="1.36")).node.knobs[Knob.MEMORY_MAX].written
        is ABSENT
    )


@pytest.mark.parametrize(("release", "settings", "kubepods", "burstable", "best_effort"), [
    ("1.27", KubeletSettings(), set(), {"cpu.weight"}, set()),
    ("1.27", ON, {"memory.min"}, {"cpu.weight", "memory.min"}, set()),
    ("1.36", ON, set(), {"cpu.weight"}, set()),
    ("1.37", TIERED, {"memory.min", "memory.low"}, {"cpu.weight", "memory.low"}, set()),
    ("1.27", HALF_RESERVED, set(), {"cpu.weight", "memory.max"}, {"memory.max"}),
])  # fmt: skip
def test_files_that_depend_on_all_pods(release, settings, kubepods, burstable, best_effort):
    plan = expect([], Kubelet.of(node=NODE, settings=settings, release=release))
    assert [set(cgroup.summed) for cgroup in (plan.node, *plan.qos)] == [kubepods, burstable, best_effort]
