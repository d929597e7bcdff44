"""TAP of a bundle (Test Anything Protocol): a test point for each case, with a YAML block for details.

A deviation and an error are `not ok`; *not observable* is `ok` with SKIP and the reason; a known deviation is `not ok`
with TODO and its entry, which consumers do not count as a failure. Errors outside of any case are a test point of their
own, and an interrupted run ends with `Bail out!`. The points are flat: consumers of version 13 ignore subtests. Pure.

Source: TAP specification, versions 13 and 14 (testanything.org).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from memqos.engine.answer.finding import Finding, Verdict
from memqos.report.bundle import Bundle
from memqos.report.matrix import names_of
from memqos.report.outcome import Outcome, TestResult
from memqos.report.summary import known_line, machine_line
from memqos.report.verdict import CONTRADICTS_ITSELF, verdict_line

__all__ = ["VERSIONS", "tap_text"]

VERSIONS = (14, 13)
"""The supported versions of the protocol; without subtests they differ only in their first line."""

_WORDS = ("expected", "observed")
# YAML accepts most other characters only escaped, and a terminal should not get them.
_NOT_PLAIN = re.compile("[^\t\n -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_TOLD = {Verdict.DEVIATES, Verdict.KNOWN, Verdict.NOT_OBSERVABLE}


def tap_text(bundle: Bundle, *, version: int = VERSIONS[0]) -> str:
    """The whole document. version: one of VERSIONS."""
    return "".join(f"{line}\n" for line in _lines(bundle, version))


def _lines(bundle: Bundle, version: int) -> Iterator[str]:
    told = [*bundle.error.splitlines(), *(f"{CONTRADICTS_ITSELF}: {one}" for one in bundle.inconsistencies)]
    count = len(bundle.results) + bool(told)
    yield f"TAP version {version}"
    yield f"1..{count}" if count else "1..0 # SKIP no case was run"
    for machine in bundle.machines:
        yield f"# {_line(machine_line(machine))}"
    names = names_of(bundle.results)
    for number, result in enumerate(bundle.results, 1):
        yield from _point(number, result, names[id(result)])
    if told:
        yield f"not ok {count} - the run"
        yield from _block({"message": told[0], "severity": "error", "text": "\n".join(told)})
    yield from (f"# {_line(f'known deviation that did not occur: {one}')}" for one in bundle.known_gone)
    yield f"# {_line(verdict_line(bundle))}"
    if bundle.interrupted:
        yield f"Bail out! the run was interrupted, {bundle.not_run} cases were not run"


def _point(number: int, result: TestResult, name: str) -> Iterator[str]:
    is_wrong = result.outcome is Outcome.DEVIATES or result.outcome is Outcome.KNOWN or result.outcome.is_error
    directive = ""
    if result.outcome is Outcome.NOT_OBSERVABLE:
        directive = f" # SKIP {_line(result.reason)}"
    elif result.outcome is Outcome.KNOWN:
        directive = f" # TODO {_line('; '.join(map(known_line, result.known)) or result.reason)}"
    yield f"{'not ' if is_wrong else ''}ok {number} - {_description(name)}{directive}"
    if is_wrong or result.outcome is Outcome.NOT_OBSERVABLE:
        yield from _block(_diagnosis(result))


def _diagnosis(result: TestResult) -> Mapping[str, object]:
    """The fields of a block without empty values. duration_ms: milliseconds, as in TAP."""
    return {
        "message": "" if result.outcome is Outcome.KNOWN else result.reason,
        "severity": {Outcome.DEVIATES: "fail", Outcome.KNOWN: "todo", Outcome.NOT_OBSERVABLE: "skip"}.get(
            result.outcome, "error"
        ),
        "outcome": result.outcome.value,
        "claim": result.claim,
        "chapter": result.chapter,
        "machine": result.machine,
        "profile": result.profile,
        "runtime": result.runtime,
        "driver": result.driver,
        "duration_ms": round(result.seconds * 1000),
        "evidence": result.folder,
        "findings": [_finding(one) for one in result.findings if one.verdict in _TOLD],
        "text": "" if result.text == result.reason else result.text,
    }


def _finding(finding: Finding) -> Mapping[str, str]:
    texts = {
        "verdict": finding.verdict.value,
        "subject": str(finding.subject),
        "cgroup": finding.cgroup,
        "knob": finding.knob,
        "expected": finding.expected,
        "observed": finding.observed,
        "set_by": finding.set_by.value,
        "why_not": finding.why_not,
        "source": finding.reason.source if finding.reason else "",
        "lost": finding.lost.told if finding.lost else "",
    }
    # An empty file is an observation.
    return {key: text for key, text in texts.items() if text or (key in _WORDS and not finding.why_not)}


def _block(values: Mapping[str, object]) -> Iterator[str]:
    """A YAML block: texts in JSON's form, which YAML reads too, and texts of several lines unchanged."""
    yield "  ---"
    for key, value in values.items():
        if isinstance(value, list):
            yield from [f"  {key}:"] if value else []
            for entry in value:
                for number, (name, text) in enumerate(entry.items()):
                    yield f"    {'  ' if number else '- '}{name}: {_scalar(text)}"
        elif isinstance(value, str) and "\n" in value.strip("\n") and not value.strip("\n")[0].isspace():
            # Perl's reader does not support indentation indicators.
            yield f"  {key}: |"
            yield from (f"    {line}".rstrip() for line in _plain(value.strip("\n")).split("\n"))
        elif value or value == 0:
            yield f"  {key}: {_scalar(value)}"
    yield "  ..."


def _scalar(value: object) -> str:
    return json.dumps(_plain(value) if isinstance(value, str) else value, ensure_ascii=False)


def _plain(text: str) -> str:
    return _NOT_PLAIN.sub(lambda match: f"\\x{ord(match[0]):02x}", text.replace("\r\n", "\n"))


def _line(text: str) -> str:
    """A text as one line."""
    return _plain(" ".join(text.split()))


def _description(name: str) -> str:
    """A name with escaped directives: version 14 reads these escapes, version 13 has none."""
    return _line(name).replace("\\", "\\\\").replace("#", "\\#")
