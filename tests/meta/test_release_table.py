"""What releases change is one table: rules ask it, and know no release by its number."""

import re
from pathlib import Path

import pytest

from memqos.engine.releases.table import PREVIEW, RELEASES, STAGES, TWO_VARIANTS, Gate, Novelty, revised_in

ENGINE = Path(__file__).parents[2] / "harness" / "memqos" / "engine"
REGISTRY = {ENGINE / "releases" / "table.py", ENGINE / "releases" / "release.py", ENGINE / "releases" / "gates.py"}
RULES = sorted({*ENGINE.rglob("*.py")} - REGISTRY)
TEXT = "\n".join(path.read_text() for path in RULES)


@pytest.mark.parametrize("path", RULES, ids=lambda path: str(path.relative_to(ENGINE)))
def test_rules_know_no_release_by_its_number(path):
    assert not re.search(r"\.minor\b|\bRelease\([0-9]", path.read_text())


@pytest.mark.parametrize("novelty", Novelty, ids=lambda novelty: novelty.name)
def test_every_novelty_is_asked_for(novelty):
    assert f"Novelty.{novelty.name}" in TEXT.replace("\n", "")
    assert novelty.since in (*RELEASES, PREVIEW)


def test_rows_are_in_the_order_of_releases():
    assert [one.since for one in Novelty] == sorted(one.since for one in Novelty)


@pytest.mark.parametrize("gate", Gate)
def test_every_gate_has_its_stages_in_order(gate):
    since = [stage.since for stage in STAGES[gate]]
    assert since
    assert since == sorted(since)


def test_what_has_two_variants_is_a_revision_of_known_releases():
    for family, (first, last) in TWO_VARIANTS.items():
        assert first in revised_in(family)
        assert last in RELEASES
