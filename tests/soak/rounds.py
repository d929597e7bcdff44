"""A plugin that has each case of a run carried out so many times, on the same machine: `--rounds 30`.

What several cases look at, as a scene that a module's fixture makes, still happens once a run.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=1, help="how often each case is carried out on the machine")


@pytest.fixture(autouse=True)
def soak_round(request: pytest.FixtureRequest) -> int:
    """Which time it is."""
    number: int = request.param
    return number


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    numbers = range(1, metafunc.config.getoption("--rounds") + 1)
    metafunc.parametrize("soak_round", numbers, indirect=True, ids=[f"round{number}" for number in numbers])
