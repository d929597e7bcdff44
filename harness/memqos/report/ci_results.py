"""Results for CI systems, from a bundle: JUnit XML, TAP, and the files of Prow's jobs. Pure.

JUnit XML: a deviation is a failure, machinery and usage are errors, *not observable* is skipped, and a known deviation
is a property of a passed case.

`started.json` and `finished.json`: Prow's Spyglass and TestGrid take a job's times and result from them.
Source: kubernetes/test-infra, gubernator/README.md, "Job Artifact GCS Layout"; TestGrid, metadata.Started, Finished.

TAP (Test Anything Protocol): a test point for each case, with a YAML block for details. A deviation and an error are
`not ok`; *not observable* is `ok` with SKIP and the reason; a known deviation is `not ok` with TODO and its entry,
which consumers do not count as a failure. Errors outside of any case are a test point of their own. An interrupted run
ends with `Bail out!`. The points are flat: consumers of version 13 ignore subtests.
Source: TAP specification, versions 13 and 14 (testanything.org).
"""

from __future__ import annotations

import datetime
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping

from memqos.engine.answer.finding import Finding, Verdict
from memqos.errors import ExitCode
from memqos.report.bundle import Bundle
from memqos.report.matrix import names_of
from memqos.report.outcome import Outcome, TestResult
from memqos.report.summary import known_line, machine_line, programs_of
from memqos.report.verdict import CONTRADICTS_ITSELF, verdict_line

__all__ = ["VERSIONS", "finished_json", "junit_xml", "started_json", "tap_text"]

# XML 1.0 cannot hold most control characters, not even escaped.
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(bundle: Bundle) -> str:
    """The whole document, one testsuite per chapter, in the order in which the tests ran."""
    told = "\n".join((*bundle.error.splitlines(), *(f"{CONTRADICTS_ITSELF}: {one}" for one in bundle.inconsistencies)))
    root = ET.Element("testsuites", {"name": "memqos", **_counts(bundle.results, errors=int(bool(told)))})
    names = names_of(bundle.results)
    chapters = list(dict.fromkeys(result.chapter for result in bundle.results))
    for chapter in chapters:
        results = tuple(result for result in bundle.results if result.chapter == chapter)
        suite = ET.SubElement(root, "testsuite", {"name": chapter, "timestamp": bundle.started, **_counts(results)})
        _properties(suite, bundle)
        for result in results:
            suite.append(_case(result, names[id(result)]))
    if told:
        _broken_run(root, bundle.started, told)
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _broken_run(root: ET.Element, started: str, told: str) -> None:
    """Errors outside of any test as a test case, since CI systems show only cases."""
    counts = _counts((), errors=1)
    suite = ET.SubElement(root, "testsuite", {"name": "memqos", "timestamp": started, **counts})
    case = ET.SubElement(suite, "testcase", classname="memqos", name="run", time="0.000")
    element = ET.SubElement(case, "error", type="run", message=_xml(told.partition("\n")[0]))
    element.text = _xml(told)


def _counts(results: tuple[TestResult, ...], *, errors: int = 0) -> dict[str, str]:
    """Counts of a testsuite. errors: the number of errors outside of results; each counts as a test."""
    return {
        "tests": str(len(results) + errors),
        "failures": str(sum(result.outcome is Outcome.DEVIATES for result in results)),
        "errors": str(sum(result.outcome.is_error for result in results) + errors),
        "skipped": str(sum(result.outcome is Outcome.NOT_OBSERVABLE for result in results)),
        "time": f"{sum(result.seconds for result in results):.3f}",
    }


def _properties(suite: ET.Element, bundle: Bundle) -> None:
    properties = ET.SubElement(suite, "properties")
    for name, version in bundle.versions.items():
        ET.SubElement(properties, "property", name=f"version.{name}", value=_xml(version))
    for name, setting in bundle.settings.items():
        ET.SubElement(properties, "property", name=f"setting.{name}", value=_xml(_setting_text(setting["value"])))


def _case(result: TestResult, named: str) -> ET.Element:
    file, _, name = named.partition("::")
    classname = file.removesuffix(".py").replace("/", ".")
    case = ET.Element("testcase", classname=_xml(classname), name=_xml(name or file), time=f"{result.seconds:.3f}")
    told = [("claim", result.claim), ("machine", result.machine), ("host", result.host)]
    told += [("runtime", result.runtime), ("driver", result.driver)]
    told += [(f"findings.{setter}", str(count)) for setter, count in result.set_by.items()]
    told += [("earlier_attempts", "; ".join(one.reason for one in result.earlier_attempts))]
    told += [("known", "; ".join(map(known_line, result.known)))]
    if any(value for _, value in told):
        properties = ET.SubElement(case, "properties")
        for key, value in told:
            if value:
                ET.SubElement(properties, "property", name=key, value=_xml(value))
    if result.outcome is Outcome.DEVIATES:
        _verdict(case, "failure", result)
    elif result.outcome.is_error:
        _verdict(case, "error", result)
    elif result.outcome is Outcome.NOT_OBSERVABLE:
        ET.SubElement(case, "skipped", type=result.outcome.value, message=_xml(result.reason))
    return case


def _verdict(case: ET.Element, tag: str, result: TestResult) -> None:
    element = ET.SubElement(case, tag, type=result.outcome.value, message=_xml(result.reason))
    element.text = _xml(result.text or result.reason)


def _setting_text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _xml(text: str) -> str:
    return _NOT_XML.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


_RESULTS = {ExitCode.CONFORMS: "SUCCESS", ExitCode.INTERRUPTED: "ABORTED"}


def files_of(bundle: Bundle) -> dict[str, str]:
    """Both files by name, without empty ones."""
    found = {"started.json": started_json(bundle), "finished.json": finished_json(bundle)}
    return {name: text for name, text in found.items() if text}


def started_json(bundle: Bundle) -> str:
    """`started.json`: the start in seconds since 1970; "" if unknown."""
    return _document({"timestamp": _seconds(bundle.started)}) if bundle.started else ""


def finished_json(bundle: Bundle) -> str:
    """`finished.json`: end, result, and the system under test; "" for a killed run."""
    if not bundle.ended:
        return ""
    code = ExitCode(bundle.exit_code)
    versions = {f"{one.get('id', '?')}": ", ".join(programs_of(one)) for one in bundle.machines}
    return _document(
        {
            "timestamp": _seconds(bundle.ended),
            "passed": code is ExitCode.CONFORMS,
            "result": _RESULTS.get(code, "FAILURE"),
            "metadata": {"verdict": verdict_line(bundle).removeprefix("verdict: "), **versions},
        }
    )


def _seconds(moment: str) -> int:
    return int(datetime.datetime.fromisoformat(moment).timestamp())


def _document(value: dict[str, object]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


# ---- TAP

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
