"""Machines for tests, and turns: a test that needs the host alone waits until no other runs, and vice versa."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from memqos.cgroupfs.tree import CgroupTree
from memqos.plugin.keys import MARKERS
from memqos.target.base import Target
from tests.vm.machines import start
from tests.vm.runtimes import SOCKET, soon

LONGEST_FIRST = ("run", "bringing", "enactor", "target", "place", "tutorial", "checkpoint", "interrupting", "runtime")
"""Files, by the duration of their longest test: two processes share the rest, which should be short."""


def pytest_configure(config: pytest.Config) -> None:
    """Tests of suites are called as functions here, so their markers are declared."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests of machines first, if no others run with them."""
    if all(item.path.parent == Path(__file__).parent for item in items):
        ranks = {f"test_{name}.py": rank for rank, name in enumerate(LONGEST_FIRST)}
        items.sort(key=lambda item: ranks.get(item.path.name, len(ranks)))


@contextlib.contextmanager
def held(path: Path, *, alone: bool) -> Iterator[None]:
    """A lock that this process has alone, or shared with others."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


@pytest.fixture(autouse=True)
def turn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """With tests in several processes: one at a time for those that are marked `alone`."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    folder = tmp_path_factory.getbasetemp().parent
    alone = request.node.get_closest_marker("alone") is not None
    with contextlib.ExitStack() as room:
        # A waiting test keeps the door, so that the others do not pass a test that needs the room empty.
        with held(folder / "door", alone=True):
            room.enter_context(held(folder / "room", alone=alone))
        yield


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with start(tmp_path_factory.mktemp("log"), topology="two-numa-nodes") as machine:
        yield machine.target


@pytest.fixture(scope="module")
def tree(target: Target) -> CgroupTree:
    return CgroupTree.of(target, deadline=soon())


@pytest.fixture(scope="module")
def socket(target: Target) -> Iterator[Path]:
    with target.forward(SOCKET) as path:
        yield path
