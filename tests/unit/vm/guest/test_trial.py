"""The identity of a user's program, and the error for one that does not run."""

import sys
from pathlib import Path

import pytest

from memqos.clock import Deadline
from memqos.errors import UsageError
from memqos.target.local import LocalTarget
from memqos.vm.guest import installing
from memqos.vm.guest.installing import try_program
from memqos.vm.profile import ReportedProgram

FEATURES = '{"ociVersionMin": "1.0.0", "annotations": {"org.opencontainers.runc.version": "1.2.5"}}'


@pytest.fixture
def told(tmp_path):
    """Try a program of this content, on this host: it is a machine with Python too."""

    def tell(content, name="runc"):
        program = tmp_path / "program"
        program.write_bytes(content if isinstance(content, bytes) else f"#!/bin/sh\n{content}\n".encode())
        program.chmod(0o755)
        return try_program(
            LocalTarget(),
            str(program),
            name=name,
            option="--runtime-binary",
            given="./my-runc",
            deadline=Deadline.after(30),
        )

    return tell


def answers(version="exit 1", features="exit 1"):
    return f'case "$1" in\n--version) {version} ;;\nfeatures) {features} ;;\nesac'


@pytest.mark.parametrize(
    ("script", "name", "version"),
    [
        (answers("echo runc version 1.1.15+ds1; echo commit: 2"), "runc", "1.1.15+ds1"),
        (answers("echo crun version 1.21"), "crun", "1.21"),
        (answers("echo youki version 0.5.3"), "youki", "0.5.3"),
        (answers("echo 'kata-runtime  : 3.2.0'"), "kata-runtime", "3.2.0"),
        (answers("echo crun version UNKNOWN"), "crun", ""),
        (answers("echo runc version unknown 1c4457e"), "runc", ""),
        (answers("echo runc version 1.3.6; exit 1"), "", ""),
        (answers("echo I wrap another runtime"), "", ""),
        (answers("printf 'runc version 1.2\\033[31m\\n'"), "runc", ""),
        (answers("printf '\\033[31mrunc version 1.2.3\\n'"), "", "1.2.3"),
        (answers("echo runc version $(printf %05000d 1).2"), "runc", ""),
        (answers(features=f"echo '{FEATURES}'"), "runc", "1.2.5"),
        (answers("echo runc version unknown", f"echo '{FEATURES}'"), "runc", "1.2.5"),
        (answers(features='echo \'{"annotations": {"run.oci.crun.version": "1.24"}}\''), "crun", "1.24"),
        (answers(features="echo '{}'"), "", ""),
        (answers(features="echo '[]'"), "", ""),
        (answers(features="echo '{\"annotations\": null}'"), "", ""),
        ("kill -SEGV $$", None, None),
        (answers("kill -SEGV $$", f"echo '{FEATURES}'"), "runc", "1.2.5"),
        (answers("exit 127", "exit 1"), "", ""),
        ("printf '\\377\\376'", "", ""),
    ],
)
def test_a_programs_identity(told, script, name, version):
    if name is None:
        with pytest.raises(UsageError, match=r"'\./my-runc' does not run in the machine: it was killed by signal 11\."):
            told(script)
    else:
        assert told(script) == ReportedProgram(name=name, version=version)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"#!/no/such/python\n", "the interpreter or dynamic loader that '#!/no/such/python' names is missing"),
        (b"#!/bin/sh\r\nexit\r\n", r"'#!/bin/sh\\x0d' names is missing"),
        (b"#!/usr/bin/env no-such-program\n", r"no-such-program.* \(status 127\)"),
        ('exec /no/such/runc.dist "$@"', r"/no/such/runc\.dist.*not found \(status 127\)"),
        (b"\x7fELF\x02\x01\x01", "the kernel reports 'Exec format error'"),
        (b"MZ\x90", "the kernel reports 'Exec format error'"),
        ("exit 127", r"it found nothing to run \(status 127\)"),
        ("printf 'no\\033[31m\\nway' >&2; exit 126", r"no\\x1b\[31m way \(status 126\)"),
        ("echo no libseccomp >&2; exit 127", r"no libseccomp \(status 127\)"),
    ],
)
def test_a_program_that_does_not_run_is_the_persons_to_mend(told, content, words):
    with pytest.raises(
        UsageError, match=f"--runtime-binary: './my-runc' does not run in the machine: .*{words}"
    ) as caught:
        told(content)
    assert "Give a static program for the machine's CPU" in caught.value.next_step


def test_a_program_cut_off_does_not_run(told):
    """Faults that the host does not see in a file are found by the machine's kernel."""
    start = Path(sys.executable).resolve().read_bytes()[:5000]
    with pytest.raises(UsageError, match="does not run in the machine"):
        told(start)


def test_a_program_that_hangs_is_ended(told, monkeypatch, tmp_path):
    monkeypatch.setattr(installing, "PATIENCE_SECONDS", 0.3)
    with pytest.raises(UsageError, match=r"it did not print its version within 0\.3 s"):
        told(f"sleep 60 & echo $! >>{tmp_path}/children; wait")
    for child in (tmp_path / "children").read_text().split():
        assert is_dead(Path("/proc", child, "stat"))


def is_dead(stat):
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_containerd_is_only_asked_for_its_version(told, tmp_path):
    """`containerd features` would start a second daemon."""
    script = f'echo "$1" >>{tmp_path}/asked; echo containerd github.com/containerd/containerd/v2 v2.1.9 1c4457e'
    assert told(script, name="containerd") == ReportedProgram(name="containerd", version="v2.1.9")
    assert (tmp_path / "asked").read_text() == "--version\n"
