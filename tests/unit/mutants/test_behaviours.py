"""Tests of suites that are called as functions."""

from __future__ import annotations

import inspect

import pytest

from memqos.errors import UnknownNameError
from memqos.mutants.rigs import Catalogue, behaviour_findings, suite_test_of
from memqos.mutants.table import load_mutants
from memqos.node.fake import fake_node

CATALOGUE = Catalogue()
OF_BEHAVIOUR = [one for one in load_mutants() if CATALOGUE.is_behaviour(one)]


@pytest.mark.parametrize("mutant", OF_BEHAVIOUR, ids=lambda one: one.name)
def test_each_claim_of_a_mutant_has_a_test(mutant) -> None:
    for claim in mutant.claims:
        assert inspect.unwrap(suite_test_of(claim)).__name__.startswith("test_")


def test_a_claim_without_a_test() -> None:
    with pytest.raises(UnknownNameError, match="protection/nonsense"):
        suite_test_of("protection/nonsense")


def test_the_findings_of_a_test_are_returned() -> None:
    """It uses the test's kubelet and a pod of the catalogue, and ends when the test settles its findings."""
    found = behaviour_findings("lifecycle/drift-of-pod", fake_node(), CATALOGUE.kubelets, CATALOGUE)
    assert {one.verdict.value for one in found} == {"conforms"}
    assert "memory.low" in {one.knob for one in found}
