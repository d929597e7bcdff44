"""Machines that outlive their run, with a `sleep` for QEMU. Nothing is booted."""

import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

import pytest

from memqos.errors import UnknownNameError
from memqos.ownership import KEPT, ProcessGroup
from memqos.vm.cache.store import KEPT_NAME, kept_guard, locked_folder, sweep
from memqos.vm.kept import KeptMachine, end_kept, list_kept
from memqos.vm.qemu.run import RUN_PREFIX


@pytest.fixture
def environment():
    """Somewhere short for sockets, which only this test uses."""
    with tempfile.TemporaryDirectory(prefix="mq-") as base:
        yield {"XDG_RUNTIME_DIR": base}


@pytest.fixture
def kept(environment):
    """A kept `sleep`, whose run is over."""
    base = Path(environment["XDG_RUNTIME_DIR"])
    (base / "disks").mkdir()
    with (
        locked_folder(base, RUN_PREFIX) as folder,
        ProcessGroup(folders=(folder, base / "disks"), keepable=True) as group,
    ):
        member = group.start(["sleep", "100"])
        one = KeptMachine(  # noqa: S604 - its shell is a text
            name=f"kept-{folder.name.removeprefix(RUN_PREFIX)}",
            machine="trixie-one-numa-node",
            since="2026-01-01T00:00:00+00:00",
            guard=group.keep(member),
            qemu=member.pid,
            shell="ssh memqos",
            console="/results/serial.log",
        )
        (folder / KEPT_NAME).write_text(json.dumps(asdict(one)))
    yield one
    if one in list_kept(environment):
        end_kept(one.name, environment)
    while KEPT:
        KEPT.pop().wait()


def test_a_kept_machine_is_listed_and_its_folder_stays(environment, kept):
    assert list(list_kept(environment)) == [kept]
    base = Path(environment["XDG_RUNTIME_DIR"])
    sweep(base, RUN_PREFIX)
    assert [kept_guard(folder) for folder in base.glob(f"{RUN_PREFIX}*")] == [kept.guard]


def test_an_ended_machine_leaves_nothing(environment, kept):
    assert end_kept(kept.name, environment) == kept
    assert not Path(f"/proc/{kept.qemu}/exe").exists()
    assert list(Path(environment["XDG_RUNTIME_DIR"]).iterdir()) == []
    assert list(list_kept(environment)) == []


SLOW_RM = """#!/bin/sh
# Removes what it is given, the first at once and each other one after a pause.
shift 2
for one; do
    /bin/rm -rf -- "$one"
    sleep 0.5
done
"""


@pytest.fixture
def slow_rm(tmp_path, monkeypatch):
    """A guard started now removes its folders slowly, as on a busy host."""
    program = tmp_path / "rm"
    program.write_text(SLOW_RM)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_ending_a_machine_lasts_until_its_last_folder_is_gone(slow_rm, environment, kept):
    end_kept(kept.name, environment)
    assert list(Path(environment["XDG_RUNTIME_DIR"]).iterdir()) == []


def test_an_unknown_name_is_rejected_with_the_known_ones(environment, kept):
    with pytest.raises(UnknownNameError, match=f"there is no kept machine 'kept-0'. Known: {kept.name}"):
        end_kept("kept-0", environment)


def test_a_folder_without_its_guard_is_not_kept(environment):
    base = Path(environment["XDG_RUNTIME_DIR"])
    with locked_folder(base, RUN_PREFIX) as folder:
        # This process is alive, but was not started to guard the folder.
        (folder / KEPT_NAME).write_text(json.dumps({"guard": os.getpid()}))
    assert folder.exists()
    assert kept_guard(folder) is None
    sweep(base, RUN_PREFIX)
    assert not folder.exists()
