"""`memqos run --target` on one of our own machines as the machine that is there, and what it leaves: nothing."""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memqos.clock import Deadline, wait
from memqos.vm.qemu.machine import Machine
from tests.vm.machines import output, soon, start, url_of

pytestmark = pytest.mark.vm

CASE = "v1.27-burstable and containers"

STATE = """
cd /; find sys/fs/cgroup -maxdepth 3 -type d -not -name 'session-*' -not -path '*/user.slice/*' |
  grep -v 'system.slice/'
ls -A run var/lib var/log/pods 2>/dev/null
ctr --namespace=k8s.io images list --quiet
ctr --namespace=k8s.io containers list --quiet
cat sys/fs/cgroup/system.slice/memory.min sys/fs/cgroup/system.slice/memory.high
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with start(tmp_path_factory.mktemp("target"), topology="two-zones") as machine:
        yield machine


def state_of(machine: Machine) -> str:
    return output(machine, "sh", "-c", STATE)


def command(machine: Machine, folder: Path, *options: str) -> list[str]:
    url = url_of(machine, folder)
    return [sys.executable, "-m", "memqos", "run", "--results", f"{folder}/out", "--target", url, "-k", CASE, *options]


def run(machine: Machine, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(machine, folder, *options), capture_output=True, text=True, check=False, cwd=folder)


@contextlib.contextmanager
def begun(machine: Machine, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run whose pods are on the machine by now."""
    with subprocess.Popen(command(machine, folder), cwd=folder, stdout=subprocess.PIPE) as process:
        try:
            wait("pods are there", lambda: "kubepods" in state_of(machine), deadline=Deadline.after(180), every=0.5)
            yield process
        finally:
            process.kill()


def test_a_machine_that_is_there_is_tested_and_left_as_it_was(machine: Machine, tmp_path: Path) -> None:
    before = state_of(machine)
    done = run(machine, tmp_path)
    assert done.returncode == 0, done
    [told] = json.loads((tmp_path / "out/bundle.json").read_text())["machines"]
    address = f"ssh://root@127.0.0.1:{machine.ssh_port()}"
    assert (told["profile"], told["target"]) == (address, address)
    assert f"machine ssh://root@127.0.0.1:{machine.ssh_port()}" in done.stdout
    assert state_of(machine) == before


def test_a_machine_without_our_images_gets_them_and_is_rid_of_them(machine: Machine, tmp_path: Path) -> None:
    output(machine, "sh", "-c", "ctr --namespace=k8s.io images list -q | xargs ctr --namespace=k8s.io images rm --sync")
    output(machine, "mv", "/usr/lib/memqos/memwatch", "/usr/lib/memqos/away")
    before = state_of(machine)
    assert "memqos.local" not in before
    done = run(machine, tmp_path)
    output(machine, "mv", "/usr/lib/memqos/away", "/usr/lib/memqos/memwatch")
    assert done.returncode == 0, done
    assert state_of(machine) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_nothing(machine: Machine, tmp_path: Path, number: signal.Signals) -> None:
    before = state_of(machine)
    with begun(machine, tmp_path) as process:
        guard = output(
            machine, "sh", "-c", "pgrep -f -- '-I -S -c .*guards a machine that is there' | head -n 1"
        ).strip()
        assert output(machine, "cat", f"/proc/{guard}/oom_score_adj") == "-1000\n"
        process.send_signal(number)
        code = process.wait(120)
    assert code == (2 if number is signal.SIGINT else -signal.SIGKILL)
    wait("nothing is left", lambda: state_of(machine) == before, deadline=Deadline.after(120), every=1)


def test_a_connection_that_is_lost_leaves_nothing_and_is_machinery(machine: Machine, tmp_path: Path) -> None:
    """The processes that serve the run's connection are killed on the machine: ours is the oldest, and stays."""
    before = state_of(machine)
    with begun(machine, tmp_path) as process:
        output(machine, "pkill", "--newest", "-f", r"^sshd(-session)?: root(@notty)?( |$)")
        assert process.wait(120) == 3
    wait("nothing is left", lambda: state_of(machine) == before, deadline=Deadline.after(120), every=1)


@pytest.mark.parametrize(
    ("make", "undo", "told"),
    [
        (
            "cp /bin/sleep /root/kubelet && (/root/kubelet 300 >/dev/null 2>&1 &)",
            "pkill -x kubelet; rm /root/kubelet",
            "a kubelet runs there (kubelet), and memqos would be in its place",
        ),
        (
            "mkdir /sys/fs/cgroup/kubepods.slice",
            "rmdir /sys/fs/cgroup/kubepods.slice",
            "there are cgroups of a kubelet: kubepods.slice",
        ),
    ],
    ids=["kubelet", "cgroups"],
)
def test_a_machine_that_is_not_free_is_refused_and_left_alone(
    machine: Machine, tmp_path: Path, make: str, undo: str, told: str
) -> None:
    machine.target.run(["sh", "-c", make], deadline=soon())
    before = state_of(machine)
    done = run(machine, tmp_path)
    after = state_of(machine)
    machine.target.run(["sh", "-c", undo], deadline=soon())
    assert done.returncode == 6, done
    assert told in done.stdout
    assert after == before
