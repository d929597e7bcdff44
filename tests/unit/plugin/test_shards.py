"""Shards: every case in exactly one, populations complete, the same in every job, and nearly equal times."""

from hypothesis import given
from hypothesis import strategies as st

from memqos.plugin.collection.selection import divided

CASES = [(f"a::{n}", ("a", n // 4)) for n in range(20)]


def test_a_population_is_in_one_shard():
    division = divided(CASES, 3, seconds={})
    for _, unit in CASES:
        members = {case for case, of in CASES if of == unit}
        assert [members <= set(shard) for shard in division.shards].count(True) == 1


def test_shards_take_nearly_the_same_time():
    cases = [(str(n), n) for n in range(6)]
    division = divided(cases, 2, seconds={"0": 60.0, "1": 10.0, "2": 20.0, "3": 30.0, "4": 5.0, "5": 5.0})
    assert division.shards == (("0", "4"), ("1", "2", "3", "5"))
    assert division.seconds == (65.0, 65.0)


def test_a_case_that_was_never_timed_counts_as_the_median():
    cases = [(name, name) for name in ("a", "b", "c", "new")]
    division = divided(cases, 2, seconds={"a": 10.0, "b": 20.0, "c": 100.0})
    assert division.shards == (("c",), ("a", "b", "new"))
    assert division.seconds == (100.0, 50.0)


def test_without_any_times_shards_have_as_many_cases_and_their_order():
    division = divided([(str(n), n) for n in range(5)], 2, seconds={})
    assert division.shards == (("0", "2", "4"), ("1", "3"))


def test_more_shards_than_work_leaves_some_empty():
    assert divided([("a", 1)], 3, seconds={}).shards == (("a",), (), ())


def test_other_times_make_a_division_of_another_name():
    cases = [(str(n), n) for n in range(5)]
    one, other = divided(cases, 2, seconds={}), divided(cases, 2, seconds={"0": 10.0, "4": 90.0})
    assert one.name == divided(cases, 2, seconds={"elsewhere": 3.0}).name
    assert one.name != other.name


@given(
    st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1e6)), max_size=60),
    st.integers(1, 9),
)
def test_every_case_is_in_exactly_one_shard_and_none_is_much_longer_than_it_has_to_be(made, into):
    cases = [(str(n), unit) for n, (unit, _) in enumerate(made)]
    seconds = {str(n): taken for n, (_, taken) in enumerate(made)}
    division = divided(cases, into, seconds=seconds)
    assert sorted(case for shard in division.shards for case in shard) == sorted(case for case, _ in cases)
    units = [sum(taken for of, taken in made if of == unit) for unit in {unit for unit, _ in made}]
    best = max([sum(units) / into, *units], default=0.0)
    assert max(division.seconds) <= best * (4 / 3 + 1) + 1e-6
    assert division == divided(cases, into, seconds=seconds)
