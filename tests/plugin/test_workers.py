"""Workers of pytest-xdist: how they end with their controller. Nothing is booted."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from memqos.clock import Deadline, wait

pytest_plugins = ["pytester"]

HOLDS_A_PROCESS = """
import os, time
from pathlib import Path
from memqos.vm.host.ownership import ProcessGroup

@pytest.mark.parametrize("number", range(2))
def test_it(qos_lane, number):
    with ProcessGroup(keepable=bool(number)) as group:
        member = group.start(["sleep", "100"])
        Path(os.environ["HELD"], str(number)).write_text(str(member.pid))
        time.sleep(100)
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_workers_hold_is_gone_five_seconds_after_their_controller_was_killed(suite, pytester, tmp_path):
    suite(HOLDS_A_PROCESS)
    held = tmp_path / "held"
    held.mkdir()
    argv = [sys.executable, "-m", "pytest", "suites", "--memqos-results=out", "-n", "2", "--dist=load"]
    with subprocess.Popen(argv, cwd=pytester.path, env={**os.environ, "HELD": str(held)}) as controller:
        try:
            wait(
                "both workers hold a process",
                lambda: len([one for one in held.iterdir() if one.read_text()]) == 2,
                deadline=Deadline.after(60),
            )
        finally:
            controller.send_signal(signal.SIGKILL)
    pids = [int(one.read_text()) for one in held.iterdir()]
    wait("both are gone", lambda: not any(map(is_running, pids)), deadline=Deadline.after(5))
