from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memqos.engine.control_files import CONTROL_FILES
from memqos.engine.expect import expect
from memqos.engine.plan import Level
from memqos.engine.release import Release, Variant
from memqos.engine.ruling import UNEXPLAINED
from memqos.errors import UnknownNameError
from memqos.model.knob import ABSENT, MAX, Bytes, CpuMax, Knob, Number
from memqos.model.node import CgroupDriver, CgroupVersion, KubeletSettings, ReservationPolicy, SwapBehavior
from memqos.model.pod import ContainerKind, QosClass
from memqos.model.traits import RuntimeTraits, WeightConversion
from tests.unit.engine.anything import FACTORS, PODS, POLICIES, RELEASES, VARIANTS
from tests.unit.engine.pods import NODE, ON, amounts, container, equal, pod, resources

MI = 1 << 20
BURSTABLE = {"memory": "64Mi"}, {"memory": "200Mi"}
TIERED = replace(ON, memory_reservation_policy=ReservationPolicy.TIERED)


def knobs(plan, name="c"):
    """What is written into the cgroup of one container of a plan's only pod, without what is left alone."""
    (found,) = [one for one in plan.pods[0].containers if one.name == name]
    return written(found.cgroup)


def written(cgroup):
    return {knob.value: one.written for knob, one in cgroup.knobs.items() if one.written is not ABSENT}


def memory(found):
    return {name: str(value) for name, value in found.items() if name.startswith("memory.")}


# The same Burstable container (64Mi to 200Mi) under each revision: what its files get.
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
    plan = expect([pod(container(*BURSTABLE))], node=NODE, settings=settings_, release=release)
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
    plan = expect(pods, node=NODE, settings=settings_, release=release)
    found = {
        cgroup.path.name: {name: value for name, value in written(cgroup).items() if name.startswith("memory")}
        for cgroup in (plan.node, *plan.qos)
    }
    assert found["kubepods"] == {**{name: Bytes(count) for name, count in node.items()}, "memory.max": Bytes(8 << 30)}
    assert found["burstable"] == {name: Bytes(count) for name, count in burstable.items()}
    assert found["besteffort"] == {}


def test_the_gate_off_in_137_resets():
    off = KubeletSettings(feature_gates={"MemoryQoS": False})
    plan = expect([pod(container(*BURSTABLE))], node=NODE, settings=off, release="1.37")
    assert plan.node.knobs[Knob.MEMORY_MIN].written == plan.node.knobs[Knob.MEMORY_LOW].written == Bytes(0)
    burstable, besteffort = plan.qos
    assert burstable.knobs[Knob.MEMORY_LOW].written == Bytes(0)
    assert burstable.knobs[Knob.MEMORY_MIN].written is ABSENT
    assert besteffort.knobs[Knob.MEMORY_LOW].written is ABSENT
    assert plan.pods[0].cgroup.knobs[Knob.MEMORY_LOW].written is ABSENT


def test_every_cgroup_lists_every_knob():
    plan = expect(
        [pod(container(*BURSTABLE))],
        node=NODE,
        settings=replace(
            ON,
            system_reserved=amounts({"memory": "1Gi"}),
            system_reserved_cgroup="/sysres",
            enforce_node_allocatable=("pods", "system-reserved"),
        ),
        release="1.36",
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
        [pod(container({"memory": "63488001"}, {"memory": "159457281"}))], node=NODE, settings=ON, release="1.27"
    )
    one = plan.pods[0].containers[0].cgroup.knobs[Knob.MEMORY_MAX]
    assert (one.written, one.value) == (Bytes(159457281), Bytes(159457280))
    larger = expect(
        [pod(container({"memory": "63488001"}, {"memory": "159457281"}))],
        node=replace(NODE, page_size=65536),
        settings=ON,
        release="1.27",
    )
    assert larger.pods[0].containers[0].cgroup.knobs[Knob.MEMORY_MAX].value == Bytes(159449088)


def test_without_reasons():
    plan = expect([pod(container(*BURSTABLE))], node=NODE, settings=ON, release="1.27", reasons=False)
    full = expect([pod(container(*BURSTABLE))], node=NODE, settings=ON, release="1.27")
    for bare, explained in zip(plan.cgroups(), full.cgroups(), strict=True):
        assert bare.path == explained.path
        for knob, one in bare.knobs.items():
            assert one.reason is UNEXPLAINED
            assert (one.written, one.value) == (explained.knobs[knob].written, explained.knobs[knob].value)
    assert plan.pods[0].qos_reason is plan.pods[0].containers[0].oom_score_adj_reason is UNEXPLAINED


def test_unknown_release():
    with pytest.raises(UnknownNameError):
        expect([], node=NODE, release="1.21")


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
        node=NODE,
        settings=KubeletSettings(cgroup_driver=configured),
        release="1.36",
        driver=given_,
    )
    assert plan.driver is driver
    assert str(plan.pod("uid-p").cgroup.path) == path
    with pytest.raises(KeyError):
        plan.pod("other")


def test_custom_root():
    plan = expect([], node=NODE, settings=KubeletSettings(cgroup_root="/a/b"), release="1.36")
    assert str(plan.node.path) == "/a/b/kubepods"


def test_without_cgroups_per_qos():
    settings_ = KubeletSettings(cgroups_per_qos=False, cgroup_root="/pods", enforce_node_allocatable=("none",))
    plan = expect([pod(container(*BURSTABLE))], node=NODE, settings=settings_, release="1.36")
    assert (str(plan.node.path), plan.qos, dict(plan.node.knobs)) == ("/pods", (), {})
    assert (str(plan.pods[0].cgroup.path), dict(plan.pods[0].cgroup.knobs)) == ("/pods", {})
    assert knobs(plan)["memory.max"] == Bytes(200 * MI)


def test_capacity_without_enforcement():
    reserved = amounts({"memory": "1Gi", "cpu": "1"})
    for keys, memory_max, weight in ((None, 7 << 30, 118), (("none",), 8 << 30, 157), ((), 8 << 30, 157)):
        settings_ = KubeletSettings(system_reserved=reserved, enforce_node_allocatable=keys)
        node = expect([], node=NODE, settings=settings_, release="1.36").node
        assert node.knobs[Knob.MEMORY_MAX].written == Bytes(memory_max)
        assert node.knobs[Knob.CPU_WEIGHT].written == Number(weight)
    nothing_left = KubeletSettings(system_reserved=amounts({"memory": "8Gi"}), eviction_hard={})
    assert expect([], node=NODE, settings=nothing_left, release="1.36").node.knobs[Knob.MEMORY_MAX].written is ABSENT


# Swap, by release and behaviour: what is written into memory.swap.max of a container with 1Gi to 2Gi on 8Gi with 4Gi.
@pytest.mark.parametrize(
    ("release", "gate", "behavior", "variant", "text"),
    [
        # The gate off: the runtime itself turns a memory limit into "no swap".
        ("1.22", False, "", "shipped", "0"),
        ("1.22", True, "LimitedSwap", "shipped", "0"),
        ("1.27", True, "UnlimitedSwap", "shipped", "max"),
        ("1.28", False, "", "shipped", "0"),
        ("1.28", True, "LimitedSwap", "shipped", "536870912"),
        ("1.28", True, "UnlimitedSwap", "shipped", "max"),
        # The documentation says that nothing given means LimitedSwap; the code made it unlimited.
        ("1.29", True, "", "shipped", "max"),
        ("1.29", True, "", "documented", "536870912"),
        ("1.30", True, "", "shipped", "0"),
        ("1.30", True, "NoSwap", "shipped", "0"),
        ("1.30", True, "LimitedSwap", "shipped", "536870912"),
        ("1.33", False, "", "shipped", "0"),
        ("1.36", None, "LimitedSwap", "shipped", "536870912"),
    ],
)
def test_swap(release, gate, behavior, variant, text):
    settings_ = KubeletSettings(
        feature_gates={} if gate is None else {"NodeSwap": gate},
        swap_behavior=SwapBehavior(behavior) if behavior else None,
    )
    plan = expect(
        [pod(container({"memory": "1Gi"}, {"memory": "2Gi"}))],
        node=NODE,
        settings=settings_,
        release=release,
        variant=Variant(variant),
    )
    assert str(knobs(plan)["memory.swap.max"]) == text


@pytest.mark.parametrize(("release", "text"), [("1.30", "536870912"), ("1.31", "0")])
def test_critical_pods_never_swap_from_131_on(release, text):
    settings_ = KubeletSettings(feature_gates={"NodeSwap": True}, swap_behavior=SwapBehavior.LIMITED)
    for one in (
        pod(container({"memory": "1Gi"}, {"memory": "2Gi"}), static=True),
        pod(container({"memory": "1Gi"}, {"memory": "2Gi"}), priority=2_000_000_000),
    ):
        plan = expect([one], node=NODE, settings=settings_, release=release)
        assert str(knobs(plan)["memory.swap.max"]) == text


@pytest.mark.parametrize(
    ("release", "behavior", "text"),
    [
        ("1.22", SwapBehavior.UNLIMITED, "max"),
        ("1.22", SwapBehavior.LIMITED, None),
        ("1.28", SwapBehavior.LIMITED, "0"),
        ("1.22", None, None),
        ("1.36", SwapBehavior.LIMITED, "0"),
    ],
)
def test_swap_of_a_container_without_memory(release, behavior, text):
    settings_ = KubeletSettings(feature_gates={"NodeSwap": True}, swap_behavior=behavior)
    found = knobs(expect([pod(container({"cpu": "1"}))], node=NODE, settings=settings_, release=release))
    assert str(found.get("memory.swap.max")) == str(text)


@pytest.mark.parametrize("release", ["1.28", "1.36"])
def test_no_swap_controller(release):
    node = replace(NODE, swap_controller=False)
    settings_ = KubeletSettings(feature_gates={"NodeSwap": True}, swap_behavior=SwapBehavior.LIMITED)
    plan = expect(
        [pod(container({"memory": "1Gi"}, {"memory": "2Gi"}))], node=node, settings=settings_, release=release
    )
    assert "memory.swap.max" not in knobs(plan)


def test_request_above_the_machine_does_not_swap():
    settings_ = KubeletSettings(swap_behavior=SwapBehavior.LIMITED)
    plan = expect([pod(container({"memory": "9Gi"}))], node=NODE, settings=settings_, release="1.36")
    assert str(knobs(plan)["memory.swap.max"]) == "0"


@pytest.mark.parametrize(
    ("version", "release", "gate", "behavior", "limit"),
    [
        ("v1", "1.22", True, "", 2 << 30),
        ("v1", "1.22", True, "UnlimitedSwap", -1),
        ("v1", "1.22", False, "", 0),
        ("v1", "1.28", True, "", 2 << 30),
        ("v1", "1.28", True, "LimitedSwap", 2 << 30),
        ("v1", "1.28", False, "", 2 << 30),
        ("v1", "1.30", True, "LimitedSwap", 2 << 30),
        ("v2", "1.22", True, "UnlimitedSwap", -1),
        ("v2", "1.30", True, "LimitedSwap", 0),
    ],
)
def test_swap_in_the_message(version, release, gate, behavior, limit):
    settings_ = KubeletSettings(
        feature_gates={"NodeSwap": gate}, swap_behavior=SwapBehavior(behavior) if behavior else None
    )
    node = replace(NODE, cgroup_version=CgroupVersion(version))
    plan = expect(
        [pod(container({"memory": "1Gi"}, {"memory": "2Gi"}))], node=node, settings=settings_, release=release
    )
    assert plan.pods[0].containers[0].resources.memory_swap_limit_in_bytes == limit


def test_runtimes_differ():
    one = pod(container({"cpu": "1"}, {"cpu": "333m", "memory": "1Gi", "hugepages-2Mi": "4Mi"}))
    systemd = CgroupDriver.SYSTEMD
    linear = expect([one], node=NODE, release="1.36", driver=systemd)
    assert knobs(linear)["cpu.weight"] == Number(39)
    assert knobs(linear)["cpu.max"] == CpuMax(33300, 100000)
    assert "hugetlb.2MB.max" not in knobs(linear)
    # The kubelet's own driver rounds from 1.34 on, whatever the runtime does.
    assert written(linear.pods[0].cgroup)["cpu.max"] == CpuMax(34000, 100000)
    assert written(expect([one], node=NODE, release="1.33", driver=systemd).pods[0].cgroup)["cpu.max"] == CpuMax(
        33300, 100000
    )
    other = RuntimeTraits(
        name="other",
        weight=WeightConversion.QUADRATIC,
        hugetlb=True,
        swap_follows_memory=False,
        systemd_rounds_quota=True,
    )
    found = knobs(expect([one], node=NODE, release="1.27", driver=systemd, traits=other))
    assert found["cpu.weight"] == Number(100)
    assert found["cpu.max"] == CpuMax(34000, 100000)
    assert (found["hugetlb.2MB.max"], found["hugetlb.1GB.max"]) == (Bytes(4 * MI), Bytes(0))
    assert "memory.swap.max" not in found
    assert knobs(expect([one], node=NODE, release="1.27", traits=other))["cpu.max"] == CpuMax(33300, 100000)


def test_no_quota():
    one = pod(equal("500m", "1Gi"))
    plan = expect([one], node=NODE, settings=KubeletSettings(cpu_cfs_quota=False), release="1.36")
    assert "cpu.max" not in knobs(plan)
    assert written(plan.pods[0].cgroup)["cpu.max"] == CpuMax(None, 100000)


def test_exclusive_cpus_have_no_quota():
    plan = expect(
        [pod(equal("2", "1Gi"))], node=NODE, settings=KubeletSettings(cpu_manager_policy="static"), release="1.33"
    )
    assert knobs(plan)["cpu.max"] == CpuMax(None, 100000)
    assert plan.pods[0].sandbox_resources.cpu_quota == -1
    own = pod(equal("2", "1Gi"), resources=resources({"cpu": "2", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}))
    plan = expect([own], node=NODE, settings=KubeletSettings(cpu_manager_policy="static"), release="1.34")
    assert knobs(plan)["cpu.max"] == CpuMax(200000, 100000)
    assert plan.pods[0].sandbox_resources.cpu_quota == 200000


def test_sidecars_by_release():
    one = pod(
        container({"memory": "10Mi"}, {"memory": "20Mi"}),
        init_containers=(container({"memory": "30Mi"}, {"memory": "40Mi"}, name="s", kind=ContainerKind.SIDECAR),),
    )
    for release, gates, total in (
        ("1.27", {}, 30),
        ("1.28", {}, 30),
        ("1.28", {"SidecarContainers": True}, 40),
        ("1.29", {}, 40),
    ):
        settings_ = replace(ON, feature_gates={"MemoryQoS": True, **gates})
        plan = expect([one], node=NODE, settings=settings_, release=release)
        assert plan.pods[0].cgroup.knobs[Knob.MEMORY_MIN].written == Bytes(total * MI)
        assert [c.name for c in plan.pods[0].containers] == ["s", "c"]


def test_limits_declared_by_release():
    init = container(name="i", kind=ContainerKind.INIT)
    bare_init = pod(container(None, {"memory": "64Mi"}), init_containers=(init,))
    side = container(None, {"memory": "32Mi"}, name="s", kind=ContainerKind.SIDECAR)
    after = pod(container(None, {"memory": "64Mi"}), init_containers=(side, init))
    for release, one, limit in (
        ("1.22", bare_init, Bytes(64 * MI)),
        ("1.23", bare_init, ABSENT),
        ("1.27", bare_init, ABSENT),
        # The limit of the sidecar before it counts for the init container too.
        ("1.28", after, ABSENT),
        ("1.29", after, Bytes(96 * MI)),
    ):
        plan = expect([one], node=NODE, release=release)
        assert plan.pods[0].cgroup.knobs[Knob.MEMORY_MAX].written == limit


def test_pod_level_resources_by_release():
    own = resources({"memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"})
    one = pod(container(), resources=own)
    gates = {"PodLevelResources": True, "MemoryQoS": True}
    for release, gate, qos, limit in (
        ("1.31", gates, QosClass.BEST_EFFORT, None),
        ("1.32", {"MemoryQoS": True}, QosClass.BEST_EFFORT, None),
        ("1.32", gates, QosClass.BURSTABLE, Bytes(2 << 30)),
        ("1.34", {"MemoryQoS": True}, QosClass.BURSTABLE, Bytes(2 << 30)),
    ):
        plan = expect([one], node=NODE, settings=KubeletSettings(feature_gates=gate), release=release)
        assert plan.pods[0].qos is qos
        assert written(plan.pods[0].cgroup).get("memory.max") == limit
        assert knobs(plan).get("memory.max") == limit
        # memory.high looks at the container alone.
        assert "memory.high" not in knobs(plan)


def test_pod_level_defaulting():
    own = resources(None, {"memory": "2Gi", "cpu": "1"})
    one = pod(container({"memory": "1Gi"}, {"memory": "1Gi", "hugepages-2Mi": "4Mi"}), resources=own)
    settings_ = replace(ON, feature_gates={"MemoryQoS": True, "PodLevelResources": True})
    for release, hugepages in (("1.33", 4 * MI), ("1.34", 4 * MI)):
        plan = expect([one], node=NODE, settings=settings_, release=release)
        # The containers' requests become the pod's; the limit does where no container requests.
        assert plan.pods[0].cgroup.knobs[Knob.MEMORY_MIN].written == Bytes(1 << 30)
        assert plan.pods[0].sandbox_resources.cpu_shares == 1024
        assert plan.pods[0].cgroup.knobs[Knob.HUGETLB_2MB_MAX].written == Bytes(hugepages)


def test_node_critical_pods():
    critical = {"priority": 2_000_001_000, "priority_class_name": "system-node-critical"}
    one = pod(container(*BURSTABLE), **critical)
    plan = expect(
        [one, pod(container(), name="s", static=True, priority_class_name="system-node-critical")],
        node=NODE,
        release="1.36",
    )
    assert [p.containers[0].oom_score_adj for p in plan.pods] == [-997, -997]
    assert "2000001000 >= 2000000000" in plan.pods[0].containers[0].oom_score_adj_reason.inputs[0].value
    assert "static pod" in plan.pods[1].containers[0].oom_score_adj_reason.inputs[0].value


def test_ephemeral_containers_have_a_cgroup_too():
    debug = container(name="debug", kind=ContainerKind.EPHEMERAL)
    plan = expect(
        [pod(container(*BURSTABLE), ephemeral_containers=(debug,))], node=NODE, settings=TIERED, release="1.36"
    )
    assert memory(knobs(plan, "debug")) == {
        "memory.min": "0",
        "memory.low": "0",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
    }


def test_single_process_oom_kill():
    for value, release, group in (
        (True, "1.32", None),
        (False, "1.32", Number(1)),
        (None, "1.32", Number(1)),
        (True, "1.31", Number(1)),
        (None, "1.27", None),
    ):
        plan = expect([pod()], node=NODE, settings=KubeletSettings(single_process_oom_kill=value), release=release)
        assert knobs(plan).get("memory.oom.group") == group


def test_nothing_allocatable_leaves_memory_high_alone():
    full = replace(ON, system_reserved=amounts({"memory": "8Gi"}), eviction_hard={})
    for release in ("1.22", "1.27", "1.37"):
        settings_ = replace(full, throttling_factor=Fraction(1, 2))
        plan = expect([pod(container({"memory": "1Gi"}))], node=NODE, settings=settings_, release=release)
        assert "memory.high" not in knobs(plan)


def test_sandbox_resources_from_123_on():
    one = pod(container(*BURSTABLE), overhead=amounts({"memory": "10Mi", "cpu": "100m"}))
    old, new = (expect([one], node=NODE, release=release).pods[0] for release in ("1.22", "1.23"))
    assert (old.sandbox_resources.cpu_shares, old.sandbox_overhead.cpu_shares) == (0, 0)
    assert (new.sandbox_resources.memory_limit_in_bytes, new.sandbox_overhead.memory_limit_in_bytes) == (
        200 * MI,
        10 * MI,
    )


def test_a_node_without_huge_pages():
    plan = expect([pod()], node=replace(NODE, hugepage_sizes=(64 << 10,)), release="1.36")
    assert tuple(plan.node.knobs) == (*CONTROL_FILES[CgroupVersion.V2].planned, Knob.CPUSET_CPUS)
    assert plan.pods[0].containers[0].resources.hugepage_limits == (("64KB", 0),)


@pytest.mark.parametrize(
    ("reserved", "files"),
    [
        ({"cpu": "500m"}, {"cpu.weight": "20"}),
        ({"memory": "1Gi"}, {"memory.max": "1073741824", "memory.min": "1073741824"}),
        ({"memory": "0"}, {"memory.min": "0"}),
        ({"memory": "1Gi", "hugepages-2Mi": "4Mi"}, {"memory.max": "1073741824", "memory.min": "1073741824"}),
    ],
)
def test_reserved_cgroups(reserved, files):
    given_ = {
        "system_reserved": amounts(reserved),
        "system_reserved_cgroup": "/sys",
        "kube_reserved": amounts({"memory": "1Gi"}),
        "kube_reserved_cgroup": "/kube",
        "enforce_node_allocatable": ("system-reserved",),
    }
    # The other reservation is not enforced: nobody writes its cgroup.
    (cgroup,) = expect([], node=NODE, settings=replace(ON, **given_), release="1.27").reserved
    found = {name: str(value) for name, value in written(cgroup).items() if not name.startswith("hugetlb")}
    assert found == files
    hugepages = 4 * MI if "hugepages-2Mi" in reserved else 0
    assert written(cgroup)["hugetlb.2MB.max"] == Bytes(hugepages)


def test_pod_level_memory_high_needs_room():
    factor = Fraction(9, 10)
    for request, limit, high in (("128Mi", "256Mi", 255012864), ("256Mi", "256Mi", None), ("1Gi", "1073741828", None)):
        one = pod(container(), resources=resources({"memory": request}, {"memory": limit}))
        plan = expect([one], node=NODE, settings=replace(ON, throttling_factor=factor), release="1.37")
        assert written(plan.pods[0].cgroup).get("memory.high") == (None if high is None else Bytes(high))


@given(PODS, RELEASES, FACTORS, POLICIES, st.randoms())
def test_plan_is_deterministic_and_order_independent(pods, release, factor, policy, random):
    variant = random.choice(list(Variant))
    settings_ = replace(ON, throttling_factor=factor, memory_reservation_policy=policy)
    plan = expect(pods, node=NODE, settings=settings_, release=release, variant=variant)
    shuffled = list(pods)
    random.shuffle(shuffled)
    assert expect(shuffled, node=NODE, settings=settings_, release=release, variant=variant) == plan


@given(PODS, RELEASES, FACTORS, POLICIES, VARIANTS)
def test_memory_high_is_above_the_request_and_never_above_its_top(pods, release, factor, policy, variant):
    settings_ = replace(ON, throttling_factor=factor, memory_reservation_policy=policy)
    plan = expect(pods, node=NODE, settings=settings_, release=release, variant=variant)
    for given_, planned in zip(sorted(pods, key=lambda one: one.name), plan.pods, strict=True):
        for one, cgroup in zip(given_.all_containers, planned.containers, strict=True):
            high = cgroup.cgroup.knobs[Knob.MEMORY_HIGH].written
            if high is ABSENT:
                continue
            limits = one.resources.limits.get("memory")
            request = one.resources.requests.get("memory", limits)
            top = limits.value if limits is not None and limits.value else NODE.memory
            bottom = request.value if request else 0
            assert bottom < high.count <= top
            if Release.parse(release).since(27):
                # Exactly, but for whole pages and for what a float64 cannot hold.
                exact = bottom + factor * (top - bottom)
                assert exact - NODE.page_size - 1 < high.count <= exact + 1


@given(PODS, RELEASES, POLICIES)
def test_protection_of_a_parent_covers_its_children(pods, release, policy):
    settings_ = replace(ON, memory_reservation_policy=policy, throttling_factor=Fraction(9, 10))
    plan = expect(pods, node=NODE, settings=settings_, release=release)

    def protected(cgroup, knob):
        value = cgroup.knobs[knob].value
        return value.count if isinstance(value, Bytes) else 0

    pages = NODE.page_size * (len(pods) + 1)
    for knob in (Knob.MEMORY_MIN, Knob.MEMORY_LOW):
        burstable = [one.cgroup for one in plan.pods if one.qos is QosClass.BURSTABLE]
        below = sum(protected(one, knob) for one in burstable)
        assert below <= protected(plan.qos[0], knob) + pages
    # A BestEffort pod with overhead gets memory.min for it (up to 1.35), which no sum above it counts.
    counted = [one.cgroup for one in plan.pods if one.qos is not QosClass.BEST_EFFORT]
    every = sum(protected(one, Knob.MEMORY_MIN) for one in counted)
    assert every <= protected(plan.node, Knob.MEMORY_MIN) + pages


@given(PODS, st.sampled_from(["1.36", "1.37"]))
def test_tiered_kubepods_protects_hard_what_its_pods_ask_for(pods, release):
    """Guaranteed pods' memory.min and Burstable pods' memory.low together, exactly: both are written unrounded."""
    plan = expect(
        pods, node=NODE, settings=replace(ON, memory_reservation_policy=ReservationPolicy.TIERED), release=release
    )
    both = (Knob.MEMORY_MIN, Knob.MEMORY_LOW)
    values = [
        one.cgroup.knobs[knob].written for one in plan.pods for knob in both if one.qos is not QosClass.BEST_EFFORT
    ]
    asked = sum(value.count for value in values if isinstance(value, Bytes))
    assert plan.node.knobs[Knob.MEMORY_MIN].written == Bytes(asked)


@given(PODS, RELEASES)
def test_a_pod_holds_its_containers(pods, release):
    """Where a pod has a limit, it is at least each container's; its request is at least the sum of its apps'."""
    plan = expect(pods, node=NODE, settings=ON, release=release)
    for planned in plan.pods:
        whole = planned.cgroup.knobs[Knob.MEMORY_MAX].written
        if whole is ABSENT:
            continue
        for one in planned.containers:
            own = one.cgroup.knobs[Knob.MEMORY_MAX].written
            assert own is ABSENT or own.count <= whole.count
    assert all(MAX is not one.cgroup.knobs[Knob.MEMORY_MAX].written for one in plan.pods)


@given(PODS, RELEASES, POLICIES, st.randoms())
def test_the_order_of_a_pods_containers_changes_no_value(pods, release, policy, random):
    """App containers run side by side: each gets the same wherever it is written, and so does the pod."""
    settings_ = replace(ON, memory_reservation_policy=policy, throttling_factor=Fraction(9, 10))

    def shown(several):
        plan = expect(several, node=NODE, settings=settings_, release=release, reasons=False)
        containers = {(one.uid, own.name): own for one in plan.pods for own in one.containers}
        return [one.cgroup for one in plan.pods], containers, plan.qos, plan.node

    shuffled = [replace(one, containers=tuple(random.sample(one.containers, len(one.containers)))) for one in pods]
    assert shown(shuffled) == shown(pods)


@given(PODS, RELEASES, POLICIES)
def test_protection_of_a_pod_covers_its_containers(pods, release, policy):
    """What runs side by side asks for no more than the pod; an init container, which runs alone, neither."""
    settings_ = replace(ON, memory_reservation_policy=policy, throttling_factor=Fraction(9, 10))
    plan = expect(pods, node=NODE, settings=settings_, release=release, reasons=False)

    def asked(cgroup, knob):
        value = cgroup.knobs[knob].written
        return value.count if isinstance(value, Bytes) else 0

    for one in plan.pods:
        for knob in (Knob.MEMORY_MIN, Knob.MEMORY_LOW):
            apps = sum(asked(own.cgroup, knob) for own in one.containers if own.kind is ContainerKind.APP)
            init = max((asked(own.cgroup, knob) for own in one.containers), default=0)
            assert max(apps, init) <= asked(one.cgroup, knob)


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(0, 1 << 20), FACTORS)
def test_memory_high_of_a_pod_is_above_its_request(request, more, overhead, factor):
    """The pod's own, of 1.37, for a pod-level limit: with overhead in the request and in the limit."""
    one = pod(
        container(),
        resources=resources({"memory": request}, {"memory": request + more}),
        overhead=amounts({"memory": overhead}),
    )
    settings_ = replace(ON, throttling_factor=factor)
    plan = expect([one], node=NODE, settings=settings_, release="1.37", reasons=False)
    high = plan.pods[0].cgroup.knobs[Knob.MEMORY_HIGH].written
    assert high is ABSENT or request + overhead < high.count <= request + more + overhead
