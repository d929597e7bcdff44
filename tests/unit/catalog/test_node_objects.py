"""A Node object as facts of a node."""

import copy
import json

import pytest

from memqos.catalog.node_facts import facts_of
from memqos.errors import ManifestError
from memqos.model.node import NodeFacts, NumaNode
from memqos.model.quantity import Quantity

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {
        "capacity": {"cpu": "4", "memory": "8039796Ki", "hugepages-1Gi": "0", "hugepages-2Mi": "0", "pods": "17"},
        "allocatable": {"cpu": "3930m", "memory": "6888564Ki"},
        "nodeInfo": {
            "kubeletVersion": "v1.34.7",
            "containerRuntimeVersion": "containerd://2.1.4",
            "kernelVersion": "6.12.40",
            "operatingSystem": "linux",
            "swap": {"capacity": 4294967296},
        },
    },
}


def read(node):
    return facts_of(json.dumps(node).encode(), "node.json")


def changed(*path, to):
    node = copy.deepcopy(NODE)
    inner = node
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = to
    return node


def test_a_node():
    found = read(NODE)
    assert found == NodeFacts(memory=8039796 << 10, cpus=4, swap=4 << 30, kernel="6.12.40")
    assert (found.kubelet, found.runtime, found.origin) == ("v1.34.7", "containerd://2.1.4", "node.json")
    assert found.allocatable == {"cpu": Quantity.parse("3930m"), "memory": Quantity.parse("6888564Ki")}


@pytest.mark.parametrize(
    ("architecture", "kernel", "page_size"),
    [
        ("amd64", "6.12.40", 4096),
        ("arm64", "6.12.40", 4096),
        ("arm64", "5.14.0-570.el9.aarch64+64k", 65536),
        ("ppc64le", "5.14.0-570.el9.ppc64le", 65536),
    ],
)
def test_the_page_is_of_the_architecture_and_the_kernel(architecture, kernel, page_size):
    """It was 4096 bytes for every Node."""
    info = NODE["status"]["nodeInfo"] | {"architecture": architecture, "kernelVersion": kernel}
    assert read(changed("status", "nodeInfo", to=info)).page_size == page_size


def test_lists_of_one_node():
    assert read({"apiVersion": "v1", "kind": "List", "items": [NODE]}).cpus == 4
    bare = {name: value for name, value in NODE.items() if name not in {"kind", "apiVersion"}}
    assert read({"apiVersion": "v1", "kind": "NodeList", "items": [bare]}).cpus == 4


def test_a_node_with_few_facts():
    found = read({"kind": "Node", "status": {"capacity": {"cpu": "1", "memory": "1Gi"}}})
    assert found == NodeFacts(memory=1 << 30)
    assert (found.kubelet, found.allocatable) == ("", None)


def test_huge_pages_make_one_numa_node():
    found = read(changed("status", "capacity", "hugepages-2Mi", to="1Gi"))
    assert found.numa_nodes == (NumaNode(id=0, memory=8039796 << 10, distances=(10,), hugepages={2 << 20: 512}),)
    assert found.hugepage_sizes == (2 << 20, 1 << 30)


@pytest.mark.parametrize(("node", "says"), [
    ({"kind": "List", "items": [NODE, NODE]}, "items: expected one Node, got 2"),
    ({"kind": "NodeList", "items": [3]}, "expected one Node, got 1"),
    ({"kind": "List"}, "expected one Node, got 0"),
    ({"kind": "List", "items": [{"status": {}}]}, "items[0].kind: expected a Node, got ''"),
    ({"kind": "Pod"}, "kind: expected a Node, got 'Pod'. Give one Node: kubectl get node NAME -o json"),
    ({"Name": "node7", "Capacity": {"cpu": 4}}, "this is the text of kubectl describe node. Give one Node"),
    (changed("status", "nodeInfo", "operatingSystem", to="windows"), "memqos supports Linux nodes only"),
    (changed("status", "capacity", to={"cpu": "4"}), "status.capacity.memory: expected the node's memory, got nothing"),
    (changed("status", "capacity", "cpu", to="0"), "expected the node's cpu, got 0"),
    (changed("status", "capacity", "cpu", to="9000"), "9000 CPUs are more than 8192"),
    (changed("status", "capacity", "memory", to="much"), "'much' is not a quantity"),
    (changed("status", "capacity", to={"cpu": "1", "memory": "1", "hugepages-big": "0"}), "'big' is not a quantity"),
    (changed("status", "nodeInfo", "swap", to={"capacity": -1}), "swap must not be negative"),
])  # fmt: skip
def test_nodes_that_are_refused(node, says):
    with pytest.raises(ManifestError) as caught:
        read(node)
    assert says in str(caught.value)


LABEL = {"node.kubernetes.io/running-in-user-namespace": "true"}


@pytest.mark.parametrize(
    ("node", "is_there"),
    [
        (NODE, False),
        (changed("status", "nodeInfo", "runningInUserNamespace", to=True), True),
        (changed("status", "nodeInfo", "runningInUserNamespace", to=False), False),
        (changed("status", "nodeInfo", "runningInUserNamespace", to={}), False),
        (changed("metadata", "labels", to=LABEL), True),
    ],
)
def test_a_kubelet_in_a_user_namespace(node, is_there):
    assert read(node).user_namespace is is_there
