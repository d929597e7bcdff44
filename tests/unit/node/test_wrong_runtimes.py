"""Runtimes that are wrong on purpose, in memory: each is found by its claims, which name its knobs and no other."""

from __future__ import annotations

import pytest

from memqos.engine.answer.finding import Verdict
from memqos.model.node import CgroupDriver
from tests.unit.node.asked import deviating
from tests.wrong_runtimes.in_memory import judged
from tests.wrong_runtimes.table import IN_MEMORY, Wrong


@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize("wrong", IN_MEMORY, ids=lambda wrong: wrong.way)
def test_a_wrong_runtime_is_found_by_its_claims(wrong: Wrong, driver: CgroupDriver) -> None:
    assert {claim: deviating(judged(wrong.way, claim, driver)) for claim in wrong.found} == wrong.found


@pytest.mark.parametrize("claim", sorted({claim for wrong in IN_MEMORY for claim in wrong.found}))
def test_the_same_claims_find_nothing_wrong_with_a_right_one(claim: str) -> None:
    assert {one.verdict for one in judged("right", claim)} == {Verdict.CONFORMS}
