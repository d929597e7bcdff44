"""The report is one file that needs nothing else, says what the results say, and runs nothing that a guest said."""

import base64
import dataclasses
import hashlib
import json
import re

import pytest

from memqos.bundles.reading import read_results
from memqos.page import building
from memqos.page.building import columns_of, overview, page_html, release_of
from memqos.report.bundle import Results
from memqos.report.outcome import Outcome
from tests.recorded import TRIXIE, copied, deviating
from tests.unit.page.reading import Page
from tests.unit.report.sample import BUNDLE, result

EVIL = "<script>alert(1)</script></script><img src=x onerror=alert(2)>\" ' & \x00 \u2028 ]]> -->"


@pytest.fixture(scope="module")
def recorded():
    return Page(page_html(read_results(TRIXIE)))


def test_it_asks_for_nothing_from_outside(recorded):
    asking = {"src", "srcset", "action", "data", "poster", "style"}
    outward = [
        (tag, name) for tag, attributes in recorded.elements for name, value in attributes.items()
        if name in asking or (name == "href" and not value.startswith("#"))
    ]  # fmt: skip

    assert outward == []
    assert not {tag for tag, _ in recorded.elements} & {"link", "img", "iframe", "object", "embed", "base"}


def test_its_policy_lets_run_its_own_programs_alone(recorded):
    (policy,) = (
        attributes["content"] for tag, attributes in recorded.elements
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )  # fmt: skip
    allowed = set(re.findall(r"'sha256-([^']+)'", policy))
    run = {
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for attributes, text in recorded.scripts if attributes.get("type") != "text/plain"
    }  # fmt: skip

    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert allowed == run
    assert len(run) == 7


def test_no_program_of_it_makes_markup_of_text():
    for name in building.SCRIPTS:
        if "vendored" not in name:
            source = building.page_source(name)
            assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", source), (
                name
            )


def test_no_source_ends_the_element_that_it_stands_in():
    for name in building.SCRIPTS:
        assert not re.search(r"</script|<!--", building.page_source(name), re.IGNORECASE), name
    for name in building.STYLES:
        assert "</style" not in building.page_source(name).lower(), name


def test_the_overview_says_verdict_machines_settings_and_chapters(recorded):
    for text in ("conforms", "4 cases observed, 0 deviate", "runc 1.1.15+ds1", "tcg", "10.0.2", "--results",
                 "e1dfba0f92f554cf44e8967b2a37a55fb26fcdacbd596be89ee777ff3f281aae", "under test"):  # fmt: skip
        assert text in recorded.text, text


def test_what_was_not_observable_is_told_by_reason(tmp_path):
    def change(case):
        if not case["id"].startswith("values"):
            case.update(
                outcome="not observable", reason="no such zone" if "numa" in case["id"] else "the kernel is old"
            )

    reasons = overview(read_results(copied(tmp_path / "few", change=change)))["reasons"]

    first = "throttling/test_throttling.py::test_crossing_memory_high_throttles_and_does_not_kill[v1.37-tiered]"
    last = "numa/test_numa.py::test_anonymous_memory_is_on_the_zone_of_cpuset_mems[v1.37-tiered-last]"
    assert reasons == [("Not observable", 3, [("the kernel is old", 2, 1, first), ("no such zone", 1, 0, last)])]


def test_cases_of_several_hosts_say_which_was_whose(tmp_path):
    hosts = iter(("root@node1", "root@node2", "root@node2", "root@node2"))
    folder = copied(tmp_path / "two", change=lambda case: case.update(host=next(hosts)))

    page = Page(page_html(read_results(folder)))

    assert [case["host"] for case in page.data("index")["cases"]] == ["root@node1", *["root@node2"] * 3]
    rows = re.findall(r"root@node(\d)(\d)(\d)", page.text[page.text.index("Hosts") :])
    assert rows == [("1", "1", "0"), ("2", "3", "0")]  # host, cases that conform, and that deviate
    assert "Hosts" not in Page(page_html(read_results(TRIXIE))).text


def test_each_case_has_claim_findings_with_reasons_and_evidence(recorded):
    index = recorded.data("index")
    case = next(one for one in index["cases"] if "crossing" in one["id"])
    told = recorded.data("findings-0")
    mine = told["cases"][index["cases"].index(case)]["findings"]
    high = next(one for one in mine if one["knob"] == "memory.high" and one["expected"] == "62074880")
    reason = told["reasons"][high["reason"]]

    assert index["claims"][case["claim"]]["sentence"].startswith("A container that uses more than memory.high")
    assert "memqos" not in reason["source"]
    assert any(one["origin"].endswith("over-limit.yaml:14") or ":" in one["origin"] for one in reason["inputs"])
    evidence = recorded.data(case["evidence"])
    assert {"tree", "requests", "charts", "files", "folder"} <= set(evidence)
    assert index["columns"][case["column"]] == {
        "name": "v1.37", "profile": "trixie", "runtime": "containerd+runc", "driver": "systemd", "release": "1.37"
    }  # fmt: skip


def test_many_cases_with_one_thing_wrong_are_one_deviation(tmp_path):
    folder = copied(tmp_path / "out", change=deviating)
    lines = (folder / "findings.jsonl").read_text().splitlines()
    wrong = next(json.loads(line) for line in lines if '"deviates"' in line)
    more = [json.dumps(wrong | {"id": f"{wrong['id']}-{number}"}) for number in range(8)]
    (folder / "findings.jsonl").write_text("\n".join([*lines, *more]) + "\n")

    [(title, [cause], more)] = overview(read_results(folder))["causes"]

    assert (title, more) == ("Deviations", 0)
    assert (cause["knob"], cause["expected"], cause["observed"]) == ("memory.high", "62074880 (59.2 MiB)", "max")
    assert cause["subject"].startswith("container app of pod default/")
    assert cause["counted"] == "9 findings in 9 cases"
    assert [number for number, _ in cause["cases"]] == [1, 4, 5, 6, 7, 8, 9, 10, 11]
    text = page_html(read_results(folder))
    assert "and 3 more cases" in text
    assert text.count("9 findings in 9 cases") == 1
    [(_, alone, _)] = overview(read_results(copied(tmp_path / "one", change=deviating)))["causes"]
    assert [one["counted"] for one in alone] == [""]


def test_errors_stand_on_the_overview_beside_deviations(tmp_path):
    results = Results(folder=tmp_path, bundle=BUNDLE)

    titles = {title: [cause["subject"] for cause in causes] for title, causes, _ in overview(results)["causes"]}

    assert list(titles) == ["Deviations", "Errors"]
    assert all(titles["Errors"])


def test_counts_have_columns_for_what_there_is_alone():
    tables = {table["title"]: table for table in overview(read_results(TRIXIE))["tables"]}

    assert [name for _, name in tables["Chapters"]["columns"]] == ["conforms", "deviates"]
    assert tables["Chapters"]["rows"][-1][:2] == ("all", [4, 0])
    assert "Systems" not in tables


def test_systems_are_counted_beside_each_other_where_there_are_several(tmp_path):
    of = {"runtime": "containerd+runc", "driver": "systemd"}
    cases = (
        result("a", Outcome.CONFORMS, profile="trixie", **of),
        result("a", Outcome.DEVIATES, profile="forky", **of),
        result("b", Outcome.CONFORMS, profile="forky", **of),
    )
    bundle = dataclasses.replace(BUNDLE, results=cases)

    tables = {table["title"]: table for table in overview(Results(folder=tmp_path, bundle=bundle))["tables"]}

    assert [row[:2] for row in tables["Systems"]["rows"]] == [
        ("trixie containerd+runc systemd", [1, 0]), ("forky containerd+runc systemd", [1, 1]), ("all", [2, 1])
    ]  # fmt: skip


def test_the_bar_has_a_part_for_what_was_not_run(tmp_path):
    cases = (result("a", Outcome.CONFORMS), result("b", Outcome.DEVIATES))
    bundle = dataclasses.replace(BUNDLE, results=cases, not_run=2)

    assert overview(Results(folder=tmp_path, bundle=bundle))["shares"] == [
        (0, "conforms", 1, 0.0, 25.0), (1, "deviates", 1, 25.0, 25.0), (6, "not run", 2, 50.0, 50.0)
    ]  # fmt: skip


def test_a_deviation_leads_to_its_case_and_says_how_it_is_run_again(tmp_path):
    page = Page(page_html(read_results(copied(tmp_path / "out", change=deviating))))
    number, case = next((n, one) for n, one in enumerate(page.data("index")["cases"]) if "crossing" in one["id"])

    assert ("a", {"href": f"#case-{number}"}) in page.elements
    assert "observed max" in " ".join(page.text.split())
    assert case["again"].startswith("memqos run 'throttling/test_throttling.py::test_crossing_memory_high")


def test_what_is_missing_is_said(tmp_path):
    page = Page(page_html(read_results(copied(tmp_path / "killed", killed=True))))

    assert "What is missing" in page.text
    assert "No complete bundle.json" in page.text


def test_nothing_that_a_guest_said_becomes_markup(tmp_path):
    changed = {
        "id": EVIL,
        "claim": EVIL,
        "chapter": EVIL,
        "reason": EVIL,
        "text": EVIL,
        "machine": EVIL,
        "profile": EVIL,
    }
    evil = tuple(dataclasses.replace(one, **changed) for one in BUNDLE.results)
    bundle = dataclasses.replace(
        BUNDLE, results=evil, error=EVIL, versions={EVIL: EVIL}, host={EVIL: EVIL}, known_gone=(EVIL,), started=EVIL,
        settings={EVIL: {"value": EVIL, "origin": EVIL}},
        machines=({"id": EVIL, EVIL: {str(n): EVIL for n in range(20)}},),
        claims={EVIL: {"sentence": EVIL, "source": EVIL, "kind": "state", "about": "runtime"}},
    )  # fmt: skip

    evil_page = Page(page_html(Results(folder=tmp_path / "<script>alert(3)", bundle=bundle, missing=(EVIL,))))
    plain_page = Page(page_html(Results(folder=tmp_path, bundle=BUNDLE)))

    assert [attributes for tag, attributes in evil_page.elements if tag == "script" and "type" not in attributes] == [
        {}
    ] * 5
    assert not [
        tag
        for tag, attributes in evil_page.elements
        if tag == "img" or any(name.startswith("on") for name in attributes)
    ]
    plain = {tag for tag, _ in plain_page.elements} | {"div", "details", "summary", "h2", "pre"}
    assert {tag for tag, _ in evil_page.elements} - plain == set()
    assert evil_page.data("index")["cases"][0]["id"] == EVIL


def test_the_same_results_make_the_same_file():
    assert page_html(read_results(TRIXIE)) == page_html(read_results(TRIXIE))


def test_of_more_evidence_than_there_is_room_for_that_of_deviations_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(building, "EVIDENCE_BYTES", 1)

    page = Page(page_html(read_results(copied(tmp_path / "out", change=deviating))))

    kept = {case["outcome"] for case in page.data("index")["cases"] if case["evidence"]}
    assert kept == {1}


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("v1.36-tiered-best-effort", "1.36"),
        ("v1.22", "1.22"),
        ("trixie-oci:runc-v1.37-tiered", "1.37"),
        ("update-all", ""),
    ],
)
def test_the_release_of_a_case_is_that_of_its_kubelet(name, release):
    assert release_of(result(name, Outcome.CONFORMS)) == release


def test_columns_are_named_by_what_tells_them_apart():
    cases = [
        result("v1.36-a", Outcome.CONFORMS, profile="trixie", runtime="containerd+runc", driver="systemd"),
        result("v1.36-a", Outcome.CONFORMS, profile="trixie", runtime="oci:runc", driver="systemd"),
        result("plain", Outcome.CONFORMS, profile="trixie", runtime="oci:runc", driver="systemd"),
        result("plain", Outcome.CONFORMS),
    ]

    later = result("v1.37-a", Outcome.CONFORMS, profile="trixie", runtime="oci:runc", driver="systemd")

    assert list(columns_of(cases).values()) == ["containerd+runc", "oci:runc", "oci:runc"]
    assert list(columns_of([*cases, later]).values()) == [
        "containerd+runc", "oci:runc any release", "oci:runc v1.36", "oci:runc v1.37"
    ]  # fmt: skip
    assert list(columns_of(cases[:1]).values()) == ["trixie containerd+runc"]
    mixed = [result(f"v{release}-a", Outcome.CONFORMS) for release in ("1.37", "1.9", "1.22")]
    assert list(columns_of(mixed).values()) == ["v1.9", "v1.22", "v1.37"]
    assert columns_of(cases[3:]) == {}
