"""NUMA nodes of a recorded node under the Memory Manager's policy Static."""

import json

import pytest

from tests.unit.cli.audit.recordings import ONE_NUMA_NODE, path_of


def test_numa_nodes_are_not_known_while_other_pods_may_hold_them(told, changed):
    """Without the state file and one of the pods it is unknown which node was free, and which pod to reject."""

    def forget(data):
        data["pods"] = [pod for pod in data["pods"] if pod["metadata"]["name"] != "g-big"]
        del data["memory_manager_state"]

    code, out, _ = told("--tree", changed(forget, ONE_NUMA_NODE), "--json")
    findings = json.loads(out)["findings"]
    zones = {one["subject"]: one["why_not"] for one in findings if one["knob"] == "cpuset.mems"}
    assert code == 0
    assert zones["container a of pod default/g-small-n1"] == (
        "other pods may hold memory of its NUMA nodes: 1 of them was not given, and memory_manager_state is missing"
    )
    assert zones["container a of pod default/burst-n1"] == ""


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 0, 1, 3, 4)])
def test_without_the_state_the_order_of_the_pods_decides_nothing(told, changed, order):
    """The recording lists pods in any order; the kubelet admitted g-big before g-small here."""

    def forget(data):
        data["pods"] = [data["pods"][index] for index in order]
        del data["memory_manager_state"]

    code, out, _ = told("--tree", changed(forget, ONE_NUMA_NODE), "--json")
    findings = json.loads(out)["findings"]
    numa = {one["subject"]: one for one in findings if one["knob"] in {"cpuset.mems", "admission"}}
    assert (code, {one["verdict"] for one in findings}) == (0, {"conforms", "not observable"})
    for name in ("container a of pod default/g-small-n1", "container a of pod default/g-big-n1"):
        assert numa[name]["why_not"] == (
            "its NUMA nodes depend on the order in which the kubelet admitted 4 pods, and memory_manager_state is "
            "missing"
        )
    assert numa["container a of pod default/burst-n1"]["verdict"] == "conforms"


def test_one_bound_pod_needs_no_state(told, changed):
    def alone(data):
        data["pods"] = [pod for pod in data["pods"] if pod["metadata"]["name"] in {"g-small", "burst"}]
        known = {"g-small-n1", "burst-n1"}
        gone = [key for key, one in data["containers"].items() if one[0] not in known]
        uids = {data["containers"].pop(key)[2] for key in gone}
        data["cgroups"] = {path: one for path, one in data["cgroups"].items() if not any(uid in path for uid in uids)}
        data["cgroups"][path_of(data, "g-small-n1", "a")]["cpuset.mems"] = "1"
        del data["memory_manager_state"]

    code, out, _ = told("--tree", changed(alone, ONE_NUMA_NODE))
    assert code == 1
    assert "cpuset.mems of container a of pod default/g-small-n1 is 1, expected 0" in out


def test_pods_that_must_be_refused_are_judged(told, changed):
    code, out, _ = told("--tree", ONE_NUMA_NODE, "--json")
    [admission] = [one for one in json.loads(out)["findings"] if one["knob"] == "admission"]
    assert (code, admission["verdict"], admission["subject"]) == (0, "conforms", "pod default/g-too-big")

    def admit(data):
        data["containers"]["f00"] = ["g-too-big-n1", "a", "0" * 32]

    code, out, _ = told("--tree", changed(admit, ONE_NUMA_NODE))
    assert code == 1
    assert "admission of pod default/g-too-big-n1 is running, expected refused (UnexpectedAdmissionError)" in out


def test_a_container_on_the_wrong_numa_node(told, changed):
    def move(data):
        data["cgroups"][path_of(data, "g-small-n1", "a")]["cpuset.mems"] = "0-1"

    code, out, _ = told("--tree", changed(move, ONE_NUMA_NODE))
    assert code == 1
    assert "cpuset.mems of container a of pod default/g-small-n1 is 0-1, expected 1" in out


def test_a_state_that_no_kubelet_goes_on_from(told, changed):
    code, _, err = told("--tree", changed(lambda data: data["memory_manager_state"].update(checksum=1), ONE_NUMA_NODE))
    assert code == 4
    assert "memory_manager_state: a kubelet with this configuration and node does not start" in err
