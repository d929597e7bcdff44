"""What a machine is made of, as a value: everything that its QEMU command line is computed from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from memqos.model.topology import Topology

__all__ = ["Accelerator", "DiskFormat", "MachineSpec", "RamFiles", "RamUse"]


SLOW = ("erms", "fsrm", "fsrs", "fsrc", "fzrm")
"""Features by which a processor says that its string instructions are the fastest way to fill and to copy bytes.

QEMU does them byte by byte, and says so of itself all the same: a kernel that takes its word needs half as long again
to fill memory. All of them are known to QEMU from 8.0 on.
"""


class Accelerator(StrEnum):
    """What runs the guest's instructions; spelled as QEMU's `accel=`."""

    KVM = "kvm"
    TCG = "tcg"

    @property
    def cpu_model(self) -> str:
        """The CPU model with every feature that this accelerator has, but for what is only slow in it."""
        return "host" if self is Accelerator.KVM else ",".join(["max", *(f"{feature}=off" for feature in SLOW)])

    @property
    def kernel_words(self) -> tuple[str, ...]:
        """The words of the kernel's command line that save what is only slow in this accelerator.

        highres=off rounds sleeps up to the kernel's tick (4 ms at 250 Hz). Programs in Go ask for sleeps of 20 us, and
        a timer's interrupt costs more than that to emulate: starting a container takes an eighth less processor time.
        What throttles above memory.high counts in ticks anyway (mm/memcontrol.c, schedule_timeout_killable).

        init_on_alloc=0 leaves pages that the kernel allocates for itself as they are, where a distribution has it clear
        all of them (CONFIG_INIT_ON_ALLOC_DEFAULT_ON): huge pages are set aside a hundred times as fast. What a program
        gets is cleared in any case.
        """
        return () if self is Accelerator.KVM else ("highres=off", "init_on_alloc=0")


class DiskFormat(StrEnum):
    """A disk's format; spelled as QEMU's `format=`."""

    RAW = "raw"
    QCOW2 = "qcow2"


class RamUse(StrEnum):
    """What a machine does with the files that hold its memory."""

    SAVED = "saved"
    """It writes to them, so that they hold its memory when it is stopped."""

    CLONED = "cloned"
    """It begins with what they hold, reads them only, and waits for the rest of its state before it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RamFiles:
    """The files that hold a machine's memory, one for each zone that has any, in one folder."""

    folder: Path
    use: RamUse

    def of(self, zone: int) -> Path:
        """The file of the zone of this id."""
        return self.folder / f"zone{zone}.ram"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSpec:
    """A machine about to be started.

    name: shown in the process list and in reports.
    disk: the root disk, which QEMU writes to: an overlay, or the image itself while it is being provisioned.
    swap_disks: one file for each swap device of the topology, of that device's size, in the same order.
    serial_log: the file that the serial console is written to.
    qmp_socket: the UNIX socket that QEMU listens on for QMP; at most 107 bytes long.
    kernel_arguments: the command line's words, without those that the accelerator and the topology ask for.
    swap_format: the swap disks' format.
    ssh_port: the loopback port that leads to the guest's sshd; 0 lets the host's kernel choose a free one.
    ram: the files that hold the memory; None for memory that ends with the machine.
    """

    name: str
    accelerator: Accelerator
    topology: Topology
    kernel: Path
    initrd: Path
    kernel_arguments: tuple[str, ...]
    disk: Path
    disk_format: DiskFormat
    swap_disks: tuple[Path, ...]
    serial_log: Path
    qmp_socket: Path
    swap_format: DiskFormat = DiskFormat.RAW
    ssh_port: int = 0
    ram: RamFiles | None = None

    @property
    def is_clone(self) -> bool:
        """Whether it waits for a checkpoint's state instead of booting."""
        return self.ram is not None and self.ram.use is RamUse.CLONED

    @property
    def command_line(self) -> str:
        """The kernel's command line: the profile's words, the accelerator's, then those that the topology asks for."""
        return " ".join((*self.kernel_arguments, *self.accelerator.kernel_words, *topology_words(self.topology)))


def topology_words(topology: Topology) -> Iterator[str]:
    """The words of the kernel's command line that make a topology's huge pages and swap.

    hugepages= by zone is the kernel's own (5.16 and newer); memqos.* are read by the guest's /usr/lib/memqos/swap-on.
    """
    sizes = sorted({pages.size_bytes for zone in topology.zones for pages in zone.hugepages})
    for size in sizes:
        counts = [
            f"{zone.id}:{pages.count}"
            for zone in topology.zones
            for pages in zone.hugepages
            if pages.size_bytes == size
        ]
        yield f"hugepagesz={size >> 10}K"
        yield f"hugepages={','.join(counts)}"
    for number, device in enumerate(topology.swap):
        if device.priority is not None:
            yield f"memqos.swap{number}={device.priority}"
    if topology.zswap is not None:
        yield f"memqos.zswap={int(topology.zswap)}"
