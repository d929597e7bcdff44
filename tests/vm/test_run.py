"""The whole path in a real machine: `memqos run` with wrong runtimes, and killed in the middle.

With a good runtime: test_profiles and test_tutorial.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memqos.clock import Deadline, wait
from tests.vm.runs import altering_runtime, bundle, memqos_run, program

pytestmark = pytest.mark.vm

LIES_ABOUT_UPDATES = """\
#!/bin/sh
# An OCI runtime that says of every update that it was done.
case " $* " in *" update "*) cat > /dev/null; exit 0;; esac
exec "$0.dist" "$@"
"""
ENDS_WITH_1 = "#!/bin/sh\necho 'this runtime does not work' >&2\nexit 1\n"


def test_a_runtime_that_drops_unified_deviates_in_the_containers_files(tmp_path):
    wrapper = altering_runtime(tmp_path / "my-runc", 'resources.pop("unified", None)')
    folder = tmp_path / "results"

    chosen = "v1.36-tiered and (burstable or guaranteed-one) and not overhead and containers or limited_swap_is_reached"
    done = memqos_run(folder, "--runtime-binary", str(wrapper), "-k", chosen)

    assert done.returncode == 1, done.stdout + done.stderr
    results = bundle(folder)["results"]
    deviations = [finding for result in results for finding in result["findings"] if finding["verdict"] == "deviates"]
    assert {finding["knob"] for finding in deviations} == {
        "memory.min", "memory.low", "memory.high", "memory.swap.max", "memory.oom.group",
    }  # fmt: skip
    assert all("/cri-containerd-" in finding["cgroup"] for finding in deviations)
    assert all(finding["subject"].startswith("container ") for finding in deviations)
    assert [result["outcome"] for result in results] == ["deviates"] * len(results)
    assert bundle(folder)["machines"][0]["runtime_binary"]["sha256"]
    failed = next(result for result in results if result["outcome"] == "deviates")
    kept = {path.name for path in (folder / failed["folder"]).iterdir()}
    assert kept >= {"plan.json", "readings.jsonl", "requests.jsonl", "dmesg.txt", "cgroups.txt", "serial.log"}
    assert "expected" in done.stdout


def test_a_runtime_that_lies_about_updates_is_found_by_each_claim_about_them(tmp_path):
    wrapper = program(tmp_path / "my-runc", LIES_ABOUT_UPDATES)
    folder = tmp_path / "results"

    chosen = "update-limit or update-refuses-no-number or test_drift or test_exec_is_bound"
    done = memqos_run(folder, "--runtime-binary", str(wrapper), "-k", chosen)

    assert done.returncode == 1, done.stdout + done.stderr
    deviating = {
        result["claim"]: {one["knob"] for one in result["findings"] if one["verdict"] == "deviates"}
        for result in bundle(folder)["results"]
    }
    assert deviating == {
        "requests/update-limit": {"memory.max"},
        "refusal/update-refuses-no-number": {"update"},
        "lifecycle/drift": {"memory.high"},
        "cri/exec-is-bound": set(),
    }


def test_a_runtime_that_ends_with_1_is_machinery_and_no_deviation(tmp_path):
    wrapper = program(tmp_path / "my-runc", ENDS_WITH_1)
    folder = tmp_path / "results"

    done = memqos_run(folder, "--runtime-binary", str(wrapper), "-k", "v1.27-burstable and containers")

    assert done.returncode == 3, done.stdout + done.stderr
    written = bundle(folder)
    assert written["counts"]["findings"]["deviates"] == 0
    assert "machinery" in {result["outcome"] for result in written["results"]}
    assert "Traceback" not in done.stdout + done.stderr


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
    """The QEMU processes that this process started, however deep."""
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
    # A zombie is dead, though nobody has asked after it yet.
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
