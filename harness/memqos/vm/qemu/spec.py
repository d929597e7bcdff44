"""The specification of a machine, as a value, and the QEMU command line that is computed from it.

The command line is a pure function of the value, with literal expectations in tests/golden/qemu. Each small function
returns the options for one thing; an option is followed by its argument.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from memqos.model.topology import Topology, TopologyNode
from memqos.vm.architecture import AMD64, ARM64, PPC64LE, Architecture

__all__ = [
    "Accelerator",
    "DiskFormat",
    "Flash",
    "MachineSpec",
    "RamFiles",
    "RamUse",
    "overlay_arguments",
    "qemu_arguments",
]

SLOW = ("erms", "fsrm", "fsrs", "fsrc", "fzrm")
"""CPU features that declare string instructions the fastest way to fill and to copy bytes.

QEMU emulates them byte by byte and still declares them: a kernel that believes it needs half as long again to fill
memory. QEMU has all of them from 8.0 on.
"""


EMULATED_CPUS = {
    "amd64": ",".join(["max", *(f"{feature}=off" for feature in SLOW)]),
    # QEMU computes pointer authentication with the architecture's own cipher by default, in software.
    "arm64": "max,pauth-impdef=on",
    # Debian's ppc64el needs POWER8 or newer; 6.12 knows all of POWER9.
    "ppc64le": "power9",
}
"""The CPU model for software emulation, by architecture."""


class Accelerator(StrEnum):
    """What runs the guest's instructions; spelled as QEMU's `accel=`."""

    KVM = "kvm"
    TCG = "tcg"

    def cpu_model(self, architecture: Architecture) -> str:
        """The CPU model with every feature of this accelerator, except those that are merely slow in it."""
        return "host" if self is Accelerator.KVM else EMULATED_CPUS[architecture.name]

    def kernel_words(self, architecture: Architecture) -> tuple[str, ...]:
        """The words of the kernel's command line that avoid what is merely slow in this accelerator.

        highres=off rounds sleeps up to the kernel's tick (4 ms at 250 Hz). Go programs sleep for 20 us, and a timer's
        interrupt costs more than that to emulate: starting a container takes an eighth less CPU time. Throttling above
        memory.high counts in ticks anyway (mm/memcontrol.c, schedule_timeout_killable).
        It is left out on pseries, whose decrementer has no periodic mode: with it, one boot of two on a busy host ended
        in endless timer interrupts.

        init_on_alloc=0 does not clear pages that the kernel allocates for itself, where a distribution has it clear all
        of them (CONFIG_INIT_ON_ALLOC_DEFAULT_ON): huge pages are set aside a hundred times as fast. A program's pages
        are cleared in any case.
        """
        if self is Accelerator.KVM:
            return ()
        return ("init_on_alloc=0",) if architecture is PPC64LE else ("highres=off", "init_on_alloc=0")


class DiskFormat(StrEnum):
    """A disk's format; spelled as QEMU's `format=`."""

    RAW = "raw"
    QCOW2 = "qcow2"


class RamUse(StrEnum):
    """How a machine uses the files that hold its memory."""

    SAVED = "saved"
    """It writes to them, so that they hold its memory when it is stopped."""

    CLONED = "cloned"
    """It starts from their content, only reads them, and waits for the rest of its state before it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RamFiles:
    """The files that hold a machine's memory, one for each NUMA node that has any, in one folder."""

    folder: Path
    use: RamUse

    def of(self, numa: int) -> Path:
        """The file of the NUMA node with this id."""
        return self.folder / f"numa{numa}.ram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flash:
    """A UEFI in flash memory, both raw: its code, read only, and its variables, the machine's own copy."""

    code: Path
    variables: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSpec:
    """A machine about to be started.

    name: shown in the process list and in reports. kernel, initrd: for QEMU to start; None for a disk that has a boot
    loader, of BIOS or, with `flash`, of UEFI. disk: the root disk, which QEMU writes to: an overlay, or the image
    itself while it is being provisioned. swap_disks: one file for each swap device of the topology, of that device's
    size, in the same order. serial_log: the file that the serial console is written to. qmp_socket: the UNIX socket
    that QEMU listens on for QMP; at most 107 bytes long. kernel_arguments: the command line's words, without those for
    the accelerator and the topology. swap_format: the swap disks' format. ssh_port: the loopback port that leads to the
    guest's sshd; 0 lets the host's kernel choose a free one. ram: the files that hold the memory; None for memory that
    ends with the machine. seed: a further disk, raw and read only, with cloud-init's users; None for none.
    architecture: of the machine, which need not be the host's.
    """

    name: str
    accelerator: Accelerator
    topology: Topology
    kernel: Path | None
    initrd: Path | None
    kernel_arguments: tuple[str, ...]
    disk: Path
    disk_format: DiskFormat
    swap_disks: tuple[Path, ...]
    serial_log: Path
    qmp_socket: Path
    swap_format: DiskFormat = DiskFormat.RAW
    ssh_port: int = 0
    ram: RamFiles | None = None
    flash: Flash | None = None
    seed: Path | None = None
    architecture: Architecture = AMD64

    @property
    def boots_from_disk(self) -> bool:
        """Whether a boot loader on the disk starts the kernel."""
        return self.kernel is None

    @property
    def is_clone(self) -> bool:
        """Whether it waits for a checkpoint's state instead of booting."""
        return self.ram is not None and self.ram.use is RamUse.CLONED

    @property
    def command_line(self) -> str:
        """The kernel's command line: the profile's words, the accelerator's, then the topology's.

        Empty if the disk's boot loader has its own.
        """
        if self.boots_from_disk:
            return ""
        words = self.accelerator.kernel_words(self.architecture)
        return " ".join((*self.kernel_arguments, *words, *topology_words(self.topology)))


def topology_words(topology: Topology) -> Iterator[str]:
    """The words of the kernel's command line for a topology's huge pages and swap.

    hugepages= by NUMA node is the kernel's own (5.16 and newer); memqos.* are read by the guest's
    /usr/lib/memqos/swap-on.
    """
    sizes = sorted({pages.size_bytes for numa in topology.numa_nodes for pages in numa.hugepages})
    for size in sizes:
        counts = [
            f"{numa.id}:{pages.count}"
            for numa in topology.numa_nodes
            for pages in numa.hugepages
            if pages.size_bytes == size
        ]
        yield f"hugepagesz={size >> 10}K"
        yield f"hugepages={','.join(counts)}"
    for number, device in enumerate(topology.swap):
        if device.priority is not None:
            yield f"memqos.swap{number}={device.priority}"
    if topology.zswap is not None:
        yield f"memqos.zswap={int(topology.zswap)}"


def qemu_arguments(spec: MachineSpec, program: Path) -> list[str]:
    """The whole command, program first."""
    return [
        str(program),
        *identity(spec),
        *firmware(spec),
        *processor(spec),
        *memory(spec),
        *kernel(spec),
        *disks(spec),
        *network(spec),
        *channels(spec),
        *(["-incoming", "defer"] if spec.is_clone else []),
    ]


def identity(spec: MachineSpec) -> list[str]:
    """Its name, and options that remove QEMU's defaults."""
    return [
        "-name", f"memqos-{quoted(spec.name)}",
        "-no-user-config",
        "-nodefaults",
        "-display", "none",
        # A distribution's first boot may end in a reboot.
        *([] if spec.boots_from_disk else ["-no-reboot"]),
        "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
    ]  # fmt: skip


def firmware(spec: MachineSpec) -> list[str]:
    """UEFI, if the machine has it; QEMU's own BIOS needs no option."""
    if spec.flash is None:
        return []
    code, variables = (quoted(str(path)) for path in (spec.flash.code, spec.flash.variables))
    return [
        "-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={code}",
        "-drive", f"if=pflash,unit=1,format=raw,file={variables}",
    ]  # fmt: skip


def processor(spec: MachineSpec) -> list[str]:
    """Machine type, accelerator, CPU model and count.

    Without q35's own disk controller and SMBus, whose drivers spend time to find nothing there. pseries starts its
    kernel by its small virtual Open Firmware: SLOF takes seconds to emulate, and finds no more. The other machines have
    no dies.
    """
    accelerator = "tcg,thread=multi" if spec.accelerator is Accelerator.TCG else "kvm"
    cpus = spec.topology.layout
    dies = f"dies={cpus.dies}," if spec.architecture is AMD64 else ""
    smp = f"sockets={cpus.packages},{dies}cores={cpus.cores},threads={cpus.threads}"
    return [
        "-machine", machine_type(spec.architecture, spec.accelerator),
        "-accel", accelerator,
        "-cpu", spec.accelerator.cpu_model(spec.architecture),
        "-smp", f"cpus={spec.topology.cpus},{smp}",
    ]  # fmt: skip


def machine_type(architecture: Architecture, accelerator: Accelerator) -> str:
    """QEMU's machine for an architecture."""
    if architecture is AMD64:
        return "q35,sata=off,smbus=off"
    if architecture is ARM64:
        return f"virt,gic-version={'host' if accelerator is Accelerator.KVM else '3'}"
    return "pseries,x-vof=on"


def memory(spec: MachineSpec) -> list[str]:
    """One QEMU node for each NUMA node, with a memory backend if it has memory, then the declared distances."""
    topology = spec.topology
    arguments = ["-m", f"size={topology.memory_bytes}B"]
    for numa in topology.numa_nodes:
        cpus = "".join(f",cpus={cpu}" for cpu in numa.cpus)
        if numa.memory_bytes:
            arguments += ["-object", backend(spec, numa)]
        memdev = f",memdev=numa{numa.id}" if numa.memory_bytes else ""
        arguments += ["-numa", f"node,nodeid={numa.id}{memdev}{cpus}"]
    for source, row in enumerate(topology.distances):
        for target, distance in enumerate(row):
            arguments += ["-numa", f"dist,src={source},dst={target},val={distance}"]
    return arguments


def backend(spec: MachineSpec, numa: TopologyNode) -> str:
    """The object that holds a NUMA node's memory.

    A clone maps its file privately and opens it read-only: its changes stay its own, and a file that many clones use
    cannot be harmed. rom=off, because a private mapping of a read-only file would otherwise be a ROM.
    """
    size = f"size={numa.memory_bytes}B"
    if spec.ram is None:
        return f"memory-backend-ram,id=numa{numa.id},{size}"
    sharing = "share=on" if spec.ram.use is RamUse.SAVED else "share=off,readonly=on,rom=off"
    return f"memory-backend-file,id=numa{numa.id},{size},mem-path={quoted(str(spec.ram.of(numa.id)))},{sharing}"


def kernel(spec: MachineSpec) -> list[str]:
    """The kernel, its initrd and its command line; none if the disk has them."""
    if spec.boots_from_disk:
        return []
    return [
        "-kernel", str(spec.kernel),
        "-initrd", str(spec.initrd),
        "-append", spec.command_line,
    ]  # fmt: skip


def disks(spec: MachineSpec) -> list[str]:
    """The root disk as vda, then the swap disks, identified by their serials.

    cache=unsafe: a machine's disk is thrown away with it, so nothing has to reach the host's disk in time.
    """
    arguments = disk("root", spec.disk, spec.disk_format, serial="memqos-root", first=spec.boots_from_disk)
    for number, path in enumerate(spec.swap_disks):
        arguments += disk(f"swap{number}", path, spec.swap_format, serial=f"memqos-swap{number}")
    if spec.seed is not None:
        arguments += [
            "-drive", f"if=none,id=seed,file={quoted(str(spec.seed))},format=raw,readonly=on",
            "-device", "virtio-blk-pci,drive=seed,serial=memqos-seed",
        ]  # fmt: skip
    return arguments


def disk(name: str, path: Path, disk_format: DiskFormat, *, serial: str, first: bool = False) -> list[str]:
    """One virtio disk. first: the firmware boots from it."""
    return [
        "-drive", f"if=none,id={name},file={quoted(str(path))},format={disk_format},cache=unsafe,discard=unmap",
        "-device", f"virtio-blk-pci,drive={name},serial={serial}{',bootindex=0' if first else ''}",
    ]  # fmt: skip


def network(spec: MachineSpec) -> list[str]:
    """A user-mode network without outgoing connections, and one forward from loopback to the guest's sshd."""
    return [
        "-netdev", f"user,id=net0,restrict=on,hostfwd=tcp:127.0.0.1:{spec.ssh_port}-:22",
        "-device", "virtio-net-pci,netdev=net0,romfile=",
    ]  # fmt: skip


def channels(spec: MachineSpec) -> list[str]:
    """Entropy, the serial console's file and QMP's socket.

    vmgenid: its number is new in each machine, which makes a clone's kernel mix its entropy anew. QEMU has it for x86
    alone. A clone's console continues the file of the booted machine.
    """
    append = ",append=on" if spec.is_clone else ""
    return [
        "-device", "virtio-rng-pci",
        *(["-device", "vmgenid,guid=auto"] if spec.architecture is AMD64 else []),
        "-chardev", f"file,id=console,path={quoted(str(spec.serial_log))}{append}",
        "-serial", "chardev:console",
        "-qmp", f"unix:{quoted(str(spec.qmp_socket))},server=on,wait=off",
    ]  # fmt: skip


def overlay_arguments(
    program: Path, base: Path, overlay: Path, *, base_format: DiskFormat = DiskFormat.RAW
) -> list[str]:
    """The qemu-img command for an empty overlay over a frozen disk."""
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
