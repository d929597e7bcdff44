"""The NUMA memory policy of a container, and its text in /proc/PID/numa_maps.

A policy belongs to a process, and children inherit it; cpuset.mems bounds it. For a mapping without its own policy the
kernel shows the process's.
Source: opencontainers/runtime-spec config-linux.md, "Memory policy" (1.3); Linux mm/mempolicy.c, mpol_to_str.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["DEFAULT_POLICY", "MODES", "MemoryPolicy", "policy_in"]

MODES: Mapping[str, str] = {
    "MPOL_DEFAULT": "default",
    "MPOL_BIND": "bind",
    "MPOL_INTERLEAVE": "interleave",
    "MPOL_WEIGHTED_INTERLEAVE": "weighted interleave",
    "MPOL_PREFERRED": "prefer",
    "MPOL_PREFERRED_MANY": "prefer (many)",
    "MPOL_LOCAL": "local",
}
"""The modes of the specification, with the kernel's word for each."""

_NEEDS_NODES = frozenset({"MPOL_BIND", "MPOL_INTERLEAVE", "MPOL_WEIGHTED_INTERLEAVE", "MPOL_PREFERRED_MANY"})
_FLAGS = {"MPOL_F_STATIC_NODES": "=static", "MPOL_F_RELATIVE_NODES": "=relative"}
DEFAULT_POLICY = "default"
"""The text for a process without a policy."""

_SHOWN = re.compile(
    r"^\S+ (default|local|(?:bind|interleave|weighted interleave|prefer \(many\)|prefer)(?:=[\w|]+)?:[\d,-]+)(?= |$)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPolicy:
    """linux.memoryPolicy of a bundle. mode: such as MPOL_BIND. nodes: such as "0-1", "" for none. flags: by name."""

    mode: str
    nodes: str = ""
    flags: tuple[str, ...] = ()

    def document(self) -> dict[str, object]:
        """The object of config.json; empty fields are left out."""
        given = {"mode": self.mode, "nodes": self.nodes, "flags": list(self.flags)}
        return {key: value for key, value in given.items() if value}

    @property
    def refusal(self) -> str:
        """Why the runtime or the kernel must refuse it, "" if it is valid."""
        if self.mode not in MODES:
            return f"there is no memory policy {self.mode}"
        return f"{self.mode} needs at least one node" if self.mode in _NEEDS_NODES and not self.nodes else ""

    @property
    def shown(self) -> str:
        """The text in numa_maps of a valid policy; MPOL_PREFERRED without nodes is the local policy."""
        word = MODES.get(self.mode, self.mode)
        if not self.nodes:
            return "local" if self.mode == "MPOL_PREFERRED" else word
        return f"{word}{''.join(_FLAGS.get(flag, '') for flag in self.flags)}:{self.nodes}"


def policy_in(numa_maps: str) -> str:
    """The policy of a process by its numa_maps: that of its stack, else of its first mapping; "" without any."""
    found = {line: match[1] for line in numa_maps.splitlines() if (match := _SHOWN.match(line))}
    return next((policy for line, policy in found.items() if " stack" in line), next(iter(found.values()), ""))
