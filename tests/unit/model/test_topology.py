from memqos.model.topology import SwapDevice, Topology, Zone


def test_a_machine_has_what_its_zones_and_devices_have_together():
    machine = Topology(
        name="far",
        cpus=2,
        zones=(Zone(id=0, memory_bytes=1 << 30, cpus=(0, 1)), Zone(id=1, memory_bytes=3 << 20)),
        swap=(SwapDevice(size_bytes=64 << 20), SwapDevice(size_bytes=1 << 20, priority=5)),
    )
    assert machine.memory_bytes == 1_076_887_552
    assert machine.swap_bytes == 68_157_440


def test_a_machine_without_swap_has_none():
    assert Topology(name="one", cpus=1, zones=(Zone(id=0, memory_bytes=1),)).swap_bytes == 0
