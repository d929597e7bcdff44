"""A planned container in every language at once: the value, its text, its JSON."""

from dataclasses import replace

import pytest

from memqos.engine.answer.difference import differences
from memqos.engine.answer.document import plan_document
from memqos.engine.answer.explain import knob_reasons, plan_tree, translations_text
from memqos.engine.answer.finding import Setter, Verdict
from memqos.engine.answer.verdict import judge_pod
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.translate.container import translate
from memqos.engine.translate.explain import Language, translation_lines
from memqos.engine.translate.resources import RuntimeHost
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver, CgroupVersion, KubeletSettings, NodeFacts
from memqos.model.reading import Reading
from tests.unit.engine.pods import NODE, ON, container, pod
from tests.unit.engine.translate.samples import CGROUPFS

WEB = pod(container({"memory": "64Mi", "cpu": "100m"}, {"memory": "100000000", "cpu": "333m"}), name="web")
NO_SWAP_LIMIT = "the message has no swap limit: the runtime treats a memory limit alone as no swap."
NO_HUGE_PAGES = "containerd drops huge page limits while disable_hugetlb_controller is true, which is its default."
AFTER = "after a daemon-reload 34000 100000"
CRUN = Runtimes(cri=TRIXIE.cri, oci=traits_of("crun", "1.21"))


def of(runtimes=TRIXIE, *, release="1.27", node=NODE, settings=ON, driver=CgroupDriver.SYSTEMD):
    return Kubelet.of(node=node, settings=settings, release=release, driver=driver, runtimes=runtimes)


def own(kubelet, one=WEB):
    """The translation of a pod's only container."""
    [planned] = expect([one], kubelet).pods[0].containers
    return translate(planned.resources, kubelet.runtimes, kubelet.host)


def told(kubelet, languages=Language, one=WEB):
    return translations_text(expect([one], kubelet), languages, kubelet)


def document(kubelet, one=WEB):
    plan = expect([one], kubelet)
    [found] = plan_document(plan, translated_for=kubelet)["pods"][0]["containers"]
    return found


def test_documents_have_translations_on_request():
    assert "translation" in document(of())
    plan = plan_document(expect([WEB], of()))
    assert "translation" not in plan["pods"][0]["containers"][0]


def test_one_container_at_every_hop():
    found = own(of())
    assert (found.cri, found.oci_runtime, found.refusal) == ("containerd 1.7.24", "runc 1.1.15", "")
    assert found.oci.resources.document()["memory"] == {"limit": 100000000, "swap": 100000000}
    assert found.docker.host_config["MemorySwap"] == 100000000
    # 1.27 sends nothing about swap while it is off: the runtime sets 0 from the memory limit.
    assert [(one.knob, one.value) for one in found.cri_unsaid] == [("memory.swap.max", "0")]
    assert [one.knob for one in found.cri_final][:3] == ["memory.max", "cpu.weight", "cpu.max"]
    files = {one.name: (one.written, one.shows, one.reloaded) for one in found.files}
    assert files["memory.max"] == ("100000000", "99999744", "99999744")
    assert files["memory.swap.max"] == ("0", "0", "max")
    assert files["cpu.max"] == ("33300 100000", "33300 100000", "34000 100000")
    assert found.scope == ()


def test_crun_has_a_scope_above():
    found = own(of(CRUN))
    assert found.writes.subgroup == "container"
    # Memory plus swap as the swap limit: crun's bug.
    assert {one.name: one.shows for one in found.scope}["memory.swap.max"] == "99999744"
    assert {one.name: one.shows for one in found.files}["memory.swap.max"] == "0"
    assert own(of(CRUN, driver=CgroupDriver.CGROUPFS)).scope == ()


SMALL = pod(container(limits={"memory": "8Mi"}), name="small")
REFUSAL = "set memory limit 8388608 too low; should be at least 12582912 bytes"


def test_a_runtime_that_refuses():
    kubelet = of(Runtimes(cri=traits_of("cri-o", "1.36"), oci=TRIXIE.oci))
    found = own(kubelet, SMALL)
    assert (found.refusal, found.writes.files, found.files) == (REFUSAL, (), ())
    text = told(kubelet, one=SMALL)
    assert f"    refused by cri-o 1.36: {REFUSAL}" in text
    assert f"    refused: {REFUSAL}" in text
    assert document(kubelet, SMALL)["translation"]["files"] is None


def test_the_plan_names_a_refused_container():
    kubelet = of(Runtimes(cri=traits_of("cri-o", "1.36"), oci=TRIXIE.oci))
    plan = expect([SMALL], kubelet)
    [planned] = plan.pods[0].containers
    assert (planned.refusal, planned.cgroup.knobs) == (REFUSAL, {})
    assert f"    the runtime refuses to create it: {REFUSAL}" in plan_tree(plan)
    assert knob_reasons(plan, Knob.MEMORY_MAX).splitlines()[-1] == (
        f"memory.max of container c of pod default/small: the runtime refuses to create it: {REFUSAL}"
    )
    assert f"  file     refused: {REFUSAL}" in knob_reasons(plan, Knob.MEMORY_MAX, translated_for=kubelet)
    assert document(kubelet, SMALL)["refusal"] == REFUSAL
    assert "refusal" not in document(of(), SMALL)
    changes = {(one.what, one.before, one.after) for one in differences(expect([SMALL], of()), plan)}
    assert ("creation", "made", f"refused: {REFUSAL}") in changes
    assert ("memory.max", "8388608", "nothing") in changes
    changes = {(one.what, one.before, one.after) for one in differences(plan, expect([SMALL], of()))}
    assert ("creation", f"refused: {REFUSAL}", "made") in changes


def test_a_refused_container_must_not_exist():
    plan = expect([SMALL], of(Runtimes(cri=traits_of("cri-o", "1.36"), oci=TRIXIE.oci)))
    reading = Reading(source="t", at=0.0)
    for ids, verdict, observed in (
        ({}, Verdict.CONFORMS, "not created"),
        ({("uid-small", "c"): "0a1b"}, Verdict.DEVIATES, "created"),
    ):
        [found] = [
            one
            for one in judge_pod(plan, "uid-small", reading, enacted_by=Setter.KUBELET, ids=ids)
            if one.knob == "creation"
        ]
        assert (found.verdict, found.expected, found.observed) == (verdict, f"refused ({REFUSAL})", observed)


def test_an_oci_runtime_that_refuses():
    """runc before 1.2 cannot write a swap limit where there is no swap controller; containerd 1.6 asks for it."""
    node = NodeFacts(memory=8 << 30, cpus=4, swap=1 << 30, swap_controller=False)
    old = Runtimes(cri=traits_of("containerd", "1.6.8"), oci=traits_of("runc", "1.1.5"))
    settings = KubeletSettings(feature_gates={"NodeSwap": True}, fail_swap_on=False)
    kubelet = of(old, node=node, release="1.22", settings=settings)
    found = own(kubelet)
    assert found.refusal == "open memory.swap.max: no such file or directory"
    assert (found.oci.refusal, found.files, found.scope) == ("", (), ())
    assert expect([WEB], kubelet).pods[0].containers[0].refusal == found.refusal


ON_V1 = NodeFacts(memory=8 << 30, cpus=4, cgroup_version=CgroupVersion.V1)


def test_on_cgroup_v1():
    kubelet = of(node=ON_V1)
    found = own(kubelet)
    assert {one.name: one.shows for one in found.files} == {
        "memory.limit_in_bytes": "99999744",
        "memory.memsw.limit_in_bytes": "99999744",
        "cpu.shares": "102",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "33300",
    }
    assert [(one.knob, one.value) for one in found.cri_unsaid] == [("memory.memsw.limit_in_bytes", "100000000")]
    # A daemon-reload of a scope of cgroup v1 is not modelled.
    assert {one["after_reload"] for one in document(kubelet)["translation"]["files"]["own"]} == {None}
    assert "memory.limit_in_bytes 100000000, reads 99999744\n" in told(kubelet, [Language.FILES])
    bare = of(node=ON_V1, driver=CgroupDriver.CGROUPFS)
    assert document(bare)["translation"]["files"]["own"][0]["after_reload"] == "99999744"
    lines = knob_reasons(expect([WEB], kubelet), Knob.CPU_SHARES, translated_for=kubelet)
    assert "  CRI      cpu_shares = 102\n  OCI      cpu.shares = 102\n" in lines
    assert "  file     runc 1.1.15 writes 102" in lines


def test_text_of_every_language():
    text = told(of(CRUN), [Language.CRI, Language.OCI, Language.DOCKER, Language.FILES])
    assert text.splitlines()[:2] == [
        "container c of pod default/web",
        "  CRI LinuxContainerResources, as the kubelet sends them",
    ]
    for line in (
        "    memory_limit_in_bytes 100000000",
        "    hugepage_limits 2MB 0",
        f"    does not set memory.swap.max 0: {NO_SWAP_LIMIT}",
        "  OCI linux.resources, as containerd 1.7.24 makes them",
        "    cpu.shares 102",
        "    process.oomScoreAdj 993",
        "    unified memory.min 67108864",
        f"    cannot set hugetlb.2MB.max 0: {NO_HUGE_PAGES}",
        "    cannot set memory.min 67108864: HostConfig has no field for memory.min: MemoryReservation is memory.low.",
        "    annotation org.systemd.property.MemoryMin=uint64 67108864 (engine 24 and later, systemd driver)",
        "    memory.max        100000000, reads 99999744",
        "    these files are in the cgroup 'container' below the scope; the scope itself has:",
        "      cpu.max           34000 100000",
    ):
        assert f"{line}\n" in text + "\n"
    assert "cannot remove in an update: memory.max, cpu.weight, cpu.max, hugetlb.2MB.max" in text


def test_languages_are_shown_once_and_in_order():
    text = told(of(), [Language.DOCKER, Language.CRI, Language.DOCKER])
    assert [line for line in text.splitlines() if line.startswith("  ") and not line.startswith("    ")] == [
        "  the equivalent Docker HostConfig",
        "  CRI LinuxContainerResources, as the kubelet sends them",
    ]


def test_a_container_without_requests():
    node = NodeFacts(memory=8 << 30, cpus=4, hugepage_sizes=())
    text = told(of(node=node, settings=KubeletSettings()), [Language.CRI], pod())
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
    (Knob.MEMORY_LOW, ["  CRI      does not set it", "  Docker   does not set it"]),
])  # fmt: skip
def test_one_file_at_every_hop(knob, says):
    lines = knob_reasons(expect([WEB], of()), knob, translated_for=of()).splitlines()
    for line in says:
        assert line in lines


def test_a_text_that_the_kernel_refuses_is_a_refusal():
    sent = ContainerResources(cpu_shares=2, unified={"cpu.weight": "0"})
    found = translate(sent, TRIXIE, CGROUPFS)
    assert found.refusal == "cpu.weight: the kernel refuses '0': cpu.weight takes 1 to 10000, not '0'"
    assert (found.files, found.scope) == ((), ())
    assert found.writes.texts["cpu.weight"] == "0"


def test_an_empty_request_is_named_as_empty():
    found = translate(ContainerResources(), TRIXIE, replace(CGROUPFS, swap_file=False))
    lines = list(translation_lines(ContainerResources(), found, [Language.CRI, Language.OCI, Language.FILES]))
    assert lines == [
        "CRI LinuxContainerResources, as the kubelet sends them",
        "  nothing",
        "OCI linux.resources, as containerd 1.7.24 makes them",
        "  nothing",
        "  process.oomScoreAdj 0",
        "interface files, as runc 1.1.15 writes them",
    ]


def test_the_document_of_files_and_properties():
    files = document(of(CRUN))["translation"]["files"]
    assert files["below_scope"] == "container"
    assert {"name": "memory.min", "written": None, "shows": "67108864", "after_reload": "67108864"} in files["scope"]
    assert files["properties"]["CPUQuotaPerSecUSec"] == "340000"
    assert files["own"][0] == {
        "name": "memory.max", "written": "100000000", "shows": "99999744", "after_reload": "99999744"
    }  # fmt: skip
    bare = of(driver=CgroupDriver.CGROUPFS)
    files = document(bare)["translation"]["files"]
    assert (files["properties"], files["scope"]) == (None, [])
    assert "properties" not in told(bare, [Language.FILES])


def test_an_unlimited_amount_is_infinity_to_systemd():
    sent = ContainerResources(memory_limit_in_bytes=4096, memory_swap_limit_in_bytes=-1)
    found = translate(sent, TRIXIE, RuntimeHost())
    lines = list(translation_lines(sent, found, [Language.FILES]))
    assert "  properties of the scope: MemoryMax=4096 MemorySwapMax=infinity" in lines
