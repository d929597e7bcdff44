"""A planned container in every language at once: the value, its text, its JSON."""

from dataclasses import replace

import pytest

from memqos.catalog.pods import load_pod_catalog
from memqos.engine.document import plan_document
from memqos.engine.expect import expect
from memqos.engine.explain import knob_reasons, plan_tree, translations_text
from memqos.engine.plan import ContainerResources
from memqos.engine.release import Variant
from memqos.engine.translate.container import translate
from memqos.engine.translate.explain import Language, translation_lines
from memqos.engine.translate.versions import TRIXIE, Runtimes, traits_of
from memqos.model.knob import ABSENT, Knob
from memqos.model.node import CgroupDriver, CgroupVersion, KubeletSettings, NodeFacts
from tests.unit.engine.pods import NODE, ON, container, pod

WEB = pod(container({"memory": "64Mi", "cpu": "100m"}, {"memory": "100000000", "cpu": "333m"}), name="web")
NO_SWAP_LIMIT = "the message has no swap limit: the runtime takes a memory limit alone as no swap."
NO_HUGE_PAGES = "containerd drops huge page limits while disable_hugetlb_controller is true, which is its default."
AFTER = "after a daemon-reload 34000 100000"
CRUN = Runtimes(cri=TRIXIE.cri, oci=traits_of("crun", "1.21"))


def planned(runtimes=TRIXIE, *, release="1.27", node=NODE, settings=ON, driver=CgroupDriver.SYSTEMD, pods=(WEB,)):
    return expect(pods, node=node, settings=settings, release=release, driver=driver, runtimes=runtimes)


def own(plan):
    return plan.pods[0].containers[0].translation


def test_nothing_is_translated_unless_runtimes_are_named():
    plan = planned(None)
    assert own(plan) is None
    assert translations_text(plan, Language) == ""
    assert "translation" not in plan_document(plan, variant=Variant.SHIPPED)["pods"][0]["containers"][0]


def test_the_way_of_one_container():
    found = own(planned())
    assert (found.cri, found.oci_runtime, found.refusal) == ("containerd 1.7.24", "runc 1.1.15", "")
    assert found.oci.resources.document()["memory"] == {"limit": 100000000, "swap": 100000000}
    assert found.docker.host_config["MemorySwap"] == 100000000
    # 1.27 says nothing of swap where it is off: the runtime makes 0 of the memory limit.
    assert [(one.knob, one.value) for one in found.cri_unsaid] == [("memory.swap.max", "0")]
    assert [one.knob for one in found.cri_final][:3] == ["memory.max", "cpu.weight", "cpu.max"]
    files = {one.name: (one.written, one.shows, one.reloaded) for one in found.files}
    assert files["memory.max"] == ("100000000", "99999744", "99999744")
    assert files["memory.swap.max"] == ("0", "0", "max")
    assert files["cpu.max"] == ("33300 100000", "33300 100000", "34000 100000")
    assert found.scope == ()


def test_crun_has_a_scope_above():
    found = own(planned(CRUN))
    assert found.writes.subgroup == "container"
    # Memory and swap together, as a swap limit: crun's own mistake.
    assert {one.name: one.shows for one in found.scope}["memory.swap.max"] == "99999744"
    assert {one.name: one.shows for one in found.files}["memory.swap.max"] == "0"
    assert own(planned(CRUN, driver=CgroupDriver.CGROUPFS)).scope == ()


# Every release that has rules of its own, both drivers, old and new runtimes.
@pytest.mark.parametrize("release", ["1.22", "1.27", "1.30", "1.36"])
@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize("oci", [("runc", "1.1.5"), ("runc", "1.4.0"), ("crun", "1.8.6"), ("crun", "1.28")])
@pytest.mark.parametrize("cri", [("containerd", "1.6.8"), ("containerd", "2.1.9"), ("cri-o", "1.36")])
def test_files_are_what_the_plan_expects(release, driver, oci, cri):
    """Two ways to the same files: the plan's own rules, and the translation step by step."""
    runtimes = Runtimes(cri=traits_of(*cri), oci=traits_of(*oci), hugetlb=True)
    settings = KubeletSettings(feature_gates={"MemoryQoS": True})
    plan = planned(runtimes, release=release, driver=driver, settings=settings, pods=load_pod_catalog())
    for one in [one for each in plan.pods for one in each.containers]:
        files = {file.name: file.shows for file in one.translation.files}
        assert one.translation.refusal == ""
        for knob, expected in one.cgroup.knobs.items():
            if expected.written is not ABSENT and knob in files:
                assert files[knob] == str(expected.value), (one.name, knob)
            elif expected.written is not ABSENT:
                assert str(expected.value) == str(knob.kernel_default), (one.name, knob)


def test_a_runtime_that_refuses():
    small = pod(container(limits={"memory": "8Mi"}), name="small")
    plan = planned(Runtimes(cri=traits_of("cri-o", "1.36"), oci=TRIXIE.oci), pods=[small])
    found = own(plan)
    assert found.refusal == "set memory limit 8388608 too low; should be at least 12582912 bytes"
    assert (found.writes, found.files) == (None, ())
    text = translations_text(plan, Language)
    assert "    refused by cri-o 1.36: set memory limit 8388608 too low" in text
    assert "    refused: set memory limit 8388608 too low" in text
    assert "  file     refused: set memory limit" in knob_reasons(plan, Knob.MEMORY_MAX)
    [document] = plan_document(plan, variant=Variant.SHIPPED)["pods"][0]["containers"]
    assert document["translation"]["files"] is None


def test_an_oci_runtime_that_refuses():
    """runc before 1.2 cannot write a swap limit where there is no swap controller; containerd 1.6 asks for it."""
    node = NodeFacts(memory=8 << 30, cpus=4, swap=1 << 30, swap_controller=False)
    old = Runtimes(cri=traits_of("containerd", "1.6.8"), oci=traits_of("runc", "1.1.5"))
    settings = KubeletSettings(feature_gates={"NodeSwap": True}, fail_swap_on=False)
    found = own(planned(old, node=node, release="1.22", settings=settings))
    assert found.refusal == "open memory.swap.max: no such file or directory"
    assert (found.oci.refusal, found.files, found.scope) == ("", (), ())


def test_on_cgroup_v1_files_are_not_modelled():
    node = NodeFacts(memory=8 << 30, cpus=4, cgroup_version=CgroupVersion.V1)
    plan = planned(node=node, pods=[WEB])
    found = own(plan)
    assert (found.writes, found.files, found.cri_unsaid) == (None, (), ())
    assert "    what the OCI runtime writes on cgroup v1 is not modelled" in translations_text(plan, [Language.FILES])


def test_text_of_every_language():
    text = translations_text(planned(CRUN), [Language.CRI, Language.OCI, Language.DOCKER, Language.FILES])
    assert text.splitlines()[:2] == [
        "container c of pod default/web",
        "  CRI LinuxContainerResources, as the kubelet sends them",
    ]
    for line in (
        "    memory_limit_in_bytes 100000000",
        "    hugepage_limits 2MB 0",
        f"    leaves unsaid memory.swap.max 0: {NO_SWAP_LIMIT}",
        "  OCI linux.resources, as containerd 1.7.24 makes them",
        "    cpu.shares 102",
        "    process.oomScoreAdj 993",
        "    unified memory.min 67108864",
        f"    cannot say hugetlb.2MB.max 0: {NO_HUGE_PAGES}",
        "    cannot say memory.min 67108864: HostConfig has no field for memory.min: MemoryReservation is memory.low.",
        "    annotation org.systemd.property.MemoryMin=uint64 67108864 (engine 24 and later, systemd driver)",
        "    memory.max        100000000, reads 99999744",
        "    these files are in the cgroup 'container' below the scope; of the scope itself are set:",
        "      cpu.max           34000 100000",
    ):
        assert f"{line}\n" in text + "\n"
    assert "cannot take back in an update: memory.max, cpu.weight, cpu.max, hugetlb.2MB.max" in text


def test_languages_are_shown_once_and_in_order():
    text = translations_text(planned(), [Language.DOCKER, Language.CRI, Language.DOCKER])
    assert [line for line in text.splitlines() if line.startswith("  ") and not line.startswith("    ")] == [
        "  Docker HostConfig that says the same",
        "  CRI LinuxContainerResources, as the kubelet sends them",
    ]


def test_a_container_that_asks_for_nothing():
    node = NodeFacts(memory=8 << 30, cpus=4, hugepage_sizes=())
    text = translations_text(planned(node=node, pods=[pod()], settings=KubeletSettings()), [Language.CRI])
    assert "    cpu_shares 2\n" in text


@pytest.mark.parametrize(("knob", "says"), [
    (Knob.MEMORY_HIGH, [
        "  CRI      unified memory.high = 96710656",
        "  OCI      unified memory.high = 96710656",
        "  Docker   cannot: HostConfig has no field for memory.high.",
        "  file     runc 1.1.15 writes 96710656; property MemoryHigh=96710656",
    ]),
    (Knob.CPU_MAX, [
        "  CRI      cpu_period = 100000; cpu_quota = 33300",
        "  OCI      cpu.quota = 33300; cpu.period = 100000",
        "  Docker   CpuQuota = 33300; CpuPeriod = 100000",
        f"  file     runc 1.1.15 writes 33300 100000, {AFTER}; property CPUQuotaPerSecUSec=340000",
    ]),
    (Knob.HUGETLB_2MB_MAX, [
        "  CRI      hugepage_limits 2MB = 0",
        "  file     runc 1.1.15 writes nothing",
    ]),
    (Knob.MEMORY_LOW, ["  CRI      says nothing of it", "  Docker   says nothing of it"]),
])  # fmt: skip
def test_one_file_on_its_way(knob, says):
    lines = knob_reasons(planned(), knob).splitlines()
    for line in says:
        assert line in lines


def test_the_tree_is_the_same_with_translations():
    assert plan_tree(planned()) == plan_tree(planned(None))


def test_a_text_that_the_kernel_refuses_is_a_refusal():
    sent = ContainerResources(cpu_shares=2, unified={"cpu.weight": "0"})
    found = translate(sent, TRIXIE, node=NODE, driver=CgroupDriver.CGROUPFS, planned={})
    assert found.refusal == "cpu.weight: the kernel refuses '0': cpu.weight takes 1 to 10000, not '0'"
    assert (found.files, found.scope) == ((), ())
    assert found.writes.texts["cpu.weight"] == "0"


def test_an_empty_request_is_said_to_say_nothing():
    node = replace(NODE, swap_controller=False)
    found = translate(ContainerResources(), TRIXIE, node=node, driver=CgroupDriver.CGROUPFS, planned={})
    lines = list(translation_lines(ContainerResources(), found, [Language.CRI, Language.OCI, Language.FILES]))
    assert lines == [
        "CRI LinuxContainerResources, as the kubelet sends them",
        "  nothing",
        "OCI linux.resources, as containerd 1.7.24 makes them",
        "  nothing",
        "  process.oomScoreAdj 0",
        "control files, as runc 1.1.15 writes them",
    ]


def test_the_document_of_files_and_properties():
    [document] = plan_document(planned(CRUN), variant=Variant.SHIPPED)["pods"][0]["containers"]
    files = document["translation"]["files"]
    assert files["below_scope"] == "container"
    assert {"name": "memory.min", "written": None, "shows": "67108864", "after_reload": "67108864"} in files["scope"]
    assert files["properties"]["CPUQuotaPerSecUSec"] == "340000"
    assert files["own"][0] == {
        "name": "memory.max", "written": "100000000", "shows": "99999744", "after_reload": "99999744"
    }  # fmt: skip
    plan = planned(driver=CgroupDriver.CGROUPFS)
    [document] = plan_document(plan, variant=Variant.SHIPPED)["pods"][0]["containers"]
    assert (document["translation"]["files"]["properties"], document["translation"]["files"]["scope"]) == (None, [])
    assert "properties" not in translations_text(plan, [Language.FILES])


def test_an_unlimited_amount_is_infinity_to_systemd():
    sent = ContainerResources(memory_limit_in_bytes=4096, memory_swap_limit_in_bytes=-1)
    found = translate(sent, TRIXIE, node=NODE, driver=CgroupDriver.SYSTEMD, planned={})
    lines = list(translation_lines(sent, found, [Language.FILES]))
    assert "  properties of the scope: MemoryMax=4096 MemorySwapMax=infinity" in lines
