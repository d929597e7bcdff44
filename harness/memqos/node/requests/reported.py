"""A runtime's reports about a container, compared with the kernel's own files: stats, and OOM kills.

For CRI the files are read before and after the call, so a right answer lies between the two readings, with a tolerance
of what the kernel charges ahead for its CPUs.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memqos.cgroupfs import parse
from memqos.cgroupfs.parse import counters
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline, wait
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.engine.cgroup.throttle import CHARGE_BATCH
from memqos.errors import DeadlineError, UsageError
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.path import CgroupPath
from memqos.model.reading import FileText
from memqos.node.behaviour.oom import OOM_EXIT_CODE
from memqos.node.pods.refusal import SUBJECT
from memqos.node.requests.native_requests import over_bundles
from memqos.runtime.base import ContainerHandle, ContainerState, Runtime, SpeaksDocker, SpeaksOci

__all__ = [
    "FILES",
    "asked_in_all",
    "figure_finding",
    "oom_event_findings",
    "stats_findings",
    "stock_of",
    "text_of",
    "unrequested",
]

FILES = ("memory.current", "memory.stat", "memory.max", "memory.swap.current", "memory.pressure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number of CRI's stats. field: its path in the answer. kernel: computes it from the files.

    stocks: how often what CPUs have charged ahead may count: memory.current varies by that, and memory.stat lags behind
    by as much.
    """

    field: tuple[str, ...]
    kernel: Callable[[Mapping[str, str]], int]
    stocks: int = 0


def _stat(key: str) -> Callable[[Mapping[str, str]], int]:
    return lambda files: parse.entry(parse.counters(files["memory.stat"], path="memory.stat"), key, path="memory.stat")


def _number(name: str) -> Callable[[Mapping[str, str]], int]:
    return lambda files: parse.number(files[name], path=name)


def _working_set(files: Mapping[str, str]) -> int:
    return max(0, _number("memory.current")(files) - _stat("inactive_file")(files))


def _available(files: Mapping[str, str]) -> int:
    return _number("memory.max")(files) - _working_set(files)


def _waited(files: Mapping[str, str]) -> int:
    return parse.pressure(files["memory.pressure"], path="memory.pressure").some.total


FIGURES: Mapping[str, Figure] = {
    "usage": Figure(field=("memory", "usage_bytes", "value"), kernel=_number("memory.current"), stocks=1),
    "working set": Figure(field=("memory", "working_set_bytes", "value"), kernel=_working_set, stocks=2),
    "available": Figure(field=("memory", "available_bytes", "value"), kernel=_available, stocks=2),
    "rss": Figure(field=("memory", "rss_bytes", "value"), kernel=_stat("anon"), stocks=2),
    "page faults": Figure(field=("memory", "page_faults", "value"), kernel=_stat("pgfault")),
    "major page faults": Figure(field=("memory", "major_page_faults", "value"), kernel=_stat("pgmajfault")),
    "swap": Figure(field=("swap", "swap_usage_bytes", "value"), kernel=_number("memory.swap.current")),
    "pressure": Figure(field=("memory", "psi", "Some", "Total"), kernel=_waited),
}
"""By the names that suites use. Sources: CRI MemoryUsage and SwapUsage; containerd metrics.go; kernel cgroup-v2.rst."""


def said(answer: object, field: tuple[str, ...]) -> int | None:
    """The number in an answer; None if it is missing, which is not zero.

    JSON of proto3 omits values of 0: a message without its number means 0.
    """
    *above, last = field
    for name in above:
        answer = answer.get(name) if isinstance(answer, Mapping) else None
    found = answer.get(last, 0) if isinstance(answer, Mapping) else None
    return int(found) if isinstance(found, str | int) else None


def figure_finding(
    name: str,
    answer: Mapping[str, object],
    before: Mapping[str, FileText],
    after: Mapping[str, FileText],
    *,
    subject: Subject,
    cgroup: str,
    stock: int,
) -> Finding:
    """Whether the answer lies between the files' values before and after.

    stock: bytes that CPUs may have charged ahead.
    """
    figure = FIGURES[name]
    seen = said(answer, figure.field)
    texts = [{file: text for file, text in files.items() if isinstance(text, str)} for files in (before, after)]
    why_not = f"the runtime's answer has no {'.'.join(figure.field[:2])}" if seen is None else ""
    try:
        bounds = sorted(figure.kernel(files) for files in texts)
    except KeyError as missing:
        bounds, why_not = [], why_not or f"the kernel has no {missing.args[0]} there"
    slack = stock * figure.stocks
    least, most = (max(0, bounds[0] - slack), bounds[-1] + slack) if bounds else (0, 0)
    right = seen is not None and least <= seen <= most
    return Finding(
        verdict=Verdict.of(right, why_not),
        subject=subject,
        cgroup=cgroup,
        knob=name,
        set_by=Setter.RUNTIME,
        expected=f"{least} to {most}" if bounds else "",
        observed="" if seen is None else str(seen),
        why_not=why_not,
        measured=True,
    )


def stock_of(cpus: int, page_size: int) -> int:
    """Bytes that all CPUs together may have charged ahead."""
    return CHARGE_BATCH * cpus * page_size


SLACK_PAGES = 64
"""The batch in which the kernel charges memory, and updates memory.stat."""

APART = 0.2
"""Seconds between two readings that decide whether memory has settled."""

_FILES = ("memory.current", Knob.MEMORY_MAX.value, "memory.stat")
_COUNTED = ("anon", "file", "kernel_stack")


def stats_findings(
    runtime: Runtime, tree: CgroupTree, handle: ContainerHandle, path: CgroupPath, *, page_size: int, deadline: Deadline
) -> Sequence[Finding]:
    """Usage, limit and the parts of memory that a runtime reports for a running container with a limit.

    The runtime is asked once the anonymous memory has settled above 64 pages. Each value conforms if it is within 64
    pages of the range between the file before and after the call. UsageError for a runtime without stats, DeadlineError
    for memory that does not settle.
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
    """A runtime's figures for a container's memory. parts: by the names of memory.stat."""

    who: Subject
    usage: object
    limit: object
    parts: Mapping[str, object]


def _told(runtime: Runtime, handle: ContainerHandle, deadline: Deadline) -> _Told:
    if isinstance(runtime, SpeaksOci):
        memory = _section(runtime.stats_event(handle, deadline=deadline), "memory")
        usage = _section(memory, "usage")
        return _Told(
            who=Subject.of_machine("events"),
            usage=usage.get("usage"),
            limit=usage.get("limit"),
            parts=_section(memory, "raw"),
        )
    if isinstance(runtime, SpeaksDocker):
        memory = _section(runtime.stats(handle, deadline=deadline), "memory_stats")
        return _Told(
            who=Subject.of_machine("Docker"),
            usage=memory.get("usage"),
            limit=memory.get("limit"),
            parts=_section(memory, "stats"),
        )
    raise UsageError(
        f"{runtime.name} reports no stats of its own.", next_step="Add docker or oci to the claim's needs."
    )


def _section(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _agrees(
    name: str, told: object, before: int | None, after: int | None, path: CgroupPath, *, slack: int, subject: Subject
) -> Finding:
    verdict, expected, why_not = Verdict.NOT_OBSERVABLE, "the value of the file", "the file holds no number"
    if before is not None and after is not None:
        least, most = min(before, after) - slack, max(before, after) + slack
        verdict = Verdict.of(isinstance(told, int) and least <= told <= most)
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
    """The files once two readings have the same anonymous memory; at once if it cannot be read."""
    looks = [_shown(tree, path, deadline)]

    def look() -> dict[str, int | None]:
        looks.append(_shown(tree, path, deadline))
        return looks[-1]

    def is_settled(now: dict[str, int | None]) -> bool:
        anon = now["anon"]
        return anon is None or (anon > above and anon == looks[-2]["anon"])

    return wait("the container's anonymous memory has settled", look, until=is_settled, deadline=deadline, every=APART)


def _shown(tree: CgroupTree, path: CgroupPath, deadline: Deadline) -> dict[str, int | None]:
    """The values of the files: memory.stat by its keys."""
    reading = tree.read_cgroups([path], _FILES, deadline=deadline)
    current, limit, stat = (reading.file(path, name) for name in _FILES)
    counted = counters(stat, path=f"{path}/memory.stat") if isinstance(stat, str) else {}
    return {
        "memory.current": _number_at(current),
        Knob.MEMORY_MAX.value: _number_at(limit),
        **{name: counted.get(name) for name in _COUNTED},
    }


def _number_at(text: object) -> int | None:
    return int(text) if isinstance(text, str) and text.strip().isdecimal() else None


TOLD_SECONDS = 10.0
"""Seconds within which the end of a container, and a kill in it, must be reported."""


def oom_event_findings(runtime: Runtime, handle: ContainerHandle, *, deadline: Deadline) -> Sequence[Finding]:
    """One finding on how the container ended, and one on whether an event of type "oom" was reported.

    handle: of a container that `events` follow, whose program exceeds its limit. DeadlineError if it does not end.
    """
    status = wait(
        "the container has ended",
        lambda: runtime.status(handle, deadline=deadline),
        until=lambda status: status.state is ContainerState.EXITED,
        deadline=deadline,
    )
    told: Sequence[str] = ()

    def look() -> Sequence[str]:
        nonlocal told
        told = over_bundles(runtime).followed(handle, deadline=deadline)
        return told

    # The events until then are judged.
    with contextlib.suppress(DeadlineError):
        wait("an event is reported", look, until=lambda types: "oom" in types, deadline=Deadline.after(TOLD_SECONDS))
    code = "" if status.exit_code is None else str(status.exit_code)
    return [
        _finding("exit code", str(OOM_EXIT_CODE), code, Setter.KERNEL),
        _finding("events", "oom", "oom" if "oom" in told else ", ".join(told) or "none", Setter.RUNTIME),
    ]


def _finding(knob: str, expected: str, observed: str, set_by: Setter) -> Finding:
    return Finding(
        verdict=Verdict.of(observed == expected),
        subject=SUBJECT,
        cgroup="",
        knob=knob,
        set_by=set_by,
        expected=expected,
        observed=observed,
    )


_LIMITS = (
    "memory_limit_in_bytes",
    "memory_swap_limit_in_bytes",
    "cpu_quota",
    "cpu_period",
    "cpu_shares",
    "cpuset_cpus",
    "cpuset_mems",
    "hugepage_limits",
    "oom_score_adj",
)
"""The fields that no runtime sets by itself."""


def unrequested(told: ContainerResources, asked: ContainerResources) -> Sequence[str]:
    """The reported limits and unified keys that a request does not have, named as in `asked_in_all`."""
    more = [name for name in _LIMITS if getattr(told, name) and not getattr(asked, name)]
    return [*more, *(f"unified.{key}" for key in told.unified if key not in asked.unified)]


def asked_in_all(requests: Sequence[ContainerResources]) -> Mapping[str, str]:
    """The last value of each field in these requests, as text; updates do not cover oom_score_adj."""
    told: dict[str, str] = {}
    for number, request in enumerate(requests):
        for field in dataclasses.fields(request):
            value = getattr(request, field.name)
            if field.name == "unified":
                told |= {f"unified.{key}": text for key, text in value.items()}
            elif value and (field.name != "oom_score_adj" or number == 0):
                told[field.name] = text_of(request, field.name)
    return told


def text_of(resources: ContainerResources, name: str) -> str:
    """One field of an answer as text, named as in `asked_in_all`."""
    field, _, key = name.partition(".")
    if field == "hugepage_limits":
        return ", ".join(f"{size} {limit}" for size, limit in sorted(resources.hugepage_limits)) or "nothing"
    return resources.unified.get(key, "nothing") if key else str(getattr(resources, field))
