"""The in-memory node for writing suites."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from memqos.clock import Deadline
from memqos.engine.answer.finding import Verdict, worst
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of, unmodelled_traits
from memqos.model.node import CgroupDriver, CgroupVersion, NodeFacts
from memqos.node.fake import FAKE_FACTS, fake_node
from memqos.node.machine.needs import lacking
from memqos.place.fake import FakePlace
from memqos.runtime.base import RuntimeVersion
from memqos.runtime.cri_wire import capabilities_of
from tests.unit.node.fakes import kubelet, pod


def test_it_agrees_with_the_plan_and_is_empty_again():
    node = fake_node()
    web, other = pod("web"), pod("other")

    with node.admitted([web, other], kubelet()) as population:
        findings = [*population.judge_pod(web), *population.judge_pod(other), *population.judge_node()]

    assert worst(findings) is Verdict.CONFORMS
    assert [name for name in node.target.list("/sys/fs/cgroup", deadline=Deadline.after(5)) if "kubepods" in name] == []


def test_pods_stay_between_populations():
    node = fake_node()
    web = pod("web")
    with node.keeping_pods():
        for release in ("1.27", "1.36"):
            with node.admitted([web], kubelet(release)) as population:
                assert worst(population.judge_pod(web)) is Verdict.CONFORMS


LEGACY = replace(FAKE_FACTS, cgroup_version=CgroupVersion.V1)


@pytest.mark.parametrize("driver", CgroupDriver)
def test_one_of_cgroup_v1_holds_the_files_of_its_controllers(driver):
    node = fake_node(facts=LEGACY, driver=driver)
    web = pod("web")

    with node.admitted([web], kubelet(pod_pids_limit=100)) as population:
        findings = [*population.judge_pod(web), *population.judge_node()]
        values = {one.knob: one.observed for one in findings if str(one.subject).startswith("container")}
        path = population.path_of(web, "app")
        folder = node.target.list(f"/sys/fs/cgroup/cpu,cpuacct{path}", deadline=Deadline.after(5))
        pids = {one.observed for one in findings if str(one.subject) == "pod default/web" and one.knob == "pids.max"}

    assert worst(findings) is Verdict.CONFORMS
    assert values["memory.limit_in_bytes"] == values["memory.memsw.limit_in_bytes"] == "67108864"
    assert (values["cpu.shares"], values["cpu.cfs_quota_us"]) == ("2", "-1")
    # 1000 - 1000 * 33554432 / 2147483648, whole
    assert values["oom_score_adj"] == "985"
    assert not {"memory.max", "memory.high", "cpu.weight"} & set(values)
    assert pids == {"100"}
    assert folder is not None
    assert node.target.list("/sys/fs/cgroup/memory/kubepods", deadline=Deadline.after(5)) is None


def test_a_changed_value_of_cgroup_v1_deviates():
    node = fake_node(facts=LEGACY)
    web = pod("web")

    with node.admitted([web], kubelet()) as population:
        path = population.path_of(web, "app")
        node.tree.write(path, "memory.limit_in_bytes", "-1", deadline=Deadline.after(5))
        reading = node.read(population)
        wrong = [
            (one.knob, one.expected, one.observed)
            for one in replace(population, reading=reading).judge_pod(web)
            if one.verdict is Verdict.DEVIATES
        ]

    assert wrong == [("memory.limit_in_bytes", "67108864", "9223372036854771712")]


def test_a_need_of_the_other_cgroup_version_is_named():
    assert fake_node(facts=LEGACY).why_not("cgroup v2") == "the machine has cgroup v1"
    assert fake_node(facts=LEGACY).why_not("cgroup v1") == ""
    assert fake_node(facts=LEGACY).why_not("psi") != ""
    assert fake_node().why_not("cgroup v1") == "the machine has cgroup v2"
    assert fake_node().why_not("cgroup v2") == ""


@pytest.mark.parametrize(
    ("version", "why_not"), [("1.35.9", "cri-o does not support 'update unified'"), ("1.36.0", "")]
)
def test_a_runtime_that_drops_unified_in_updates_lacks_the_need_of_resizes(version, why_not):
    told = RuntimeVersion(name="cri-o", version=version, api_version="v1")
    runtime = SimpleNamespace(name="cri-o", capabilities=capabilities_of(told, reports_driver=True))
    facts = FakePlace(facts=FAKE_FACTS, runtimes=TRIXIE).facts
    assert (
        lacking(
            "update unified", facts=facts, runtime=runtime, oci=TRIXIE.oci, driver=CgroupDriver.SYSTEMD, is_own=True
        )
        == why_not
    )


YOUKI = unmodelled_traits("youki", "0.7.0")


@pytest.mark.parametrize(
    ("need", "oci", "why_not"),
    [
        ("modelled", TRIXIE.oci, ""),
        ("modelled", YOUKI, "youki 0.7.0 is not modelled: no trait explains how it differs from another runtime"),
        ("no memory policy", TRIXIE.oci, ""),
        (
            "no memory policy",
            YOUKI,
            "youki 0.7.0 is not modelled, and does not report whether it has linux.memoryPolicy",
        ),
    ],
)
def test_what_an_unmodelled_runtime_does_not_report_is_unknown(need, oci, why_not):
    node = fake_node()
    facts, runtime = FakePlace(facts=FAKE_FACTS, runtimes=TRIXIE).facts, node.runtime
    told = lacking(need, facts=facts, runtime=runtime, oci=oci, driver=CgroupDriver.SYSTEMD, is_own=True)
    assert told == why_not


def test_pods_stay_on_cgroup_v1_between_populations_too():
    node = fake_node(facts=LEGACY)
    web = pod("web")
    with node.keeping_pods():
        for limit in (100, None):
            with node.admitted([web], kubelet("1.24", pod_pids_limit=limit)) as population:
                assert worst(population.judge_pod(web)) is Verdict.CONFORMS


def test_it_has_the_given_facts_driver_and_runtimes():
    facts = NodeFacts(memory=1 << 30, cpus=1, page_size=65536, hugepage_sizes=())
    runtimes = Runtimes(cri=traits_of("containerd", "2.1.9"), oci=traits_of("runc", "1.4.0"), hugetlb=True)
    node = fake_node(facts=facts, driver=CgroupDriver.CGROUPFS, runtimes=runtimes)
    web = pod("web", "33333333")

    with node.admitted([web], kubelet()) as population:
        values = {
            one.knob: one.observed for one in population.judge_pod(web) if str(one.subject).startswith("container")
        }

    assert values["memory.min"] == "33292288"
    assert node.driver is CgroupDriver.CGROUPFS
    assert population.plan.layout == runtimes.layout(CgroupDriver.CGROUPFS)
