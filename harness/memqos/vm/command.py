"""MachineSpec to QEMU's argument list: a pure function, kept literal by the files in tests/golden/qemu.

Each small function gives the options of one thing; an option and its argument stand together.
"""

from __future__ import annotations

from pathlib import Path

from memqos.model.topology import Topology
from memqos.vm.spec import Accelerator, DiskFormat, MachineSpec

__all__ = ["overlay_arguments", "qemu_arguments"]


def qemu_arguments(spec: MachineSpec, program: Path) -> list[str]:
    """The whole command, program first."""
    return [
        str(program),
        *identity(spec),
        *processor(spec),
        *memory(spec.topology),
        *kernel(spec),
        *disks(spec),
        *network(spec),
        *channels(spec),
    ]


def identity(spec: MachineSpec) -> list[str]:
    """Who it is, and that nothing is there which was not asked for."""
    return [
        "-name", f"memqos-{quoted(spec.name)}",
        "-no-user-config",
        "-nodefaults",
        "-display", "none",
        "-no-reboot",
        "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
    ]  # fmt: skip


def processor(spec: MachineSpec) -> list[str]:
    """Machine type, accelerator, CPU model and count."""
    accelerator = "tcg,thread=multi" if spec.accelerator is Accelerator.TCG else "kvm"
    return [
        "-machine", spec.machine_type,
        "-accel", accelerator,
        "-cpu", spec.accelerator.cpu_model,
        "-smp", f"cpus={spec.topology.cpus},sockets=1,cores={spec.topology.cpus},threads=1",
    ]  # fmt: skip


def memory(topology: Topology) -> list[str]:
    """One memory backend and one NUMA node a zone, then the distances that are declared."""
    arguments = ["-m", f"size={topology.memory_bytes}B"]
    for zone in topology.zones:
        cpus = "".join(f",cpus={cpu}" for cpu in zone.cpus)
        arguments += ["-object", f"memory-backend-ram,id=zone{zone.id},size={zone.memory_bytes}B"]
        arguments += ["-numa", f"node,nodeid={zone.id},memdev=zone{zone.id}{cpus}"]
    for source, row in enumerate(topology.distances):
        for target, distance in enumerate(row):
            arguments += ["-numa", f"dist,src={source},dst={target},val={distance}"]
    return arguments


def kernel(spec: MachineSpec) -> list[str]:
    """The kernel, its initrd and its command line."""
    return [
        "-kernel", str(spec.kernel),
        "-initrd", str(spec.initrd),
        "-append", spec.command_line,
    ]  # fmt: skip


def disks(spec: MachineSpec) -> list[str]:
    """The root disk as vda, then the swap disks, told apart by their serials.

    cache=unsafe: a machine's disk is thrown away with it, so nothing has to reach the host's disk in time.
    """
    arguments = disk("root", spec.disk, spec.disk_format, serial="memqos-root")
    for number, path in enumerate(spec.swap_disks):
        arguments += disk(f"swap{number}", path, DiskFormat.RAW, serial=f"memqos-swap{number}")
    return arguments


def disk(name: str, path: Path, disk_format: DiskFormat, *, serial: str) -> list[str]:
    """One virtio disk."""
    return [
        "-drive", f"if=none,id={name},file={quoted(str(path))},format={disk_format},cache=unsafe,discard=unmap",
        "-device", f"virtio-blk-pci,drive={name},serial={serial}",
    ]  # fmt: skip


def network(spec: MachineSpec) -> list[str]:
    """A user-mode network that lets nothing out, and one forward from loopback to the guest's sshd."""
    return [
        "-netdev", f"user,id=net0,restrict=on,hostfwd=tcp:127.0.0.1:{spec.ssh_port}-:22",
        "-device", "virtio-net-pci,netdev=net0,romfile=",
    ]  # fmt: skip


def channels(spec: MachineSpec) -> list[str]:
    """Entropy, the serial console's file and QMP's socket."""
    return [
        "-device", "virtio-rng-pci",
        "-chardev", f"file,id=console,path={quoted(str(spec.serial_log))}",
        "-serial", "chardev:console",
        "-qmp", f"unix:{quoted(str(spec.qmp_socket))},server=on,wait=off",
    ]  # fmt: skip


def overlay_arguments(program: Path, base: Path, overlay: Path) -> list[str]:
    """qemu-img's command that makes an empty overlay over a raw, frozen disk."""
    return [
        str(program), "create",
        "-q",
        "-f", "qcow2",
        "-F", "raw",
        "-b", str(base),
        str(overlay),
    ]  # fmt: skip


def quoted(text: str) -> str:
    """A value inside a comma-separated option: QEMU reads two commas as one."""
    return text.replace(",", ",,")
