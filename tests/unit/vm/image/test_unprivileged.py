"""The error for an ordinary user on a host that does not let them build images."""

import os

import pytest

from memqos.errors import EnvironmentNotAbleError, MissingProgramError
from memqos.vm.host.programs import namespace_obstacle, need_namespaces


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """An ordinary user on a host whose unshare answers as set."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("memqos.vm.host.programs.SBIN", ())

    def write(name, text):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    return write


def test_root_needs_no_namespace(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "")
    assert namespace_obstacle() is None


def test_a_namespace_that_works_is_no_obstacle(programs):
    programs("newuidmap", "exit 1")
    programs("unshare", '[ "$*" = "--user --map-root-user --map-auto --mount true" ]')
    need_namespaces()


def test_an_unsuitable_host_is_reported_with_what_to_change(programs):
    programs("newuidmap", "")
    programs("unshare", "echo 'unshare: write failed /proc/self/uid_map: Operation not permitted' >&2; exit 1")
    with pytest.raises(EnvironmentNotAbleError, match="subordinate ids: write failed /proc/self/uid_map") as caught:
        need_namespaces()
    assert "usermod --add-subuids" in caught.value.next_step


def test_a_failure_without_output_has_its_status(programs):
    programs("newuidmap", "")
    programs("unshare", "exit 3")
    assert namespace_obstacle() == "unshare ended with status 3"


def test_a_missing_program_is_named_with_its_package(programs):
    programs("unshare", "")
    with pytest.raises(MissingProgramError, match="'newuidmap' is not installed") as caught:
        need_namespaces()
    assert "uidmap" in caught.value.next_step
