"""OOM kills: the only module that judges whether the kernel killed a container and what the runtime reports. Pure.

`engine.cgroup.victims` models which container the kernel kills first; `pressure` compares it with these findings.
"""

from __future__ import annotations

from dataclasses import dataclass

from memqos.engine.answer.finding import Finding
from memqos.node.behaviour.preconditions import Observed
from memqos.runtime.base import ContainerStatus

__all__ = ["OOM_EXIT_CODE", "OOM_REASON", "OomKills", "exit_code_of_kill", "reason_of_another_end", "reason_of_kill"]

OOM_EXIT_CODE = 137
"""128 + SIGKILL: the exit code that a runtime reports for a container whose first process the kernel killed."""
OOM_REASON = "OOMKilled"
"""The reason that a CRI runtime reports for such a container (kubernetes, ContainerStatus.reason)."""

_EVENTS, _KILLS = "memory.events", "oom_kill"


def exit_code_of_kill(status: ContainerStatus) -> tuple[str, str, str]:
    """The name of the exit code, the required value for a killed container, and the reported value."""
    code = status.exit_code
    return "exit code", str(OOM_EXIT_CODE), "still running" if code is None else str(code)


def reason_of_kill(status: ContainerStatus) -> tuple[str, str, str]:
    """The name of the reason, the required value for a killed container, and the reported value."""
    return "reason", OOM_REASON, status.reason or "none"


def reason_of_another_end(status: ContainerStatus) -> tuple[str, str, str]:
    """The same for a container that ended without an OOM kill: any reason but that one."""
    another = f"not {OOM_REASON}"
    return "reason", another, OOM_REASON if status.reason == OOM_REASON else another


@dataclass(frozen=True)
class OomKills:
    """Findings about kills of a container. why_not: why a kill is not observable, "" if it is."""

    observed: Observed

    def is_oom_killed(self, *, why_not: str = "") -> Finding:
        """The kernel killed a process of the container."""
        return self.observed.counter(_EVENTS, _KILLS, "above 0", lambda seen: seen > 0, why_not=why_not)

    def is_spared(self, *, why_not: str = "") -> Finding:
        """The kernel killed no process of the container."""
        return self.observed.counter(_EVENTS, _KILLS, "0", lambda seen: seen == 0, why_not=why_not)

    def is_killed(self) -> tuple[Finding, Finding]:
        """The kernel killed the container, and the runtime reports the exit code of a kill."""
        return self.is_oom_killed(), self.reports_exit_code()

    def reports_exit_code(self) -> Finding:
        """The runtime reports the exit code of a killed process."""
        return self.observed.word(*exit_code_of_kill(self.observed.samples[-1].status))

    def reports_reason(self) -> Finding:
        """The runtime's reason is OOMKilled."""
        return self.observed.word(*reason_of_kill(self.observed.samples[-1].status))

    def is_killed_for_its_numa_node(self) -> Finding:
        """The kernel killed the container below its limits because its NUMA nodes were full."""
        limits = [count for one in self.observed.samples if (count := one.counter(_EVENTS, "max")) is not None]
        why = f"it ran into memory.max {max(limits)} times" if any(limits) else ""
        kills = [count for one in self.observed.samples if (count := one.counter(_EVENTS, _KILLS)) is not None]
        shown = f"{_KILLS} {max(kills)}" if kills else None
        return self.observed.finding(
            _EVENTS, f"{_KILLS} above 0", shown, any(kills), key=f"{_KILLS} NUMA node", why_not=why
        )

    def anything_killed(self) -> bool:
        """Whether the kernel killed a process in its cgroup or below it, in any sample."""
        return any(one.counter(_EVENTS, _KILLS) for one in self.observed.samples)
