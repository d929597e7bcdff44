"""Lists of CPUs and nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memqos.engine.translate.kernel_text import listed, numbers, reversed_bytes


@pytest.mark.parametrize(
    ("text", "found"), [("", set()), ("0", {0}), ("0-3,5", {0, 1, 2, 3, 5}), (" 7, 8-9 ", {7, 8, 9}), ("1,1", {1})]
)
def test_numbers(text, found):
    assert numbers(text) == found


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "1,,2", "65536", "0-99999999999", "1-2-3"])
def test_invalid_lists(text):
    with pytest.raises(ValueError, match="is not a"):
        numbers(text)


@given(st.frozensets(st.integers(min_value=0, max_value=200)))
def test_lists_round_trip(found):
    assert numbers(listed(found)) == found


@pytest.mark.parametrize(
    ("text", "understood"),
    [("0-3", "0-3"), ("8", "0"), ("0-1,8", "0,8-9"), ("7", "7"), ("0-15", "0-15"), ("16", "0"), ("", "")],
)
def test_bytes_in_the_wrong_order(text, understood):
    assert reversed_bytes(text) == understood
