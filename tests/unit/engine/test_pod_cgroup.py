"""A pod's own cgroup: the effect of overhead, pod-level limits and huge pages by release."""

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.pod.sums import limits_by_size
from memqos.model.knob import Knob
from memqos.model.node import KubeletSettings
from tests.unit.engine.pods import NODE, amounts, container, pod, resources

MIB = 1 << 20
LEVELS = KubeletSettings(feature_gates={"PodLevelResources": True, "MemoryQoS": False})


def files(one, release, settings=KubeletSettings()):  # noqa: B008 - frozen
    [found] = expect([one], Kubelet.of(node=NODE, settings=settings, release=release)).pods
    return {knob: str(expected.value) for knob, expected in found.cgroup.knobs.items()}


@pytest.mark.parametrize(("release", "size"), [("1.26", 4 * MIB), ("1.27", 6 * MIB), ("1.36", 6 * MIB)])
def test_huge_pages_of_the_overhead_count_from_127_on(release, size):
    own = {"memory": "64Mi", "hugepages-2Mi": "4Mi"}
    one = pod(container(own, own), overhead=amounts({"hugepages-2Mi": "2Mi"}))
    assert files(one, release)[Knob.HUGETLB_2MB_MAX] == str(size)


def test_spellings_of_one_page_size_add_up():
    given = {"hugepages-2Mi": "2Mi", "hugepages-2048Ki": "4Mi", "hugepages-1Gi": "1Gi", "memory": "1Gi"}
    assert limits_by_size(amounts(given)) == {2 * MIB: 6 * MIB, 1 << 30: 1 << 30}


@pytest.mark.parametrize(("limits", "cpu", "memory"), [
    ({"cpu": "2", "memory": "1Gi"}, "200000 100000", "1073741824"),
    ({"cpu": "2"}, "200000 100000", "max"),
    ({"memory": "1Gi"}, "max 100000", "1073741824"),
])  # fmt: skip
def test_a_pod_level_limit_applies_to_containers_without_one(limits, cpu, memory):
    found = files(pod(container({"memory": "64Mi"}), resources=resources({}, limits)), "1.34", LEVELS)
    assert (found[Knob.CPU_MAX], found[Knob.MEMORY_MAX]) == (cpu, memory)
