"""Stats of a container, as Docker and OCI runtimes tell them, held against the files that the kernel keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memqos.cgroupfs.parse import counters
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline, wait
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.errors import UsageError
from memqos.model.knob import Knob
from memqos.model.path import CgroupPath
from memqos.runtime.base import ContainerHandle, Runtime
from memqos.runtime.speaking import SpeaksDocker, SpeaksOci

__all__ = ["stats_findings"]

SLACK_PAGES = 64
"""The batch in which the kernel charges memory, and counts it in memory.stat."""

APART = 0.2
"""Seconds between two looks that tell whether memory has settled."""

_FILES = ("memory.current", Knob.MEMORY_MAX.value, "memory.stat")
_COUNTED = ("anon", "file", "kernel_stack")


def stats_findings(
    runtime: Runtime, tree: CgroupTree, handle: ContainerHandle, path: CgroupPath, *, page_size: int, deadline: Deadline
) -> Sequence[Finding]:
    """Usage, limit and the parts of the memory that are told of a running container with a limit.

    The runtime is asked when the anonymous memory has settled above 64 pages. Each conforms if it is no further than
    that from what lies between the file before and after the question.
    UsageError for a runtime that tells none, DeadlineError for memory that does not settle.
    """
    slack = SLACK_PAGES * page_size
    before = _settled(tree, path, above=slack, deadline=deadline)
    told = _told(runtime, handle, deadline)
    after = _shown(tree, path, deadline)

    def agrees(name: str, value: object, file: str) -> Finding:
        exact = file == Knob.MEMORY_MAX
        return _agrees(name, value, before[file], after[file], path, slack=0 if exact else slack, subject=told.who)

    return [
        agrees("stats usage", told.usage, "memory.current"),
        agrees("stats limit", told.limit, Knob.MEMORY_MAX.value),
        *(agrees(f"stats {name}", told.parts.get(name), name) for name in _COUNTED),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What a runtime says of a container's memory. parts: by the names of memory.stat."""

    who: str
    usage: object
    limit: object
    parts: Mapping[str, object]


def _told(runtime: Runtime, handle: ContainerHandle, deadline: Deadline) -> _Told:
    if isinstance(runtime, SpeaksOci):
        memory = _section(runtime.stats_event(handle, deadline=deadline), "memory")
        usage = _section(memory, "usage")
        return _Told(who="events", usage=usage.get("usage"), limit=usage.get("limit"), parts=_section(memory, "raw"))
    if isinstance(runtime, SpeaksDocker):
        memory = _section(runtime.stats(handle, deadline=deadline), "memory_stats")
        return _Told(
            who="Docker", usage=memory.get("usage"), limit=memory.get("limit"), parts=_section(memory, "stats")
        )
    raise UsageError(
        f"{runtime.name} tells no stats in words of its own.", next_step="Let the claim need docker or oci."
    )


def _section(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _agrees(
    name: str, told: object, before: int | None, after: int | None, path: CgroupPath, *, slack: int, subject: str
) -> Finding:
    verdict, expected, why_not = Verdict.NOT_OBSERVABLE, "what the file shows", "the file holds no number"
    if before is not None and after is not None:
        least, most = min(before, after) - slack, max(before, after) + slack
        verdict = Verdict.CONFORMS if isinstance(told, int) and least <= told <= most else Verdict.DEVIATES
        expected, why_not = str(before) if least == most else f"from {least} to {most}", ""
    return Finding(
        verdict=verdict,
        subject=subject,
        cgroup=str(path),
        knob=name,
        set_by=Setter.RUNTIME,
        expected=expected,
        observed="nothing" if told is None else str(told),
        why_not=why_not,
        measured=True,
    )


def _settled(tree: CgroupTree, path: CgroupPath, *, above: int, deadline: Deadline) -> dict[str, int | None]:
    """What the files show once the anonymous memory is the same twice; at once where it cannot be read."""
    looks = [_shown(tree, path, deadline)]

    def look() -> dict[str, int | None]:
        looks.append(_shown(tree, path, deadline))
        return looks[-1]

    def is_settled(now: dict[str, int | None]) -> bool:
        anon = now["anon"]
        return anon is None or (anon > above and anon == looks[-2]["anon"])

    return wait("the container's anonymous memory has settled", look, until=is_settled, deadline=deadline, every=APART)


def _shown(tree: CgroupTree, path: CgroupPath, deadline: Deadline) -> dict[str, int | None]:
    """What the files show: memory.stat by its keys."""
    reading = tree.read_cgroups([path], _FILES, deadline=deadline)
    current, limit, stat = (reading.file(path, name) for name in _FILES)
    counted = counters(stat, path=f"{path}/memory.stat") if isinstance(stat, str) else {}
    return {
        "memory.current": _number(current),
        Knob.MEMORY_MAX.value: _number(limit),
        **{name: counted.get(name) for name in _COUNTED},
    }


def _number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and text.strip().isdecimal() else None
