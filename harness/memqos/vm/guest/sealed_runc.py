"""Runs runc from a sealed copy in the guest's memory, so that QEMU translates its code only once.

An unsealed runc copies its whole file for each container, so that no container can write to the file itself
(CVE-2019-5736): before 1.2 a memfd each time (libcontainer/nsenter/cloned_binary.c). QEMU translates code by its
memory, and so translates each of these copies again; a container then takes half as much CPU time again to start. A
sealed runc makes no copy; runc's own contrib/cmd/memfd-bind provides it by a bind mount over the file. The bytes are
the same.
"""

from __future__ import annotations

import hashlib

from memqos.clock import Deadline
from memqos.target.base import Target
from memqos.vm.guest.view import place_of

__all__ = ["SEALED", "seal_runc", "unseal_runc"]

_UNIT = "memqos-sealed-runc.service"
_SECONDS = 30

_LINK = "/run/memqos-sealed-runc"
"""Points to the copy; the link is mounted over runc."""

_SEAL = """\
import ctypes, fcntl, os, socket, sys
named, place = sys.argv[1:]
fd = os.memfd_create("runc", os.MFD_ALLOW_SEALING)  # no CLOEXEC: the process that holds it goes on as sleep
with open(place, "rb") as file:
    while data := file.read(1 << 20):
        os.write(fd, data)
os.fchmod(fd, 0o755)
fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
os.symlink(f"/proc/{os.getpid()}/fd/{fd}", named)  # not the link in /proc itself: Linux 6.12.117 binds none of those
link = os.open(named, os.O_PATH | os.O_NOFOLLOW)
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(f"/proc/self/fd/{link}".encode(), place.encode(), b"", 4096, None):  # MS_BIND
    sys.exit(os.strerror(ctypes.get_errno()))
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
    notify.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
os.execvp("sleep", ["sleep", "infinity"])
"""

_UNSEAL = """\
import ctypes, sys
ctypes.CDLL(None).umount2(sys.argv[1].encode(), 2 | 8)  # MNT_DETACH, and UMOUNT_NOFOLLOW: what is mounted is a link
"""

_START = (
    *("systemd-run", "--quiet", "--collect", f"--unit={_UNIT}", "--description=A sealed copy of runc"),
    *("--property=Type=notify", "--property=NotifyAccess=all"),
    *("python3", "-c", _SEAL, _LINK),
)

SEALED = hashlib.sha256("\0".join(_START).encode()).hexdigest()[:12]
"""What marks a machine with a sealed runc in its contents."""


def seal_runc(target: Target) -> str:
    """Mount a sealed copy over runc; returns the outcome as a sentence. A guest without runc is unchanged."""
    deadline = Deadline.after(_SECONDS)
    place = place_of(target, "runc", deadline=deadline)
    if not place:
        return "there is none"
    told = target.run([*_START, place], deadline=deadline)
    if told.status:
        said = target.run(["journalctl", "--output=cat", "--lines=5", f"--unit={_UNIT}"], deadline=deadline)
        why = " ".join([told.error_text, said.text]).split()
        return f"as it is on the disk, since it could not be sealed: {' '.join(why)[-300:]}"
    return "from a sealed copy in memory, as runc's contrib/cmd/memfd-bind provides it"


def unseal_runc(target: Target) -> None:
    """Use runc from the disk; a guest where it is not sealed is unchanged."""
    deadline = Deadline.after(_SECONDS)
    # What is not mounted cannot be unmounted, and a missing unit not stopped: neither is an error.
    target.run(["python3", "-c", _UNSEAL, place_of(target, "runc", deadline=deadline)], deadline=deadline)
    target.run(["systemctl", "stop", _UNIT], deadline=deadline)
    target.run(["rm", "-f", _LINK], deadline=deadline)
