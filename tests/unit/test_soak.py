"""What a soak counts, of made-up results."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.soak import __main__ as soak
from tests.soak.counting import Counts, by_chapter, outcomes, summary, table


def test_the_outcomes_of_a_run_are_those_of_its_bundle(tmp_path):
    cases = [{"id": "node/a", "outcome": "conforms"}, {"id": "node/b", "outcome": "deviates"}]
    (tmp_path / "bundle.json").write_text(json.dumps({"results": cases}))

    assert list(outcomes(tmp_path)) == [("node/a", "conforms"), ("node/b", "deviates")]
    assert not list(outcomes(tmp_path / "elsewhere"))


def test_a_case_that_ended_in_two_ways_is_marked_with_both_counts():
    counts = {"b": Counter(conforms=98, deviates=2), "a": Counter(conforms=100)}

    assert table(counts) == "  a: 100 conforms\n! b: 98 conforms, 2 deviates"


def test_a_case_that_ends_badly_each_time_is_marked_too():
    assert table({"a": Counter(deviates=3), "b": Counter(machinery=3)}) == "! a: 3 deviates\n! b: 3 machinery"
    assert table({"a": Counter({"not observable": 3}), "b": Counter(known=3)}) == "  a: 3 not observable\n  b: 3 known"


@pytest.fixture
def carried_out(tmp_path, monkeypatch):
    """What a soak of one run says and returns, and the folder of its results, by what the run ended in."""

    def carry_out(*outcomes, times=1, at_once=1):
        def run(command, *, check, stdout=None, stderr=None):
            folder = Path(command[command.index("--results") + 1])
            folder.mkdir(parents=True)  # as a run, which takes no folder with something in it but a run's
            if outcomes:
                cases = [{"id": str(number), "outcome": outcome} for number, outcome in enumerate(outcomes)]
                (folder / "bundle.json").write_text(json.dumps({"results": cases}))

        monkeypatch.setattr(soak.subprocess, "run", run)
        words = ["--times", str(times), "--at-once", str(at_once), "--results", str(tmp_path / "soak")]
        return soak.main(words), [*(tmp_path / "soak").iterdir()]

    return carry_out


def test_a_run_in_which_all_is_explained_leaves_no_results(carried_out, capsys):
    assert carried_out("conforms", "not observable", "known") == (0, [])
    assert "run 1 of 1: 3 cases, all explained\n" in capsys.readouterr().out


@pytest.mark.parametrize("outcomes", [("conforms", "deviates"), ("machinery",), ("usage", "conforms"), ()])
def test_a_run_with_something_to_explain_leaves_its_results(carried_out, capsys, outcomes):
    code, [folder] = carried_out(*outcomes)

    assert code == 1
    assert f"run 1 of 1: {len(outcomes)} cases, see {folder}\n" in capsys.readouterr().out


def test_a_case_that_ends_otherwise_than_in_earlier_soaks_leaves_the_results_of_its_run(
    carried_out, tmp_path, monkeypatch
):
    earlier = tmp_path / "earlier.json"
    Counts(earlier).add("trixie containerd+runc quiet", [("0", "conforms"), ("0", "conforms")])
    before = earlier.read_text()
    monkeypatch.setattr(soak, "PUBLISHED", earlier)

    assert carried_out("conforms") == (0, [])
    code, [_] = carried_out("not observable")
    assert code == 0
    assert earlier.read_text() == before


@pytest.mark.parametrize(
    ("words", "system", "asked"),
    [
        ([], "trixie containerd+runc quiet", []),
        (
            ["--topology", "four-numa-nodes", "--runtime", "oci:crun", "--busy", "2"],
            "trixie/four-numa-nodes oci:crun beside 2 busy programs",
            ["--topology", "four-numa-nodes"],
        ),
    ],
)
def test_what_was_counted_on_another_topology_is_counted_apart(words, system, asked):
    given = soak.parser().parse_args(words)

    command = soak.command_of(given)
    begins = command.index("--topology") if "--topology" in command else len(command)
    assert (soak.system_of(given), command[begins : begins + 2]) == (system, asked)


def test_runs_at_once_are_counted_apart_and_say_what_they_say_to_a_file(carried_out, capsys):
    code, found = carried_out("deviates", times=3, at_once=2)

    assert code == 1
    assert sorted("Z" + one.name.split("Z")[1] for one in found) == [
        "Z-1",
        "Z-1.log",
        "Z-2",
        "Z-2.log",
        "Z-3",
        "Z-3.log",
    ]
    assert "trixie containerd+runc 2 runs at once: 1 cases, 3 times each: 3 deviates" in capsys.readouterr().out


def test_runs_at_once_leave_nothing_where_all_is_explained(carried_out):
    assert carried_out("conforms", times=3, at_once=2) == (0, [])


def test_counts_are_added_up_from_one_soak_to_the_next_by_system(tmp_path):
    file = tmp_path / "soak.json"
    for system, outcome in (("quiet", "conforms"), ("quiet", "deviates"), ("busy", "conforms")):
        Counts(file).add(system, [("a", outcome), ("b", "conforms")])

    kept = Counts(file).by_system
    assert kept == {
        "quiet": {"a": Counter(conforms=1, deviates=1), "b": Counter(conforms=2)},
        "busy": {"a": Counter(conforms=1), "b": Counter(conforms=1)},
    }
    assert summary(kept["quiet"]) == "2 cases, 2 times each: 3 conforms, 1 deviates"
    assert list(tmp_path.iterdir()) == [file]


def test_a_summary_tells_how_often_the_rarest_case_was_carried_out():
    assert summary({"a": Counter(conforms=3), "b": Counter(conforms=1)}) == "2 cases, 1 to 3 times each: 4 conforms"


def test_each_chapter_is_summed_up_by_itself():
    counts = {"swap/b": Counter(known=2), "node/a": Counter(conforms=3), "swap/a": Counter(conforms=1, machinery=1)}

    assert {chapter: summary(cases) for chapter, cases in by_chapter(counts).items()} == {
        "node": "1 cases, 3 times each: 3 conforms",
        "swap": "2 cases, 2 times each: 2 known, 1 conforms, 1 machinery",
    }


@pytest.mark.parametrize(
    ("outcome", "usual"), [("conforms", True), ("not observable", False), ("deviates", False), ("machinery", False)]
)
def test_a_case_that_ends_otherwise_than_it_mostly_does_is_not_as_usual(outcome, usual):
    counts = Counts(None)
    counts.add("quiet", [("a", "conforms"), ("a", "conforms"), ("a", outcome)])

    assert counts.is_usual("quiet", "a", outcome) is usual


def test_a_case_that_mostly_deviates_is_not_as_usual_either():
    counts = Counts(None)
    counts.add("quiet", [("a", "deviates"), ("b", "not observable")])

    assert not counts.is_usual("quiet", "a", "deviates")
    assert counts.is_usual("quiet", "b", "not observable")


def test_counts_that_are_kept_nowhere_leave_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    counts = Counts(None)
    counts.add("quiet", [("a", "conforms")])

    assert counts.by_system == {"quiet": {"a": Counter(conforms=1)}}
    assert not list(tmp_path.iterdir())


def test_rounds_of_a_case_are_counted_as_one(tmp_path):
    cases = [
        {"id": "limits/a[v1.37-default-round1]", "outcome": "conforms"},
        {"id": "limits/a[v1.37-default-round12]", "outcome": "deviates"},
        {"id": "limits/b[round2]", "outcome": "conforms"},
    ]
    (tmp_path / "bundle.json").write_text(json.dumps({"results": cases}))

    assert list(outcomes(tmp_path)) == [
        ("limits/a[v1.37-default]", "conforms"), ("limits/a[v1.37-default]", "deviates"), ("limits/b", "conforms"),
    ]  # fmt: skip


def carried_out_in_rounds(folder, text):
    """What pytest says of three rounds of these cases."""
    file = folder / "test_cases.py"
    file.write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "tests.soak.rounds", "--rounds", "3", "-qs", "-c", "/dev/null"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([*command, file], env=environment, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_each_case_is_carried_out_as_often_as_rounds_are_asked_for(tmp_path):
    two = "import pytest\n\n@pytest.mark.parametrize('one', [1, 2])\ndef test_a(one): pass\n"

    assert "6 passed" in carried_out_in_rounds(tmp_path, two)


SCENES = """
import pytest

made = []

@pytest.fixture(scope="module", params=["old", "new"])
def kubelet(request):
    return request.param

@pytest.fixture(scope="module")
def scene(kubelet):
    made.append(kubelet)

@pytest.mark.parametrize("one", [1, 2])
def test_a(scene, one): pass

def test_b(scene): pass

@pytest.fixture(scope="session", autouse=True)
def told():
    yield
    print("made", sorted(made))
"""


def test_what_several_cases_look_at_happens_once_a_round(tmp_path):
    told = carried_out_in_rounds(tmp_path, SCENES)

    assert "18 passed" in told
    assert "made ['new', 'new', 'new', 'old', 'old', 'old']" in told
