"""The summary that a person reads at the end of a run: pure text from a bundle."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memqos.config.runtimes import DIRECTLY
from memqos.engine.answer import explain
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.answer.setter import Setter
from memqos.errors import ExitCode
from memqos.known import EVIDENCE
from memqos.report import matrix
from memqos.report.bundle import Bundle
from memqos.report.causes import Cause, causes_of
from memqos.report.outcome import Outcome, TestResult
from memqos.report.timing import overhead_text, timing_text

__all__ = ["again", "finding_line", "known_line", "shard_text", "summary_lines", "verdict_line"]

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
_ONLY_WRONG = -1
"""The verbosity with which only what went wrong is told."""
_WRONG = {Outcome.DEVIATES: "deviations", Outcome.MACHINERY: "machinery", Outcome.USAGE: "usage"}
_SET_BY = "findings, by who set it"
_LISTS = {"profile", "runtime", "driver"}
"""Settings whose values are one option, separated by commas: what a case is named by."""
_NOT_AGAIN = {"results", "shard", "last_failed", "keep_vm", "kubernetes", "time_budget", "all"}
"""Settings that are about a whole run, and not about one test of it."""


def summary_lines(
    bundle: Bundle, *, results_folder: str, suites: str = "", report: str = "", verbosity: int = 0
) -> Iterator[str]:
    """Lines: the verdict, chapters by outcomes, what went wrong by its causes, the machines, the results, the verdict.

    suites: the folder that the cases are in, "" for memqos's own suites. report: the file for a browser, "" for none.
    verbosity: below 0 what went wrong and the verdict alone, below -1 only that; from 1 on no list is cut.
    """
    if verbosity >= _ONLY_WRONG:
        yield from [verdict_line(bundle), ""]
    most = _LISTED_AT_MOST if verbosity < 1 else sys.maxsize
    if verbosity >= 0:
        yield from _table(bundle)
        yield from _setters(bundle)
        if lines := list(matrix.matrix_lines(matrix.matrix_of(bundle.results), whole=False)):
            yield from [*lines, ""]
    if verbosity >= _ONLY_WRONG:
        wrong = list(_causes(bundle, results_folder=results_folder, suites=suites))
        for outcome, title in _WRONG.items():
            yield from _section(title, _listed([entry for of, entry in wrong if of is outcome], most=most))
        yield from _section("errors", _plain(bundle.error).split("\n") if bundle.error else [])
        yield from _section("kept running", [kept_line(machine) for machine in bundle.machines if "kept" in machine])
    if verbosity >= 0:
        known = [*_grouped(bundle, Outcome.KNOWN), *_known_beside(bundle)]
        yield from _section("known deviations", _cut(known, most=most))
        yield from _section("known, and not seen any more", list(bundle.known_gone))
        yield from _section("not observable", _cut(_grouped(bundle, Outcome.NOT_OBSERVABLE), most=most))
        yield from _section("slowest cases", _slowest(bundle))
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


def verdict_line(bundle: Bundle) -> str:
    """The run in one sentence."""
    tests = bundle.outcomes
    known = tests[Outcome.KNOWN.value]
    observed = tests[Outcome.CONFORMS.value] + tests[Outcome.DEVIATES.value] + known
    said = {
        ExitCode.CONFORMS: "conforms",
        ExitCode.DEVIATES: "deviates" if tests[Outcome.DEVIATES.value] else "known deviations are not there any more",
        ExitCode.INTERRUPTED: "interrupted",
        ExitCode.MACHINERY: "machinery failed; this says nothing about the system under test",
        ExitCode.USAGE: "not run as asked",
        ExitCode.NOTHING_OBSERVED: "nothing was observed",
        ExitCode.ENVIRONMENT: "this host is not able",
        ExitCode.CLOSED_PIPE: "broken off, because the reader of the output went away",
    }[ExitCode(bundle.exit_code)]
    untried = sum(result.untried for result in bundle.results)
    missing = f", {untried} given up without an attempt" if untried else ""
    missing += f", {bundle.not_run} not run" if bundle.not_run else ""
    cases = f"{_counted(observed, 'case')} observed, {tests[Outcome.DEVIATES.value]} deviate{_known(known)}{missing}"
    return f"verdict: {said} ({'; '.join([cases, *_told_apart(bundle)])})"


def _told_apart(bundle: Bundle) -> Iterator[str]:
    """How many findings there are, by who made what was observed: what memqos wrote says nothing about a runtime."""
    for setter, verdicts in bundle.set_by.items():
        count, deviate = sum(verdicts.values()), verdicts[Verdict.DEVIATES.value]
        if setter == Setter.RUNTIME:
            for name, own in _by_runtime(bundle).items():
                total = _counted(sum(own.values()), "finding")
                known = _known(own[Verdict.KNOWN.value])
                yield f"{total} about {name}, {own[Verdict.DEVIATES.value]} deviate{known}"
        elif count:
            yield f"{count} {_NOT_THE_RUNTIMES[Setter(setter)]}" + (f", {deviate} deviate" if deviate else "")


_NOT_THE_RUNTIMES = {
    Setter.KUBELET: "about the kubelet",
    Setter.MEMQOS: "of memqos' own writes read back",
    Setter.SYSTEMD: "of what systemd writes unasked",
    Setter.KERNEL: "about the kernel",
    Setter.OTHER: "where somebody else wrote",
}


def _by_runtime(bundle: Bundle) -> dict[str, Counter[str]]:
    """The findings that runtimes made, by the name that the machine of each has for its own."""
    names = {str(machine.get("id")): _runtime_name(machine) for machine in bundle.machines}
    told = dict.fromkeys(filter(None, names.values()))
    whole = next(iter(told)) if len(told) == 1 else Setter.RUNTIME.value
    found: dict[str, Counter[str]] = {name: Counter() for name in told or [whole]}
    for result in bundle.results:
        own = [finding.verdict.value for finding in result.findings if finding.set_by is Setter.RUNTIME]
        if own:
            found.setdefault(names.get(result.machine) or whole, Counter()).update(own)
    return found


def _runtime_name(machine: Mapping[str, Any]) -> str:
    """A machine's runtimes by name: "containerd+crun", "oci:runc"; "" where it names none."""
    name = "+".join(str(one).split(" ")[0] for one in machine.get("runtimes", ()))
    return _plain(f"{DIRECTLY}{name}" if str(machine.get("runtime", "")).startswith(DIRECTLY) else name)


def _left_out(bundle: Bundle) -> Iterator[str]:
    """What the default leaves out, and how to have it."""
    left = bundle.left_out
    if left.cases:
        counted = f"{_counted(left.claims, 'claim')}, {_counted(left.cases, 'case')}"
        yield f"left out of the default: {counted}; --all runs them too"


def shard_text(shard: Mapping[str, Any]) -> str:
    """Which part of the cases a run had."""
    return f"shard {shard['number']} of {shard['of']}, of {shard['cases']} cases; division {shard['division']}"


def _known(number: int) -> str:
    """How many deviations are listed, where some are."""
    return f", {number} known" if number else ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def finding_line(finding: Finding) -> str:
    """A deviation in one line."""
    revision = f" ({finding.reason.revision})" if finding.reason and finding.reason.revision else ""
    return f"{finding.knob} of {finding.subject} is {finding.observed}, expected {finding.expected}{revision}"


def known_line(finding: Finding) -> str:
    """A deviation that is listed in one line, with its entry."""
    return f"{finding_line(finding)}: {finding.evidence.get(EVIDENCE, '')}"


def machine_line(machine: Mapping[str, Any]) -> str:
    """A machine and its versions in one line; what it could not say is left out."""
    parts = [f"kernel {machine['kernel']}" if machine.get("kernel") else "", *machine.get("runtimes", ())]
    parts.append(f"QEMU {machine['qemu']}" if machine.get("qemu") else "")
    parts.append(str(machine.get("accelerator") or ""))
    words = (machine.get("profile", "?"), machine.get("topology", "?"))
    name = "/".join(str(word) for word in words if word)
    return f"{machine.get('id', '?')} ({name}): {', '.join(part for part in parts if part)}"


def _timing(bundle: Bundle) -> list[str]:
    """What each machine's runtime took for a request, where it was asked for any."""
    timed = [(machine, machine["timing"]) for machine in bundle.machines if machine.get("timing")]
    return [f"{_system(machine)}: {timing_text(timing)}" for machine, timing in timed]


def _system(machine: Mapping[str, Any]) -> str:
    """A machine by its id, its runtime and its driver, as far as they are told."""
    words = [str(machine[key]) for key in ("runtime", "driver") if machine.get(key)]
    return f"{machine.get('id', '?')} ({' '.join(words)})" if words else str(machine.get("id", "?"))


def _overhead(bundle: Bundle) -> list[str]:
    """What each machine's runtime costs a pod."""
    weighed = [(machine, machine["overhead"]) for machine in bundle.machines if machine.get("overhead")]
    return [f"{_system(machine)}: {overhead_text(overhead)}" for machine, overhead in weighed]


def kept_line(machine: Mapping[str, Any]) -> str:
    """How a machine that was kept is entered, and ended."""
    name = machine["kept"]["name"]
    return f"{machine['id']}: enter it with `memqos vm shell {name}`, end it with `memqos vm rm {name}`"


def again(bundle: Bundle, result: TestResult, *, suites: str = "") -> str:
    """The command that runs this one test again with the same settings. suites: as for `summary_lines`."""
    words = ["memqos", "run"]
    for name, setting in bundle.settings.items():
        value = setting["value"]
        if setting["origin"] == "default" or name in _NOT_AGAIN or value in (None, False, []):
            continue
        option = f"--{name.replace('_', '-')}"
        if name in _LISTS and isinstance(value, (list, tuple)):
            words += [option, ",".join(map(str, value))]
            continue
        for one in value if isinstance(value, (list, tuple)) else [value]:
            words += [option, str(one)]
    words += [word for release in _releases(bundle, result) for word in ("--kubernetes", release)]
    return shlex.join([*words, f"{suites}/{result.id}" if suites else result.id])


def _releases(bundle: Bundle, result: TestResult) -> list[str]:
    """The release that a case was run for, where it was asked for: the catalogue may have no kubelet of that."""
    asked = bundle.settings.get("kubernetes", {}).get("value") or ()
    return [release for release in asked if f"[v{release}" in result.id]


def _table(bundle: Bundle) -> Iterator[str]:
    """Chapters by outcomes; an outcome that no case had has no column, but for the two that a verdict is about."""
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


def _setters(bundle: Bundle) -> Iterator[str]:
    """The findings by who made what was observed; nothing where there are none."""
    rows: dict[str, Mapping[str, int]] = {}
    for setter, verdicts in bundle.set_by.items():
        if setter == Setter.RUNTIME:
            rows |= _by_runtime(bundle)
        else:
            rows[setter] = verdicts
    rows = {name: verdicts for name, verdicts in rows.items() if any(verdicts.values())}
    if not rows:
        return
    width = max(len(name) for name in (_SET_BY, *rows))
    yield f"{_SET_BY:<{width}}  {'  '.join(f'{verdict.value:>8}' for verdict in Verdict)}"
    for name, verdicts in rows.items():
        cells = (f"{verdicts.get(verdict.value, 0):>{max(len(verdict.value), 8)}}" for verdict in Verdict)
        yield f"{name:<{width}}  {'  '.join(cells)}"
    yield ""


def _width(outcome: Outcome) -> int:
    return max(len(outcome.value), 5)


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        yield from (f"  {line}" if line else "" for line in lines)
        yield ""


def _cut(lines: list[str], *, most: int) -> list[str]:
    """The first of many lines, and how many there are more."""
    more = len(lines) - most
    return lines if more <= 0 else [*lines[:most], f"… and {more} more: see bundle.json"]


def _listed(entries: list[list[str]], *, most: int) -> list[str]:
    """Entries of several lines, with an empty one between them: as many as fit, but always one."""
    lines: list[str] = []
    for number, entry in enumerate(entries):
        if lines and len(lines) + len(entry) > most:
            return [*lines, f"… and {len(entries) - number} more: see bundle.json"]
        lines += [*([""] if lines else []), *entry]
    return lines


def _causes(bundle: Bundle, *, results_folder: str, suites: str) -> Iterator[tuple[Outcome, list[str]]]:
    """What went wrong, each cause once: its first example in full, how many are like it, and how to see it again."""
    for cause in causes_of(bundle.results):
        first = cause.results[0]
        lines = _plain(cause_text(cause)).split("\n")
        number = max(len(cause.findings), len(cause.results))
        if number > 1:
            findings = f"{_counted(len(cause.findings), 'finding')} in " if cause.findings else ""
            lines.append(f"  alike    {findings}{_counted(len(cause.results), 'case')}: {_examples(cause.results)}")
        lines.append(f"  case     {first.id}")
        lines.append(f"  again: {again(bundle, first, suites=suites)}")
        if first.folder:
            lines.append(f"  evidence: {results_folder}/{first.folder}")
        yield cause.outcome, lines


def cause_text(cause: Cause) -> str:
    """The first example of a cause, with everything that is known of why."""
    if cause.example is not None:
        return explain.failure(cause.example)
    first = cause.results[0]
    head, *more = (first.text or first.outcome.value).strip().split("\n")
    if first.reason and head != first.reason:
        head, more = first.reason, [head, *more] if first.text else []
    return "\n".join([head, *(f"  {line}" for line in more)])


_SHOWN = 3
"""How many cases of a cause are named; the others are in the bundle."""


def _known_beside(bundle: Bundle) -> list[str]:
    """Known deviations in cases that have others, each once."""
    others = [result for result in bundle.results if result.outcome is not Outcome.KNOWN]
    return list(dict.fromkeys(_plain(known_line(finding)) for result in others for finding in result.known))


def _examples(results: Sequence[TestResult]) -> str:
    more = f" and {len(results) - _SHOWN} more" if len(results) > _SHOWN else ""
    several = len({result.chapter for result in results}) > 1
    names = [f"{result.chapter} " * several + result.id.rpartition("::")[2] for result in results[:_SHOWN]]
    return ", ".join(names) + more


def _slowest(bundle: Bundle) -> list[str]:
    """Those that took longest, where there are enough to compare."""
    if len(bundle.results) <= _SLOWEST:
        return []
    slowest = sorted(bundle.results, key=lambda result: -result.seconds)[:_SLOWEST]
    return [f"{result.seconds:>7.1f} s  {result.id}" for result in slowest if result.seconds >= 1]


def _plain(text: str) -> str:
    """A text for a terminal: what a machine said may hold anything."""
    return "".join(char if char.isprintable() or char == "\n" else f"\\x{ord(char):02x}" for char in text)


def _grouped(bundle: Bundle, outcome: Outcome) -> list[str]:
    """One line per reason, however many tests share it."""
    by_reason: dict[str, list[TestResult]] = {}
    for result in bundle.results:
        if result.outcome is outcome:
            by_reason.setdefault(result.reason, []).append(result)
    lines = []
    for reason, results in by_reason.items():
        plain = _plain(reason)
        more = f" and {len(results) - 1} more" if len(results) > 1 else ""
        lines.append(f"{results[0].id}{more}: {plain}")
    return lines
