"""The facts of a target that the rules need: one command's worth of /proc and /sys, and its PURE parsing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from memqos.cgroupfs.hierarchy import SYSTEMD, Hierarchy, require_hierarchy
from memqos.cgroupfs.parse import parse_listed
from memqos.clock import Deadline
from memqos.errors import TargetError
from memqos.model.knob import Knob
from memqos.model.node import CgroupVersion, NodeFacts, NumaNode
from memqos.model.path import ROOT
from memqos.target.base import Target, checked

__all__ = ["ZSWAP_ENABLED", "TargetFacts", "parse_facts", "target_facts"]

_MOST_NUMBERS = 65535
"""CPUs and memory nodes: Linux counts 8192 and 1024 at most."""

ZSWAP_ENABLED = "/sys/module/zswap/parameters/enabled"
"""Whether zswap compresses swapped pages in memory first: Y or N; missing on a kernel without zswap."""

_KIB = 1024
_NODES = "/sys/devices/system/node"
_HUGEPAGES = "/sys/kernel/mm/hugepages"
_SWAP_FILES = {CgroupVersion.V1: Knob.MEMORY_MEMSW_LIMIT_IN_BYTES, CgroupVersion.V2: Knob.MEMORY_SWAP_MAX}

# find gets each file by name, so its output shows which exist; a pattern without a match stays as it is.
FACTS_SCRIPT = f"""\
LC_ALL=C; export LC_ALL
getconf PAGESIZE
set -- /proc/meminfo /proc/mounts /proc/sys/kernel/osrelease /proc/pressure/memory /sys/devices/system/cpu/online \\
  /proc/sys/vm/swappiness /sys/fs/cgroup/cgroup.controllers /sys/fs/cgroup/*/memory.swap.max \\
  /sys/fs/cgroup/*/memory.memsw.limit_in_bytes /sys/fs/cgroup/*/memory.zswap.max \\
  /sys/fs/cgroup/*/memory.zswap.writeback {ZSWAP_ENABLED} \\
  {_NODES}/node[0-9]*/meminfo {_NODES}/node[0-9]*/cpulist {_NODES}/node[0-9]*/distance \\
  {_NODES}/node[0-9]*/hugepages/hugepages-*kB/nr_hugepages {_HUGEPAGES}/hugepages-*kB/nr_hugepages
find "$@" -printf 'f %p\\0' 2>/dev/null
printf '\\0'
grep -aHZ '' "$@"
exit 0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """A target's facts. hierarchy: its cgroup mounts; pressure: whether the kernel keeps PSI averages of cgroups.

    controllers: those of the root cgroup, which can be delegated; on cgroup v1 the mounted ones. zswap: the interface
    files for a cgroup's use of it (memory.zswap.max from Linux 5.19 on, memory.zswap.writeback from 6.8 on); empty if
    the kernel has no zswap. zswap_is_on: whether it is enabled. delegated: the cgroup that systemd delegates to an
    ordinary user, if the node's cgroups are below one; else "".
    """

    node: NodeFacts
    hierarchy: Hierarchy
    controllers: frozenset[str]
    pressure: bool
    zswap: frozenset[str] = frozenset()
    zswap_is_on: bool = False
    delegated: str = ""


def target_facts(target: Target, *, deadline: Deadline) -> TargetFacts:
    """The target's facts, with one command.

    Raises EnvironmentNotAbleError for a machine without the memory controller.
    """
    result = checked(target.run(("sh", "-c", FACTS_SCRIPT), deadline=deadline), where=target.address)
    return parse_facts(result.stdout, result.stderr, origin=target.address)


def parse_facts(stdout: bytes, stderr: bytes, *, origin: str) -> TargetFacts:
    """The facts from the command's output; TargetError names a missing or malformed part."""
    page_size, _, rest = stdout.partition(b"\n")
    texts = {path: text for path, text in parse_listed(rest, stderr).files.items() if isinstance(text, str)}
    hierarchy = require_hierarchy(_given(texts, "/proc/mounts", origin), where=origin)
    unified = hierarchy.version is CgroupVersion.V2
    meminfo = _meminfo(_given(texts, "/proc/meminfo", origin))
    node = NodeFacts(
        memory=_amount(meminfo, "MemTotal", origin),
        swap=_amount(meminfo, "SwapTotal", origin),
        cpus=len(_number_list(_given(texts, "/sys/devices/system/cpu/online", origin), origin)),
        page_size=_number(page_size.decode("ascii", "backslashreplace"), origin),
        numa_nodes=_numa_nodes(texts, origin),
        hugepage_sizes=_hugepage_sizes(texts),
        cgroup_version=hierarchy.version,
        swap_controller=any(path.endswith(f"/{_SWAP_FILES[hierarchy.version]}") for path in texts),
        swappiness=_number(texts.get("/proc/sys/vm/swappiness", "60"), origin),
        kernel=_given(texts, "/proc/sys/kernel/osrelease", origin).strip(),
        origin=origin,
    )
    controllers = texts.get(hierarchy.file(ROOT, "cgroup.controllers"), "").split()
    if not unified:
        controllers = [name for name in hierarchy.mounts if name != SYSTEMD]
    return TargetFacts(
        node=node,
        hierarchy=hierarchy,
        controllers=frozenset(controllers),
        pressure=unified and texts.get("/proc/pressure/memory", "").startswith("some "),
        zswap=frozenset(name for path in texts if (name := path.rpartition("/")[2]).startswith("memory.zswap.")),
        zswap_is_on=texts.get(ZSWAP_ENABLED, "").strip() == "Y",
    )


def _numa_nodes(texts: Mapping[str, str], origin: str) -> tuple[NumaNode, ...]:
    found = {}
    for path, text in texts.items():
        match = re.fullmatch(rf"{_NODES}/node(\d+)/meminfo", path, re.ASCII)
        if not match:
            continue
        folder = path.removesuffix("/meminfo")
        numa = int(match[1])
        found[numa] = NumaNode(
            id=numa,
            memory=_amount(_meminfo(re.sub(rf"(?m)^Node {numa} ", "", text)), "MemTotal", origin),
            cpus=_number_list(_given(texts, f"{folder}/cpulist", origin), origin),
            distances=tuple(_number(word, origin) for word in _given(texts, f"{folder}/distance", origin).split()),
            hugepages=_hugepages_in(texts, f"{folder}/hugepages"),
        )
    return tuple(found[numa] for numa in sorted(found))


def _hugepages_in(texts: Mapping[str, str], folder: str) -> dict[int, int]:
    """Huge page size in bytes to the number reserved, below one folder of the kernel's."""
    pattern = re.compile(rf"{re.escape(folder)}/hugepages-(\d+)kB/nr_hugepages", re.ASCII)
    matches = {path: pattern.fullmatch(path) for path in texts}
    return {int(match[1]) * _KIB: int(texts[path]) for path, match in sorted(matches.items()) if match}


def _hugepage_sizes(texts: Mapping[str, str]) -> tuple[int, ...]:
    return tuple(sorted(_hugepages_in(texts, _HUGEPAGES)))


def _meminfo(text: str) -> dict[str, int]:
    """Lines of "Name:   123 kB" in bytes."""
    lines = re.findall(r"(?m)^(\w+): +(\d+) kB$", text, re.ASCII)
    return {name: int(amount) * _KIB for name, amount in lines}


def _amount(amounts: Mapping[str, int], name: str, origin: str) -> int:
    if name not in amounts:
        raise TargetError(f"its meminfo has no '{name}'.", where=origin)
    return amounts[name]


def _given(texts: Mapping[str, str], path: str, origin: str) -> str:
    if path not in texts:
        raise TargetError(f"'{path}' could not be read.", where=origin)
    return texts[path]


def _number(text: str, origin: str) -> int:
    if not re.fullmatch(r"\d{1,20}", text.strip(), re.ASCII):
        raise TargetError(f"'{text[:80]}' should be a number.", where=origin)
    return int(text)


def _number_list(text: str, origin: str) -> tuple[int, ...]:
    """The kernel's list format: "0-1,4"; empty for no numbers."""
    found: list[int] = []
    for span in text.strip().split(",") if text.strip() else ():
        first, _, last = span.partition("-")
        low, high = _number(first, origin), _number(last or first, origin)
        if high > _MOST_NUMBERS:
            raise TargetError(f"'{span[:80]}' is beyond {_MOST_NUMBERS}, which no machine has.", where=origin)
        found += range(low, high + 1)
    return tuple(found)
