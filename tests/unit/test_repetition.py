import pytest

from memqos.errors import DeadlineError, EnvironmentNotAbleError, RuntimeCallError
from memqos.repetition import Repetition, as_before, likeness


def refused(pod: str) -> RuntimeCallError:
    return RuntimeCallError(
        f"containerd answered UNKNOWN: sandbox \"{pod}\" 3f2a91bc: exit status 1, see '/run/{pod}/log.json'",
        where="RunPodSandbox",
    )


@pytest.mark.parametrize(
    "other",
    [refused("other"), RuntimeCallError(f"{refused('third').what}\nand a line more", where="RunPodSandbox")],
)
def test_names_numbers_and_further_lines_make_no_difference(other):
    assert likeness(refused("one")) == likeness(other)


@pytest.mark.parametrize(
    "other",
    [
        RuntimeCallError(refused("one").what, where="CreateContainer"),
        DeadlineError(refused("one").what, where="RunPodSandbox"),
        RuntimeCallError("containerd answered NOT_FOUND: no image.", where="RunPodSandbox"),
        ValueError("containerd"),
    ],
)
def test_another_place_class_or_sentence_is_another_failure(other):
    assert likeness(refused("one")) != likeness(other)


def waited(condition: str) -> DeadlineError:
    return DeadlineError(f"waited 60.0 s for '{condition}'.", data={"condition": condition})


def test_what_was_waited_for_counts_without_its_names():
    assert likeness(waited("the container 'one' has ended")) == likeness(waited("the container 'two' has ended"))
    assert likeness(waited("the container 'one' has ended")) != likeness(waited("memory.current rises"))


def test_three_alike_are_enough_until_something_goes_well():
    row = Repetition()
    assert [row.failed(refused(pod)) for pod in ("one", "two")] == [1, 2]
    assert row.enough is None
    assert row.failed(refused("three")) == 3
    assert row.enough is not None
    row.succeeded()
    assert row.enough is None
    assert row.failed(refused("four")) == 1


def test_another_failure_begins_another_row():
    row = Repetition()
    row.failed(refused("one"))
    row.failed(refused("two"))
    assert row.failed(DeadlineError("waited.")) == 1
    assert row.failed(refused("three")) == 1


def test_one_more_try_is_enough_to_know_again():
    row = Repetition()
    for pod in ("one", "two", "three", "four", "five"):
        row.failed(refused(pod))
    row.try_again()
    assert row.enough is None
    row.failed(refused("six"))
    assert row.enough is not None


def test_what_was_not_tried_says_so_and_keeps_the_failure_s_class_and_exit_code():
    error = EnvironmentNotAbleError("the disk is full.", where="cache", next_step="Make room.", data={"free": 1})
    repeated = as_before(as_before(error))
    assert isinstance(repeated, EnvironmentNotAbleError)
    assert (repeated.what, repeated.where) == ("as before: the disk is full.", "cache")
    assert repeated.next_step == "This was not tried: 3 attempts in a row had ended alike."
    assert error.what == "the disk is full."
    assert error.next_step == "Make room."
    assert likeness(repeated) == likeness(error)
