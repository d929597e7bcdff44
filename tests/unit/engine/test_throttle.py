"""The kernel's sleep for charges above memory.high, with rows worked out by hand from mm/memcontrol.c.

With memory.high at 100 MiB, 25,600 pages: at 110 MiB the overage is 2560 * 2^20 / 25600 = 104857, whose square times
250 is 2748747612250, or 159 times 2^34 and a rest. That is a sleep of 159 jiffies for one batch of 64 pages.
"""

import itertools
from fractions import Fraction

import pytest

from memqos.engine.cgroup.throttle import (
    Growth,
    Over,
    delay,
    fastest_growth,
    least_sleep,
    least_wait,
    overage,
    sleeps_from,
    stalls_from,
)
from memqos.model.knob import Bytes

KIB, MIB = 1 << 10, 1 << 20
HIGH = Bytes(100 * MIB)


def over(usage, high=HIGH):
    return [Over(usage=usage, high=high)]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (99 * MIB, 0),
        (100 * MIB, 0),
        (100 * MIB + 4095, 0),
        (100 * MIB + 4096, 40),
        (110 * MIB, 104857),
        (125 * MIB, 262144),
    ],
)
def test_overage_is_in_2_to_the_20ths_of_memory_high(usage, expected):
    assert overage(*over(usage)) == expected


def test_a_memory_high_of_zero_counts_as_one_page():
    assert overage(*over(3 * 4096, Bytes(0))) == 2 << 20


@pytest.mark.parametrize(
    ("usage", "at_100_hz", "at_250_hz", "at_1000_hz"),
    [
        (100 * MIB, 0, 0, 0),
        (101 * MIB, 0, 0, 0),  # 64 * 0.01^2 s = 6.4 ms, below the least sleep of 10 ms
        (102 * MIB, 2, 6, 25),
        (105 * MIB, 15, 39, 159),
        (110 * MIB, 63, 159, 639),
        (117 * MIB, 184, 462, 1849),
        (118 * MIB, 200, 500, 2000),  # 64 * 0.18^2 s = 2.07 s, above the cap
        (300 * MIB, 200, 500, 2000),
    ],
)
def test_a_batch_costs_the_square_of_the_overage(usage, at_100_hz, at_250_hz, at_1000_hz):
    assert [delay(over(usage), hz=hz) for hz in (100, 250, 1000)] == [at_100_hz, at_250_hz, at_1000_hz]


@pytest.mark.parametrize(("charged", "expected"), [(1, 0), (32, 79), (64, 159), (128, 318), (512, 500)])
def test_a_charge_costs_in_proportion_to_its_pages_up_to_the_cap(charged, expected):
    """A huge page of 512 pages is one charge: it reaches the cap at a much smaller overage."""
    assert delay(over(110 * MIB), hz=250, charged=charged) == expected


def test_of_several_levels_only_the_largest_overage_counts():
    pod = Over(usage=130 * MIB, high=Bytes(128 * MIB))
    assert delay([*over(110 * MIB), pod], hz=250) == delay([pod, *over(110 * MIB)], hz=250) == 159
    assert delay([pod], hz=250) == 3
    assert delay([], hz=250) == 0


def test_the_square_wraps_at_64_bits_as_in_the_kernel():
    """2048 pages above a threshold of one: (2048 * 2^20)^2 * 1000 is a multiple of 2^64."""
    assert delay(over(2049 * 4096, Bytes(0)), hz=1000) == 0
    assert delay(over(2048 * 4096, Bytes(0)), hz=1000) == 2000


@pytest.mark.parametrize(("hz", "sleeps"), [(100, 106713088), (250, 106295296), (1000, 106233856)])
def test_where_a_program_begins_to_sleep_and_where_it_stalls(hz, sleeps):
    assert sleeps_from(HIGH, hz=hz) == sleeps
    assert delay(over(sleeps - 4096), hz=hz) == 0
    assert delay(over(sleeps), hz=hz) > hz // 100
    assert stalls_from(HIGH, hz=hz) == 123396096
    assert delay(over(123396096 - 4096), hz=hz) == 2 * hz - 1


def test_at_the_cap_a_program_grows_by_256_kib_in_two_seconds():
    """Five sleeps of 499 to 500 jiffies fit in ten seconds, and the sixth batch is charged before it is paid for."""
    found = fastest_growth(120 * MIB, HIGH, seconds=10, hz=250)
    assert found == Growth(usage=120 * MIB + 6 * 256 * KIB, slept=Fraction(5 * 499, 250))


def test_each_of_several_threads_sleeps_for_itself():
    found = fastest_growth(120 * MIB, HIGH, seconds=10, hz=250, threads=4)
    assert found.usage == 120 * MIB + 4 * 6 * 256 * KIB


def test_below_the_first_sleep_growth_is_not_bounded():
    assert fastest_growth(0, HIGH, seconds=10, hz=250) == fastest_growth(106295296, HIGH, seconds=10, hz=250)


def test_growth_slows_down_over_time():
    """From the first sleep at 101.4 MiB: the third minute adds less than the first half minute."""
    reached = [fastest_growth(0, HIGH, seconds=seconds, hz=250).usage for seconds in (30, 60, 120, 180)]
    gains = [after - before for before, after in itertools.pairwise(reached)]
    assert reached[0] > 113 * MIB
    assert gains[0] > gains[2] // 2
    assert gains[2] <= 31 * 256 * KIB


@pytest.mark.parametrize(("seconds", "threads"), [(0, 1), (-1, 1), (10, 0)])
def test_zero_time_or_threads_are_rejected(seconds, threads):
    with pytest.raises(ValueError, match="must be above zero"):
        fastest_growth(0, HIGH, seconds=seconds, threads=threads, hz=250)


def test_the_least_sleep_is_the_sum_of_the_batches_delays():
    """None up to 101 MiB, 8.6 s up to 110 MiB; from the stall on 499 jiffies more for each batch."""
    assert least_sleep(HIGH, 101 * MIB, hz=250) == 0
    assert least_sleep(HIGH, 110 * MIB, hz=250) == Fraction(1077, 125)
    further = least_sleep(HIGH, 126 * MIB, hz=250) - least_sleep(HIGH, 125 * MIB, hz=250)
    assert further == Fraction(4 * 499, 250)


@pytest.mark.parametrize(
    ("size", "seconds"),
    [
        # All of 63 pages may be charged ahead; of 64 to 191 one batch costs a sleep, of 192 two.
        (63 * 4096, 0),
        (64 * 4096, Fraction(499, 250)),
        (191 * 4096, Fraction(499, 250)),
        (191 * 4096 + 1, Fraction(998, 250)),
    ],
)
def test_a_second_program_sleeps_for_its_own_charges(size, seconds):
    """Both are at the cap: 2 s, or 500 jiffies, of which a timer may take one off."""
    assert least_wait(Over(usage=125 * MIB, high=HIGH), size, hz=250) == seconds


def test_a_second_program_does_not_wait_below_memory_high():
    assert least_wait(Over(usage=99 * MIB, high=HIGH), MIB, hz=250) == 0
