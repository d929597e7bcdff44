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
    """Correct or complete what was found out about the machine, before any plan is made.

    Return the facts to use, or None to leave them as they are. The first answer wins.
    """


@pytest.hookspec(firstresult=True)
def pytest_memqos_finding(finding: Finding, item: pytest.Item) -> Finding | None:
    """Amend a finding before it is judged, for example to name a known deviation in its evidence.

    Return the finding to record, or None to leave it as it is. The first answer wins.
    """


@pytest.hookspec
def pytest_memqos_result(result: TestResult, worker: str) -> None:
    """A case is over; called in the controller, as it comes. worker: pytest-xdist's name of it, "" without xdist."""
