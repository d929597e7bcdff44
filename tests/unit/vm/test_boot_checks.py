"""Features of a topology that this QEMU or kernel is known not to have."""

import pytest

from memqos.errors import UsageError
from memqos.model.topology import Processors, Topology, TopologyNode
from memqos.vm.boot import check_topology
from memqos.vm.cache.entry import Image
from memqos.vm.options import BootOptions, Choices
from memqos.vm.qemu.spec import Accelerator

ZSWAP = Topology(name="mine", cpus=1, numa_nodes=(TopologyNode(id=0, memory_bytes=1 << 30, cpus=(0,)),), zswap=True)


def image(tmp_path, **manifest):
    facts = {"profile": "trixie", "versions": {"kernel": "6.12.1"}, **manifest}
    return Image(folder=tmp_path / "trixie-0123456789ab", manifest=facts)


def choices(**options):
    return Choices(options=BootOptions(**options), brought=())


def test_zswap_needs_a_kernel_that_has_it(tmp_path):
    without = image(tmp_path, kernel_config={"CONFIG_ZSWAP": "n"})
    with pytest.raises(
        UsageError, match=r"the kernel 6\.12\.1 of 'trixie' has no zswap, but the topology 'mine'"
    ) as caught:
        check_topology(ZSWAP, without, choices(), accelerator=Accelerator.TCG)
    assert "--kernel-deb" in caught.value.next_step


def test_what_is_not_known_is_left_to_the_guests_own_view(tmp_path):
    check_topology(ZSWAP, image(tmp_path), choices(), accelerator=Accelerator.TCG)
    check_topology(ZSWAP, image(tmp_path, kernel_config={"CONFIG_ZSWAP": "y"}), choices(), accelerator=Accelerator.TCG)
    check_topology(
        ZSWAP,
        image(tmp_path, kernel_config={"CONFIG_ZSWAP": "n"}),
        choices(kernel_image=tmp_path / "mine"),
        accelerator=Accelerator.TCG,
    )


def test_dies_need_a_cpu_that_reports_them(tmp_path):
    zone = TopologyNode(id=0, memory_bytes=1 << 30, cpus=(0, 1))
    dies = Topology(name="mine", cpus=2, numa_nodes=(zone,), processors=Processors(dies=2))
    with pytest.raises(UsageError, match="the topology 'mine' has 2 dies per package"):
        check_topology(dies, image(tmp_path), choices(), accelerator=Accelerator.TCG)
    check_topology(dies, image(tmp_path), choices(), accelerator=Accelerator.KVM)


def test_a_numa_node_of_ppc64le_is_a_multiple_of_256_mib(tmp_path):
    zones = (TopologyNode(id=0, memory_bytes=1 << 30, cpus=(0,)), TopologyNode(id=1, memory_bytes=600 << 20))
    odd = Topology(name="mine", cpus=1, numa_nodes=zones)
    with pytest.raises(UsageError, match=r"NUMA node 1 of the topology 'mine' has 600 MiB of memory.*256 MiB"):
        check_topology(odd, image(tmp_path, architecture="ppc64le"), choices(), accelerator=Accelerator.TCG)
    check_topology(odd, image(tmp_path), choices(), accelerator=Accelerator.TCG)
