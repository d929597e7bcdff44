"""The whole path in a real machine: `memqos run` with a wrong runtime, and killed in the middle.

With a good runtime: test_profiles and test_tutorial; with others that are wrong: test_mutants.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memqos.clock import Deadline, wait
from tests.vm.runs import bundle, memqos_run, wrong_runtime

pytestmark = pytest.mark.vm


def test_a_runtime_that_drops_unified_deviates_in_the_containers_files(tmp_path):
    """The one wrong runtime of the gate; `tox -e wrappers` tries all the others."""
    chosen = "unified-min and not update"
    folder = tmp_path / "results"

    done = memqos_run(folder, "--runtime-binary", str(wrong_runtime(tmp_path, "drops-unified")), "-k", chosen)

    assert done.returncode == 1, done.stdout + done.stderr
    [failed] = bundle(folder)["results"]
    assert failed["claim"] == "requests/unified-min"
    [deviation] = [finding for finding in failed["findings"] if finding["verdict"] == "deviates"]
    assert (deviation["knob"], deviation["observed"]) == ("memory.min", "0")
    assert "/cri-containerd-" in deviation["cgroup"]
    assert deviation["subject"].startswith("container ")
    assert bundle(folder)["machines"][0]["runtime_binary"]["sha256"]
    kept = {path.name for path in (folder / failed["folder"]).iterdir()}
    assert kept >= {"plan.json", "readings.jsonl", "requests.jsonl", "dmesg.txt", "cgroups.txt", "serial.log"}
    assert "memory.min of container requested is 0, expected 8388608" in done.stdout


def test_killing_memqos_leaves_no_qemu_and_the_findings_so_far(tmp_path):
    folder = tmp_path / "results"
    command = [sys.executable, "-m", "memqos", "run", "--results", str(folder), "--kubernetes", "1.22"]
    with (tmp_path / "output").open("wb") as output:
        process = subprocess.Popen([*command, "-k", "values"], cwd=tmp_path, stdout=output, stderr=output)
        try:
            machine = wait(
                "the machine is up",
                lambda: process.poll() is not None or list(folder.glob("machines/*/machine.json")),
                deadline=Deadline.after(600),
            )
            own = qemus_of(process.pid)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()

    assert machine is not True, (tmp_path / "output").read_text()
    assert own
    wait("QEMU is gone", lambda: not any(alive(pid) for pid in own), deadline=Deadline.after(5))


def qemus_of(pid: int) -> list[int]:
    """The QEMU processes among this process's descendants."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,comm"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
    family = {pid}
    grown = True
    while grown:
        children = {int(row[0]) for row in rows if int(row[1]) in family}
        grown = not children <= family
        family |= children
    return [int(row[0]) for row in rows if int(row[0]) in family and row[2].startswith("qemu-system")]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie is dead, though it has not been reaped yet.
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
