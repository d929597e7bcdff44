"""The same requests to two runtimes: which differences their models explain."""

from dataclasses import replace

import pytest

from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.errors import NonconformanceError
from memqos.node.requests.differential import compared, made

NAMES = ("oci:runc", "oci:crun")


def finding(observed, expected="4096", *, knob="memory.high", verdict=Verdict.CONFORMS):
    return Finding(
        verdict=verdict, subject=Subject.of_container("requested"), cgroup="/c", knob=knob, set_by=Setter.RUNTIME,
        expected=expected, observed=observed,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "verdict", "expected", "observed"),
    [
        (finding("4096"), finding("4096"), Verdict.CONFORMS, "the same with both", "the same with both"),
        # One drops a value without a trait for it.
        (
            finding("4096"),
            finding("max"),
            Verdict.DEVIATES,
            "the same with both",
            "4096 with oci:runc, max with oci:crun",
        ),
        # A wrong trait made the model expect a wrong runtime's value: both conform to their models, and are equal.
        (
            finding("max", "max"),
            finding("max", "4096", verdict=Verdict.DEVIATES),
            Verdict.DEVIATES,
            "max with oci:runc, 4096 with oci:crun",
            "the same with both",
        ),
        (
            finding("max", "max"),
            finding("4096"),
            Verdict.CONFORMS,
            "max with oci:runc, 4096 with oci:crun",
            "max with oci:runc, 4096 with oci:crun",
        ),
    ],
)
def test_files_may_differ_where_the_models_do_and_nowhere_else(one, other, verdict, expected, observed):
    [found] = compared({"limit": [one]}, {"limit": [other]}, NAMES)
    assert (found.verdict, found.expected, found.observed) == (verdict, expected, observed)
    assert str(found.subject) == "container requested, request limit"


def test_of_several_findings_on_the_same_each_is_compared():
    same, odd = (
        finding("all kept", "all kept", knob="interface files"),
        finding("io is gone", "all kept", knob="interface files"),
    )
    found = compared({"limit": [odd, same]}, {"limit": [same, same]}, NAMES)
    assert [one.verdict for one in found] == [Verdict.DEVIATES, Verdict.CONFORMS]


def test_refusals_are_equal_whatever_their_words():
    one, other = (finding(f"refused: {words}", "refused: no such key", knob="create") for words in ("a", "b"))
    taken = finding("taken", "refused: no such key", knob="create", verdict=Verdict.DEVIATES)
    [alike] = compared({"key": [one]}, {"key": [other]}, NAMES)
    [unlike] = compared({"key": [one]}, {"key": [taken]}, NAMES)
    assert (alike.verdict, unlike.verdict) == (Verdict.CONFORMS, Verdict.DEVIATES)


def test_a_cgroup_of_only_one_runtime_is_left_out():
    scope = finding("33554432", "0", knob="memory.swap.max of the scope", verdict=Verdict.DEVIATES)
    scope = replace(scope, subject=scope.subject.scope())
    assert compared({"limit": []}, {"limit": [scope]}, NAMES) == []


@pytest.mark.parametrize("first", [True, False])
def test_a_setting_of_only_one_runtime_is_a_difference(first):
    """A setting that no request names is a finding of its own only if it is not at its default."""
    odd = finding("100", "2354", knob="pids.max", verdict=Verdict.DEVIATES)
    rest = finding("at their defaults", "at their defaults", knob="unnamed settings")
    sides = ([odd], [rest]) if first else ([rest], [odd])
    [found] = compared(*({"nothing": side} for side in sides), NAMES)
    assert (found.verdict, found.knob) == (Verdict.DEVIATES, "pids.max")
    assert found.observed.startswith("100 with oci:runc" if first else "100 with oci:crun")


@pytest.mark.parametrize(
    "other",
    [
        [],
        [finding("4096", knob="memory.low")],
        [finding("4096", verdict=Verdict.NOT_OBSERVABLE)],
        [finding("")],
    ],
)
def test_a_file_that_one_runtime_lacks_is_not_compared(other):
    assert compared({"limit": [finding("4096")]}, {"limit": other}, NAMES) == []
    assert compared({"limit": other}, {"limit": [finding("4096")]}, NAMES) == []


def test_a_deviation_that_ends_a_case_is_compared_too():
    class Case:
        name = "limit"

    def ends(_):
        raise NonconformanceError("the runtime left it", data={"finding": finding("none", "there", knob="state")})

    [found] = compared(made(ends, [Case]), {"limit": [finding("there", "there", knob="state")]}, NAMES)
    assert found.verdict is Verdict.DEVIATES
