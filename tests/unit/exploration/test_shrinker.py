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


LIFECYCLE = {
    "kubernetes": "1.36",
    "config": HEAD,
    "steps": [
        {
            "create": {
                "memory_limit_in_bytes": 977268736,
                "memory_swap_limit_in_bytes": -1,
                "cpu_period": 50000,
                "cpu_quota": 71234,
                "unified": {"memory.min": "41947137", "memory.low": "9191"},
            }
        },
        {"exec": {}},
        {"update": {"cpu_shares": 1234, "oom_score_adj": 12}},
        {"stats": {}},
        {
            "update": {
                "memory_limit_in_bytes": 7516192768,
                "unified": {"memory.high": "4294967297", "memory.low": "77", "memory.oom.group": "1"},
            }
        },
        {"restart": {}},
    ],
}


def updated(document):
    """The updates of a lifecycle."""
    return [step["update"] for step in document["steps"] if "update" in step]


def high_after_shares(document):
    """Two conditions: an update above 200 MiB, once an update has set CPU shares."""
    shares = False
    for one in updated(document):
        shares = shares or "cpu_shares" in one
        if shares and int(one.get("unified", {}).get("memory.high", 0)) > 200 * MIB:
            return True
    return False


def odd_pages(document):
    """An odd number of pages, at least 5001 of them."""
    pages = max(one.get("memory_limit_in_bytes", 0) >> 12 for one in [{}, *updated(document)])
    return pages > 5000 and pages % 2 == 1


@pytest.mark.parametrize(
    ("rule", "last"),
    [
        (high_after_shares, {"unified": {"memory.high": str(201 * MIB)}}),
        (odd_pages, {"memory_limit_in_bytes": 5001 << 12}),
    ],
)
def test_a_lifecycle_is_down_to_its_conditions_after_a_hundred_tries(rule, last):
    first = copy.deepcopy(LIFECYCLE)
    first["steps"][4]["update"]["memory_limit_in_bytes"] += 4096
    shrinker = Shrinker(lambda examples: [rule(one.document()) for one in examples])
    smallest = shrinker.shrink(example_of(first)).document()
    assert {"cpu_shares": 0, **updated(smallest)[-1]} == {"cpu_shares": 0, **last}
    assert len(smallest["steps"]) == 2
    assert shrinker.tries <= 100
