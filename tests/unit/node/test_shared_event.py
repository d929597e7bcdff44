"""An event that several cases share happens once, each case ends by itself, and without cases nothing happens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pytest

from memqos.engine.answer.finding import Finding
from memqos.errors import DeadlineError, MachineryError, UsageError
from memqos.node.requests.containers import observed
from memqos.node.requests.verbs import PendingConditions, passed


def found(name: str) -> Sequence[Finding]:
    return [observed("state", "running", "running", cgroup=name)]


class Told:
    """What happened, in its order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def happens(self) -> None:
        self.lines.append("it happens")

    def fails(self) -> None:
        raise MachineryError("it fails.")

    def case(self, name: str, *, refused: bool = False, early: bool = False, broken: bool = False) -> PendingConditions:
        self.lines.append(f"{name} is made")
        try:
            if refused:
                raise MachineryError(f"{name} is refused.")
            if early:
                return found(f"{name}, early")
            yield
            if broken:
                raise MachineryError(f"{name} is broken.")
            return found(name)
        finally:
            self.lines.append(f"{name} is removed")

    @contextlib.contextmanager
    def within(self, name: str) -> Iterator[None]:
        self.lines.append(f"about {name}:")
        yield


@pytest.fixture
def told() -> Told:
    return Told()


def test_the_event_happens_once_when_all_cases_wait(told: Told) -> None:
    outcomes = passed({"a": told.case("a"), "b": told.case("b")}, told.happens)
    assert [outcomes[name].result() for name in "ab"] == [found("a"), found("b")]
    assert told.lines == ["a is made", "b is made", "it happens", "a is removed", "b is removed"]


def test_cases_wait_for_one_another_more_than_once(told: Told) -> None:
    def twice(name: str) -> PendingConditions:
        told.lines.append(f"{name} stands")
        yield
        told.lines.append(f"{name} is right")
        yield
        return found(name)

    outcomes = passed({"a": twice("a"), "b": twice("b")}, lambda: told.lines.append("all stand"), told.happens)
    assert [one.result() for one in outcomes.values()] == [found("a"), found("b")]
    assert told.lines == ["a stands", "b stands", "all stand", "a is right", "b is right", "it happens"]


@pytest.mark.parametrize("how", ["refused", "broken"])
def test_an_error_of_one_case_is_its_own_outcome(how: str, told: Told) -> None:
    cases = {"a": told.case("a"), "b": told.case("b", **{how: True}), "c": told.case("c")}
    outcomes = passed(cases, told.happens)
    assert str(outcomes["b"].exception()) == f"b is {how}."
    assert [outcomes[name].result() for name in "ac"] == [found("a"), found("c")]
    assert sorted(told.lines[-3:]) == ["a is removed", "b is removed", "c is removed"] or how == "refused"
    assert told.lines.count("it happens") == 1


def test_a_case_that_was_wrong_before_waits_no_longer(told: Told) -> None:
    outcomes = passed({"a": told.case("a", early=True), "b": told.case("b")}, told.happens)
    assert [one.result() for one in outcomes.values()] == [found("a, early"), found("b")]
    assert told.lines == ["a is made", "a is removed", "b is made", "it happens", "b is removed"]


def test_without_a_waiting_case_nothing_happens(told: Told) -> None:
    outcomes = passed({"a": told.case("a", early=True), "b": told.case("b", refused=True)}, told.happens)
    assert all(one.done() for one in outcomes.values())
    assert "it happens" not in told.lines


def test_an_error_of_the_event_is_that_of_all_waiting_cases(told: Told) -> None:
    cases = {"a": told.case("a"), "b": told.case("b", early=True), "c": told.case("c")}
    outcomes = passed(cases, told.fails)
    assert outcomes["b"].result() == found("b, early")
    assert {str(outcomes[name].exception()) for name in "ac"} == {"it fails."}
    assert told.lines[-2:] == ["a is removed", "c is removed"]


def test_an_unexpected_error_leaves_nothing_behind(told: Told) -> None:
    def breaks() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        passed({"a": told.case("a"), "b": told.case("b")}, breaks)
    assert told.lines == ["a is made", "b is made", "a is removed", "b is removed"]


def test_an_impossible_case_does_not_block_others(told: Told) -> None:
    def unsayable() -> PendingConditions:
        raise UsageError("it has no word for that.")
        yield

    outcomes = passed({"a": unsayable(), "b": told.case("b")}, told.happens)
    assert isinstance(outcomes["a"].exception(), UsageError)
    assert outcomes["b"].result() == found("b")


def test_after_a_case_that_does_not_begin_in_time_none_is_begun(told: Told) -> None:
    """Each of them might take as long, and in vain."""

    def hangs() -> PendingConditions:
        raise DeadlineError("waited 60.0 s for an answer to create.")
        yield

    outcomes = passed({"a": told.case("a"), "b": hangs(), "c": told.case("c")}, told.happens)
    assert outcomes["a"].result() == found("a")
    assert isinstance(outcomes["b"].exception(), DeadlineError)
    assert "c" not in outcomes
    assert told.lines == ["a is made", "it happens", "a is removed"]


def test_whatever_concerns_a_case_is_done_within_its_own(told: Told) -> None:
    passed({"a": told.case("a"), "b": told.case("b")}, told.happens, within=told.within)
    for place, line in enumerate(told.lines):
        if line != "it happens" and not line.startswith("about"):
            assert told.lines[place - 1] == f"about {line[0]}:"
