"""The setter of a finding, on nodes in memory: a runtime, a kubelet, memqos, or an unknown writer."""

from collections import Counter

import pytest

from memqos.catalog.kubelets import load_kubelets
from memqos.claims import About, unproved
from memqos.enactor.fake import FakeKubelet
from memqos.enactor.observer import Observer
from memqos.engine.answer.finding import Setter, Verdict, worst
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.errors import EnactorNotAbleError, MachineryError
from memqos.model.knob import Knob
from memqos.model.node import CgroupVersion
from memqos.node import NodeUnderTest, ended
from memqos.place.fake import FakeSampler
from memqos.plugin.collection.catalogue import Catalogue
from tests.unit.node.fakes import Bench, kubelet, pod

WEB = pod("web")
KUBELETS = [one for one in load_kubelets() if one.cgroup is not CgroupVersion.V1]


def makers(findings):
    return dict(Counter(one.set_by for one in findings))


def judged(bench, *, under=None, node=None):
    with (node or bench.node).admitted([WEB], under or kubelet()) as population:
        return [*population.judge_pod(WEB), *population.judge_node()]


def node_with(bench, enactor):
    return NodeUnderTest(
        target=bench.target,
        runtime=bench.runtime,
        enactor=enactor,
        sampler=FakeSampler(bench.cgroups, bench.target),
        facts=bench.facts,
        recorder=bench.log,
    )


def test_containers_are_set_by_the_runtime_and_cgroups_above_by_memqos():
    found = judged(Bench())

    assert worst(found) is Verdict.CONFORMS
    by_knob = {(str(one.subject).partition(" ")[0], one.knob): one.set_by for one in found}
    assert by_knob["container", "memory.max"] is Setter.RUNTIME
    assert by_knob["container", "oom_score_adj"] is Setter.RUNTIME
    assert by_knob["pod", "memory.max"] is Setter.MEMQOS
    assert by_knob["kubepods.slice", "memory.max"] is Setter.MEMQOS
    assert by_knob["pod", "memory.high"] is Setter.SYSTEMD
    assert by_knob["container", "memory.low"] is Setter.SYSTEMD
    assert by_knob["pod", "memory.oom.group"] is Setter.KERNEL
    assert Setter.KUBELET not in makers(found)


def test_what_lies_in_cruns_own_cgroup_below_its_scope_is_not_systemds():
    bench = Bench(runtimes=Runtimes(cri=traits_of("containerd", "1.7.24"), oci=traits_of("crun", "1.21")))
    containers = [one for one in judged(bench) if str(one.subject).startswith("container")]

    assert all(one.cgroup.endswith("/container") for one in containers)
    assert Setter.SYSTEMD not in makers(containers)
    assert makers(containers)[Setter.KERNEL]


def test_a_runtime_that_writes_above_its_containers_is_not_hidden_by_memqos_values():
    """A value that memqos did not write is never read back as its own."""
    bench = Bench()
    start = bench.runtime.start

    def clobbering(container, *, deadline):
        start(container, deadline=deadline)
        parent = bench.runtime.cgroup_of(container).parent
        bench.cgroups.put(parent, Knob.MEMORY_MAX, "4096")
        bench.cgroups.put(parent, Knob.MEMORY_HIGH, "8192")

    bench.runtime.start = clobbering
    deviating = [one for one in judged(bench) if one.verdict is Verdict.DEVIATES]

    assert {(one.knob, one.set_by) for one in deviating} == {
        ("memory.max", Setter.OTHER),
        ("memory.high", Setter.OTHER),
    }


def test_a_file_that_a_runtime_writes_unasked_is_its_own_doing():
    bench = Bench()
    start = bench.runtime.start

    def generous(container, *, deadline):
        start(container, deadline=deadline)
        bench.cgroups.put(bench.runtime.cgroup_of(container), Knob.MEMORY_LOW, "4096")

    bench.runtime.start = generous
    [wrong] = [one for one in judged(bench) if one.verdict is Verdict.DEVIATES]

    assert (wrong.knob, wrong.set_by) == ("memory.low", Setter.RUNTIME)


@pytest.mark.parametrize("under", KUBELETS, ids=lambda one: one.id)
def test_every_pod_of_the_catalogue_has_a_finding_set_by_its_runtime(under):
    bench = Bench()
    pods = [one for one in Catalogue().pods if not one.init_containers]
    with bench.node.admitted(pods, under) as population:
        for planned in population.plan.pods:
            findings = population.judge_pod(population.pods[planned.uid].pod)
            assert unproved(About.RUNTIME, findings) == "", planned.name
        assert unproved(About.RUNTIME, population.judge_node())


def test_a_kubelet_in_memory_enacts_the_same_plan():
    bench = Bench()
    found = judged(bench, node=node_with(bench, FakeKubelet(bench.cgroups)))

    assert worst(found) is Verdict.CONFORMS
    assert Setter.MEMQOS not in makers(found)
    assert makers(found)[Setter.KUBELET]
    assert bench.planned_cgroups == []


def test_an_observer_reads_existing_pods_and_leaves_them():
    bench = Bench()
    with bench.node.admitted([WEB], kubelet()) as population:
        containers = population.pods[WEB.uid].containers
        node = node_with(bench, Observer(containers.values))
        found = judged(bench, node=node)
        assert node.leftovers() == ()
        standing = judged(bench, node=node)

    assert worst(found) is worst(standing) is Verdict.CONFORMS
    assert makers(found)[Setter.KUBELET]
    assert bench.runtime.sandboxes == ["web"]


def test_an_observer_reports_a_missing_pod():
    bench = Bench()
    node = node_with(bench, Observer(lambda: ()))
    with node.admitted([WEB], kubelet()) as population, pytest.raises(MachineryError, match="no container of this pod"):
        population.judge_pod(WEB)


def test_an_observer_neither_steers_nor_resizes():
    bench, under = Bench(), kubelet("1.36")
    bench.target.on(("rm",), lambda *_: (0, b"", b""))
    with bench.node.admitted([WEB], under) as population:
        containers = population.pods[WEB.uid].containers
        node = node_with(bench, Observer(containers.values))
        bench.runtime.finish(next(iter(containers.values())), exit_code=0)
        with node.watched(WEB, under, rests_on=[Knob.MEMORY_MAX]) as container:
            course = container.until(ended())
        assert {one.set_by for one in course.premises} == {Setter.KUBELET, Setter.RUNTIME}
        with (
            pytest.raises(EnactorNotAbleError, match="the workloads already run"),
            node.watched(WEB, under, rests_on=[Knob.MEMORY_MAX], steered=True),
        ):
            pass
        with node.admitted([WEB], under) as read:
            with pytest.raises(EnactorNotAbleError, match="memqos only reads pods here"):
                node.resize(read, WEB, under, to=pod("web", "48Mi", "96Mi"))
            with pytest.raises(EnactorNotAbleError, match="memqos only observes the kubelet here"):
                node.restart_kubelet(read, kubelet("1.27"))
            with pytest.raises(EnactorNotAbleError, match="memqos only reads cgroups here"):
                node.drift_of_pod(read, WEB)
