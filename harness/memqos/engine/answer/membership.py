"""Findings on whether a container's processes are in its cgroup: the kernel bounds and counts only what is in it."""

from __future__ import annotations

from collections.abc import Mapping

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.answer.setter import Setter
from memqos.engine.plan import Reason
from memqos.model.path import CgroupPath
from memqos.model.reading import FileText

__all__ = ["EVENTS", "PROCESSES", "outside_finding", "processes_finding"]

PROCESSES, EVENTS = "cgroup.procs", "cgroup.events"

_REASON = Reason(
    rule="a container's processes are in its cgroup, where the kernel bounds and counts them",
    revision="",
    source="OCI runtime specification, config-linux.md, cgroupsPath; kernel cgroup-v2.rst, Processes",
)


def outside_finding(
    path: CgroupPath, *, subject: str, knob: str = PROCESSES, state: str = "", where: str = ""
) -> Finding:
    """A started container has no cgroup below its pod's, where the kubelet looks, or no process in it.

    knob: what of it is missing, "cgroup" itself or "cgroup.procs". state: what the runtime says of the container, "" if
    it was not asked. where: the cgroup in which its processes run, "" if that is not known.
    """
    return Finding(
        verdict=Verdict.DEVIATES,
        subject=subject,
        cgroup=str(path),
        knob=knob,
        set_by=Setter.RUNTIME,
        expected="there",
        observed=f"none, of a container that is {state}" if state else "none",
        reason=_REASON,
        evidence={"its processes run in": where} if where else {},
    )


def processes_finding(path: CgroupPath, files: Mapping[str, FileText], *, subject: str) -> Finding | None:
    """What cgroup.procs and cgroup.events say of a container that runs; None if the first was not read."""
    text, events = (files.get(name) for name in (PROCESSES, EVENTS))
    if not isinstance(text, str):
        return None
    if not text.strip() and "populated 1" not in str(events):
        return outside_finding(path, subject=subject)
    return Finding(
        verdict=Verdict.CONFORMS,
        subject=subject,
        cgroup=str(path),
        knob=PROCESSES,
        set_by=Setter.RUNTIME,
        expected="there",
        observed="there",
        reason=_REASON,
    )
