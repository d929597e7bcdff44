"""A guest's pulse, from programs of this host: one that echoes, one that is stuck, one that is killed."""

import os
import subprocess
import threading

import pytest

from memqos.errors import DeadlineError
from memqos.vm.qemu import pulse as module
from memqos.vm.qemu.pulse import beating, late_answer

ENOUGH = 30
"""Seconds after which a test gives up: nothing here takes a tenth of that."""


class Connection:
    """A connection to this host; each of its programs is the next of `scripts`, and then the last one again."""

    def __init__(self, *scripts):
        self.scripts = list(scripts)
        self.opened = []
        self.ended = threading.Event()
        self.third = threading.Event()
        self.asked = threading.Event()

    def open(self, argv):
        assert argv[-1].endswith("exec cat")
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        self.opened.append(
            subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        )
        if len(self.opened) == 3:
            self.third.set()
        return self.opened[-1]

    def is_connected(self):
        self.asked.set()
        return not self.ended.is_set()

    def hang_up(self):
        self.ended.set()


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    for name, seconds in {"EVERY": 0.01, "PATIENCE": 0.2, "LOOK_EVERY": 0.01}.items():
        monkeypatch.setattr(module, name, seconds)


def test_a_guest_that_answers_keeps_its_connection(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", ENOUGH)
    asked = threading.Semaphore(0)
    write = os.write

    def counted(descriptor, data):
        asked.release()
        return write(descriptor, data)

    monkeypatch.setattr(module.os, "write", counted)
    connection = Connection("exec cat")
    with beating(connection, os.getpid()) as pulse:
        for _ in range(5):
            assert asked.acquire(timeout=ENOUGH)
    assert not pulse.silence
    assert connection.is_connected()
    assert len(connection.opened) == 1
    assert connection.opened[0].poll() is not None


@pytest.mark.parametrize("script", ["exec sleep 60", "head -c 2; exec sleep 60"], ids=["from the start", "later"])
def test_a_silent_guest_loses_its_connection(script):
    connection = Connection(script)
    with beating(connection, os.getpid()) as pulse:
        assert connection.ended.wait(ENOUGH)
    assert pulse.silence.startswith("it sent nothing back for ")
    assert " of which it could run for " in pulse.silence
    assert len(connection.opened) == 1


def test_a_killed_program_is_restarted():
    connection = Connection("exit 1", "head -c 1", "exec cat")
    with beating(connection, os.getpid()) as pulse:
        assert connection.third.wait(ENOUGH)
    assert not pulse.silence
    assert connection.is_connected()


def test_nothing_is_watched_once_the_connection_is_gone():
    connection = Connection("exec cat")
    connection.hang_up()
    with beating(connection, os.getpid()) as pulse:
        assert connection.asked.wait(ENOUGH)
    assert not connection.opened
    assert not pulse.silence


class Starved:
    """A host that does not let the guest run, until told otherwise."""

    idle = True

    def __init__(self, pid):
        assert pid == os.getpid()

    def now(self):
        return 0.0 if Starved.idle else 60.0


def test_a_guest_that_gets_no_processor_is_not_silent(monkeypatch):
    looks = threading.Semaphore(0)

    class Looked(Starved):
        def now(self):
            looks.release()
            return super().now()

    monkeypatch.setattr(module, "ServedTime", Looked)
    monkeypatch.setattr(Starved, "idle", True)
    connection = Connection("exec sleep 60")
    with beating(connection, os.getpid()) as pulse:
        for _ in range(50):
            assert looks.acquire(timeout=ENOUGH)
        assert connection.is_connected()
        Starved.idle = False
        assert connection.ended.wait(ENOUGH)
    assert pulse.silence.endswith("of which it could run for 60.0 s")


def test_even_a_busy_host_is_waited_for_only_so_long(monkeypatch):
    monkeypatch.setattr(module, "ServedTime", Starved)
    monkeypatch.setattr(Starved, "idle", True)
    monkeypatch.setattr(module, "LIMIT", 0.1)
    connection = Connection("exec sleep 60")
    with beating(connection, os.getpid()) as pulse:
        assert connection.ended.wait(ENOUGH)
    assert pulse.silence.endswith("of which it could run for 0.0 s")


class Target:
    """Answers the last of so many probes; the others are too late."""

    def __init__(self, late):
        self.late = late

    def run(self, argv, *, deadline):
        assert argv == ["true"]
        assert deadline.remaining > 0
        if self.late:
            self.late -= 1
            raise DeadlineError("'true' did not end.", data={"late": self.late})


def test_a_command_is_late_only_by_served_time(monkeypatch):
    assert late_answer(Target(0), os.getpid()) is None
    monkeypatch.setattr(module, "ServedTime", Starved)
    monkeypatch.setattr(Starved, "idle", True)
    assert late_answer(Target(3), os.getpid()) is None
    monkeypatch.setattr(module, "LIMIT", 0)
    assert late_answer(Target(3), os.getpid()).data == {"late": 2}
    monkeypatch.setattr(module, "LIMIT", 60)
    monkeypatch.setattr(Starved, "idle", False)
    assert late_answer(Target(3), os.getpid()).data == {"late": 2}


def test_silence_is_reported_within_ten_seconds(monkeypatch):
    """The last answer, the pause until the next probe, and the patience with it."""
    monkeypatch.undo()
    assert module.EVERY + module.PATIENCE + module.LOOK_EVERY < 10
    assert module.PATIENCE < module.PING_SECONDS < 10
