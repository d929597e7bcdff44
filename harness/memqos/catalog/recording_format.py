"""The JSON document of a recorded tree as types; docs/reference/recorded-trees.md describes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from memqos.catalog.pods import read_text
from memqos.errors import ManifestError
from memqos.model.node import CgroupVersion
from memqos.validation import MisfitError, Parsed, checked, dotted, line_in, parse_json

__all__ = [
    "COLLECTED",
    "FORMAT",
    "CgroupMount",
    "Daemon",
    "Machine",
    "RecordedNode",
    "Recording",
    "RuntimePod",
    "SecondLook",
    "checked_part",
    "format_error",
    "read_recording",
]

MAX_TREE_BYTES = 64 << 20
"""A node of 110 pods takes 3 MiB, most of it manifests from an API server."""

FORMAT = "docs/reference/recorded-trees.md describes the file."
"""The next step of errors."""
COLLECTED = 1
"""The newest `memqos_collect`, the version of what `memqos collect` writes, that is read."""
_MOST_DIGITS = 15
_T = TypeVar("_T")


class _Kib(int, Parsed):
    """Bytes, of a number of KiB or its text."""

    words = "a number of KiB"

    @classmethod
    def parse(cls, value: object) -> _Kib:
        """The amount; ValueError for any other text."""
        text = str(value)
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
            raise ValueError(text)
        return cls(int(text) * 1024)


class RecordedNode(Struct, frozen=True, kw_only=True):
    """The facts of the node; the format allows further fields. See docs/reference/recorded-trees.md."""

    mem_total_kib: _Kib
    swap_total_kib: _Kib
    cpus: Annotated[int, Meta(ge=1, le=8192, description="a whole number from 1 to 8192")]
    page_size: Literal[4096, 16384, 65536] = 4096
    swappiness: Annotated[int, Meta(ge=0, le=200, description="a whole number from 0 to 200")] = 60
    cgroup: CgroupVersion = CgroupVersion.V2
    numa: dict[str, _Kib] = {}
    kernel: str = ""
    hugetlb: bool | None = None


class Daemon(Struct, frozen=True, kw_only=True):
    """A process outside of pods; bytes: its memory."""

    name: str
    cgroup: str = ""
    oom_score_adj: Annotated[int, Meta(ge=-1000, le=1000)] = 0
    bytes: Annotated[int, Meta(ge=0)] = 0


class CgroupMount(Struct, frozen=True, kw_only=True):
    """The mount point of cgroup2, and its options."""

    path: str = ""
    options: str = ""


class Machine(Struct, frozen=True, kw_only=True):
    """Facts that the kubelet's rules do not use. Texts are those of the kernel's files, "" for a missing file."""

    cgroup_mount: CgroupMount = CgroupMount()
    meminfo: str = ""
    swaps: str = ""
    zswap: dict[str, str] = {}
    pressure: dict[str, str] = {}
    vm: dict[str, str] = {}


class RuntimePod(Struct, frozen=True, kw_only=True):
    """A sandbox in the runtime's list."""

    name: str
    uid: str
    namespace: str = ""
    ready: bool = True


class SecondLook(Struct, frozen=True, kw_only=True):
    """The second reading, after so many seconds.

    changed: by cgroup the changed settings. gone: cgroups that no longer exist. counters: by cgroup the changed
    counters.
    """

    changed: dict[str, dict[str, str]] = {}
    gone: tuple[str, ...] = ()
    counters: dict[str, dict[str, str]] = {}
    after_seconds: Annotated[float, Meta(ge=0)] = 0.0


class Recording(Struct, frozen=True, kw_only=True):
    """A recording; the format allows further fields."""

    cgroups: dict[str, dict[str, Any]]
    containers: dict[str, Any]
    node: RecordedNode | UnsetType = UNSET
    kubelet: str = ""
    kubelet_inside: str = ""
    config: Any = None
    drop_ins: dict[str, Any] | None = None
    drop_ins_unread: dict[str, str] = {}
    pods: list[Any] | dict[str, Any] | None = None
    unread: tuple[str, ...] = ()
    checkpoints_unread: dict[str, str] = {}
    memory_manager_state: dict[str, Any] | None = None
    memqos_collect: int = 0
    source: str = ""
    collected_at: str = ""
    root: bool = True
    configz: dict[str, Any] | None = None
    config_unread: str = ""
    runtime_pods: tuple[RuntimePod, ...] | None = None
    machine: Machine = Machine()
    daemons: tuple[Daemon, ...] = ()
    second_look: SecondLook = SecondLook()
    notes: dict[str, str] = {}


def read_recording(path: str | Path) -> tuple[dict[str, Any], Recording, bool]:
    """The document in a file, as it is and as types, and whether the file is truncated.

    Raises UsageError for an unreadable file, ManifestError naming file, line and field for a violation of the format.
    """
    file = str(path)
    content = _plain(read_text(path, "a recorded tree", MAX_TREE_BYTES), file)
    try:
        data, cut_off = _parsed(content, file), False
    except ManifestError:
        whole = _up_to_the_cut(content)
        if whole is None:
            if len(content) <= MAX_TREE_BYTES:
                _refuse_known(content, file)
            raise
        content, cut_off = whole, True
        data = _parsed(content, file)
    return data, checked_part(data, Recording, file, content=content), cut_off


def checked_part(value: object, kind: type[_T], file: str, *, within: str = "", content: bytes = b"") -> _T:
    """The value as this type. within: its place. content: the file's text, if the value is the whole file."""
    try:
        return checked(value, kind)
    except MisfitError as error:
        line = line_in(content.decode("utf-8-sig"), error.place) if content and error.place else 0
        raise format_error(error.what, file, dotted((*filter(None, [within]), *error.place)), line) from None


def format_error(what: str, file: str, field: str, line: int = 0) -> ManifestError:
    """An error at a field of the document; line 0: unknown."""
    return ManifestError.at(what, file=file, line=line, field=field, next_step=FORMAT)


def _parsed(data: bytes, file: str) -> dict[str, Any]:
    if len(data) > MAX_TREE_BYTES:
        raise format_error(f"the file has more than {MAX_TREE_BYTES} bytes.", file, "")
    found = parse_json(data, file=file, next_step=FORMAT)
    if not isinstance(found, dict):
        raise format_error("expected an object.", file, "")
    return found


_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_NOTE = re.compile(rb"^memqos(?:-collect)?: ", re.MULTILINE)
"""A line of `memqos collect` on standard error."""


def _plain(content: bytes, file: str) -> bytes:
    """The content in UTF-8: PowerShell's > writes UTF-16. ManifestError for a compressed file."""
    for magic, name in _COMPRESSED.items():
        if content.startswith(magic):
            what = f"the file is compressed ({name})."
            raise ManifestError.at(what, file=file, next_step="Decompress it first.")
    if not content.startswith(_UTF16):
        return content
    try:
        return content.decode("utf-16").encode()
    except UnicodeError:
        raise format_error("the file begins like UTF-16, and is not all of it.", file, "") from None


def _refuse_known(content: bytes, file: str) -> None:
    """ManifestError for a damage with a cause of its own."""
    if not content.strip():
        raise format_error("the file is empty.", file, "")
    if (note := _NOTE.search(content)) is not None and b"{" in content:
        step = "Collect the node again, with standard error in a file of its own."
        line = content.count(b"\n", 0, note.start()) + 1
        what = "standard error of memqos collect was written into the file."
        raise ManifestError.at(what, file=file, line=line, next_step=step)
    if _COLLECTED in content and not content.rstrip().endswith(b"}"):
        what = "the recording ends in the middle, before its first interface file."
        raise ManifestError.at(what, file=file, next_step="Collect the node again.")


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)
_CUT_IN, _COLLECTED = b'"cgroups"', b'"memqos_collect"'


def _up_to_the_cut(content: bytes) -> bytes | None:
    """A `memqos collect` document truncated in its cgroups, closed after the last complete file; None for another.

    The parts before the cgroups (configuration, containers, pods) are then complete.
    """
    depth, field, word = 0, b"", b""
    seen: set[bytes] = set()
    best: tuple[int, int] | None = None
    for token in _TOKEN.finditer(content):
        text = token[0]
        if text in b"{[":
            depth += 1
        elif text in b"}]":
            depth -= 1
            if depth <= 0:
                return None
        elif text == b"," and field == _CUT_IN and depth in {2, 3}:
            best = (token.start(), depth)
        elif text == b":" and depth == 1:
            field = word
            seen.add(field)
        word = text
    if field != _CUT_IN or best is None or _COLLECTED not in seen:
        return None
    return content[: best[0]] + b"}" * best[1]
