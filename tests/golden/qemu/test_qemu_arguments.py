"""The whole QEMU command line, literal: a change affects every machine and needs a review."""

from dataclasses import replace
from pathlib import Path

import pytest

from memqos.catalog.topologies import load_topology, topology_names
from memqos.model.topology import SwapDevice, Topology, TopologyNode
from memqos.vm.architecture import ARM64, PPC64LE
from memqos.vm.host.programs import Qemu
from memqos.vm.qemu.accelerator import probe_arguments
from memqos.vm.qemu.spec import (
    Accelerator,
    DiskFormat,
    Flash,
    MachineSpec,
    RamFiles,
    RamUse,
    overlay_arguments,
    qemu_arguments,
)

HERE = Path(__file__).parent
MIB = 1 << 20
PROGRAM = Path("/usr/bin/qemu-system-x86_64")

TWO_NUMA_NODES = MachineSpec(
    name="trixie-two-numa-nodes",
    accelerator=Accelerator.TCG,
    topology=Topology(
        name="two-numa-nodes",
        cpus=2,
        numa_nodes=(
            TopologyNode(id=0, memory_bytes=1024 * MIB, cpus=(0,)),
            TopologyNode(id=1, memory_bytes=1024 * MIB, cpus=(1,)),
        ),
        distances=((10, 20), (20, 10)),
        swap=(SwapDevice(size_bytes=512 * MIB, priority=10),),
    ),
    kernel=Path("/cache/images/trixie-0/vmlinuz"),
    initrd=Path("/cache/images/trixie-0/initrd.img"),
    kernel_arguments=("root=/dev/vda", "rw", "psi=1"),
    disk=Path("/cache/machines/m/overlay.qcow2"),
    disk_format=DiskFormat.QCOW2,
    swap_disks=(Path("/cache/machines/m/swap0.img"),),
    serial_log=Path("/results/serial.log"),
    qmp_socket=Path("/run/user/0/m/qmp.sock"),
)

MANY = replace(
    TWO_NUMA_NODES,
    name="odd,name",
    accelerator=Accelerator.KVM,
    topology=Topology(
        name="far",
        cpus=3,
        numa_nodes=(
            TopologyNode(id=0, memory_bytes=256 * MIB, cpus=(0, 2)),
            TopologyNode(id=1, memory_bytes=512 * MIB, cpus=(1,)),
            TopologyNode(id=2, memory_bytes=64 * MIB),
        ),
        swap=(SwapDevice(size_bytes=64 * MIB), SwapDevice(size_bytes=128 * MIB, priority=0)),
    ),
    disk=Path("/a,b/disk.img"),
    disk_format=DiskFormat.RAW,
    swap_disks=(Path("/a,b/swap0.img"), Path("/a,b/swap1.img")),
    ssh_port=2222,
)

SAVED = replace(TWO_NUMA_NODES, ram=RamFiles(folder=Path("/cache/checkpoints/.making-1"), use=RamUse.SAVED))

CLONE = replace(
    TWO_NUMA_NODES,
    swap_disks=(Path("/cache/machines/m/swap0.qcow2"),),
    swap_format=DiskFormat.QCOW2,
    ram=RamFiles(folder=Path("/cache/checkpoints/trixie-two-numa-nodes-0"), use=RamUse.CLONED),
)

FROM_DISK = replace(
    TWO_NUMA_NODES,
    name="debian,13",
    kernel=None,
    initrd=None,
    kernel_arguments=(),
    flash=Flash(code=Path("/usr/share/OVMF/CODE.fd"), variables=Path("/cache/machines/m/uefi-variables.fd")),
    seed=Path("/cache/machines/m/seed.iso"),
)


ARM64_MACHINE = replace(
    TWO_NUMA_NODES,
    name="trixie-arm64-16k-two-numa-nodes",
    kernel_arguments=("root=/dev/vda", "rw", "console=ttyAMA0"),
    architecture=ARM64,
)

ARM64_FROM_DISK = replace(
    FROM_DISK,
    architecture=ARM64,
    flash=Flash(code=Path("/usr/share/AAVMF/CODE.fd"), variables=Path("/cache/machines/m/uefi-variables.fd")),
)

ARM64_CLONE = replace(CLONE, kernel_arguments=("root=/dev/vda", "rw", "console=ttyAMA0"), architecture=ARM64)

PPC64LE_MACHINE = replace(
    TWO_NUMA_NODES,
    name="trixie-ppc64le-64k-two-numa-nodes",
    kernel_arguments=("root=/dev/vda", "rw", "console=hvc0"),
    architecture=PPC64LE,
)


def lines(arguments: list[str]) -> str:
    """An option with its value on one line."""
    text = arguments[0]
    for argument in arguments[1:]:
        text += ("\n" if argument.startswith("-") else " ") + argument
    return text + "\n"


@pytest.mark.parametrize(
    ("golden", "arguments"),
    [
        ("two-numa-nodes", qemu_arguments(TWO_NUMA_NODES, PROGRAM)),
        ("many", qemu_arguments(MANY, PROGRAM)),
        ("saved", qemu_arguments(SAVED, PROGRAM)),
        ("clone", qemu_arguments(CLONE, PROGRAM)),
        ("from-disk", qemu_arguments(FROM_DISK, PROGRAM)),
        ("from-disk-bios", qemu_arguments(replace(FROM_DISK, flash=None, seed=None), PROGRAM)),
        ("arm64", qemu_arguments(ARM64_MACHINE, Path("/usr/bin/qemu-system-aarch64"))),
        ("arm64-clone", qemu_arguments(ARM64_CLONE, Path("/usr/bin/qemu-system-aarch64"))),
        ("arm64-from-disk", qemu_arguments(ARM64_FROM_DISK, Path("/usr/bin/qemu-system-aarch64"))),
        (
            "arm64-kvm",
            qemu_arguments(replace(ARM64_MACHINE, accelerator=Accelerator.KVM), Path("/usr/bin/qemu-system-aarch64")),
        ),
        ("ppc64le", qemu_arguments(PPC64LE_MACHINE, Path("/usr/bin/qemu-system-ppc64"))),
        (
            "ppc64le-kvm",
            qemu_arguments(replace(PPC64LE_MACHINE, accelerator=Accelerator.KVM), Path("/usr/bin/qemu-system-ppc64")),
        ),
        (
            "arm64-kvm-probe",
            probe_arguments(
                Qemu(program=Path("/usr/bin/qemu-system-aarch64"), version=(10, 0, 2)),
                Path("/c/vmlinuz"),
                serial=Path("/t/serial.log"),
                socket=Path("/t/qmp.sock"),
                architecture=ARM64,
            ),
        ),
        ("overlay", overlay_arguments(Path("/usr/bin/qemu-img"), Path("/c/disk.img"), Path("/m/overlay.qcow2"))),
        (
            "kvm-probe",
            probe_arguments(
                Qemu(program=PROGRAM, version=(10, 0, 2)),
                Path("/c/vmlinuz"),
                serial=Path("/t/serial.log"),
                socket=Path("/t/qmp.sock"),
            ),
        ),
    ],
)
def test_command_line_is_the_golden_one(golden, arguments):
    assert lines(arguments) == (HERE / f"{golden}.txt").read_text()


@pytest.mark.parametrize("name", topology_names())
def test_each_shipped_topology_is_this_machine(name):
    topology = load_topology(name)
    swap_disks = tuple(Path(f"/cache/machines/m/swap{number}.img") for number in range(len(topology.swap)))
    spec = replace(TWO_NUMA_NODES, name=f"trixie-{name}", topology=topology, swap_disks=swap_disks)
    assert lines(qemu_arguments(spec, PROGRAM)) == (HERE / f"topology-{name}.txt").read_text()


@pytest.mark.parametrize(
    ("machine", "program"), [(ARM64_MACHINE, "qemu-system-aarch64"), (PPC64LE_MACHINE, "qemu-system-ppc64")]
)
@pytest.mark.parametrize("name", ["hugepages", "far-memory"])
def test_other_architectures_have_the_topologies_too(machine, program, name):
    topology = load_topology(name)
    swap_disks = tuple(Path(f"/cache/machines/m/swap{number}.img") for number in range(len(topology.swap)))
    spec = replace(machine, topology=topology, swap_disks=swap_disks)
    golden = HERE / f"{machine.architecture.name}-topology-{name}.txt"
    assert lines(qemu_arguments(spec, Path("/usr/bin") / program)) == golden.read_text()


def test_swap_priority_is_passed_only_if_declared():
    assert TWO_NUMA_NODES.command_line == "root=/dev/vda rw psi=1 highres=off init_on_alloc=0 memqos.swap0=10"
    assert MANY.command_line == "root=/dev/vda rw psi=1 memqos.swap1=0"
