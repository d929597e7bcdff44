"""Merged shards must be of one division, and complete."""

import pytest

from memqos.bundles.merging import misfit_shards

DIFFERENT = "the shards belong to different divisions, so cases may be missing or duplicated"


def shard(number, of=3, division="abc"):
    return {"number": number, "of": of, "cases": 10, "division": division}


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ([shard(1), shard(2), shard(3)], []),
        ([{}, {}], []),
        ([shard(1), shard(3)], ["of 3 shards 2 is missing"]),
        ([shard(2), {}], ["of 3 shards 1, 3 are missing"]),
        (
            [shard(1, 2), shard(2, 2, "xyz")],
            [f"{DIFFERENT} (part 1: 2 parts of 10 cases, division abc; part 2: 2 parts of 10 cases, division xyz)"],
        ),
        ([shard(1, 2), shard(2, 2), shard(1, 2, "xyz"), shard(2, 2, "xyz"), {}], []),
        ([shard(1, 2), shard(2, 2), shard(2, 2, "xyz")], ["of 2 shards 1 is missing"]),
        ([{"number": 1}], []),
        ([shard(1, 2), {"number": 2, "of": 2, "cases": 0, "division": ""}], []),
        ([shard(1, 3), {"number": 2, "of": 3, "cases": 0, "division": ""}], ["of 3 shards 3 is missing"]),
    ],
    ids=[
        "whole",
        "no shards",
        "one missing",
        "two missing",
        "two divisions",
        "two whole ones",
        "one whole and one not",
        "damaged",
        "one killed before it divided its cases",
        "one killed so, and one missing",
    ],
)
def test_shards_that_do_not_fit_are_reported(parts, told):
    assert list(misfit_shards([(f"part {number}", one) for number, one in enumerate(parts, start=1)])) == told
