"""A user that is not root: commands go through sudo, and sockets through a program that sudo starts."""

import contextlib
import socket
import threading

import pytest

from memqos.clock import Deadline
from memqos.errors import UsageError
from memqos.target.base import no_diagnosis
from memqos.target.opening import check_url
from memqos.target.ssh import SUDO, SshTarget


@pytest.fixture
def target(tmp_path, monkeypatch):
    """A target whose ssh runs its last argument here, and whose sudo records what it starts."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ssh").write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
    (programs / "sudo").write_text(
        f'#!/bin/sh\necho "$*" >>{tmp_path}/sudo.log\n[ "$1 $2" = "-n --" ] && shift 2\nexec "$@"\n'
    )
    for name in ("ssh", "sudo"):
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/local/bin:/usr/bin:/bin")
    return SshTarget(
        address="ssh://admin@there", host="there", options=(), folder=tmp_path, diagnose=no_diagnosis, become=SUDO
    )


def test_commands_and_files_are_roots(target, tmp_path):
    assert target.run(["echo", "a b", "$HOME"], deadline=Deadline.after(10)).text == "a b $HOME\n"
    target.write(str(tmp_path / "file"), b"content", deadline=Deadline.after(10), mode=0o640)
    assert target.read(str(tmp_path / "file"), deadline=Deadline.after(10)) == b"content"
    lines = (tmp_path / "sudo.log").read_text().splitlines()
    assert lines[0] == "-n -- echo a b $HOME"
    assert all(line.startswith("-n -- ") for line in lines if not line.startswith((" ", "\t")))


def test_a_socket_of_roots_is_reached_through_sudo(target, tmp_path):
    """sshd's own forwarding has the rights of the user, who may not open it."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "daemon.sock"))
        server.listen()

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.sendall(connection.recv(100).upper())

        thread = threading.Thread(target=answer)
        thread.start()
        with target.forward(str(tmp_path / "daemon.sock")) as local, socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(str(local))
            client.sendall(b"hello")
            assert client.recv(100) == b"HELLO"
        thread.join()
    assert "-n -- sh -c" in (tmp_path / "sudo.log").read_text()


@pytest.mark.parametrize(
    ("url", "taken"), [("ssh://a@b?sudo=true", True), ("ssh://a@b?sudo=maybe", False), ("docker://b?sudo=true", False)]
)
def test_a_url_may_ask_for_sudo(url, taken):
    with contextlib.nullcontext() if taken else pytest.raises(UsageError):
        check_url(url, where="--target")
