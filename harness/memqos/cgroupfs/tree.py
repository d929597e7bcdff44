"""The cgroup tree of a target: read its files, write a knob, create cgroups, kill."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from memqos.cgroupfs import parse
from memqos.cgroupfs.hierarchy import Hierarchy, find_hierarchy
from memqos.clock import Deadline
from memqos.errors import TargetError
from memqos.model.path import CgroupPath
from memqos.model.reading import CgroupReading, FileText, NoFile, Reading
from memqos.target.base import CommandResult, ManyAtOnce, Target, checked

__all__ = ["CgroupTree"]

# xargs exits with 123 when grep did not find everything; each file's own result is more precise.
_XARGS_SOME_FAILED = 123
_WRITTEN_OR_GONE = {0, errno.ENOENT, errno.ENODEV}


@dataclass(frozen=True, slots=True)
class CgroupTree:
    """A target's cgroup tree. Create it with `of`, which reads the mounts once."""

    target: Target
    hierarchy: Hierarchy

    @classmethod
    def of(cls, target: Target, *, deadline: Deadline) -> CgroupTree:
        """The tree of this target; EnvironmentNotAbleError without the memory controller."""
        return cls(target, find_hierarchy(target, deadline=deadline))

    def read_cgroups(self, paths: Iterable[CgroupPath], names: Iterable[str], *, deadline: Deadline) -> Reading:
        """These files of exactly these cgroups, all at once; NoFile if the file or the cgroup is missing."""
        paths, names = tuple(dict.fromkeys(paths)), tuple(dict.fromkeys(names))
        at = deadline.clock.now()
        files = [self.hierarchy.file(path, name) for path in paths for name in names]
        if (read := self._read_many(files, deadline)) is not None:
            texts = {file: parse.text_of(seen) for file, seen in read.items()}
            return self._reading(at, paths, names, texts)
        argv, stdin = parse.files_command(files)
        result = self.target.run(argv, deadline=deadline, stdin=stdin)
        if result.status != _XARGS_SOME_FAILED:
            checked(result, where=self.target.address)
        seen = parse.parse_files(files, result.stdout, result.stderr)
        self._refuse_complaints(seen, result)
        return self._reading(at, paths, names, seen.files)

    def _read_many(self, files: Sequence[str], deadline: Deadline) -> Mapping[str, bytes | int] | None:
        """These files, from a target that can read without a command; None if it cannot."""
        return self.target.read_many(files, deadline=deadline) if isinstance(self.target, ManyAtOnce) else None

    def read_text(self, path: CgroupPath, name: str, *, deadline: Deadline) -> FileText:
        """One file of one cgroup; NoFile if it or its cgroup is missing."""
        text = self.target.read(self.hierarchy.file(path, name), deadline=deadline)
        return NoFile.NO_FILE if text is None else text.decode("utf-8", "backslashreplace")

    def write(self, path: CgroupPath, name: str, text: str, *, deadline: Deadline) -> None:
        """Write this text to an interface file at once; TargetError if the kernel refuses it or the file is missing."""
        self.target.write(self.hierarchy.file(path, name), text.encode(), deadline=deadline)

    def exists(self, path: CgroupPath, *, deadline: Deadline) -> bool:
        """Whether the cgroup exists."""
        return self.target.list(self.hierarchy.folder(path), deadline=deadline) is not None

    def processes(self, path: CgroupPath, *, deadline: Deadline) -> tuple[int, ...]:
        """The processes in this cgroup itself, not below it; empty if it does not exist."""
        text = self.read_text(path, "cgroup.procs", deadline=deadline)
        return tuple(int(line) for line in text.split()) if isinstance(text, str) else ()

    def read_first_processes(
        self, paths: Iterable[CgroupPath], name: str, *, deadline: Deadline
    ) -> dict[CgroupPath, str]:
        """A file of /proc, such as oom_score_adj, of the first process of each of these cgroups, all at once.

        A missing cgroup, or one without processes, is left out.
        """
        lists = {self.hierarchy.file(path, "cgroup.procs"): path for path in paths}
        if not lists:
            return {}
        if (read := self._read_many(list(lists), deadline)) is not None:
            first = {lists[file]: parse.first_of(seen) for file, seen in read.items() if isinstance(seen, bytes)}
            files = {f"/proc/{pid}/{name}": path for path, pid in first.items() if pid is not None}
            said = self._read_many(list(files), deadline) or {}
            return {files[file]: text.decode() for file, text in said.items() if isinstance(text, bytes)}
        result = self._run(parse.first_process_command(name, list(lists)), deadline)
        return {lists[file]: text for file, text in parse.parse_first_process(result.stdout).items()}

    def read_named_processes(self, path: CgroupPath, name: str, program: str, *, deadline: Deadline) -> dict[int, str]:
        """A file of /proc, such as oom_score_adj, of each process of a cgroup that runs a program of this name."""
        argv = parse.named_processes_command(name, self.hierarchy.file(path, "cgroup.procs"), program)
        return parse.parse_named_processes(self._run(argv, deadline).stdout)

    def cgroup_of(self, pid: int, *, deadline: Deadline) -> CgroupPath:
        """The cgroup of a process, as the target's own root sees it; TargetError if there is no such process."""
        where = f"/proc/{pid}/cgroup"
        text = self.target.read(where, deadline=deadline)
        found = self.hierarchy.membership((text or b"").decode("utf-8", "surrogateescape"))
        if found is None:
            raise TargetError(
                f"process {pid} is in no cgroup {self.hierarchy.version}, or has exited.",
                where=f"{self.target.address}{where}",
            )
        return found

    def make(self, paths: Sequence[CgroupPath], *, deadline: Deadline) -> None:
        """Create these cgroups and their ancestors; an existing one is not an error."""
        if paths:
            folders = [folder for path in paths for folder in self.hierarchy.folders(path)]
            self._run(["mkdir", "-p", "--", *folders], deadline)

    def kill(self, paths: Sequence[CgroupPath], *, deadline: Deadline) -> None:
        """Kill every process in these cgroups and below, with one command; a missing cgroup has none."""
        files = self.hierarchy.kill_files(paths)
        if files and isinstance(self.target, ManyAtOnce):
            done = self.target.write_many(files, b"1\n", deadline=deadline)
            if done is not None and not {*done.values()} - _WRITTEN_OR_GONE:
                return
        # The command's error says more about refused writes.
        self._run(self.hierarchy.kill_command(paths), deadline)

    def _run(self, argv: Sequence[str], deadline: Deadline) -> CommandResult:
        return checked(self.target.run(argv, deadline=deadline), where=self.target.address)

    def _reading(
        self, at: float, paths: Iterable[CgroupPath], names: Sequence[str], seen: Mapping[str, FileText]
    ) -> Reading:
        cgroups = {}
        for path in paths:
            files: dict[str, FileText] = {
                name: seen.get(self.hierarchy.file(path, name), NoFile.NO_FILE) for name in names
            }
            cgroups[path] = CgroupReading(path=path, files=files)
        return Reading(source=self.target.address, at=at, cgroups=cgroups)

    def _refuse_complaints(self, seen: parse.Scan, result: CommandResult) -> None:
        if seen.complaints:
            raise TargetError(
                f"reading the cgroup tree met '{seen.complaints[0]}'.",
                where=self.target.address,
                data={"argv": result.argv, "stderr": result.error_text},
            )
