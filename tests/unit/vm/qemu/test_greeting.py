"""Waiting for the greeting of a guest's sshd: with one connection, however slow the guest is."""

import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from memqos.clock import Deadline
from memqos.errors import AbortedError
from memqos.vm.qemu.launch import sshd_answers
from memqos.vm.qemu.machine import Console
from tests.unit.vm.qemu.test_console import WAITS


@pytest.fixture
def later():
    return Deadline.after(60)


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def alive(console=Path("/nothing/there")):
    return SimpleNamespace(check_alive=lambda _: None, console=Console(path=console), fail=lambda error: error)


@pytest.mark.parametrize(("said", "answer"), [(b"SSH-2.0-OpenSSH_10.0\r\n", True), (b"", False), (b"220 x", False)])
def test_one_connection_waits_for_a_slow_greeting(listening, later, said, answer):
    connections = []

    def serve():
        connection, _ = listening.accept()
        with connection:
            connections.append(connection)
            time.sleep(1.5)
            connection.sendall(said)

    thread = threading.Thread(target=serve)
    thread.start()
    assert sshd_answers(alive(), listening.getsockname()[1], later) is answer
    thread.join()
    assert len(connections) == 1


def test_a_port_without_a_listener_is_no_answer(listening, later):
    port = listening.getsockname()[1]
    listening.close()
    assert sshd_answers(alive(), port, later) is False


def test_a_boot_that_hangs_is_not_waited_for(listening, later, tmp_path):
    (tmp_path / "serial.log").write_text(2 * WAITS)
    with pytest.raises(AbortedError, match="lost a timer of one of the guest's processors while it was booting"):
        sshd_answers(alive(tmp_path / "serial.log"), listening.getsockname()[1], later)


def test_a_boot_without_output_is_not_waited_for(listening):
    port = listening.getsockname()[1]
    listening.close()
    with pytest.raises(AbortedError, match=r"the guest printed nothing for \d+ s while it was booting"):
        sshd_answers(alive(), port, Deadline.after(0))


def test_a_guest_that_greets_needs_no_console_output(listening):
    def greet():
        connection, _ = listening.accept()
        with connection:
            connection.sendall(b"SSH-2.0-OpenSSH_10.0\r\n")

    thread = threading.Thread(target=greet)
    thread.start()
    assert sshd_answers(alive(), listening.getsockname()[1], Deadline.after(0))
    thread.join()


def test_a_boot_with_output_is_waited_for_however_long_it_takes(listening, tmp_path):
    port = listening.getsockname()[1]
    listening.close()
    (tmp_path / "serial.log").write_text("Linux\n")
    assert sshd_answers(alive(tmp_path / "serial.log"), port, Deadline.after(0)) is False
