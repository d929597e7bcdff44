"""The results of a run: findings on arrival, bundle, JUnit, with xdist, after an interrupt."""

import json
import xml.etree.ElementTree as ET

import pytest

from memqos.bundles.files import verify

pytest_plugins = ["pytester"]

MANY = """
@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("verdict", ["conforms", "deviates", "not observable"])
@pytest.mark.parametrize("number", range(3))
def test_it(qos_evidence, verdict, number):
    qos_evidence.attach("number.json", {"number": number})
    qos_evidence.settle(finding(verdict, why_not="missing"))
"""


def bundle(pytester):
    return json.loads((pytester.path / "out/bundle.json").read_text())


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_bundle_junit_and_evidence_are_the_same_with_and_without_xdist(suite, run, pytester, arguments):
    suite(MANY)

    result = run(*arguments)

    assert result.ret == 1
    written = bundle(pytester)
    assert written["counts"]["tests"] == {
        "conforms": 3, "deviates": 3, "known": 0, "not observable": 3, "machinery": 0, "usage": 0
    }  # fmt: skip
    assert written["counts"]["findings"] == {"conforms": 3, "deviates": 3, "known": 0, "not observable": 3}
    assert written["exit_code"] == 1
    assert len((pytester.path / "out/findings.jsonl").read_text().splitlines()) == 9
    root = ET.fromstring((pytester.path / "out/junit_01.xml").read_text())  # noqa: S314 - it is our own
    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == ("9", "3", "0", "3")
    folders = {entry["folder"] for entry in written["results"]}
    assert len(folders) == 9
    assert all((pytester.path / "out" / folder / "number.json").exists() for folder in folders)


def test_summary_names_each_deviation_its_results_and_the_command_to_repeat_it(suite, run):
    suite(MANY)

    result = run("-k", "deviates and 0", "--memqos-runtime=crun")

    result.stdout.fnmatch_lines(
        [
            "demo * 0 *1 *",
            "deviations:",
            "  memory.high of container app of pod default/web is max, expected 4096",
            "    case     demo/test_demo.py::test_it?0-deviates?",
            "*rerun: memqos run --runtime containerd+crun 'demo/test_demo.py::test_it?0-deviates?'",
            "results: out",
            "verdict: deviates (1 case observed, 1 deviate; 1 finding about the runtime under test, 1 deviate)",
        ]
    )


@pytest.mark.parametrize("arguments", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_suites_need_no_configuration_of_their_own(suite, run, pytester, arguments):
    suite(MANY)
    (pytester.path / "suites/pytest.ini").unlink()

    result = run(*arguments, "-p", "no:cacheprovider")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["memqos *: machine trixie/two-numa-nodes*", "verdict: deviates (6 cases observed*"])
    assert bundle(pytester)["counts"]["not_run"] == 0


def test_an_interrupt_is_recorded_in_the_bundle(suite, run_apart, pytester):
    suite(
        """
        @pytest.mark.claim("demo/one")
        @pytest.mark.parametrize("number", range(5))
        def test_it(qos_evidence, number):
            if number == 2:
                raise KeyboardInterrupt
            qos_evidence.settle(finding("conforms"))
        """
    )

    result = run_apart()

    assert result.ret == 2
    written = bundle(pytester)
    assert written["interrupted"] is True
    assert written["exit_code"] == 2
    assert written["counts"]["not_run"] == 3
    assert len(written["results"]) == 2
    assert (pytester.path / "out/junit_01.xml").exists()
    assert json.loads((pytester.path / "out/started.json").read_text())["timestamp"] > 1700000000
    assert "result" in json.loads((pytester.path / "out/finished.json").read_text())


def test_a_deviation_seen_before_an_interrupt_decides(suite, run_apart):
    suite(
        """
        @pytest.mark.claim("demo/one")
        def test_deviates(qos_evidence):
            qos_evidence.settle(finding("deviates"))

        @pytest.mark.claim("demo/one")
        def test_interrupted(qos_evidence):
            raise KeyboardInterrupt
        """
    )

    assert run_apart().ret == 1


def test_findings_are_on_disk_before_the_run_ends(suite, run_apart, pytester):
    suite(
        """
        import os

        @pytest.mark.claim("demo/one")
        @pytest.mark.parametrize("number", range(3))
        def test_it(qos_evidence, number):
            if number == 2:
                os._exit(9)
            qos_evidence.settle(finding("conforms"))
        """
    )

    run_apart()

    lines = (pytester.path / "out/findings.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [
        "demo/test_demo.py::test_it[0]",
        "demo/test_demo.py::test_it[1]",
    ]


def test_a_run_ends_with_its_report_its_hashes_and_a_summary_for_the_ci_system(suite, run, pytester, monkeypatch):
    suite(MANY)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    (pytester.path / "summary.md").write_text("# Job\n")

    run()

    out = pytester.path / "out"
    assert "test_it[0-deviates]" in (out / "report.html").read_text()
    found = verify(out)
    assert found.is_whole
    assert found.checked == sum(path.is_file() for path in out.rglob("*")) - 1
    summary = (pytester.path / "summary.md").read_text()
    assert summary.startswith("# Job\n## ❌ memqos out: deviates\n")
    claims = bundle(pytester)["claims"]
    assert claims["demo/one"]["sentence"] == "One thing holds."


def test_an_unwritable_summary_changes_nothing(suite, run, pytester, monkeypatch):
    suite(MANY)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path))

    assert run("-k", "conforms").ret == 0


def test_a_run_prints_its_plan_before_its_first_case(suite, run, pytester):
    suite(MANY)

    run()

    written = json.loads((pytester.path / "out/run.json").read_text())
    assert written["schema"] == "memqos-bundle/3"
    assert written["settings"] == bundle(pytester)["settings"]


def test_results_of_an_earlier_run_are_replaced(suite, run, pytester):
    suite(MANY)
    run()

    run("-k", "conforms and 1")

    assert len(bundle(pytester)["results"]) == 1
    assert len((pytester.path / "out/findings.jsonl").read_text().splitlines()) == 1
    assert len(list((pytester.path / "out/tests").iterdir())) == 1


def test_a_folder_with_something_else_in_it_is_refused(suite, run, pytester):
    suite(MANY)
    (pytester.path / "out").mkdir()
    (pytester.path / "out/thesis.tex").write_text("years of work")

    result = run()

    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: *'*out' contains 'thesis.tex'*"])
    assert (pytester.path / "out/thesis.tex").read_text() == "years of work"


def test_a_worker_that_dies_is_machinery_of_the_case_that_it_ran(suite, run, pytester):
    suite(
        """
        import os

        @pytest.mark.claim("demo/one")
        @pytest.mark.xdist_group("same")
        @pytest.mark.parametrize("number", range(4))
        def test_it(qos_evidence, number):
            if number == 1:
                os._exit(9)
            qos_evidence.settle(finding("conforms"))
        """
    )

    result = run("-n", "1")

    assert result.ret == 3
    written = bundle(pytester)
    assert [entry["outcome"] for entry in written["results"]] == ["conforms", "machinery", "conforms", "conforms"]
    assert written["counts"]["not_run"] == 0


KILLED = """
import os

@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("number", range(4))
def test_it(qos_evidence, number):
    if number == 2:
        os.kill(os.getpid(), 9)
    qos_evidence.settle(finding("conforms"))
"""


def test_a_killed_run_has_its_number_of_cases_and_the_started_ones(suite, run_apart, pytester):
    suite(KILLED)

    run_apart("--memqos-shard=1/1")

    begun = (pytester.path / "out/begun.txt").read_text()
    assert begun == "".join(f"demo/test_demo.py::test_it[{number}]\n" for number in range(3))
    told = json.loads((pytester.path / "out/run.json").read_text())
    assert (told["cases"], told["shard"]["number"], told["shard"]["of"]) == (4, 1, 1)


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_finished_run_removes_its_record_of_started_cases(suite, run, pytester, arguments):
    suite(MANY)

    run(*arguments)

    assert json.loads((pytester.path / "out/run.json").read_text())["cases"] == 9
    assert not (pytester.path / "out/begun.txt").exists()
