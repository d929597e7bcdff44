"""A machine whose QEMU is a script: the errors if QEMU fails. Nothing is booted."""

from dataclasses import replace
from pathlib import Path

import pytest

from memqos.errors import MachineError, WrongStateError
from memqos.ownership import ProcessGroup
from memqos.vm.host.programs import Qemu
from memqos.vm.qemu import machine as module
from memqos.vm.qemu.launch import ssh_config
from memqos.vm.qemu.machine import Machine, MachineState
from memqos.vm.qemu.run import MAX_BASE, runtime_folder
from tests.golden.qemu.test_qemu_arguments import TWO_NUMA_NODES


@pytest.fixture
def group():
    with ProcessGroup() as opened:
        yield opened


@pytest.fixture
def make(tmp_path, group):
    def with_script(script: str) -> Machine:
        program = tmp_path / "qemu"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        spec = replace(TWO_NUMA_NODES, serial_log=tmp_path / "serial.log", qmp_socket=tmp_path / "qmp.sock")
        return Machine(
            spec, qemu=Qemu(program=program, version=(10, 0, 2)), group=group, qemu_log=tmp_path / "qemu.log"
        )

    return with_script


def test_a_qemu_that_refuses_is_quoted(make):
    """QEMU's message when a requested port is taken."""
    machine = make('echo "qemu: Could not set up host forwarding rule" >&2; exit 1')
    with pytest.raises(
        MachineError, match="QEMU ended with status 1 and printed: qemu: Could not set up host forwarding"
    ):
        machine.start()
    assert machine.state is MachineState.BROKEN


def test_a_broken_machine_repeats_its_first_failure(make):
    machine = make("exit 3")
    with pytest.raises(MachineError) as first:
        machine.start()
    for verb in (machine.start, lambda: machine.target, machine.check_alive):
        with pytest.raises(MachineError) as again:
            verb()
        assert again.value is first.value


def test_a_silent_qemu_is_given_up(make, monkeypatch):
    monkeypatch.setattr(module, "START_SECONDS", 0.3)
    machine = make("exec sleep 60")
    with pytest.raises(MachineError, match=r"'QEMU listens for QMP'.* while QEMU was starting"):
        machine.start()
    machine.stop()
    assert machine.state is MachineState.BROKEN


def test_the_console_s_tail_goes_with_the_failure(make, tmp_path):
    (tmp_path / "serial.log").write_bytes(b"one\nKernel panic - not syncing: VFS: Unable to mount root\n")
    machine = make("exit 0")
    with pytest.raises(MachineError, match="the guest's kernel panicked: VFS: Unable to mount root") as caught:
        machine.start()
    assert caught.value.data["console"].startswith("one\n")
    assert str(tmp_path / "serial.log") in caught.value.next_step


def test_verbs_name_the_state_and_those_they_accept(make):
    machine = make("exit 0")
    with pytest.raises(WrongStateError, match="cannot reach the machine while it is off: it must be ready or dirty"):
        machine.target  # noqa: B018 - the property refuses
    with pytest.raises(WrongStateError) as caught:
        machine.mark_dirty("x")
    assert caught.value.data == {"current": "off", "accepted": ["ready", "dirty"]}
    machine.stop()
    assert machine.state is MachineState.OFF


@pytest.mark.parametrize(
    ("xdg", "chosen"),
    [("USABLE", "USABLE"), ("", "TEMPORARY"), ("relative", "TEMPORARY"), ("NOT_THERE", "TEMPORARY")],
)
def test_sockets_go_where_paths_are_short(xdg, chosen, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "START_SECONDS", 1)
    monkeypatch.setattr("memqos.vm.qemu.run.MAX_BASE", len(str(tmp_path)) + 10)
    folders = {"USABLE": tmp_path / "run", "TEMPORARY": tmp_path / "temp", "NOT_THERE": tmp_path / "none"}
    for name in ("USABLE", "TEMPORARY"):
        folders[name].mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folders["TEMPORARY"]))
    environment = {"XDG_RUNTIME_DIR": str(folders.get(xdg, xdg))}
    assert runtime_folder(environment) == folders[chosen]


def test_a_long_temporary_folder_is_passed_over(tmp_path, monkeypatch):
    long = tmp_path / ("x" * MAX_BASE)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    assert runtime_folder({"XDG_RUNTIME_DIR": str(long)}) == Path("/tmp")


def test_ssh_knows_the_host_and_never_prompts():
    config = ssh_config(port=2222, identity=Path("/a b/identity"), known_hosts=Path("/c/known_hosts"))
    lines = {line.strip() for line in config.splitlines()}
    assert {
        "HostName 127.0.0.1",
        "Port 2222",
        'IdentityFile "/a b/identity"',
        'UserKnownHostsFile "/c/known_hosts"',
        "StrictHostKeyChecking yes",
        "BatchMode yes",
        "ForwardAgent no",
    } <= lines
