"""Runtimes, daemons and machines that fail, before a case or in it: each ends in time, and the next case is right."""

from __future__ import annotations

import gzip
import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memqos.clock import Deadline, wait
from tests.vm.runs import bundle, memqos_run, program
from tests.vm.test_run import alive, qemus_of

pytestmark = [pytest.mark.vm, pytest.mark.wrappers]

FAULTY = """\
#!/usr/bin/python3 -IS
# An OCI runtime with a fault for each of some requests, told apart by what they ask for.
import json, os, sys, time

def prints():
    for _ in range(100):
        os.write(2, b"many words\\n" * 95325)

def fails():
    prints()
    sys.exit(1)

def stays():
    if not os.fork():
        time.sleep(3600)

def leaves_zombies():
    for _ in range(50):
        if not os.fork():
            os._exit(0)

def hangs():
    time.sleep(3600)

def kills_its_daemon():
    os.system("systemctl kill --signal=KILL --kill-whom=main containerd")

FAULTS = {"unified-min": stays, "unified-low": leaves_zombies, "unified-oom-group": hangs}

def request_of(resources):
    unified = resources.get("unified") or {}
    return "unified-" + [*unified][0].removeprefix("memory.").replace(".", "-") if len(unified) == 1 else ""

words = sys.argv[1:]
if "create" in words:
    with open(words[words.index("--bundle") + 1] + "/config.json") as file:
        spec = json.load(file)
    request = request_of(spec["linux"].get("resources") or {})
    if request == "unified-high":
        open("/run/kill-at-start-of-" + words[-1], "w").close()
    FAULTS.get(request, lambda: None)()
if "update" in words:
    fails()
if "start" in words and os.path.exists("/run/kill-at-start-of-" + words[-1]):
    kills_its_daemon()
os.execv(sys.argv[0] + ".dist", [sys.argv[0] + ".dist", *words])
"""


NAMES = ("unified-min", "unified-low", "unified-high", "unified-oom-group", "everything", "update-limit", "limit")
CASES = tuple(f"requests/test_requests.py::test_request[{name}]" for name in NAMES)


def results(folder: Path) -> dict[str, dict[str, Any]]:
    """A run's findings, by the request of each case."""
    return {one["claim"].partition("/")[2]: one for one in bundle(folder)["results"]}


def calls(folder: Path) -> list[dict[str, Any]]:
    """The requests to the runtime in a case, also if its folder was compressed."""
    plain, compressed = folder / "requests.jsonl", folder / "requests.jsonl.gz"
    text = plain.read_bytes() if plain.exists() else gzip.decompress(compressed.read_bytes())
    return [json.loads(line) for line in text.splitlines()]


def test_a_runtime_that_fails_costs_its_case_and_no_other(tmp_path: Path) -> None:
    wrapper, folder = program(tmp_path / "my-runc", FAULTY), tmp_path / "results"

    done = memqos_run(folder, *CASES, "--runtime-binary", str(wrapper))

    assert "Traceback" not in done.stdout + done.stderr
    found = results(folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert {name: one["outcome"] for name, one in found.items()} == {
        "unified-min": "machinery",
        "unified-low": "conforms",
        "unified-high": "machinery",
        "unified-oom-group": "machinery",
        "everything": "conforms",
        "update-limit": "deviates",
        "limit": "conforms",
    }
    for name in ("unified-min", "unified-high", "unified-oom-group"):
        assert len(found[name]["reason"]) < 2000
        assert calls(folder / found[name]["folder"])[0]["method"] == "CreateContainer"
    for name in ("unified-high", "unified-oom-group"):
        assert any(one["error"] for one in calls(folder / found[name]["folder"]))
    refused = [one for one in found["update-limit"]["findings"] if one["verdict"] == "deviates"]
    assert {one["knob"] for one in refused} == {"update"}
    assert all(len(one["observed"]) < 10_000 for one in refused)


# ---- missing and unfit files


@pytest.mark.parametrize(
    ("socket", "told"),
    [
        ("/run/nobody/cri.sock", "the machine has no socket '/run/nobody/cri.sock'"),
        ("/run/containerd/containerd.sock.ttrpc", "does not serve CRI v1"),
        ("/run/dbus/system_bus_socket", "does not serve CRI v1"),
        ("/etc/hostname", "the machine has no socket '/etc/hostname'"),
    ],
)
def test_a_socket_without_cri_ends_a_run_before_its_cases(tmp_path: Path, socket: str, told: str) -> None:
    folder = tmp_path / "results"

    done = memqos_run(folder, CASES[-1], "--runtime", "cri+mine", "--cri-socket", socket)

    assert done.returncode == 4, done.stdout + done.stderr
    said = done.stdout + done.stderr
    assert "--cri-socket" in said
    assert told in said
    assert "Traceback" not in said


def elf_for(machine: int) -> bytes:
    """The head of a program for this processor, by the number that ELF has for it."""
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    return ident + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0x400078, 64, 0, 0, 64, 56, 1, 0, 0, 0) + bytes(4096)


@pytest.mark.parametrize("runtime", ["containerd+runc", "oci:runc"])
def test_a_program_for_another_processor_ends_a_run_before_its_cases(tmp_path: Path, runtime: str) -> None:
    other = tmp_path / "my-runc"
    other.write_bytes(elf_for(183))
    other.chmod(0o755)

    done = memqos_run(tmp_path / "results", CASES[-1], "--runtime", runtime, "--runtime-binary", str(other))

    assert done.returncode == 4, done.stdout + done.stderr
    assert "--runtime-binary" in done.stderr
    assert "is built for arm64, and the machines are amd64" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


# ---- machines that go away


def test_a_machine_that_goes_away_costs_its_case_and_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    command = [sys.executable, "-m", "memqos", "run", "--results", str(folder), CASES[-1], CASES[0]]
    with (tmp_path / "output").open("wb") as output:
        run = subprocess.Popen(command, cwd=tmp_path, stdout=output, stderr=output)
        try:
            wait(
                "a container is going to be started",
                lambda: run.poll() is not None or "answers after" in (tmp_path / "output").read_text(),
                deadline=Deadline.after(600),
            )
            first = qemus_of(run.pid)
            for pid in first:
                os.kill(pid, signal.SIGKILL)
            code = run.wait(600)
        finally:
            run.kill()
            run.wait()

    said = (tmp_path / "output").read_text()
    assert code == 3, said
    assert first
    assert "Traceback" not in said
    assert {name: one["outcome"] for name, one in results(folder).items()} == {
        "limit": "machinery",
        "unified-min": "conforms",
    }
    assert "QEMU" in results(folder)["limit"]["reason"]
    assert len(list(folder.glob("machines/*"))) == 2
    assert not any(alive(pid) for pid in first)
