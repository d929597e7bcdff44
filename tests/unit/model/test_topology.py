from memqos.model.topology import Processors, SwapDevice, Topology, TopologyNode, topology_name


def test_a_machines_sums_of_numa_nodes_and_devices():
    machine = Topology(
        name="far",
        cpus=2,
        numa_nodes=(TopologyNode(id=0, memory_bytes=1 << 30, cpus=(0, 1)), TopologyNode(id=1, memory_bytes=3 << 20)),
        swap=(SwapDevice(size_bytes=64 << 20), SwapDevice(size_bytes=1 << 20, priority=5)),
    )
    assert machine.memory_bytes == 1_076_887_552


def test_cpus_are_cores_of_one_package_by_default():
    zones = (TopologyNode(id=0, memory_bytes=1),)
    assert Topology(name="one", cpus=6, numa_nodes=zones).layout == Processors(cores=6)
    parted = Processors(packages=2, dies=3, cores=5, threads=7)
    assert parted.cpus == 210
    assert Topology(name="many", cpus=210, numa_nodes=zones, processors=parted).layout is parted


def test_former_names_of_shipped_topologies():
    assert [topology_name(name) for name in ("two-zones", "two-numa-nodes", "./two-zones.json")] == [
        "two-numa-nodes",
        "two-numa-nodes",
        "./two-zones.json",
    ]
