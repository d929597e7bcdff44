"""The suites' tests are called as functions here, so their markers are declared."""

import pytest

from memqos.plugin.keys import MARKERS


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


@pytest.fixture(autouse=True)
def _soon_is_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in memory changes by itself."""
    monkeypatch.setattr("memqos.node.requests.container_requests.LATER_SECONDS", 0.0)
