"""A foreign system accepts a user or not: an ssh on PATH answers as its sshd would."""

import dataclasses
from types import SimpleNamespace

import pytest

from memqos.clock import Deadline
from memqos.errors import UnfitFileError
from memqos.vm.qemu import launch
from memqos.vm.qemu.launch import NOT_ROOT, wait_for_login


@dataclasses.dataclass(frozen=True)
class Asked:
    """The part of Ingredients that a login needs."""

    identity: object
    user: str = "fedora"
    seed: bytes = b""
    known_hosts: object = None


@pytest.fixture
def login(tmp_path, monkeypatch):
    """Logs in with an ssh that does this; its arguments are in the log."""
    monkeypatch.setattr(launch, "LOGIN_EVERY", 0.01)
    monkeypatch.setattr(launch, "LOGIN_SECONDS", 0.3)
    (tmp_path / "id").write_text("key")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def try_it(script, **asked):
        (tmp_path / "ssh").write_text(f"#!/bin/sh\necho x >>{tmp_path}/log\n{script}\n")
        (tmp_path / "ssh").chmod(0o755)
        machine = SimpleNamespace(
            ssh_port=lambda: 2222, check_alive=lambda _: None, failing=lambda _: launch.contextlib.nullcontext()
        )
        run = SimpleNamespace(sockets=tmp_path / "sockets")
        run.sockets.mkdir(exist_ok=True)
        wait_for_login(machine, run, Asked(identity=tmp_path / "id", **asked), Deadline.after(20))
        return (run.sockets / "ssh_config").read_text()

    return try_it


def test_a_user_with_its_key_is_let_in(login):
    config = login("exit 0")
    assert "User fedora\n" in config
    assert "StrictHostKeyChecking accept-new" in config
    assert "Port 2222" in config


def test_cloud_init_may_be_late_with_the_key(login, tmp_path):
    login(f"[ $(wc -l <{tmp_path}/log) -gt 2 ] || {{ echo 'Permission denied (publickey).' >&2; exit 255; }}")
    assert len((tmp_path / "log").read_text().splitlines()) == 3


def test_an_sshd_that_restarts_is_tried_again(login, tmp_path):
    """Other failures are no refusal: the login is tried until the boot's deadline."""
    login(f"[ $(wc -l <{tmp_path}/log) -gt 60 ] || {{ echo 'Connection reset by peer' >&2; exit 255; }}")
    assert len((tmp_path / "log").read_text().splitlines()) == 61


def test_a_wrong_key_names_its_option(login):
    with pytest.raises(
        UnfitFileError, match=r"refuses 'fedora' with this key: Permission denied \(publickey\)"
    ) as refused:
        login("echo 'Permission denied (publickey).' >&2; exit 255")
    assert refused.value.where == "--ssh-key"
    assert "Check the user (--ssh-user" in refused.value.next_step


def test_an_image_without_cloud_init_gets_a_hint(login):
    with pytest.raises(UnfitFileError, match="with the key that memqos passes to cloud-init") as refused:
        login("echo 'Permission denied (publickey).' >&2; exit 255", seed=b"iso", user="root")
    assert refused.value.where == "--image"
    assert "--ssh-user" in refused.value.next_step
    assert "--ssh-key" in refused.value.next_step


@pytest.mark.parametrize("said", ["sudo: a password is required", "sh: 1: sudo: not found"])
def test_a_user_that_cannot_become_root_is_refused(login, said):
    with pytest.raises(UnfitFileError, match=f"cannot become root: {said}") as refused:
        login(f"echo '{said}' >&2; exit {NOT_ROOT}")
    assert refused.value.where == "--ssh-user"
