"""Outcomes to exit codes, values to JSON and back, and the renderers against reviewed goldens."""

import dataclasses
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import execnet
import pytest

from memqos.engine.answer.document import finding_from
from memqos.engine.answer.finding import Finding, Loss, Setter, Subject, Verdict
from memqos.errors import ExitCode
from memqos.model.knob import ABSENT, MAX, Bytes, CpuMax, Knob
from memqos.model.path import CgroupPath
from memqos.model.reading import CgroupReading, NoFile, Reading, Unreadable
from memqos.page.building import case_document
from memqos.report import ci_results, summary
from memqos.report.bundle import as_json
from memqos.report.markdown import markdown
from memqos.report.outcome import Attempt, Outcome, Phase, Waited, exit_code, outcome_of, result_of
from memqos.report.verdict import causes_of, verdict_line
from memqos.report.words import again
from tests.documents import misfits
from tests.unit.report.sample import BUNDLE, REASON, RESULTS, finding, result

GOLDEN = Path(__file__).parents[2] / "golden" / "report"


def of(*outcomes):
    return [result(str(number), outcome) for number, outcome in enumerate(outcomes)]


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([], ExitCode.NOTHING_OBSERVED),
        ([Outcome.CONFORMS], ExitCode.CONFORMS),
        ([Outcome.CONFORMS, Outcome.NOT_OBSERVABLE], ExitCode.CONFORMS),
        ([Outcome.NOT_OBSERVABLE], ExitCode.NOTHING_OBSERVED),
        ([Outcome.CONFORMS, Outcome.DEVIATES, Outcome.MACHINERY, Outcome.USAGE], ExitCode.DEVIATES),
        ([Outcome.CONFORMS, Outcome.MACHINERY], ExitCode.MACHINERY),
        ([Outcome.MACHINERY, Outcome.USAGE], ExitCode.USAGE),
    ],
)
def test_exit_code(outcomes, code):
    assert exit_code(of(*outcomes)) is code


@pytest.mark.parametrize(
    ("kind", "verdict", "setter", "code"),
    [
        ("state", Verdict.CONFORMS, Setter.RUNTIME, ExitCode.CONFORMS),
        ("refusal", Verdict.CONFORMS, Setter.RUNTIME, ExitCode.CONFORMS),
        ("state", Verdict.KNOWN, Setter.RUNTIME, ExitCode.CONFORMS),
        ("state", Verdict.CONFORMS, Setter.MEMQOS, ExitCode.NOTHING_OBSERVED),
        ("state", Verdict.NOT_OBSERVABLE, Setter.RUNTIME, ExitCode.NOTHING_OBSERVED),
        ("behaviour", Verdict.CONFORMS, Setter.RUNTIME, ExitCode.NOTHING_OBSERVED),
        ("", Verdict.CONFORMS, Setter.RUNTIME, ExitCode.NOTHING_OBSERVED),
    ],
)
def test_a_case_about_values_that_is_not_observable_may_be_observed_in_part(kind, verdict, setter, code):
    findings = (finding(verdict, set_by=setter), finding(Verdict.NOT_OBSERVABLE))
    assert exit_code([result("part", Outcome.NOT_OBSERVABLE, findings=findings, kind=kind)]) is code


def test_an_interrupt_is_reported_unless_something_deviates():
    assert exit_code(of(Outcome.CONFORMS, Outcome.MACHINERY), interrupted=True) is ExitCode.INTERRUPTED
    assert exit_code(of(Outcome.DEVIATES), interrupted=True) is ExitCode.DEVIATES


def test_an_unable_host_is_reported_before_other_machinery():
    unable = dataclasses.replace(of(Outcome.MACHINERY)[0], error_code=6)

    assert exit_code([*of(Outcome.MACHINERY), unable]) is ExitCode.ENVIRONMENT
    not_here = dataclasses.replace(unable, outcome=Outcome.NOT_OBSERVABLE)
    assert exit_code([*of(Outcome.MACHINERY), not_here]) is ExitCode.MACHINERY


def test_no_finding_is_no_observation():
    assert outcome_of([]) is Outcome.NOT_OBSERVABLE
    assert outcome_of([finding(Verdict.CONFORMS), finding(Verdict.NOT_OBSERVABLE)]) is Outcome.NOT_OBSERVABLE
    assert outcome_of([finding(Verdict.NOT_OBSERVABLE), finding(Verdict.DEVIATES)]) is Outcome.DEVIATES


def test_absent_zero_max_and_unread_stay_different_in_json():
    values = [ABSENT, Bytes(0), MAX, CpuMax(None, 100000), NoFile.NO_FILE, Unreadable("denied"), None]

    assert as_json(values) == ["absent", "0", "max", "max 100000", "no such file", {"reason": "denied"}, None]


def test_keys_become_text():
    value = {Knob.MEMORY_HIGH: 1, CgroupPath(("a", "b")): 2, ("uid", "app"): 3}

    assert as_json(value) == {"memory.high": 1, "/a/b": 2, "uid/app": 3}


@pytest.mark.parametrize("one", RESULTS, ids=lambda one: one.outcome)
def test_results_fit_their_schema(one):
    assert json.loads(json.dumps(one.to_json())) == one.to_json()
    assert as_json(one) == one.to_json()
    assert misfits(one.to_json(), "result") == []


def test_a_finding_without_reason_survives_json():
    bare = Finding(
        verdict=Verdict.DEVIATES,
        subject=Subject.of_machine("s"),
        cgroup="/c",
        knob="k",
        set_by=Setter.OTHER,
        expected="1",
        observed="2",
        evidence={"a": "b"},
    )

    assert finding_from(json.loads(json.dumps(as_json(bare)))) == bare


def test_bundle_is_its_golden():
    text = BUNDLE.to_text()
    assert json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n" == (GOLDEN / "bundle.json").read_text()
    # In the file each result has one line, which keeps it small.
    assert sum(line.startswith('  {"id":') for line in text.splitlines()) == len(BUNDLE.results)


def test_bundle_fits_its_schema():
    assert misfits(BUNDLE.to_json(), "bundle") == []
    assert misfits({**BUNDLE.to_json(), "exit_code": "none"}, "bundle") != []


def phase(outcome, **changes):
    return Phase(outcome=outcome, chapter="values", **changes)


def test_data_for_another_process_is_plain_text():
    """execnet does not support enumerations, and findings about behaviour have knobs as names."""
    named = dataclasses.replace(finding(Verdict.CONFORMS), knob=Knob.MEMORY_HIGH, evidence={Knob.MEMORY_MAX: "1"})
    sent = phase(Outcome.CONFORMS, findings=(named,)).to_json()
    assert execnet.loads(execnet.dumps(sent)) == sent
    assert sent["findings"][0]["knob"] == "memory.high"


@pytest.mark.parametrize(
    "one",
    [
        phase(None),
        phase(Outcome.DEVIATES, claim="a/b", findings=(finding(Verdict.DEVIATES),), error_code=1, folder="tests/x"),
        phase(Outcome.MACHINERY, reason="r", text="t", machine="main-0", profile="trixie", repeated=True),
    ],
    ids=["silent", "deviates", "machinery"],
)
def test_phases_survive_the_way_from_a_worker(one):
    assert Phase.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_the_worst_phase_of_a_test_decides_its_result():
    seen = finding(Verdict.DEVIATES)
    phases = [
        phase(None),
        phase(Outcome.DEVIATES, claim="a/b", reason="it deviates", findings=(seen,), folder="tests/x"),
        phase(Outcome.MACHINERY, reason="QEMU ended", machine="main-0"),
    ]

    found = result_of("values/test_x.py::test_y", phases, seconds=1.23456)

    assert (found.outcome, found.reason, found.claim) == (Outcome.DEVIATES, "it deviates", "a/b")
    assert (found.findings, found.folder, found.seconds) == ((seen,), "tests/x", 1.235)
    assert result_of("x", [phase(None), phase(None)], seconds=0) is None


def test_a_reading_distinguishes_missing_unreadable_and_read_files():
    path = CgroupPath(("a", "b"))
    files = {"memory.max": "max", "memory.high": NoFile.NO_FILE, "memory.min": Unreadable("denied")}
    reading = Reading(source="ssh", at=1.5, cgroups={path: CgroupReading(path=path, files=files)})

    document = json.loads(json.dumps(as_json(reading)))

    assert document["cgroups"] == {
        "/a/b": {"memory.max": "max", "memory.high": None, "memory.min": {"unreadable": "denied"}}
    }
    assert misfits(document, "reading") == []


def test_junit_is_its_golden_and_xml():
    text = ci_results.junit_xml(BUNDLE)

    assert text == (GOLDEN / "junit_01.xml").read_text()
    suites = ET.fromstring(text).findall("testsuite")  # noqa: S314 - it is our own
    assert [
        (suite.get("name"), suite.get("tests"), suite.get("failures"), suite.get("errors")) for suite in suites
    ] == [
        ("values", "5", "1", "2"),
        ("swap", "1", "0", "1"),
    ]


def test_summary_is_its_golden():
    text = "\n".join(summary.summary_lines(BUNDLE, results_folder="results/now")) + "\n"

    assert text == (GOLDEN / "summary.txt").read_text()


def test_values_written_by_memqos_are_counted_separately():
    """A value that memqos wrote and reads back is no finding about a runtime."""
    makers = [Setter.RUNTIME] * 3 + [Setter.MEMQOS] * 2 + [Setter.SYSTEMD, Setter.KERNEL]
    findings = tuple(finding(Verdict.CONFORMS, set_by=setter) for setter in makers)
    changed = finding(Verdict.DEVIATES, set_by=Setter.OTHER)
    bundle = dataclasses.replace(BUNDLE, results=(result("one", Outcome.DEVIATES, findings=(*findings, changed)),))

    assert bundle.set_by["the runtime under test"] == {"conforms": 3, "deviates": 0, "known": 0, "not observable": 0}
    assert bundle.set_by["memqos in the kubelet's place"] == {
        "conforms": 2,
        "deviates": 0,
        "known": 0,
        "not observable": 0,
    }
    assert bundle.verdicts == {"conforms": 7, "deviates": 1, "known": 0, "not observable": 0}
    assert verdict_line(bundle) == (
        "verdict: deviates (1 case observed, 1 deviate, 2 not run; 3 findings about containerd+crun, 0 deviate; "
        "2 about memqos's own writes; 1 about systemd's own writes; 1 about the kernel; "
        "1 from an unknown writer, 1 deviate)"
    )
    assert misfits(bundle.to_json(), "bundle") == []
    told = {one.get("name"): one.get("value") for one in ET.fromstring(ci_results.junit_xml(bundle)).iter("property")}  # noqa: S314
    assert told["findings.the runtime under test"] == "3"
    assert told["findings.memqos in the kubelet's place"] == "2"
    assert "findings.the kubelet" not in told


def test_runtimes_have_the_names_that_machines_report():
    several = (
        {"id": "a", "runtimes": ["containerd 1.7.24", "runc 1.1.15"]},
        {"id": "b", "runtimes": ["containerd 2.1", "crun\x1b of"]},
        {"id": "c", "runtime": "oci:runc", "runtimes": ["runc 1.1.15"]},
        {"id": "?"},
    )
    deviating = result("two", Outcome.DEVIATES, findings=(finding(Verdict.DEVIATES), finding(Verdict.CONFORMS)))
    results = tuple(dataclasses.replace(deviating, machine=machine) for machine in "abb")

    named = verdict_line(dataclasses.replace(BUNDLE, machines=several, results=results))
    assert (
        "; 2 findings about containerd+runc, 1 deviate; 4 findings about containerd+crun\\x1b, 2 deviate; "
        "0 findings about oci:runc, 0 deviate" in named
    )
    alone = verdict_line(dataclasses.replace(BUNDLE, machines=({"id": "?"},), results=results))
    assert "; 6 findings about the runtime under test, 3 deviate" in alone


def test_the_summary_has_the_command_to_enter_a_kept_machine():
    machine = {"id": "gw1-0", "kept": {"name": "kept-ab"}}
    lines = list(summary.summary_lines(dataclasses.replace(BUNDLE, machines=(machine,)), results_folder="r"))
    told = "  gw1-0: enter it with `memqos vm shell kept-ab`, end it with `memqos vm rm kept-ab`"
    assert lines[lines.index("kept running:") + 1] == told


def test_many_findings_with_one_cause_are_one_entry_and_a_count():
    pods = [finding(Verdict.DEVIATES, subject=Subject.of_container("app", f"default/web{n}")) for n in range(30)]
    many = tuple(result(str(n), Outcome.DEVIATES, findings=(one,)) for n, one in enumerate(pods))
    bundle = dataclasses.replace(BUNDLE, results=many)
    lines = list(summary.summary_lines(bundle, results_folder="r"))

    assert [line for line in lines if " is max, expected " in line] == [
        "  memory.high of container app of pod default/web0 is max, expected 63750144"
    ]
    assert "    alike    30 findings in 30 cases: test_pod[0], test_pod[1], test_pod[2] and 27 more" in lines


def test_another_reason_is_another_entry():
    other = dataclasses.replace(REASON, rule="another rule")
    lost = Loss(by="the daemon", told="first lost: the daemon")
    found = (
        finding(Verdict.DEVIATES),
        finding(Verdict.DEVIATES, knob="memory.max"),
        finding(Verdict.DEVIATES, reason=other),
        finding(Verdict.DEVIATES, lost=lost),
        finding(Verdict.DEVIATES, reason=None),
        finding(Verdict.CONFORMS),
    )
    causes = causes_of([result("a", Outcome.DEVIATES, findings=found), result("b", Outcome.CONFORMS)])
    assert [cause.key for cause in causes] == [
        ("memory.high", "memory.high lies between request and limit", ""),
        ("memory.max", "memory.high lies between request and limit", ""),
        ("memory.high", "another rule", ""),
        ("memory.high", "memory.high lies between request and limit", "the daemon"),
        ("memory.high", "values/pod", ""),
    ]


def test_a_case_that_failed_itself_is_a_cause_by_its_reason():
    said = [result(name, Outcome.DEVIATES, reason=why) for name, why in (("a", "one"), ("b", "two"), ("c", "one"))]
    assert [[one.id[-3:] for one in cause.results] for cause in causes_of(said)] == [["[a]", "[c]"], ["[b]"]]


def test_a_long_list_is_cut_with_a_note_unless_all_is_requested():
    knobs = [f"memory.{n}" for n in range(60)]
    many = tuple(result(knob, Outcome.DEVIATES, findings=(finding(Verdict.DEVIATES, knob=knob),)) for knob in knobs)
    bundle = dataclasses.replace(BUNDLE, results=many)
    cut = list(summary.summary_lines(bundle, results_folder="r"))
    whole = list(summary.summary_lines(bundle, results_folder="r", verbosity=1))

    shown = sum(" is max, expected " in line for line in cut)
    assert 0 < shown < 60
    assert f"  … and {60 - shown} more: see bundle.json" in cut
    assert sum(" is max, expected " in line for line in whole) == 60


def test_quiet_prints_failures_and_twice_quiet_the_verdict():
    quiet = list(summary.summary_lines(BUNDLE, results_folder="r", verbosity=-1))
    assert [line for line in quiet if line and not line.startswith(" ")] == [
        verdict_line(BUNDLE), "deviations:", "machinery:", "usage:", verdict_line(BUNDLE),
    ]  # fmt: skip
    assert list(summary.summary_lines(BUNDLE, results_folder="r", verbosity=-2)) == [verdict_line(BUNDLE)]


def test_the_slowest_cases_are_named_if_there_are_enough():
    many = tuple(dataclasses.replace(result(str(n), Outcome.CONFORMS), seconds=float(n)) for n in range(7))
    lines = list(summary.summary_lines(dataclasses.replace(BUNDLE, results=many), results_folder="r"))
    assert lines[lines.index("slowest cases:") + 1] == "      6.0 s  values/test_values.py::test_pod[6]"
    few = summary.summary_lines(dataclasses.replace(BUNDLE, results=many[:5]), results_folder="r")
    assert "slowest cases:" not in list(few)


AGAIN = Attempt(reason="the guest is silent", again="its image had changed", machine="main-0", seconds=2.5)


def test_an_attempt_that_does_not_count_is_in_every_report():
    again = result("again", Outcome.CONFORMS, earlier_attempts=(AGAIN,))
    bundle = dataclasses.replace(BUNDLE, results=(again, result("once", Outcome.CONFORMS)))
    told = "its image had changed; attempt 1 ended in machinery: the guest is silent"
    assert f"  values/test_values.py::test_pod[again]: {told}" in list(
        summary.summary_lines(bundle, results_folder="r")
    )
    document = bundle.to_json()["results"]
    assert document[0]["earlier_attempts"] == [
        {
            "outcome": "machinery",
            "reason": "the guest is silent",
            "again": "its image had changed",
            "machine": "main-0",
            "seconds": 2.5,
        }
    ]
    assert "earlier_attempts" not in document[1]
    assert "its image had changed (the guest is silent)" in markdown(bundle)
    assert 'name="earlier_attempts" value="the guest is silent"' in ci_results.junit_xml(bundle)
    [page, _] = [case_document(one, [], name="", again="") for one in bundle.results]
    assert page["attempts"] == ["its image had changed. Attempt 1: the guest is silent"]


@pytest.mark.parametrize(
    ("phases", "attempts"),
    [
        ([(None, "", ""), (Outcome.CONFORMS, "", "")], []),
        ([(None, "", ""), (None, "gone", "why"), (None, "", "why"), (None, "", ""), (Outcome.CONFORMS, "", "")], [3.0]),
        ([(None, "gone", "why"), (Outcome.MACHINERY, "again", "")], [1.0]),
    ],
)
def test_phases_of_an_attempt_that_does_not_count_become_an_attempt(phases, attempts):
    told = [
        Phase(outcome=outcome, chapter="c", reason=reason, again=again, machine="m", seconds=1.0)
        for outcome, reason, again in phases
    ]
    found = result_of("id", told, seconds=float(len(told)))
    assert found.earlier_attempts == tuple(
        Attempt(reason="gone", again="why", machine="m", seconds=one) for one in attempts
    )


def test_cases_that_took_three_times_their_median_are_named_with_what_they_waited_for():
    took = {
        "3": (134.0, 12.0),
        "1": (12.0, 4.0),
        "2": (30.0, 2.0),
        "little": (4.9, 0.1),
        "less than three times": (50.0, 17.0),
    }
    waits = {
        "3": tuple(Waited(condition=f"{n} happens", seconds=n) for n in (90.0, 20.0, 2.0, 1.0)),
        "1": (Waited(condition="the runtime answers StopContainer", seconds=11.5),),
    }
    several = tuple(
        result(name, Outcome.CONFORMS, seconds=seconds, seconds_before=before, waits=waits.get(name, ()))
        for name, (seconds, before) in took.items()
    )
    known = (*several, result("nothing known", Outcome.CONFORMS, seconds=99.0))
    lines = list(summary.summary_lines(dataclasses.replace(BUNDLE, results=known), results_folder="r"))
    first = lines.index("overdue: three times the median of the last runs on this host:")
    assert lines[first + 1 : first + 9] == [
        "    134.0 s   12.0 s before  values/test_values.py::test_pod[3]",
        "       90.0 s until 90.0 happens",
        "       20.0 s until 20.0 happens",
        "        2.0 s until 2.0 happens",
        "     30.0 s    2.0 s before  values/test_values.py::test_pod[2]",
        "     12.0 s    4.0 s before  values/test_values.py::test_pod[1]",
        "       11.5 s until the runtime answers StopContainer",
        "",
    ]
    many = tuple(result(str(n), Outcome.CONFORMS, seconds=20.0 + n, seconds_before=1.0) for n in range(12))
    lines = list(summary.summary_lines(dataclasses.replace(BUNDLE, results=many), results_folder="r"))
    assert sum("s before" in line for line in lines) == 10


def test_a_result_has_the_longest_waits_of_the_phases_that_count():
    waits = {"a": 0.3, "b": 4.0, "c": 0.2, **{f"d{n}": 1.0 + n for n in range(4)}}
    phases = [
        Phase(outcome=None, chapter="values", again="the machine is gone", waits={"lost": 60.0}),
        Phase(outcome=None, chapter="values", waits={"a": 0.3, "c": 0.2}),
        Phase.from_json(Phase(outcome=Outcome.CONFORMS, chapter="values", waits=waits).to_json()),
    ]
    found = result_of("id", phases, seconds=9.0)
    assert [(one.condition, one.seconds) for one in found.waits] == [
        ("b", 4.0), ("d3", 4.0), ("d2", 3.0), ("d1", 2.0), ("d0", 1.0)
    ]  # fmt: skip
    assert found.to_json()["waits"][0] == {"condition": "b", "seconds": 4.0}
    short = result_of("id", [Phase(outcome=Outcome.CONFORMS, chapter="values", waits={"a": 0.4})], seconds=1.0)
    assert "waits" not in short.to_json()


def test_the_summary_has_the_path_of_the_html_report():
    assert "report: r/report.html" in list(summary.summary_lines(BUNDLE, results_folder="r", report="r/report.html"))


def test_the_verdict_counts_untried_and_missing_cases_separately():
    results = (result("1", Outcome.MACHINERY), *(result(str(n), Outcome.MACHINERY, untried=True) for n in (2, 3)))
    bundle = dataclasses.replace(BUNDLE, results=results, exit_code=3, not_run=4)
    assert verdict_line(bundle) == (
        "verdict: machinery failed; this says nothing about the system under test (0 cases observed, 0 deviate, "
        "2 given up without an attempt, 4 not run; 0 findings about containerd+crun, 0 deviate)"
    )


@pytest.mark.parametrize("code", list(ExitCode))
def test_every_exit_code_has_a_verdict(code):
    assert verdict_line(dataclasses.replace(BUNDLE, exit_code=int(code))).startswith("verdict: ")


def test_junit_has_the_runtime_and_driver_of_a_case():
    one = dataclasses.replace(result("one", Outcome.CONFORMS), runtime="oci:crun", driver="cgroupfs")
    text = ci_results.junit_xml(dataclasses.replace(BUNDLE, results=(one,)))
    assert '<property name="runtime" value="oci:crun" />' in text
    assert '<property name="driver" value="cgroupfs" />' in text


def test_the_command_that_repeats_a_case_names_all_runtimes_and_drivers():
    settings = {
        "runtime": {"value": ["containerd+runc", "oci:crun"], "origin": "--runtime"},
        "driver": {"value": ["systemd", "cgroupfs"], "origin": "MEMQOS_DRIVER"},
    }
    command = again(dataclasses.replace(BUNDLE, settings=settings), result("one", Outcome.DEVIATES))
    assert command.startswith("memqos run --runtime containerd+runc,oci:crun --driver systemd,cgroupfs 'values/")


def test_without_a_rule_equal_expectations_in_a_chapter_are_one_cause():
    def wrong(name, expected, **changes):
        found = finding(Verdict.DEVIATES, knob="cgroup", expected=expected, observed="none", reason=None)
        return result(name, Outcome.DEVIATES, claim=f"values/{name}", findings=(found,), **changes)

    cases = [wrong("a", "there"), wrong("b", "there"), wrong("c", "at least 4096"), wrong("d", "at least 4096"),
             wrong("e", "there", chapter="swap")]  # fmt: skip

    assert [[case.claim for case in cause.results] for cause in causes_of(cases)] == [
        ["values/a", "values/b"], ["values/c"], ["values/d"], ["values/e"]
    ]  # fmt: skip


def test_a_machine_on_another_host_has_the_hosts_name_and_address():
    host = {"address": "root@10.0.0.7", "name": "node1", "cpus": 8}

    line = summary.machine_line({"id": "gw0-0", "profile": "local://", "topology": "", "kernel": "6.1", "host": host})

    assert line == "gw0-0 (local:// on node1 (root@10.0.0.7)): kernel 6.1"
    assert summary.machine_line({"id": "gw0-0", "profile": "trixie", "host": "damaged"}) == "gw0-0 (trixie/?): "


def test_an_odd_host_name_begins_no_line():
    """Text at the beginning of a line of a job's log may be a command to the service."""
    odd = result("one", Outcome.DEVIATES, host="node\n::error::x\x1b[31m")

    lines = list(summary.summary_lines(dataclasses.replace(BUNDLE, results=(odd,)), results_folder="r"))

    assert "    host     node ::error::x\\x1b[31m" in lines
