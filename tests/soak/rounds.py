"""A plugin that has each case of a run carried out so many times, on the same machine: `--rounds 30`.

What several cases look at, as a scene that a module's fixture makes, happens once a round, as it does once a run
without. The evidence of such a scene is in one folder: what its rounds left there follow each other.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=1, help="how often each case is carried out on the machine")


@pytest.fixture(autouse=True, scope="module")
def soak_round(request: pytest.FixtureRequest) -> pytest.FixtureRequest:
    """The request of this round: pytest calls what is added to it as a finalizer before the next round begins."""
    return request


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    numbers = range(1, metafunc.config.getoption("--rounds") + 1)
    ids = [f"round{number}" for number in numbers]
    metafunc.parametrize("soak_round", numbers, indirect=True, ids=ids, scope="module")


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    """Whatever a module has once it has once a round."""
    if fixturedef.scope == "module" and fixturedef.argname != soak_round.__name__:
        this_round = request.getfixturevalue(soak_round.__name__)
        this_round.addfinalizer(functools.partial(fixturedef.finish, request))
