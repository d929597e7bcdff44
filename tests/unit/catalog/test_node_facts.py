import pytest

from memqos.catalog.node_facts import facts_of, load_facts, numa_nodes_of
from memqos.errors import ManifestError, UsageError
from memqos.model.node import CgroupVersion, NodeFacts, NumaNode

WHOLE = b"""
memory: 4Gi
swap: 1Gi
cpus: 8
pageSize: 16384
hugepageSizes: [2Mi]
cgroup: v1
swapController: false
pids: 15612
swappiness: 10
kernel: 6.1.0-13
numaNodes:
- id: 0
  memory: 3Gi
  cpus: [0, 1]
  distances: [10, 30]
  hugepages: {2Mi: 4}
- id: 2
  memory: 1Gi
"""


def test_everything():
    assert facts_of(WHOLE, "node.yaml") == NodeFacts(
        memory=4 << 30, swap=1 << 30, cpus=8, page_size=16384, hugepage_sizes=(2 << 20,),
        cgroup_version=CgroupVersion.V1, swap_controller=False, pids=15612, swappiness=10,
        kernel="6.1.0-13",
        numa_nodes=(
            NumaNode(id=0, memory=3 << 30, cpus=(0, 1), distances=(10, 30), hugepages={2 << 20: 4}),
            NumaNode(id=2, memory=1 << 30, distances=(20, 10)),
        ),
    )  # fmt: skip
    assert facts_of(WHOLE, "node.yaml").origin == "node.yaml"


def test_missing_facts_have_defaults():
    assert facts_of(b"memory: 1Gi", "n") == NodeFacts(memory=1 << 30)
    assert facts_of(b"numaNodes: [{memory: 1Gi}, {memory: 512Mi}, {memory: 0}]", "n").memory == 1536 << 20


@pytest.mark.parametrize(("text", "says"), [
    (b"memory: 1Gi\nmemroy: 2", "node.yaml:2: memroy: unknown field 'memroy'. Did you mean 'memory'?"),
    (b"memory: much", "node.yaml:1: memory: "),
    (b"memory: -1", "must not be negative"),
    (b"cpus: 2", "at least 1 byte"),
    (b"memory: 1Gi\nnumaNodes: [{memory: 2Gi}]", "the NUMA nodes have more memory than the node"),
    (b"memory: 1Gi\ncpus: 0", "cpus: 0 is not one of 1 to 8192"),
    (b"memory: 1Gi\npageSize: 5000", "pageSize: 5000 is not one of 4096, 16384, 65536"),
    (b"memory: 1Gi\npids: 0", "pids: 0 is not one of 1 to 4194304"),
    (b"memory: 1Gi\nswappiness: 201", "swappiness: 201 is not one of 0 to 200"),
    (b"memory: 1Gi\ncgroup: v3", "'v3' is neither v1 nor v2"),
    (b"memory: 1Gi\nnumaNodes: [{id: 1}, {id: 1}]", "numaNodes[1].id: NUMA node 1 is already defined"),
    (b"memory: 1Gi\nnumaNodes: [{id: -1}]", "numaNodes[0].id: -1 is not one of 0 to 1023"),
    (b"memory: 1Gi\nnumaNodes: [{distances: [10, 20]}]", "expected 1 distances"),
    (b"memory: 1Gi\nnumaNodes: [{hugepages: {big: 1}}]", "numaNodes[0].hugepages.big"),
    (b"memory: 1Gi\nnumaNodes: [{hugepages: {2Mi: -1}}]", "a number of pages"),
    (b"[1]", "expected one mapping of facts"),
    (b"memory: 1Gi\n---\nmemory: 2Gi", "got 2 documents"),
])  # fmt: skip
def test_invalid_facts(text, says):
    with pytest.raises(ManifestError) as caught:
        facts_of(text, "node.yaml")
    assert says in str(caught.value)


def test_the_former_name_of_numa_nodes():
    """Up to 0.1 the field was called zones."""
    assert (
        facts_of(b"zones: [{memory: 1Gi}]", "n").numa_nodes == facts_of(b"numaNodes: [{memory: 1Gi}]", "n").numa_nodes
    )
    with pytest.raises(ManifestError, match=r"zones: this is the former name of numaNodes: give one of them\."):
        facts_of(b"numaNodes: [{memory: 1Gi}]\nzones: [{memory: 1Gi}]", "n")


def test_a_missing_file():
    with pytest.raises(UsageError, match="no such file"):
        load_facts("missing.yaml")


def test_numa_nodes_from_sizes():
    assert numa_nodes_of("1Gi, 0", "--numa-nodes") == (
        NumaNode(id=0, memory=1 << 30, distances=(10, 20)),
        NumaNode(id=1, memory=0, distances=(20, 10)),
    )
    for wrong in ("", "1Gi,,1Gi", "-1"):
        with pytest.raises(UsageError):
            numa_nodes_of(wrong, "--numa-nodes")
