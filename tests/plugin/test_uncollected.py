"""Tests that cannot be collected or selected: whose fault it is, and what the bundle says."""

import pytest

from tests.plugin.test_ending import CONFORMS, bundle, junit_errors

pytest_plugins = ["pytester"]


@pytest.fixture
def run(run_apart):
    """How a process ends, seen from outside."""
    return run_apart


@pytest.mark.parametrize("words", [(), ("--continue-on-collection-errors",)], ids=["", "continuing"])
@pytest.mark.parametrize("arguments", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_a_file_that_cannot_be_collected_is_its_writers_to_mend(suite, run, pytester, words, arguments):
    suite(CONFORMS)
    suite("import no_such_module", name="broken")

    result = run(*words, *arguments)

    assert result.ret == 4
    assert bundle(pytester)["exit_code"] == 4
    assert "No module named 'no_such_module'" in bundle(pytester)["error"]


def test_one_reason_of_many_files_is_printed_once(suite, run, pytester):
    for name in ("broken", "broken_too", "broken_again"):
        suite("import no_such_module", name=name)
    suite("import another_module", name="other")

    result = run()

    *files, other = sorted(bundle(pytester)["error"].splitlines(), key=len, reverse=True)
    assert len(files) == 1
    assert " and 2 more: the tests cannot be collected: ModuleNotFoundError" in files[0]
    assert "demo/test_other.py: the tests" in other
    assert "No module named 'another_module'" in other
    printed = result.stdout.str()
    assert printed.count("E   ModuleNotFoundError: No module named 'no_such_module'") == 1
    assert "(the last line is the same in " in printed


@pytest.mark.parametrize("words", [("-k", "a b c"), ("--memqos-nonsense",)], ids=["expression", "option"])
def test_a_wrong_option_of_pytests_is_4(suite, run, words):
    suite(CONFORMS)

    assert run(*words).ret == 4


def test_a_wrong_expression_leaves_a_bundle_with_the_error(suite, run, pytester):
    suite(CONFORMS)

    run("-k", "a b c")

    assert bundle(pytester)["exit_code"] == 4
    assert "Wrong expression" in bundle(pytester)["error"]
    assert "Wrong expression" in junit_errors(pytester)[0].text


def test_nothing_selected_has_a_verdict_bundle_and_junit(suite, run, pytester):
    suite(CONFORMS)

    result = run("-k", "no_such_name")

    assert result.ret == 5
    result.stdout.fnmatch_lines(["verdict: nothing was observed (0 cases observed*"])
    assert bundle(pytester)["exit_code"] == 5
    assert (pytester.path / "out/junit_01.xml").exists()
