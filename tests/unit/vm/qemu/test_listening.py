"""When QEMU's monitor takes connections: a bound socket has its file, but refuses them until it listens."""

import socket

import pytest

from memqos.vm.qemu.qmp import is_listening


@pytest.mark.parametrize("name", ["qmp.sock", "a folder's qmp.sock"])
def test_a_bound_socket_does_not_listen_yet(tmp_path, name):
    path = tmp_path / name
    assert not is_listening(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert path.exists()
        assert not is_listening(path)
        server.listen()
        assert is_listening(path)
        assert not is_listening(path.with_name("mp.sock"))
    assert not is_listening(path)
