"""A host daemon that keeps a file in memory and answers requests from it.

Its cgroup is below one that a kubelet may reserve memory for, like a service in system.slice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from memqos.cgroupfs import parse
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.engine.answer.behaviour import behaviour_reason
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.engine.cgroup.effective_protection import Effective, Protected, ProtectionKind, effective
from memqos.engine.cgroup.throttle import CHARGE_BATCH
from memqos.model.knob import MAX, Bytes, Max
from memqos.model.path import CgroupPath
from memqos.target.base import Target, checked

__all__ = ["Daemon", "running_daemon"]

HOLDS = 48 << 20
"""Size of its file on a disk, in bytes."""

SHARED = 64 << 20
"""Size of its file on a tmpfs, in bytes: four times the shortage, since free memory is a guess (`spare`)."""

NAME = "memqos-daemon"
SUBJECT = Subject.of_machine("the daemon")
SECONDS = 60.0
PATIENCE = 20
"""Seconds after which a client gives up."""

# Each answer reads the file anew. The cgroups above the daemon are left as they were found.
_START = """\
parent=$1 folder=$2 file=$3
rm -rf -- "$folder"
mkdir -p -- "$folder" "$parent"
echo +memory >"$parent/cgroup.subtree_control"
mkdir -- "$parent/$5"
mkfifo -- "$folder/asked" "$folder/answered"
(
  echo 0 >"$parent/$5/cgroup.procs"
  head -c "$4" /dev/urandom >"$file"
  setsid sh -c 'while read -r word <"$1/asked"; do cat "$2" >"$1/read"; echo "$word" >"$1/answered"; done' \\
    sh "$folder" "$file" </dev/null >/dev/null 2>&1 &
)
ln -sf /dev/null "$folder/read"
sync
"""
_ASK = 'timeout "$2" sh -c \'echo ok >"$1/asked" && cat "$1/answered"\' sh "$1"'
_END = """\
echo 1 >"$1/$4/cgroup.kill"
for again in 1 2 3 4 5 6 7 8 9 10; do rmdir -- "$1/$4" && break || sleep 0.2; done
rm -rf -- "$2" "$3"
[ "$5" = there ] || rmdir -- "$1"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A running daemon. before: bytes in use once its file was read and before any shortage.

    size: bytes of its file. page_size: the machine's page size in bytes. cpus: those that it may run on. Each may have
    charged a batch ahead for it. That counts as used, and is returned once memory is short although nothing was
    reclaimed (mm/memcontrol.c, drain_all_stock).
    """

    tree: CgroupTree
    path: CgroupPath
    folder: str
    size: int
    before: int
    cpus: int
    page_size: int

    @property
    def slack(self) -> int:
        """A batch of the machine's pages, in bytes, that each CPU may have charged ahead."""
        return CHARGE_BATCH * self.page_size

    @property
    def _least(self) -> int:
        """Its least usage if nothing was reclaimed from it, in bytes."""
        return self.before - self.cpus * self.slack

    @property
    def exposed(self) -> int:
        """Bytes that it can lose when the whole machine runs short: zero if something protects it."""
        return self.before if self._counts().protection is ProtectionKind.NONE else 0

    @property
    def quarter(self) -> int:
        """A quarter of what it can lose, in bytes."""
        return self.exposed // 4

    def keeps_its_memory(self) -> Finding:
        """Nothing was reclaimed from it; not observable if its ancestors do not protect it fully."""
        now, counts = self._amount(self.path, "memory.current"), self._counts()
        why = "" if counts.protection is ProtectionKind.HARD else f"not all of it is protected: {_told(counts)}"
        expected = f"at least {self._least} ({self.before} before, less {self.slack} for each CPU)"
        return self._finding("memory.current", "kept", expected, now, now >= self._least, why_not=why)

    def gives_way(self) -> Finding:
        """Some of it was reclaimed; not observable if something protects it."""
        now, counts = self._amount(self.path, "memory.current"), self._counts()
        why = "" if counts.protection is ProtectionKind.NONE else f"something protects it: {_told(counts)}"
        expected = f"less than {self._least} ({self.before} before, less {self.slack} for each CPU)"
        return self._finding("memory.current", "taken", expected, now, now < self._least, why_not=why)

    def swaps(self, *, why_not: str = "") -> Finding:
        """More than one batch of it is in swap; why_not: why it need not be, "" if it must."""
        file, expected = "memory.swap.current", f"more than {self.slack}"
        swapped = self._amount(self.path, file)
        return self._finding(file, "used", expected, swapped, swapped > self.slack, why_not=why_not)

    @property
    def spent(self) -> str:
        """Why it has nothing left to reclaim: its file, but for a batch, is in swap and not in memory; "" if it has.

        Pages that are in swap and in memory (the swap cache) can be freed, and are still charged to it.
        """
        swapped, now = self._amount(self.path, "memory.swap.current"), self._amount(self.path, "memory.current")
        if self.size - swapped >= self.slack or now > self.before - self.size + self.cpus * self.slack:
            return ""
        return (
            f"{SUBJECT} had no reclaimable memory left: {swapped} bytes of it are in swap, its file has {self.size}, "
            f"and it uses {now} ({self.before} before)"
        )

    def answers(self) -> Finding:
        """It answers a request within PATIENCE seconds."""
        argv = ["sh", "-ec", _ASK, "memqos-ask", self.folder, str(PATIENCE)]
        said = self.tree.target.run(argv, deadline=Deadline.after(SECONDS)).text.strip()
        return self._finding("answer", "", "ok", said or "none", said == "ok")

    def _counts(self) -> Effective:
        """Its effective protection, and that of its ancestors, when the whole machine runs short."""
        above = {path: self._protected(path) for path in (self.path.parent, self.path)}
        return effective(above, recursive=self.tree.hierarchy.is_recursive, page_size=self.page_size)[self.path]

    def _protected(self, path: CgroupPath) -> Protected:
        return Protected(usage=self.before, min=self._asked(path, "memory.min"), low=self._asked(path, "memory.low"))

    def _asked(self, path: CgroupPath, file: str) -> Bytes | Max:
        text = self._text(path, file)
        return MAX if text == "max" else Bytes(int(text))

    def _amount(self, path: CgroupPath, file: str) -> int:
        return parse.number(self._text(path, file), path=f"{path}/{file}")

    def _text(self, path: CgroupPath, file: str) -> str:
        text = self.tree.read_text(path, file, deadline=Deadline.after(SECONDS))
        return parse.present(text, path=f"{path}/{file}").strip()

    def _finding(
        self, file: str, key: str, expected: str, observed: object, holds: bool, *, why_not: str = ""
    ) -> Finding:
        return Finding(
            verdict=Verdict.of(holds, why_not),
            subject=SUBJECT,
            cgroup=str(self.path),
            knob=file,
            set_by=Setter.KERNEL,
            expected=expected,
            observed="" if why_not else str(observed),
            reason=behaviour_reason(file, key, {}),
            why_not=why_not,
            evidence={"memory.current before": str(self.before)},
            measured=key in {"kept", "taken"},
        )


def _told(counts: Effective) -> str:
    return f"effective memory.min is {counts.min} and memory.low {counts.low} of {counts.usage} bytes in use"


@contextlib.contextmanager
def running_daemon(
    tree: CgroupTree, parent: CgroupPath, *, shared: bool, cpus: int, page_size: int
) -> Iterator[Daemon]:
    """Run a daemon below this cgroup, created if missing, until the context ends.

    cpus: as for `Daemon`. shared: whether its file is on a tmpfs, which is swapped out and not dropped. TargetError if
    it cannot be started.
    """
    target, above = tree.target, tree.hierarchy.folder(parent)
    folder, file = f"/run/{NAME}", f"/{'dev/shm' if shared else 'var/tmp'}/{NAME}"
    size = SHARED if shared else HOLDS
    there = "there" if tree.exists(parent, deadline=Deadline.after(SECONDS)) else "made"
    path = parent.child(NAME)
    try:
        _run(target, _START, "memqos-daemon", above, folder, file, str(size), NAME)
        text = tree.read_text(path, "memory.current", deadline=Deadline.after(SECONDS))
        before = parse.number(parse.present(text, path=str(path)), path=str(path))
        yield Daemon(tree=tree, path=path, folder=folder, size=size, before=before, cpus=cpus, page_size=page_size)
    finally:
        _run(target, _END, "memqos-undaemon", above, folder, file, NAME, there)


def _run(target: Target, script: str, *words: str) -> None:
    checked(target.run(["sh", "-ec", script, *words], deadline=Deadline.after(SECONDS)), where=target.address)
