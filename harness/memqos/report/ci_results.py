"""JUnit XML of a bundle: a deviation is a failure, machinery and usage are errors, not observable is skipped.

A known deviation is a property of a passed case.

`started.json` and `finished.json`, from which Prow's Spyglass and TestGrid take a job's times and result. Pure.

Source: kubernetes/test-infra, gubernator/README.md, "Job Artifact GCS Layout"; TestGrid, metadata.Started, Finished.
"""

from __future__ import annotations

import datetime
import json
import re
import xml.etree.ElementTree as ET

from memqos.errors import ExitCode
from memqos.report.bundle import Bundle
from memqos.report.matrix import names_of
from memqos.report.outcome import Outcome, TestResult
from memqos.report.summary import known_line, programs_of
from memqos.report.verdict import CONTRADICTS_ITSELF, verdict_line

__all__ = ["finished_json", "junit_xml", "started_json"]

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
