"""Tests of suites are called as functions here, so their markers are known."""

import pytest

from memqos.plugin.keys import MARKERS


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
