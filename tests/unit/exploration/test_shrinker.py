"""The shrinker with a rule instead of a machine: the smallest example, and the number of tries."""

import copy

import pytest

from memqos.exploration.examples import HEAD, Example, containers_in, example_of, pod_of
from memqos.exploration.shrinker import Shrinker, changes, measure

MIB = 1 << 20


def container(name, memory=None, **more):
    resources = {"resources": {"limits": {"memory": memory}, "requests": {"memory": memory, "cpu": "70m"}}}
    return {"name": name, "image": "a:1", "args": ["hold"], **(resources if memory else {}), **more}


CONFIG = {
    **HEAD,
    "featureGates": {"MemoryQoS": True, "NodeSwap": True},
    "memoryThrottlingFactor": 0.7,
    "memorySwap": {"swapBehavior": "LimitedSwap"},
    "systemReserved": {"memory": "93Mi", "cpu": "35m"},
    "kubeReserved": {"memory": "41Mi"},
    "evictionHard": {"memory.available": "77Mi"},
    "cpuCFSQuotaPeriod": "50ms",
    "podPidsLimit": 1234,
}


def example(**spec):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"hostNetwork": True, **spec}}
    return {"kubernetes": "1.36", "config": CONFIG, "pods": [pod]}


def second_is_odd(document):
    """An amount one page short under two conditions: a pod's second container, and an odd number of MiB above 64."""
    for pod in document["pods"]:
        for one in pod_of(pod).all_containers[1:2]:
            limit = one.resources.limits.get("memory")
            count = 0 if limit is None else limit.value
            if count > 64 * MIB and count // MIB % 2 and count % MIB == 0:
                return True
    return False


class Machine:
    """Counts the work of a machine: admissions, by kubelet, and containers."""

    def __init__(self, rule):
        self.rule = rule
        self.admissions = self.containers = 0

    def __call__(self, examples):
        self.admissions += len({one.together for one in examples})
        self.containers += sum(len(containers_in(pod)) for one in examples for pod in one.pods)
        return [self.rule(one.document()) for one in examples]


FIRST = example(
    initContainers=[container("i0", "131Mi"), container("i1", "257Mi"), container("s", "45Mi", restartPolicy="Always")],
    containers=[container("a", "99Mi"), container("b"), container("c", "33Mi")],
    overhead={"memory": "12Mi"},
)


def test_an_init_container_becomes_an_app_container_and_the_configuration_empty():
    machine = Machine(second_is_odd)
    smallest = Shrinker(machine).shrink(example_of(FIRST)).document()
    assert smallest["config"] == HEAD
    [pod] = smallest["pods"]
    assert pod["spec"].keys() == {"hostNetwork", "containers"}
    first, second = pod["spec"]["containers"]
    assert "resources" not in first
    assert second["resources"] == {"limits": {"memory": "65Mi"}}
    # Without a memory of failures, and with the fields of kubelets one by one, it needs 25 admissions.
    assert machine.admissions <= 18
    assert machine.containers <= 270


@pytest.mark.parametrize("needed", ["featureGates", "evictionHard", "podPidsLimit"])
def test_only_a_needed_field_of_the_configuration_stays(needed):
    machine = Machine(lambda document: needed in document["config"] and second_is_odd(document))
    smallest = Shrinker(machine).shrink(example_of(FIRST)).document()
    assert smallest["config"].keys() == {*HEAD, needed}


def test_one_container_alone_is_tried_first_and_in_a_resize_on_both_sides():
    document = {**example(initContainers=[container("i")], containers=[container("a", "99Mi")])}
    document["to"] = copy.deepcopy(document["pods"][0])
    document["to"]["spec"]["containers"][0]["resources"]["limits"]["memory"] = "100Mi"
    made = [one.applied(document) for one in changes(document)][:2]
    for one, name in zip(made, ("i", "a"), strict=True):
        for pod in (one["pods"][0], one["to"]):
            assert [container["name"] for container in containers_in(pod)] == [name]
            assert "initContainers" not in pod["spec"]
    assert made[1]["to"]["spec"]["containers"][0]["resources"]["limits"] == {"memory": "100Mi"}


def test_an_app_container_is_smaller_than_an_init_container():
    init = example(initContainers=[container("i")], containers=[container("a")])
    apps = example(containers=[container("i"), container("a")])
    assert measure(apps) < measure(init)
    assert isinstance(example_of(apps), Example)
