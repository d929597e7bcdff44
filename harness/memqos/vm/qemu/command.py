"""MachineSpec to QEMU's argument list: a pure function, kept literal by the files in tests/golden/qemu.

Each small function gives the options of one thing; an option and its argument stand together.
"""

from __future__ import annotations

from pathlib import Path

from memqos.model.topology import Zone
from memqos.vm.qemu.spec import Accelerator, DiskFormat, MachineSpec, RamUse

__all__ = ["overlay_arguments", "qemu_arguments"]


def qemu_arguments(spec: MachineSpec, program: Path) -> list[str]:
    """The whole command, program first."""
    return [
        str(program),
        *identity(spec),
        *processor(spec),
        *memory(spec),
        *kernel(spec),
        *disks(spec),
        *network(spec),
        *channels(spec),
        *(["-incoming", "defer"] if spec.is_clone else []),
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
    """Machine type, accelerator, CPU model and count.

    Without q35's own disk controller and bus for sensors, whose drivers take their time to find nothing there.
    """
    accelerator = "tcg,thread=multi" if spec.accelerator is Accelerator.TCG else "kvm"
    cpus = spec.topology.layout
    smp = f"sockets={cpus.packages},dies={cpus.dies},cores={cpus.cores},threads={cpus.threads}"
    return [
        "-machine", "q35,sata=off,smbus=off",
        "-accel", accelerator,
        "-cpu", spec.accelerator.cpu_model,
        "-smp", f"cpus={spec.topology.cpus},{smp}",
    ]  # fmt: skip


def memory(spec: MachineSpec) -> list[str]:
    """One NUMA node per zone, with a memory backend if it has memory, then the distances that are declared."""
    topology = spec.topology
    arguments = ["-m", f"size={topology.memory_bytes}B"]
    for zone in topology.zones:
        cpus = "".join(f",cpus={cpu}" for cpu in zone.cpus)
        if zone.memory_bytes:
            arguments += ["-object", backend(spec, zone)]
        memdev = f",memdev=zone{zone.id}" if zone.memory_bytes else ""
        arguments += ["-numa", f"node,nodeid={zone.id}{memdev}{cpus}"]
    for source, row in enumerate(topology.distances):
        for target, distance in enumerate(row):
            arguments += ["-numa", f"dist,src={source},dst={target},val={distance}"]
    return arguments


def backend(spec: MachineSpec, zone: Zone) -> str:
    """The object that holds a zone's memory.

    A clone maps its file privately and opens it read-only: what it changes stays its own, and a file that many clones
    use cannot be harmed. rom=off, because a private mapping of a read-only file would otherwise be a ROM.
    """
    size = f"size={zone.memory_bytes}B"
    if spec.ram is None:
        return f"memory-backend-ram,id=zone{zone.id},{size}"
    sharing = "share=on" if spec.ram.use is RamUse.SAVED else "share=off,readonly=on,rom=off"
    return f"memory-backend-file,id=zone{zone.id},{size},mem-path={quoted(str(spec.ram.of(zone.id)))},{sharing}"


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
        arguments += disk(f"swap{number}", path, spec.swap_format, serial=f"memqos-swap{number}")
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
    """Entropy, the serial console's file and QMP's socket.

    vmgenid: its number is new in each machine, which tells the kernel of a clone to mix its entropy anew.
    A clone's console goes on in the file where that of the booted machine ended.
    """
    append = ",append=on" if spec.is_clone else ""
    return [
        "-device", "virtio-rng-pci",
        "-device", "vmgenid,guid=auto",
        "-chardev", f"file,id=console,path={quoted(str(spec.serial_log))}{append}",
        "-serial", "chardev:console",
        "-qmp", f"unix:{quoted(str(spec.qmp_socket))},server=on,wait=off",
    ]  # fmt: skip


def overlay_arguments(
    program: Path, base: Path, overlay: Path, *, base_format: DiskFormat = DiskFormat.RAW
) -> list[str]:
    """qemu-img's command that makes an empty overlay over a frozen disk."""
    return [
        str(program), "create",
        "-q",
        "-f", "qcow2",
        "-F", str(base_format),
        "-b", str(base),
        str(overlay),
    ]  # fmt: skip


def quoted(text: str) -> str:
    """A value inside a comma-separated option: QEMU reads two commas as one."""
    return text.replace(",", ",,")
