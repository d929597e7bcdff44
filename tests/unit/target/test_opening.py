"""From URLs to connections, with programs on PATH that record how they were called."""

import contextlib
import os
import shutil
import socket
import sys
import threading
from pathlib import Path

import pytest

from memqos.clock import Deadline
from memqos.errors import MissingProgramError, TargetError, UsageError
from memqos.ownership import ProcessGroup
from memqos.target.container import ContainerTarget
from memqos.target.local import LocalTarget
from memqos.target.opening import check_url, opened_target


def soon():
    return Deadline.after(30)


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """docker, kubectl and ssh that print their arguments; ssh keeps no connection."""
    for name in ("docker", "kubectl"):
        (tmp_path / name).write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "ssh").write_text('#!/bin/sh\necho "called: $*" >&2\nexit 255\n')
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


@contextlib.contextmanager
def opened(url, folder):
    with ProcessGroup() as group, opened_target(url, start=group.start, folder=folder, deadline=soon()) as target:
        yield target


@pytest.mark.parametrize(
    ("url", "words", "address"),
    [
        ("docker://kind-worker", "docker exec -i kind-worker true", "docker://kind-worker"),
        ("docker://root@kind-worker", "docker exec -i -u root kind-worker true", "docker://root@kind-worker"),
        (
            "kubectl://debugger?namespace=qa&container=shell&context=lab",
            "kubectl --context lab -n qa exec -i -c shell debugger -- true",
            "kubectl://debugger",
        ),
    ],
)
def test_a_container_is_reached_by_the_program_that_its_url_names(programs, tmp_path, url, words, address):
    with opened(url, tmp_path) as target:
        said = target.run(["true"], deadline=soon()).text.split()
        assert target.address == address
    assert [Path(said[0]).name, *said[1:]] == words.split()


def test_ssh_gets_user_port_and_key_and_its_message_is_reported(programs, tmp_path):
    url = "ssh://root@node7:2222?ssh_identity_file=/keys/id&ssh_config=/etc/other"
    with pytest.raises(TargetError, match="ssh could not connect") as caught, opened(url, tmp_path):
        pytest.fail("it was opened")
    words = caught.value.what.partition("called: ")[2]
    assert caught.value.next_step == "Try it by hand: ssh -F /etc/other -l root -p 2222 -i /keys/id node7 true"
    assert words.startswith("-F /etc/other -l root -p 2222 -i /keys/id ")
    assert words.endswith(" node7")
    assert "BatchMode=yes" in words


@pytest.mark.parametrize("kind", ["docker", "kubectl"])
def test_connection_errors_of_docker_and_kubectl_are_reported(programs, tmp_path, kind):
    (programs / kind).write_text("#!/bin/sh\necho 'Cannot connect' >&2\nexit 1\n")
    told = rf"{kind}://node7: {kind} could not reach it: Cannot connect Try it by hand: {kind} exec -i node7 .*true"
    with pytest.raises(TargetError, match=told), opened(f"{kind}://node7", tmp_path):
        pytest.fail("it was opened")


def test_this_host_is_reached_directly(tmp_path):
    with opened("local://", tmp_path) as target:
        assert isinstance(target, LocalTarget)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("node7", "there is no connection 'node7'"),
        ("telnet://node7", r"there is no connection 'telnet'\. Known: docker://, kubectl://, local://, ssh://"),
        ("ssh://", "'ssh://' does not name a machine. Write ssh://NAME"),
        ("docker://", "does not name a machine"),
        ("ssh://:22", "does not name a machine"),
        ("ssh://a b", "does not name a machine"),
        ("ssh://node7:abc", "does not name a machine"),
        ("ssh://node7/", "does not name a machine"),
        ("ssh://node7#x", "does not name a machine"),
        ("ssh://-oProxyCommand=id", "does not name a machine"),
        ("ssh://-l@node7", "does not name a machine"),
        ("ssh://root@-node7", "does not name a machine"),
        ("docker://--privileged", "does not name a machine"),
        ("docker://kind/worker", "does not name a machine"),
        ("ssh://node7?bogus=1", r"no parameter of ssh:// 'bogus'\. Known: ssh_config, ssh_identity_file"),
        ("docker://node7?sudo=true", "no parameter of docker:// 'sudo'"),
        ("ssh://node7?sudo=yes", "'yes' is not a value of sudo"),
        ("ssh://node7?ssh_config=", "'' is not a value of ssh_config"),
        ("kubectl://debugger?namespace=--all", "'--all' is not a value of namespace"),
        ("local://?sudo=true", "more than the name of this host"),
        ("local://node7", "more than the name of this host"),
        ("ssh://root:secret@node7", "can see a password in a URL"),
    ],
)
def test_what_leads_to_no_machine_is_refused(url, told):
    with pytest.raises(UsageError, match=told) as caught:
        check_url(url, where="--target")
    assert caught.value.where == "--target"
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["ssh://node7", "ssh://root@[fe80::1]:22", "ssh://10.0.0.7:2222", "docker://kind_worker-2", "local://"]
)
def test_what_leads_to_one_is_not(url):
    check_url(url, where="--target")


def test_a_missing_container_is_not_a_commands_status(tmp_path):
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho 'Error: No such container: kind' >&2\nexit 1\n")
    docker.chmod(0o755)
    target = ContainerTarget([str(docker), "exec", "-i", "kind"], address="docker://kind", folder=tmp_path)
    with pytest.raises(TargetError, match=r"docker://kind: .*docker failed at .*: Error: No such container"):
        target.run(["true"], deadline=soon())


def test_a_program_that_carries_and_is_not_installed_is_named(tmp_path):
    target = ContainerTarget(["no-such-docker", "exec"], address="docker://kind", folder=tmp_path)
    with pytest.raises(MissingProgramError, match="'no-such-docker' is not installed, but docker://kind needs it"):
        target.run(["true"], deadline=soon())


def only(folder, *programs):
    """A command line that starts programs which find nothing but these in their PATH."""
    (folder / "bin").mkdir()
    for name in programs:
        # The python3 in PATH may be a script that needs other programs.
        found = os.path.realpath(sys.executable) if name == "python3" else shutil.which(name)
        (folder / "bin" / name).symlink_to(found)
    return ["env", f"PATH={folder / 'bin'}"]


def test_a_connection_that_nothing_can_carry_ends_at_once(tmp_path):
    target = ContainerTarget(only(tmp_path, "sh"), address="docker://here", folder=tmp_path)
    with target.forward(str(tmp_path / "server")) as local, socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        client.connect(str(local))
        assert client.recv(1) == b""


@pytest.mark.parametrize("program", ["python3", "perl"])
def test_a_socket_inside_is_bridged_with_every_byte_both_ways(tmp_path, program):
    """Several connections at a time, one of which the other side ends, as with a gRPC client."""
    sent = bytes(range(256)) * 2000
    target = ContainerTarget(only(tmp_path, "sh", program), address="docker://here", folder=tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "server"))
        server.listen()

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=echo, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        with target.forward(str(tmp_path / "server")) as local:
            for _ in range(3):
                assert said_back(local, sent) == sent
        assert not local.exists()
        server.shutdown(socket.SHUT_RDWR)


def echo(connection):
    with connection:
        while data := connection.recv(1 << 16):
            connection.sendall(data)


def said_back(local, data):
    """The bytes echoed for so many sent ones, read while writing."""
    back = bytearray()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(local))

        def read():
            while chunk := client.recv(1 << 16):
                back.extend(chunk)

        reader = threading.Thread(target=read)
        reader.start()
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        reader.join(30)
    return bytes(back)
