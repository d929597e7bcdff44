"""What a soak counts, of made-up results."""

import json
from collections import Counter

from tests.soak.__main__ import outcomes, table


def test_the_outcomes_of_a_run_are_those_of_its_bundle(tmp_path):
    cases = [{"id": "node/a", "outcome": "conforms"}, {"id": "node/b", "outcome": "deviates"}]
    (tmp_path / "bundle.json").write_text(json.dumps({"results": cases}))

    assert list(outcomes(tmp_path)) == [("node/a", "conforms"), ("node/b", "deviates")]
    assert not list(outcomes(tmp_path / "elsewhere"))


def test_a_case_that_ended_in_two_ways_is_marked_with_both_counts():
    counts = {"b": Counter(conforms=98, deviates=2), "a": Counter(conforms=100)}

    assert table(counts) == "  a: 100 conforms\n! b: 98 conforms, 2 deviates"
