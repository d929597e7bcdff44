"""OOM kills: the only module that judges whether the kernel killed a container and what the runtime reports. Pure.

`engine.cgroup.victims` models which container the kernel kills first; `pressure` compares it with these findings.
"""

from __future__ import annotations

from dataclasses import replace

from memqos.engine.answer.finding import Finding, Verdict
from memqos.node.behaviour.sample_findings import Judged
from memqos.runtime.base import ContainerStatus

__all__ = ["OOM_EXIT_CODE", "OOM_REASON", "OomJudged", "exit_code_of_kill", "reason_of_kill"]

OOM_EXIT_CODE = 137
"""128 + SIGKILL: the exit code that a runtime gives for a container whose first process the kernel killed."""
OOM_REASON = "OOMKilled"
"""The reason that a CRI runtime gives for it (kubernetes, ContainerStatus.reason)."""

_EVENTS, _KILLS = "memory.events", "oom_kill"


def exit_code_of_kill(status: ContainerStatus) -> tuple[str, str, str]:
    """The name of the exit code, the required value for a killed container, and the reported value."""
    code = status.exit_code
    return "exit code", str(OOM_EXIT_CODE), "still running" if code is None else str(code)


def reason_of_kill(status: ContainerStatus) -> tuple[str, str, str]:
    """The name of the reason, the required value for a killed container, and the reported value."""
    return "reason", OOM_REASON, status.reason or "none"


class OomJudged(Judged):
    """Findings about kills of a container; see `Judged`. why_not: why a kill is not observable, "" if it is."""

    def is_oom_killed(self, *, why_not: str = "") -> Finding:
        """The kernel killed a process of the container."""
        return self._counter(_EVENTS, _KILLS, "above 0", lambda seen: seen > 0, why_not=why_not)

    def is_spared(self, *, why_not: str = "") -> Finding:
        """The kernel killed no process of the container."""
        return self._counter(_EVENTS, _KILLS, "0", lambda seen: seen == 0, why_not=why_not)

    def is_killed(self) -> tuple[Finding, Finding]:
        """The kernel killed the container, and the runtime reports the exit code of a kill."""
        return self.is_oom_killed(), self.exit_code_tells_kill()

    def exit_code_tells_kill(self) -> Finding:
        """The runtime reports the exit code of a killed process."""
        return self._word(*exit_code_of_kill(self.samples[-1].status))

    def reason_tells_oom(self) -> Finding:
        """The runtime's reason is OOMKilled."""
        return self._word(*reason_of_kill(self.samples[-1].status))

    def is_killed_for_its_zone(self) -> Finding:
        """The kernel killed the container below its limits, because its NUMA nodes were full."""
        limits = [count for one in self.samples if (count := one.counter(_EVENTS, "max")) is not None]
        why = f"it ran into memory.max {max(limits)} times" if any(limits) else ""
        kills = [count for one in self.samples if (count := one.counter(_EVENTS, _KILLS)) is not None]
        shown = f"{_KILLS} {max(kills)}" if kills else None
        return self._finding(_EVENTS, f"{_KILLS} above 0", shown, any(kills), key=f"{_KILLS} zone", why_not=why)

    def anything_killed(self) -> bool:
        """Whether the kernel killed something in its cgroup or below it, in any sample."""
        return any(one.counter(_EVENTS, _KILLS) for one in self.samples)

    def still_runs(self, *, spent: str = "") -> Finding:
        """The container was running at the end of the watch.

        spent: why no container had reclaimable memory left, "" if one had. A kill is then not observable; any other end
        still deviates.
        """
        status = self.samples[-1].status
        observed = "running" if status.exit_code is None else f"ended with {status.exit_code} ({status.reason})"
        found = self._word("state", "running", observed)
        if spent and all(one.verdict is Verdict.CONFORMS for one in self.is_killed()):
            return replace(found, verdict=Verdict.NOT_OBSERVABLE, observed="", why_not=f"it {observed}, and {spent}")
        return found

    def lives(self) -> tuple[Finding, Finding]:
        """The kernel killed no process of the container, and it still runs."""
        return self.is_spared(), self.still_runs()
