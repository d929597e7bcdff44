"""Hooks that a conftest.py or another plugin can implement; none is called in a run without memqos tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from memqos.engine.answer.finding import Finding
    from memqos.model.node import NodeFacts
    from memqos.report.outcome import TestResult

__all__ = ["pytest_memqos_finding", "pytest_memqos_node_facts", "pytest_memqos_result"]


@pytest.hookspec(firstresult=True)
def pytest_memqos_node_facts(facts: NodeFacts, config: pytest.Config) -> NodeFacts | None:
    """Correct or complete the facts of the machine, before any plan is made.

    Return the facts to use, or None to keep them. The first answer wins.
    """


@pytest.hookspec(firstresult=True)
def pytest_memqos_finding(finding: Finding, item: pytest.Item) -> Finding | None:
    """Amend a finding before it is judged, for example to name a known deviation in its evidence.

    Return the finding to record, or None to keep it. The first answer wins.
    """


@pytest.hookspec
def pytest_memqos_result(result: TestResult, worker: str) -> None:
    """A case has ended; called in the controller on arrival. worker: pytest-xdist's name for it, "" without xdist."""
