"""Pods that do not fit the node: refused with the kubelet's reasons, in their order of arrival."""

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.node.cgroups import kubepods_hugetlb_at_start
from memqos.model.knob import Knob
from memqos.model.node import KubeletSettings, NodeFacts, NumaNode
from memqos.model.pod import CRITICAL_PRIORITY
from tests.unit.engine.pods import amounts, container, pod, resources

GIB = 1 << 30
MIB = 1 << 20
NODE = NodeFacts(memory=2 * GIB, cpus=2)


def planned(*pods, node=NODE, settings=None, release="1.36", fit=True):
    return expect(pods, Kubelet.of(node=node, settings=settings or KubeletSettings(), release=release), fit=fit)


def refused(*pods, **more):
    plan = planned(*pods, **more)
    assert not {one.uid for one in plan.pods} & {one.pod for one in plan.refusals}
    return [(one.name, one.reason_name, one.message) for one in plan.refusals]


def test_memory_less_the_default_threshold():
    """2 GiB less evictionHard's 100Mi."""
    assert refused(pod(container({"memory": str(2 * GIB - 100 * MIB)}))) == []
    assert refused(pod(container({"memory": str(2 * GIB - 100 * MIB + 1)}))) == [(
        "default/p",
        "OutOfmemory",
        "Node didn't have enough resource: memory, requested: 2042626049, used: 0, capacity: 2042626048",
    )]  # fmt: skip


def test_a_threshold_in_percent():
    """A tenth of 2 GiB is kept free, as a float of 32 bits: 0.10000000149, 214748368 bytes."""
    settings = KubeletSettings(eviction_hard={"memory.available": "10%"})
    [(_, _, message)] = refused(pod(container({"memory": "2Gi"})), settings=settings)
    assert message.endswith("memory, requested: 2147483648, used: 0, capacity: 1932735280")


def test_cpu_in_thousandths_and_before_memory():
    big = pod(container({"cpu": "1901m", "memory": "8Gi"}))
    reserved = KubeletSettings(system_reserved=amounts({"cpu": "100m"}))
    message = "Node didn't have enough resource: cpu, requested: 1901, used: 0, capacity: 1900"
    assert refused(big, settings=reserved) == [("default/p", "OutOfcpu", message)]


def test_huge_pages_of_all_numa_nodes_add_up():
    zones = tuple(NumaNode(id=n, memory=GIB, hugepages={2 * MIB: 8}) for n in (0, 1))
    node = NodeFacts(memory=2 * GIB, cpus=2, numa_nodes=zones)
    fits, over = (pod(container({"hugepages-2Mi": size}), name=size) for size in ("32Mi", "34Mi"))
    message = "Node didn't have enough resource: hugepages-2Mi, requested: 35651584, used: 0, capacity: 33554432"
    assert refused(over, fits, node=node) == [("default/34Mi", "OutOfhugepages-2Mi", message)]


def test_pods_are_admitted_in_the_given_order():
    one, two, three = (pod(container({"memory": size}), name=name) for name, size in
                       (("one", "1Gi"), ("two", "1536Mi"), ("three", "512Mi")))  # fmt: skip
    message = "Node didn't have enough resource: memory, requested: 1610612736, used: 1073741824, capacity: 2042626048"
    assert refused(one, two, three) == [("default/two", "OutOfmemory", message)]
    assert [name for name, *_ in refused(two, one, three)] == ["default/one", "default/three"]


def test_amounts_that_count_as_requested():
    init = container({"memory": "1800Mi"}, name="i")
    with_overhead = pod(container({"memory": "1Gi"}), overhead=amounts({"memory": "1Gi"}))
    whole = pod(container(), resources=resources({"memory": "1900Mi"}))
    assert refused(pod(container({"memory": "200Mi"}), init_containers=(init,), name="init")) == []
    assert len(refused(with_overhead)) == 1
    assert len(refused(whole, pod(container({"memory": "64Mi"}), name="q"))) == 1
    # Without the gate for pod-level resources the pod requests nothing.
    assert refused(whole, pod(container({"memory": "64Mi"}), name="q"), release="1.32") == []


def test_a_pod_without_requests_always_fits():
    full = pod(container({"memory": "1948Mi", "cpu": "2"}), name="full")
    assert refused(full, pod(name="loose")) == []


def test_huge_pages_reduce_the_offered_memory():
    node = NodeFacts(memory=2 * GIB, cpus=2, numa_nodes=(NumaNode(id=0, memory=2 * GIB, hugepages={2 * MIB: 100}),))
    asks = {"hugepages-2Mi": "150Mi", "memory": "1Mi", "cpu": "1m"}
    message = (
        "Node didn't have enough resource: hugepages-2Mi, requested: 157286400, used: 104857600, capacity: 209715200"
    )
    first = {"hugepages-2Mi": "100Mi", "memory": "1Mi", "cpu": "1m"}
    pods = pod(container(first, first), name="one"), pod(container(asks, asks), name="two")
    assert refused(*pods, node=node) == [("default/two", "OutOfhugepages-2Mi", message)]
    # With unknown huge pages no pod is refused for them.
    assert refused(*pods) == []
    assert len(refused(pod(container({"memory": "1800Mi"})), node=node)) == 1


@pytest.mark.parametrize("more", [{"static": True}, {"priority": CRITICAL_PRIORITY}])
def test_a_critical_pod_is_rejected_only_for_critical_ones(more):
    full = pod(container({"memory": "1900Mi"}), name="full")
    assert refused(full, pod(container({"memory": "512Mi"}), name="critical", **more)) == []
    assert [name for name, *_ in refused(full, pod(container({"memory": "2Gi"}), name="critical", **more))] == [
        "default/critical"
    ]
    other = pod(container({"memory": "1900Mi"}), name="first", **more)
    plan = planned(other, pod(container({"memory": "512Mi"}), name="critical", **more))
    assert "for a critical pod only critical pods count" in plan.refusals[0].reason.rule


def test_the_reason_shows_the_sum():
    [refusal] = planned(pod(container({"memory": "3Gi"}))).refusals
    assert refusal.reason.arithmetic == "3221225472 > 2042626048 - 0 = 2042626048"
    assert refusal.reason.revision == "node allocatable v1.32"


def test_no_pod_is_refused_without_the_option():
    assert planned(pod(container({"memory": "3Gi", "cpu": "9"})), fit=False).refusals == ()


def test_a_negative_rest_is_zero():
    reserved = KubeletSettings(system_reserved=amounts({"memory": "1Gi"}))
    node = NodeFacts(memory=2 * GIB, cpus=2, numa_nodes=(NumaNode(id=0, memory=2 * GIB, hugepages={2 * MIB: 600}),))
    [(_, _, message)] = refused(pod(container({"memory": "1"})), settings=reserved, node=node)
    assert message.endswith("capacity: 0")


def test_the_memory_manager_is_first_and_releases_a_refused_pod():
    zones = tuple(NumaNode(id=number, memory=GIB) for number in (0, 1))
    node = NodeFacts(memory=2 * GIB, cpus=2, numa_nodes=zones)
    settings = KubeletSettings(
        memory_manager_policy="Static",
        system_reserved=amounts({"memory": "100Mi"}),
        eviction_hard={},
        reserved_memory=((0, amounts({"memory": "100Mi"})),),
    )

    def asks(memory, cpu):
        return {"memory": memory, "cpu": cpu}

    cpus = pod(container(asks("900Mi", "3"), asks("900Mi", "3")), name="cpus")
    zone = pod(container(asks("1Gi", "1"), asks("1Gi", "1")), name="zone")
    plan = planned(cpus, zone, node=node, settings=settings)
    assert [(one.name, one.reason_name) for one in plan.refusals] == [("default/cpus", "OutOfcpu")]
    [placed] = plan.pods
    assert placed.containers[0].resources.cpuset_mems == "1"


def test_huge_pages_of_a_size_that_no_numa_node_has():
    node = NodeFacts(memory=2 * GIB, cpus=2, numa_nodes=(NumaNode(id=0, memory=2 * GIB),))
    own = pod(container({"hugepages-2Mi": "2Mi"}, {"hugepages-2Mi": "2Mi", "memory": "64Mi"}))
    message = "Node didn't have enough resource: hugepages-2Mi, requested: 2097152, used: 0, capacity: 0"
    assert refused(own, node=node) == [("default/p", "OutOfhugepages-2Mi", message)]


@pytest.mark.parametrize(("enforced", "left"), [((), 16 * MIB), (("pods",), 12 * MIB)])
def test_huge_pages_of_kubepods_when_a_kubelet_starts(enforced, left):
    """kubepods' limits, 0 for a size without pages; later the kubelet writes 2^62."""
    zone = NumaNode(id=0, memory=2 * GIB, cpus=(0, 1), hugepages={2 * MIB: 8})
    settings = KubeletSettings(
        enforce_node_allocatable=enforced, system_reserved=amounts({"hugepages-2Mi": "4Mi", "memory": "1Mi"})
    )
    kubelet = Kubelet.of(node=NodeFacts(memory=2 * GIB, cpus=2, numa_nodes=(zone,)), settings=settings, release="1.36")
    assert kubepods_hugetlb_at_start(kubelet) == {Knob.HUGETLB_2MB_MAX: left, Knob.HUGETLB_1GB_MAX: 0}
