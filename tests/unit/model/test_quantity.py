from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memqos.model.quantity import ZERO, Quantity, QuantityError


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        ("1", 1),
        ("+1", 1),
        ("-1", -1),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("1k", 1000),
        ("1M", 10**6),
        ("1G", 10**9),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1E", 10**18),
        ("1Ki", 1024),
        ("1Mi", 1 << 20),
        ("1Gi", 1 << 30),
        ("1Ti", 1 << 40),
        ("1Pi", 1 << 50),
        ("1Ei", 1 << 60),
        ("1m", Fraction(1, 1000)),
        ("1u", Fraction(1, 10**6)),
        ("1n", Fraction(1, 10**9)),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1e-3", Fraction(1, 1000)),
        ("1E+2", 100),
        ("0.5Ki", 512),
        ("1.1Ki", "1126.4"),
        # Finer than a nano is rounded up, away from zero.
        ("0.1n", Fraction(1, 10**9)),
        ("-0.1n", Fraction(-1, 10**9)),
        ("1.0000000001", "1.000000001"),
        ("1e-1000000000", Fraction(1, 10**9)),
        ("0e-1000000000", 0),
        # More than 2^63-1 is capped there.
        ("10E", 2**63 - 1),
        ("8Ei", 2**63 - 1),
        ("-8Ei", -(2**63 - 1)),
        ("1e1000000000", 2**63 - 1),
        ("9223372036854775807", 2**63 - 1),
        ("00100", 100),
    ],
)
def test_parse(text, amount):
    assert Quantity.parse(text).amount == Fraction(amount)
    assert str(Quantity.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        " 1",
        "1 ",
        "1.1.M",
        "1+1.0M",
        "0.1mi",
        "0.1am",
        "aoeu",
        ".5i",
        "1i",
        "-3.01i",
        "-3.01e-",
        "1e",
        "1eE3",
        "12q",
        "1K",
        "1ki",
        "0x10",
        "\u0661",
        "1_000",
        "1,5",
        "NaN",
        "inf",
        "--1",
        "1Gii",
        "1" * 129,
        ".",
    ],
)
def test_refused(text):
    with pytest.raises(QuantityError):
        Quantity.parse(text)


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("100m", 1, 100),
        ("1.5", 2, 1500),
        ("1n", 1, 1),
        ("0", 0, 0),
        ("1.0001", 2, 1001),
        ("2", 2, 2000),
        ("-1.5", -1, -1500),
    ],
)
def test_rounding_up(text, value, milli):
    assert Quantity.parse(text).value == value
    assert Quantity.parse(text).milli_value == milli
    assert Quantity.parse(text).defaulted().amount == Fraction(milli, 1000)


def test_equality_is_of_amounts():
    assert Quantity.parse("1Gi") == Quantity.of_bytes(1073741824)
    assert hash(Quantity.parse("1Gi")) == hash(Quantity.of_bytes(1073741824))
    assert Quantity.parse("1Gi") != Quantity.parse("1G")
    assert Quantity.parse("1") != 1
    assert Quantity.parse("1m") < Quantity.parse("1") <= Quantity.parse("1000m")
    assert ZERO.is_zero
    assert not Quantity.parse("1n").is_zero


@pytest.mark.parametrize(
    ("one", "other", "total", "rest"),
    [
        ("1Gi", "1", "1073741825", "1073741823"),
        ("100m", "50m", "150m", "50m"),
        ("1n", "1m", "1000001n", "-999999n"),
        ("1", "500m", "1500m", "500m"),
    ],
)
def test_sums_have_a_text(one, other, total, rest):
    assert str(Quantity.parse(one) + Quantity.parse(other)) == total
    assert str(Quantity.parse(one) - Quantity.parse(other)) == rest


@pytest.mark.parametrize(
    "text", ["1Ki", "3Mi", "5Gi", "7Ti", "9Pi", "1Ei", "1k", "3M", "5G", "7T", "9P", "1E", "7u", "9m"]
)
def test_an_api_server_prints_the_largest_suffix(text):
    assert Quantity.parse(text).canonical() == text


SUFFIXES = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3"])
NUMBERS = st.decimals(min_value=0, max_value=10**6, places=6, allow_nan=False).map(lambda number: f"{number:f}")


@given(NUMBERS, SUFFIXES)
def test_canonical_text_round_trips(number, suffix):
    first = Quantity.parse(number + suffix)
    total = first + ZERO
    assert Quantity.parse(str(total)).amount == first.amount


@given(st.integers(0, 2**63 - 1))
def test_bytes_round_trip(count):
    assert Quantity.parse(str(Quantity.of_bytes(count))).value == count


@given(st.integers(2**63, 10**40), st.sampled_from(["", "k", "E", "Ki", "Ei", "e9"]), st.sampled_from(["", "-"]))
def test_an_amount_beyond_the_cap_is_the_cap(number, suffix, sign):
    assert Quantity.parse(f"{sign}{number}{suffix}").amount == int(f"{sign}{2**63 - 1}")


@given(st.text(max_size=40))
def test_any_text_is_a_quantity_or_an_error(text):
    try:
        found = Quantity.parse(text)
    except QuantityError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, none other
    else:
        assert abs(found.amount) <= 2**63 - 1


def test_defaulting_keeps_the_written_text():
    assert str(Quantity.parse("1.5Gi").defaulted()) == "1.5Gi"
