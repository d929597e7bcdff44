"""Reading many control files with one command: the command and the PURE parsing of what it prints.

Under emulation each command over ssh costs more than the reading, so many files are one command. GNU grep does the
work, because it reports what it cannot read file by file and goes on. Output and errors are kept apart: it prints each
line of each file as PATH, a NUL byte, the line. A file of which it printed nothing is empty. One that it complained of
could not be read, or is not there.

Where the files are not known beforehand, find prints "f PATH" and a NUL byte for each that exists; one empty entry
stands between that and what grep prints.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from memqos.model.reading import FileText, NoFile, Unreadable

__all__ = [
    "Scan",
    "files_command",
    "first_of",
    "first_process_command",
    "named_processes_command",
    "parse_files",
    "parse_first_process",
    "parse_listed",
    "parse_named_processes",
    "text_of",
]

# The lowest number of a cgroup's processes is its first one's, as long as numbers do not wrap around: cgroup v2 lists
# them in the order of their coming, cgroup v1 by number. What ends meanwhile is left out.
_FIRST_PROCESS_SCRIPT = """\
name=$1; shift
for file; do
  pid=$(sort -n "$file" 2>/dev/null | head -n 1)
  [ -n "$pid" ] && value=$(cat "/proc/$pid/$name" 2>/dev/null) && printf '%s\\0%s\\n' "$file" "$value"
done
exit 0
"""

_NAMED_PROCESSES_SCRIPT = """\
name=$1; file=$2; program=$3
while read -r pid; do
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$program" ] && value=$(cat "/proc/$pid/$name" 2>/dev/null) \\
    && printf '%s %s\\n' "$pid" "$value"
done <"$file" 2>/dev/null
exit 0
"""

_COMPLAINT = re.compile(r"(?:grep|find): (?P<quote>'?)(?P<path>/.*?)(?P=quote): (?P<reason>[^:]+)")
_GONE = frozenset({"No such file or directory", "No such device"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a scan saw: each file's text or why there is none, by absolute path.

    complaints: lines of standard error that name no file.
    """

    files: dict[str, FileText] = field(default_factory=dict)
    complaints: tuple[str, ...] = ()


def files_command(paths: Sequence[str]) -> tuple[tuple[str, ...], bytes]:
    """The command that reads these files, and what it wants on standard input, where no limit on length applies."""
    return (
        ("env", "LC_ALL=C", "xargs", "-0", "-r", "grep", "-aHZ", ""),
        b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths),
    )


def first_process_command(name: str, lists: Sequence[str]) -> tuple[str, ...]:
    """The command that reads this file of /proc of the first process of each of these cgroup.procs."""
    return ("sh", "-c", _FIRST_PROCESS_SCRIPT, "memqos-first", name, *lists)


def named_processes_command(name: str, list_: str, program: str) -> tuple[str, ...]:
    """The command that reads this file of /proc of each process of a cgroup.procs that runs this program."""
    return ("sh", "-c", _NAMED_PROCESSES_SCRIPT, "memqos-named", name, list_, program)


def parse_named_processes(stdout: bytes) -> dict[int, str]:
    """What `named_processes_command` printed: the text by the number of the process."""
    lines = (line.partition(" ") for line in stdout.decode("utf-8", "surrogateescape").splitlines())
    return {int(pid): text for pid, _, text in lines}


def parse_first_process(stdout: bytes) -> dict[str, str]:
    """What `first_process_command` printed: the text by cgroup.procs; without those that have no process."""
    lines = (line.partition("\0") for line in stdout.decode("utf-8", "surrogateescape").splitlines())
    return {path: f"{text}\n" for path, separator, text in lines if separator}


def parse_listed(stdout: bytes, stderr: bytes) -> Scan:
    """What find and grep printed. A file that vanished meanwhile is as if it had never been there."""
    text = stdout.decode("utf-8", "surrogateescape")
    # Without any file the empty entry is the first thing there is.
    listing, _, contents = ("", "", text[1:]) if text.startswith("\0") else text.partition("\0\0")
    listed = [entry.removeprefix("f ") for entry in listing.split("\0") if entry]
    refused, complaints = _complaints(stderr)
    files = _texts(listed, contents, refused)
    return Scan(files={path: text for path, text in files.items() if text is not NoFile.NO_FILE}, complaints=complaints)


def parse_files(paths: Sequence[str], stdout: bytes, stderr: bytes) -> Scan:
    """What `files_command` printed for these paths: every path has its text, NoFile or Unreadable."""
    refused, complaints = _complaints(stderr)
    return Scan(files=_texts(paths, stdout.decode("utf-8", "surrogateescape"), refused), complaints=complaints)


def text_of(seen: bytes | int) -> FileText:
    """A file that was read without a command, as `parse_files` gives it. seen: its bytes, or an errno."""
    if isinstance(seen, int):
        return NoFile.NO_FILE if seen in {errno.ENOENT, errno.ENODEV, errno.ENOTDIR} else Unreadable(os.strerror(seen))
    text = seen.decode("utf-8", "surrogateescape")
    return text if not text or text.endswith("\n") else f"{text}\n"


def first_of(processes: bytes) -> int | None:
    """The first process of a cgroup.procs; None if it has none."""
    return min(map(int, processes.split()), default=None)


def _texts(paths: Sequence[str], contents: str, refused: dict[str, str]) -> dict[str, FileText]:
    lines: dict[str, list[str]] = {path: [] for path in paths}
    for line in contents.split("\n"):
        path, separator, text = line.partition("\0")
        if separator and path in lines:
            lines[path].append(text)
    texts: dict[str, FileText] = {path: "".join(f"{line}\n" for line in seen) for path, seen in lines.items()}
    for path, reason in refused.items():
        if path in texts:
            texts[path] = NoFile.NO_FILE if reason in _GONE else Unreadable(reason)
    return texts


def _complaints(stderr: bytes) -> tuple[dict[str, str], tuple[str, ...]]:
    refused: dict[str, str] = {}
    other: list[str] = []
    for line in stderr.decode("utf-8", "surrogateescape").splitlines():
        match = _COMPLAINT.fullmatch(line)
        if match:
            refused[match["path"]] = match["reason"]
        elif line.strip():
            other.append(line)
    return refused, tuple(other)
