"""The summary at the end of a run: text from a bundle. Pure.

How long a runtime takes for requests, and how much memory it takes for itself.

Both are information, not part of the verdict.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memqos.engine.answer import explain
from memqos.engine.answer.finding import Finding
from memqos.known import EVIDENCE
from memqos.report import matrix
from memqos.report.bundle import Bundle
from memqos.report.matrix import names_of
from memqos.report.outcome import Outcome, TestResult
from memqos.report.verdict import CONTRADICTS_ITSELF, Cause, causes_of, setter_lines, verdict_line
from memqos.report.words import again, how_many, plain

__all__ = [
    "Timing",
    "finding_line",
    "host_text",
    "known_line",
    "machine_line",
    "shard_text",
    "summary_lines",
    "timing_text",
]

_STEPS: Mapping[str, str] = {
    "RunPodSandbox": "sandbox",
    "CreateContainer": "create",
    "create": "create",
    "ContainerCreate": "create",
    "StartContainer": "start",
    "start": "start",
    "ContainerStart": "start",
    "UpdateContainerResources": "update",
    "update": "update",
    "ContainerUpdate": "update",
}
"""The timed requests, by their names in CRI, OCI runtimes and the Docker Engine."""

_MIB = 1 << 20


@dataclass(slots=True)
class Timing:
    """Seconds per answer, by step; refused requests do not count."""

    _seconds: dict[str, list[float]] = field(default_factory=lambda: {step: [] for step in _STEPS.values()})

    def add(self, method: str, seconds: float) -> None:
        """Add one answer; other methods are ignored."""
        if method in _STEPS:
            self._seconds[_STEPS[method]].append(seconds)

    def told(self) -> Mapping[str, Mapping[str, float]]:
        """By step: the number of answers, their median and longest in seconds; without steps that have none."""
        return {
            step: {
                "count": len(seconds),
                "median": round(statistics.median(seconds), 3),
                "longest": round(max(seconds), 3),
            }
            for step, seconds in self._seconds.items()
            if seconds
        }


def timing_text(told: Mapping[str, Mapping[str, Any]]) -> str:
    """One machine's timing in one line."""
    return ", ".join(f"{step} {one['median']:.2f} s ({one['count']})" for step, one in told.items())


def overhead_text(told: Mapping[str, int]) -> str:
    """The memory of one machine's runtime in one line."""
    words = {
        "beside": "{} in the pod outside of its container",
        "starting": "at most {} in a container until its process ran",
        "monitor": "{} per shim or monitor",
    }
    return ", ".join(text.format(f"{told[name] / _MIB:.1f} MiB") for name, text in words.items() if name in told)


_COLUMNS = (
    Outcome.CONFORMS,
    Outcome.DEVIATES,
    Outcome.KNOWN,
    Outcome.NOT_OBSERVABLE,
    Outcome.MACHINERY,
    Outcome.USAGE,
)
_LISTED_AT_MOST = 120
"""Lines of a list in the summary."""
_SLOWEST = 5
_SLOWER = 10
_WAITS = 3
"""Waits that are named for each overdue case."""
_ONLY_WRONG = -1
"""The verbosity at which the summary has only what went wrong."""
_WRONG = {Outcome.DEVIATES: "deviations", Outcome.MACHINERY: "machinery", Outcome.USAGE: "usage"}


def summary_lines(
    bundle: Bundle, *, results_folder: str, suites: str = "", report: str = "", verbosity: int = 0
) -> Iterator[str]:
    """Lines: the verdict, chapters by outcomes, what went wrong by its causes, the machines, the results, the verdict.

    suites: the folder of the cases, "" for memqos's own suites. report: the HTML file, "" for none. verbosity: below 0
    only what went wrong and the verdict, below -1 only the verdict; from 1 on no list is cut.
    """
    if verbosity >= _ONLY_WRONG:
        yield from [verdict_line(bundle), ""]
    most = _LISTED_AT_MOST if verbosity < 1 else sys.maxsize
    if verbosity >= 0:
        yield from _table(bundle)
        yield from setter_lines(bundle)
        if lines := list(matrix.matrix_lines(matrix.matrix_of(bundle.results), whole=False)):
            yield from [*lines, ""]
    if verbosity >= _ONLY_WRONG:
        wrong = list(_causes(bundle, results_folder=results_folder, suites=suites))
        for outcome, title in _WRONG.items():
            yield from _section(title, _listed([entry for of, entry in wrong if of is outcome], most=most))
        yield from _section("errors", plain(bundle.error).split("\n") if bundle.error else [])
        yield from _section(CONTRADICTS_ITSELF, [plain(one) for one in bundle.inconsistencies])
        yield from _section("kept running", [kept_line(machine) for machine in bundle.machines if "kept" in machine])
    if verbosity >= 0:
        known = [*_grouped(bundle, Outcome.KNOWN), *_known_beside(bundle)]
        yield from _section("known deviations", _cut(known, most=most))
        yield from _section("known deviations that were not observed", list(bundle.known_gone))
        yield from _section("not observable", _cut(_grouped(bundle, Outcome.NOT_OBSERVABLE), most=most))
        yield from _section("run again", _run_again(bundle))
        yield from _section("slowest cases", _slowest(bundle))
        yield from _section("overdue: three times the median of the last runs on this host", [*_overdue(bundle)])
        yield from _section("machines", [machine_line(machine) for machine in bundle.machines])
        yield from _section("timing (medians, for information)", _timing(bundle))
        yield from _section("memory of the runtime itself (for information)", _overhead(bundle))
        yield from _left_out(bundle)
        if bundle.shard:
            yield shard_text(bundle.shard)
        yield f"results: {results_folder}"
        if report:
            yield f"report: {report}"
    yield verdict_line(bundle)


def _left_out(bundle: Bundle) -> Iterator[str]:
    """What the default run skips, and how to run it."""
    left = bundle.left_out
    if left.cases:
        number = f"{how_many(left.claims, 'claim')}, {how_many(left.cases, 'case')}"
        yield f"skipped by the default run: {number}; --all runs them"


def shard_text(shard: Mapping[str, Any]) -> str:
    """The run's shard."""
    return f"shard {shard['number']} of {shard['of']}, of {shard['cases']} cases; division {shard['division']}"


def finding_line(finding: Finding) -> str:
    """A deviation in one line."""
    revision = f" ({finding.reason.revision})" if finding.reason and finding.reason.revision else ""
    return f"{finding.knob} of {finding.subject} is {finding.observed}, expected {finding.expected}{revision}"


def known_line(finding: Finding) -> str:
    """A known deviation in one line, with its entry."""
    return f"{finding_line(finding)}: {finding.evidence.get(EVIDENCE, '')}"


def programs_of(machine: Mapping[str, Any]) -> list[str]:
    """The runtimes of a machine and the kubelets under test: ["containerd 1.7.24", "kubelet v1.36.2"]."""
    kubelets = (f"kubelet {one}" for one in machine.get("kubelets", ()))
    return [*map(str, machine.get("runtimes", ())), *kubelets]


def machine_line(machine: Mapping[str, Any]) -> str:
    """A machine and its versions in one line, without unknown ones."""
    parts = [f"kernel {machine['kernel']}" if machine.get("kernel") else "", *programs_of(machine)]
    parts.append(f"QEMU {machine['qemu']}" if machine.get("qemu") else "")
    parts.append(str(machine.get("accelerator") or ""))
    words = (machine.get("profile", "?"), machine.get("topology", "?"))
    name = "/".join(str(word) for word in words if word) + (f" on {host}" if (host := host_text(machine)) else "")
    return f"{machine.get('id', '?')} ({name}): {', '.join(part for part in parts if part)}"


def host_text(machine: Mapping[str, Any]) -> str:
    """A machine's host by its own name and its ssh address; "" for the host of the run."""
    host = machine.get("host")
    return _one_line(f"{host.get('name', '?')} ({host.get('address', '?')})") if isinstance(host, dict) else ""


def _one_line(text: str) -> str:
    """A text as one line: CI services read commands at the beginning of lines."""
    return " ".join(text.split())


def _timing(bundle: Bundle) -> list[str]:
    """The times of each machine's runtime per request, if it got any."""
    timed = [(machine, machine["timing"]) for machine in bundle.machines if machine.get("timing")]
    return [f"{_system(machine)}: {timing_text(timing)}" for machine, timing in timed]


def _system(machine: Mapping[str, Any]) -> str:
    """A machine by its id, its runtime and its driver, as far as known."""
    words = [str(machine[key]) for key in ("runtime", "driver") if machine.get(key)]
    return f"{machine.get('id', '?')} ({' '.join(words)})" if words else str(machine.get("id", "?"))


def _overhead(bundle: Bundle) -> list[str]:
    """The memory that each machine's runtime takes per pod."""
    weighed = [(machine, machine["overhead"]) for machine in bundle.machines if machine.get("overhead")]
    return [f"{_system(machine)}: {overhead_text(overhead)}" for machine, overhead in weighed]


def kept_line(machine: Mapping[str, Any]) -> str:
    """The commands that enter and end a kept machine."""
    name = machine["kept"]["name"]
    return f"{machine['id']}: enter it with `memqos vm shell {name}`, end it with `memqos vm rm {name}`"


def _table(bundle: Bundle) -> Iterator[str]:
    """Chapters by outcomes; outcomes without cases have no column, except the two of the verdict."""
    chapters = list(dict.fromkeys(result.chapter for result in bundle.results))
    seen = {result.outcome for result in bundle.results} | {Outcome.CONFORMS, Outcome.DEVIATES}
    columns = [outcome for outcome in _COLUMNS if outcome in seen]
    width = max([len("chapter"), *(len(chapter) for chapter in chapters)])
    heads = "  ".join(f"{outcome.value:>{_width(outcome)}}" for outcome in columns)
    yield f"{'chapter':<{width}}  {heads}  seconds"
    rows = [(chapter, [result for result in bundle.results if result.chapter == chapter]) for chapter in chapters]
    for name, results in [*rows, ("all", list(bundle.results))]:
        counts = (sum(result.outcome is outcome for result in results) for outcome in columns)
        cells = "  ".join(f"{count:>{_width(outcome)}}" for outcome, count in zip(columns, counts, strict=True))
        yield f"{name:<{width}}  {cells}  {sum(result.seconds for result in results):>7.1f}"
    yield ""


def _width(outcome: Outcome) -> int:
    return max(len(outcome.value), 5)


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        yield from (f"  {line}" if line else "" for line in lines)
        yield ""


def _cut(lines: list[str], *, most: int) -> list[str]:
    """The first of many lines, and the number of the others."""
    more = len(lines) - most
    return lines if more <= 0 else [*lines[:most], f"… and {more} more: see bundle.json"]


def _listed(entries: list[list[str]], *, most: int) -> list[str]:
    """Entries of several lines, separated by empty lines: as many as fit, at least one."""
    lines: list[str] = []
    for number, entry in enumerate(entries):
        if lines and len(lines) + len(entry) > most:
            return [*lines, f"… and {len(entries) - number} more: see bundle.json"]
        lines += [*([""] if lines else []), *entry]
    return lines


def _causes(bundle: Bundle, *, results_folder: str, suites: str) -> Iterator[tuple[Outcome, list[str]]]:
    """What went wrong, each cause once: the first example in full, the number of others, and how to rerun it."""
    names = names_of(bundle.results)
    for cause in causes_of(bundle.results):
        first = cause.results[0]
        lines = plain(cause_text(cause)).split("\n")
        number = max(len(cause.findings), len(cause.results))
        if number > 1:
            findings = f"{how_many(len(cause.findings), 'finding')} in " if cause.findings else ""
            lines.append(
                f"  alike    {findings}{how_many(len(cause.results), 'case')}: {_examples(cause.results, names)}"
            )
        lines.append(f"  case     {names[id(first)]}")
        if first.host:
            lines.append(f"  host     {plain(_one_line(first.host))}")
        lines.append(f"  rerun: {again(bundle, first, suites=suites)}")
        if first.folder:
            lines.append(f"  evidence: {results_folder}/{first.folder}")
        yield cause.outcome, lines


def cause_text(cause: Cause) -> str:
    """The first example of a cause, with all known reasons."""
    if cause.example is not None:
        return explain.failure(cause.example)
    first = cause.results[0]
    head, *more = (first.text or first.outcome.value).strip().split("\n")
    if first.reason and head != first.reason:
        head, more = first.reason, [head, *more] if first.text else []
    return "\n".join([head, *(f"  {line}" for line in more)])


_SHOWN = 3
"""Cases of a cause that are named; the others are in the bundle."""


def _known_beside(bundle: Bundle) -> list[str]:
    """Known deviations in cases with other outcomes, each once."""
    others = [result for result in bundle.results if result.outcome is not Outcome.KNOWN]
    return list(dict.fromkeys(plain(known_line(finding)) for result in others for finding in result.known))


def _examples(results: Sequence[TestResult], names: Mapping[int, str]) -> str:
    more = f" and {len(results) - _SHOWN} more" if len(results) > _SHOWN else ""
    several = len({result.chapter for result in results}) > 1
    shown = [f"{result.chapter} " * several + names[id(result)].rpartition("::")[2] for result in results[:_SHOWN]]
    return ", ".join(shown) + more


def _slowest(bundle: Bundle) -> list[str]:
    """The cases that took longest, if there are enough."""
    if len(bundle.results) <= _SLOWEST:
        return []
    slowest = sorted(bundle.results, key=lambda result: -result.seconds)[:_SLOWEST]
    names = names_of(bundle.results)
    return [f"{result.seconds:>7.1f} s  {names[id(result)]}" for result in slowest if result.seconds >= 1]


def _run_again(bundle: Bundle) -> list[str]:
    """Cases with attempts that do not count, and the reasons."""
    names = names_of(bundle.results)
    return [
        f"{names[id(result)]}: {plain(one.again)}; attempt {number} ended in machinery: {plain(one.reason)}"
        for result in bundle.results
        for number, one in enumerate(result.earlier_attempts, 1)
    ]


def _overdue(bundle: Bundle) -> Iterator[str]:
    """The cases that took three times their median, by additional seconds, each with what it waited for."""
    names = names_of(bundle.results)
    overdue = [(one, one.seconds_before or 0.0) for one in bundle.results if one.is_overdue]
    overdue.sort(key=lambda one: one[1] - one[0].seconds)
    for one, before in overdue[:_SLOWER]:
        yield f"{one.seconds:>7.1f} s  {before:>5.1f} s before  {names[id(one)]}"
        for waited in one.waits[:_WAITS]:
            yield f"{waited.seconds:>9.1f} s until {plain(waited.condition)}"


def _grouped(bundle: Bundle, outcome: Outcome) -> list[str]:
    """One line per reason."""
    by_reason: dict[str, list[TestResult]] = {}
    for result in bundle.results:
        if result.outcome is outcome:
            by_reason.setdefault(result.reason, []).append(result)
    lines, names = [], names_of(bundle.results)
    for reason, results in by_reason.items():
        more = f" and {len(results) - 1} more" if len(results) > 1 else ""
        lines.append(f"{names[id(results[0])]}{more}: {plain(reason)}")
    return lines
