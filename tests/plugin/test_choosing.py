"""Claims that a run of whole suites leaves out, the note on them, and that named ones always run."""

import json
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SUITES = Path(__file__).parents[2] / "suites"

CLAIMS = """
[more]
sentence = "Something holds that takes long to show."
source = "nowhere"
releases = "any"
kind = "state"
about = "runtime"
default = false
"""

CASES = """
@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("case", ["a", "b"])
def test_one(case, qos_evidence):
    qos_evidence.settle(finding("conforms"))

@pytest.mark.claim("demo/more")
def test_more(qos_evidence):
    qos_evidence.settle(finding("conforms"))
"""


@pytest.fixture
def cases(pytester, suite):
    suite(CASES)
    with (pytester.path / "suites/demo/claims.toml").open("a") as claims:
        claims.write(CLAIMS)


def ran(pytester):
    written = json.loads((pytester.path / "out/bundle.json").read_text())
    return sorted(entry["id"].partition("::")[2] for entry in written["results"]), written["counts"]["left_out"]


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_claim_outside_the_default_is_left_out_and_reported(cases, run, pytester, arguments):
    result = run(*arguments)

    assert result.ret == 0
    assert ran(pytester) == (["test_one[a]", "test_one[b]"], {"claims": 1, "cases": 1})
    result.stdout.fnmatch_lines(["skipped by the default run: 1 claim, 1 case; --all runs them"])


@pytest.mark.parametrize(
    "arguments",
    [("--memqos-all",), ("-k", "one or more"), ("suites/demo",), ("suites/demo/test_demo.py::test_more",)],
    ids=["all", "keyword", "chapter", "test"],
)
def test_a_named_claim_is_not_left_out(cases, run, pytester, arguments):
    result = run(*arguments)

    assert result.ret == 0
    names, left = ran(pytester)
    assert "test_more" in names
    assert left == {"claims": 0, "cases": 0}
    result.stdout.no_fnmatch_line("left out*")


def listed(pytester, *arguments):
    result = pytester.runpytest_subprocess(str(SUITES), "--collect-only", "-q", *arguments)
    assert result.ret == 0
    return {line.partition("::")[2] for line in result.outlines if "::" in line}


def test_of_memqos_own_suites_some_kubelets_are_left_out_unless_a_test_names_them(pytester):
    default = listed(pytester)

    assert "test_node_holds_what_is_allocatable_and_reserved[v1.36-tiered]" in default
    assert "test_node_holds_what_is_allocatable_and_reserved[v1.22]" not in default
    assert "test_crossing_memory_high_throttles_and_does_not_kill[v1.37-tiered]" in default
    assert "test_crossing_memory_high_throttles_and_does_not_kill[v1.22]" not in default
    assert "test_without_memory_high_nothing_is_throttled[v1.37-default]" in default
    assert {name for name in default if name.startswith("test_both_tiers_are_kept")} == {
        "test_both_tiers_are_kept_while_unprotected_memory_is_left[v1.36-tiered]"
    }
    assert {name for name in default if name.startswith("test_memory_is_resized")} == {
        "test_memory_is_resized_step_by_step[v1.36-tiered-shifted]"
    }
    everything = listed(pytester, "--memqos-all")
    assert "test_node_holds_what_is_allocatable_and_reserved[v1.22]" in everything
    assert "test_both_tiers_are_kept_while_unprotected_memory_is_left[v1.37-tiered]" in everything


def test_a_requested_release_is_not_left_out(pytester):
    names = listed(pytester, "--memqos-kubernetes=1.22")

    assert "test_node_holds_what_is_allocatable_and_reserved[v1.22]" in names
