"""PURE parsing of the kernel's interface files, one by one, or many in one command's output.

A malformed file raises CgroupFileError with path, line and text. New keys appear from kernel to kernel, so flat-keyed
files are read by key and unknown keys are kept. Numbers are the kernel's own: ASCII digits, no sign, at most 64 bits.

Under emulation each command over ssh costs more than the reading, so many files are one command. GNU grep does the
work, because it reports unreadable files one by one and continues. Output and errors are separate: it prints each line
of each file as PATH, a NUL byte, the line. A file without output is empty; one with an error message is unreadable or
missing.

If the files are not known beforehand, find prints "f PATH" and a NUL byte for each existing one; an empty entry
separates that from grep's output.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from memqos.errors import CgroupFileError
from memqos.model.reading import FileText, NoFile, Pressure, PressureLine, Unreadable

__all__ = [
    "counters",
    "entry",
    "first_process_command",
    "numa_stat",
    "number",
    "parse_listed",
    "present",
    "pressure",
]

_U64_MAX = 2**64 - 1
_AVERAGE = re.compile(r"\d{1,3}\.\d\d", re.ASCII)
_LONGEST_SHOWN = 200


def present(text: FileText | None, *, path: str) -> str:
    """The file's text; CgroupFileError if it is missing, unreadable, or was not requested."""
    match text:
        case str():
            return text
        case NoFile():
            why = "the file does not exist"
        case Unreadable(reason):
            why = f"it could not be read: {reason}"
        case None:
            why = "it was not read"
    raise CgroupFileError(f"{why}.", where=path, data={"path": path, "line": 0, "text": ""})


def number(text: str, *, path: str) -> int:
    """A file that is one number (memory.current in bytes, memory.oom.group)."""
    return _u64(_only_line(text, path), path, 1)


def counters(text: str, *, path: str) -> dict[str, int]:
    """A file of "key number" lines (memory.events, memory.stat, memory.swap.events, cgroup.events), in its order."""
    found: dict[str, int] = {}
    for line_number, line in _lines(text, path):
        key, separator, value = line.partition(" ")
        if not key or not separator:
            _refuse("not a key and a number", path, line_number, line)
        if key in found:
            _refuse("a second line of this key", path, line_number, line)
        found[key] = _u64(value, path, line_number)
    return found


def entry(counters: Mapping[str, int], key: str, *, path: str) -> int:
    """One counter by name; CgroupFileError if this kernel does not have it."""
    if key not in counters:
        _refuse(f"without '{key}'", path, 0, ", ".join(counters))
    return counters[key]


def numa_stat(text: str, *, path: str) -> dict[str, dict[int, int]]:
    """memory.numa_stat: key to NUMA node to bytes. Only nodes with memory are in it."""
    found: dict[str, dict[int, int]] = {}
    for line_number, line in _lines(text, path):
        key, *numa_nodes = line.split(" ")
        if not key or not numa_nodes or key in found:
            _refuse("not one key with its NUMA nodes", path, line_number, line)
        found[key] = {}
        for numa in numa_nodes:
            match = re.fullmatch(r"N(\d{1,5})=(\d{1,20})", numa, re.ASCII)
            if not match or int(match[1]) in found[key]:
                _refuse("not one amount for each NUMA node", path, line_number, line)
            found[key][int(match[1])] = _u64(match[2], path, line_number)
    return found


def pressure(text: str, *, path: str) -> Pressure:
    """A PSI file (memory.pressure): averages in percent, totals in µs.

    A file without a "full" line, as for the whole machine's CPUs before 5.13, is rejected: memqos reads PSI of memory
    only, which always has both.
    """
    found: dict[str, PressureLine] = {}
    for line_number, line in _lines(text, path):
        kind, fields = _assignments(line, path, line_number)
        if kind in found or set(fields) != {"avg10", "avg60", "avg300", "total"}:
            _refuse("not one PSI line of its kind", path, line_number, line)
        averages = [fields[name] for name in ("avg10", "avg60", "avg300")]
        if not all(_AVERAGE.fullmatch(average) for average in averages):
            _refuse("not PSI averages", path, line_number, line)
        found[kind] = PressureLine(
            avg10=float(averages[0]),
            avg60=float(averages[1]),
            avg300=float(averages[2]),
            total=_u64(fields["total"], path, line_number),
        )
    if set(found) != {"some", "full"}:
        _refuse("not the PSI lines 'some' and 'full'", path, len(found) + 1, text)
    return Pressure(some=found["some"], full=found["full"])


def _lines(text: str, path: str) -> Iterator[tuple[int, str]]:
    """Numbered lines. The kernel ends each line, so a text without the last newline was truncated."""
    if not text:
        _refuse("empty", path, 1, text)
    if not text.endswith("\n"):
        _refuse("cut off in its last line", path, text.count("\n") + 1, text.rpartition("\n")[2])
    yield from enumerate(text[:-1].split("\n"), start=1)


def _only_line(text: str, path: str) -> str:
    line = text.removesuffix("\n")
    if not line or "\n" in line:
        _refuse("not one line", path, 1, line)
    return line


def _assignments(line: str, path: str, number: int) -> tuple[str, Mapping[str, str]]:
    kind, *pairs = line.split(" ")
    fields = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    if len(fields) != len(pairs):
        _refuse("not a list of assignments", path, number, line)
    return kind, fields


def _u64(text: str, path: str, line: int) -> int:
    if not re.fullmatch(r"\d{1,20}", text, re.ASCII) or int(text) > _U64_MAX:
        _refuse("not an unsigned 64-bit number", path, line, text)
    return int(text)


def _refuse(why: str, path: str, line: int, text: str) -> NoReturn:
    shown = text[:_LONGEST_SHOWN] + ("…" if len(text) > _LONGEST_SHOWN else "")
    raise CgroupFileError(
        f"'{shown}' is {why}.", where=f"{path}:{line}", data={"path": path, "line": line, "text": text}
    )


# The lowest pid of a cgroup is its first process's, unless pids have wrapped around: cgroup v2 lists processes by
# arrival, cgroup v1 by pid. Processes that end meanwhile are left out.
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
    """The result of a scan: each file's text, or why it is missing, by absolute path.

    complaints: lines of standard error that name no file.
    """

    files: dict[str, FileText] = field(default_factory=dict)
    complaints: tuple[str, ...] = ()


def files_command(paths: Sequence[str]) -> tuple[tuple[str, ...], bytes]:
    """The command that reads these files, with their names on standard input, which has no length limit."""
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
    """The output of `named_processes_command`: the text by pid."""
    lines = (line.partition(" ") for line in stdout.decode("utf-8", "surrogateescape").splitlines())
    return {int(pid): text for pid, _, text in lines}


def parse_first_process(stdout: bytes) -> dict[str, str]:
    """The output of `first_process_command`: the text by cgroup.procs; without those that have no process."""
    lines = (line.partition("\0") for line in stdout.decode("utf-8", "surrogateescape").splitlines())
    return {path: f"{text}\n" for path, separator, text in lines if separator}


def parse_listed(stdout: bytes, stderr: bytes) -> Scan:
    """The output of find and grep. A file that vanished meanwhile counts as never existing."""
    text = stdout.decode("utf-8", "surrogateescape")
    # Without any file the empty entry comes first.
    listing, _, contents = ("", "", text[1:]) if text.startswith("\0") else text.partition("\0\0")
    listed = [entry.removeprefix("f ") for entry in listing.split("\0") if entry]
    refused, complaints = _complaints(stderr)
    files = _texts(listed, contents, refused)
    return Scan(files={path: text for path, text in files.items() if text is not NoFile.NO_FILE}, complaints=complaints)


def parse_files(paths: Sequence[str], stdout: bytes, stderr: bytes) -> Scan:
    """The output of `files_command` for these paths: every path has its text, NoFile or Unreadable."""
    refused, complaints = _complaints(stderr)
    return Scan(files=_texts(paths, stdout.decode("utf-8", "surrogateescape"), refused), complaints=complaints)


def text_of(seen: bytes | int) -> FileText:
    """A file that was read without a command, like a result of `parse_files`. seen: its bytes, or an errno."""
    if isinstance(seen, int):
        return NoFile.NO_FILE if seen in {errno.ENOENT, errno.ENODEV, errno.ENOTDIR} else Unreadable(os.strerror(seen))
    text = seen.decode("utf-8", "surrogateescape")
    return text if not text or text.endswith("\n") else f"{text}\n"


def first_of(processes: bytes) -> int | None:
    """The first process of a cgroup.procs; None if it is empty."""
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
