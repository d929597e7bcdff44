"""The node in memory that suites are written with."""

from memqos.clock import Deadline
from memqos.engine.finding import Verdict, worst
from memqos.engine.translate.versions import Runtimes, traits_of
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.node.fake import fake_node
from tests.unit.node.fakes import kubelet, pod


def test_it_agrees_with_the_plan_and_is_empty_again():
    node = fake_node()
    web, other = pod("web"), pod("other")

    with node.admitted([web, other], kubelet()) as population:
        findings = [*population.judge_pod(web), *population.judge_pod(other), *population.judge_node()]

    assert worst(findings) is Verdict.CONFORMS
    assert [name for name in node.target.list("/sys/fs/cgroup", deadline=Deadline.after(5)) if "kubepods" in name] == []


def test_pods_stand_between_populations():
    node = fake_node()
    web = pod("web")
    with node.keeping_pods():
        for release in ("1.27", "1.36"):
            with node.admitted([web], kubelet(release)) as population:
                assert worst(population.judge_pod(web)) is Verdict.CONFORMS


def test_it_has_the_facts_the_driver_and_the_runtimes_that_it_is_given():
    facts = NodeFacts(memory=1 << 30, cpus=1, page_size=65536, hugepage_sizes=())
    runtimes = Runtimes(cri=traits_of("containerd", "2.1.9"), oci=traits_of("runc", "1.4.0"), hugetlb=True)
    node = fake_node(facts=facts, driver=CgroupDriver.CGROUPFS, runtimes=runtimes)
    web = pod("web", "33333333")

    with node.admitted([web], kubelet()) as population:
        values = {one.knob: one.observed for one in population.judge_pod(web) if one.subject.startswith("container")}

    assert values["memory.min"] == "33292288"
    assert node.driver is CgroupDriver.CGROUPFS
    assert node.flavour == runtimes.traits.flavour
