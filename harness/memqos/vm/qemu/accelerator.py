"""KVM or software emulation: decided by actually running a guest, because the device alone proves nothing.

/dev/kvm can exist, open, and create machines, and still not run a kernel: QEMU then stops in run state
"internal-error", alive. So a probe guest has to print its first words, and the answer is cached until the host reboots.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from dataclasses import dataclass
from pathlib import Path

from memqos.clock import Deadline, wait
from memqos.errors import DeadlineError, MachineryError
from memqos.ownership import ProcessGroup
from memqos.vm.architecture import AMD64, Architecture
from memqos.vm.cache.store import Cache
from memqos.vm.host.programs import Qemu
from memqos.vm.qemu.qmp import open_qmp
from memqos.vm.qemu.spec import Accelerator, machine_type

__all__ = ["AcceleratorChoice", "choose_accelerator", "kvm_device_obstacle", "probe_arguments"]

KVM = Path("/dev/kvm")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

PROBE_SECONDS = 15
"""How long the probe's kernel may take to its first words: under KVM that is a fraction of a second."""

GREETING = b"Linux version"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorChoice:
    """The accelerator and why; `reason` ends with its cost, `obstacle` is why it is not KVM."""

    accelerator: Accelerator
    reason: str
    obstacle: str = ""


def choose_accelerator(
    qemu: Qemu, kernel: Path | None, *, cache: Cache, architecture: Architecture = AMD64
) -> AcceleratorChoice:
    """KVM if a probe guest with this kernel runs on it, else TCG, also without a kernel to try it with.

    Another architecture than the host's only has TCG.

    The answer is cached for this boot of the host, this QEMU and this user.
    """
    if architecture.machine != platform.machine():
        return AcceleratorChoice(
            accelerator=Accelerator.TCG,
            reason=f"the machine's CPU is {architecture.machine}, this host's is {platform.machine()}: it runs under "
            "software emulation (TCG), ten to thirty times slower than with KVM on a host of its own architecture.",
            obstacle=f"KVM runs no {architecture.machine} guest on a {platform.machine()} host",
        )
    kept = cache.folder("locks") / "accelerator.json"
    key = {"boot": BOOT_ID.read_text().strip(), "qemu": qemu.version_text, "user": os.geteuid()}
    answer = _kept_answer(kept, key)
    if answer is None and kernel is None:
        obstacle = (
            kvm_device_obstacle() or "KVM was not tried, as no image is in the cache (`memqos vm build` makes one)"
        )
        return _emulated(obstacle)
    if answer is None and kernel is not None:
        answer = KvmProbe(obstacle=kvm_obstacle(qemu, kernel, architecture))
        temporary = kept.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps({"key": key, "obstacle": answer.obstacle}))
        temporary.replace(kept)
    if answer is None or answer.obstacle is None:
        return AcceleratorChoice(accelerator=Accelerator.KVM, reason="KVM runs guests on this host.")
    return _emulated(answer.obstacle)


def _emulated(obstacle: str) -> AcceleratorChoice:
    return AcceleratorChoice(
        accelerator=Accelerator.TCG,
        reason=f"{obstacle}: machines run under software emulation (TCG), ten to thirty times slower than with KVM.",
        obstacle=obstacle,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KvmProbe:
    """The result of a probe: why KVM cannot be used, or None if it can."""

    obstacle: str | None


def _kept_answer(kept: Path, key: dict[str, object]) -> KvmProbe | None:
    try:
        answer = json.loads(kept.read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(answer, dict) or answer.get("key") != key or "obstacle" not in answer:
        return None
    obstacle = answer["obstacle"]
    return KvmProbe(obstacle=None if obstacle is None else str(obstacle))


def kvm_obstacle(qemu: Qemu, kernel: Path, architecture: Architecture = AMD64) -> str | None:
    """Why KVM cannot be used here, as a sentence without its full stop; None if a guest ran."""
    if obstacle := kvm_device_obstacle():
        return obstacle
    with tempfile.TemporaryDirectory(prefix="memqos-kvm-") as name:
        folder = Path(name)
        return _probe(qemu, kernel, architecture, folder)


def kvm_device_obstacle() -> str | None:
    """Why the device cannot even be opened, as a sentence without its full stop; None proves nothing."""
    if not KVM.exists():
        return f"{KVM} does not exist"
    if not os.access(KVM, os.R_OK | os.W_OK):
        return f"this user may not use {KVM}"
    return None


def _probe(qemu: Qemu, kernel: Path, architecture: Architecture, folder: Path) -> str | None:
    serial, socket, log = folder / "serial.log", folder / "qmp.sock", folder / "qemu.log"
    with ProcessGroup(folders=(folder,)) as group, log.open("wb") as output:
        argv = probe_arguments(qemu, kernel, serial=serial, socket=socket, architecture=architecture)
        process = group.start(argv, output=output)
        deadline = Deadline.after(PROBE_SECONDS)
        try:
            wait("QEMU listens", lambda: socket.exists() or process.poll() is not None, deadline=deadline, every=0.02)
            with open_qmp(socket, deadline=deadline) as qmp:
                state = wait(
                    "the probe guest speaks or fails",
                    lambda: "spoke" if GREETING in serial.read_bytes() else qmp.run_state(deadline=deadline),
                    until=lambda state: state not in {"running", "prelaunch"},
                    deadline=deadline,
                    every=0.05,
                )
        except (MachineryError, DeadlineError, OSError) as error:
            said = log.read_text(errors="backslashreplace").strip().splitlines()
            return f"KVM does not run a guest here ({said[-1] if said else error})"
    return None if state == "spoke" else f"KVM does not run a guest here (it stopped in state '{state}')"


def probe_arguments(
    qemu: Qemu, kernel: Path, *, serial: Path, socket: Path, architecture: Architecture = AMD64
) -> list[str]:
    """A machine of 256 MiB with only a kernel: it prints, finds no root and panics."""
    return [
        str(qemu.program),
        "-name", "memqos-kvm-probe",
        "-no-user-config",
        "-nodefaults",
        "-display", "none",
        "-no-reboot",
        "-machine", "q35" if architecture is AMD64 else machine_type(architecture, Accelerator.KVM),
        "-accel", "kvm",
        "-cpu", "host",
        "-m", "256M",
        "-kernel", str(kernel),
        "-append", f"console={architecture.console} panic=-1",
        "-serial", f"file:{serial}",
        "-qmp", f"unix:{socket},server=on,wait=off",
    ]  # fmt: skip
