"""The commands that save and load a machine's state, with a QEMU that is a list of answers."""

import os
import subprocess

import pytest

from memqos.clock import Deadline
from memqos.errors import DeadlineError, MachineError
from memqos.vm.qemu.qmp import come_to_rest, load_state, save_state


class FakeQmp:
    """Answers `query-migrate` with one status after the other, and records its commands."""

    def __init__(self, *statuses, usernet=""):
        self.statuses = list(statuses)
        self.usernet = usernet
        self.told = []

    def execute(self, command, arguments=None, *, deadline):  # noqa: ARG002 - the real one's signature
        if command == "query-migrate":
            return self.statuses.pop(0) if self.statuses[1:] else self.statuses[0]
        self.told.append((command, arguments))
        return {}

    def monitor(self, line, *, deadline):  # noqa: ARG002 - the real one's signature
        assert line == "info usernet"
        return self.usernet


def soon():
    return Deadline.after(5)


CAPABILITY = (
    "migrate-set-capabilities",
    {"capabilities": [{"capability": "x-ignore-shared", "state": True}]},
)


def test_saving_stops_the_guest_and_leaves_its_memory_where_it_is(tmp_path):
    qmp = FakeQmp({}, {"status": "active"}, {"status": "completed"})
    save_state(qmp, tmp_path / "state", deadline=soon())
    assert qmp.told == [("stop", None), CAPABILITY, ("migrate", {"uri": f"file:{tmp_path}/state"})]


def test_loading_lets_the_guest_continue(tmp_path):
    qmp = FakeQmp({"status": "setup"}, {"status": "completed"})
    load_state(qmp, tmp_path / "state", deadline=soon())
    assert qmp.told == [CAPABILITY, ("migrate-incoming", {"uri": f"file:{tmp_path}/state"}), ("cont", None)]


def test_a_state_that_qemu_refuses_is_an_error_with_its_reason(tmp_path):
    qmp = FakeQmp({"status": "failed", "error-desc": "Unknown savevm section"})
    with pytest.raises(MachineError, match="migration failed: Unknown savevm section"):
        load_state(qmp, tmp_path / "state", deadline=soon())
    assert ("cont", None) not in qmp.told


def test_a_connection_that_stays_open_is_no_rest():
    qmp = FakeQmp(usernet="  TCP[ESTABLISHED]  12  127.0.0.1 40001  10.0.2.15  22  0  0\n")
    with pytest.raises(DeadlineError, match="every connection to the guest has ended"):
        come_to_rest(qmp, 1, deadline=Deadline.after(0.1))


def test_an_idle_guest_uses_next_to_no_cpu():
    lines = ("HOST_FORWARD", "TIME_WAIT")
    qmp = FakeQmp(usernet="".join(f"  TCP[{state}]  12  127.0.0.1 40001  10.0.2.15  22  0  0\n" for state in lines))
    idle = subprocess.Popen(["sleep", "20"])
    try:
        deadline = soon()
        come_to_rest(qmp, idle.pid, deadline=deadline)
        assert 0.2 < deadline.elapsed < 3
    finally:
        idle.kill()
        idle.wait()


def test_a_guest_that_never_rests_is_taken_as_it_is(monkeypatch):
    monkeypatch.setattr("memqos.vm.qemu.qmp.REST_SECONDS", 0.6)
    monkeypatch.setattr("memqos.vm.qemu.qmp.RESTING_SHARE", -1.0)
    deadline = soon()
    come_to_rest(FakeQmp(), os.getpid(), deadline=deadline)
    assert deadline.elapsed >= 0.5
