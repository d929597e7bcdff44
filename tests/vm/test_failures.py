"""Machines that fail in other ways than dying: full disks, a host without memory, a guest that falls silent.

Each is recognised long before the deadline of the current command, named, and reported with the end of the console.
tests/bench/machines measures how long that takes.
"""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from memqos.clock import SYSTEM_CLOCK, wait
from memqos.errors import MachineError, TargetError
from memqos.target.base import checked
from memqos.vm.cache.store import Cache, default_cache
from memqos.vm.qemu.machine import MachineState
from tests.vm.machines import output, soon, start

pytestmark = pytest.mark.vm

MIB = 1 << 20
CGROUPS = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def recognised(machine, words: str):
    """Errors in the context become the machine's failure, not a deadline's, and it stays that failure."""
    with pytest.raises(MachineError, match=words) as caught:
        yield
    assert machine.state is MachineState.BROKEN
    assert "console" in caught.value.data
    assert str(machine.console.path) in str(caught.value)
    with pytest.raises(MachineError) as again:
        machine.check_alive()
    assert again.value is caught.value


def test_a_guest_without_network_is_recognised(tmp_path):
    with start(tmp_path) as machine:
        machine.target.run(["sh", "-c", "(sleep 1; ip link set eth0 down) >/dev/null 2>&1 &"], deadline=soon())
        with recognised(machine, "does not answer any more while running 'sleep 50': it sent nothing back for"):
            machine.target.run(["sleep", "50"], deadline=soon())


@contextlib.contextmanager
def starved(machine):
    """QEMU gets a CPU only when no other process wants one, and others want them all."""
    for task in Path(f"/proc/{machine.pid}/task").iterdir():
        os.sched_setscheduler(int(task.name), os.SCHED_IDLE, os.sched_param(0))
    greedy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(4 * len(os.sched_getaffinity(0)))]
    try:
        yield
    finally:
        for one in greedy:
            one.kill()
        for one in greedy:
            one.wait()


@pytest.mark.alone
def test_a_guest_on_a_busy_host_is_not_taken_for_a_silent_one(tmp_path):
    """It gets hardly any CPU for longer than a silent guest would be given."""
    with start(tmp_path) as machine:
        with starved(machine):
            SYSTEM_CLOCK.sleep(15)
        assert output(machine, "echo", "here") == "here\n"
        machine.examine(TargetError("a program failed."))
        assert machine.state is MachineState.READY


def test_the_guest_s_oom_killer_leaves_the_pulse_alone(tmp_path):
    with start(tmp_path) as machine:
        asked = ["sh", "-c", "cat /proc/$(pgrep --exact cat)/oom_score_adj"]
        wait(
            "the guest's echo runs, with the lowest oom_score_adj",
            lambda: machine.target.run(asked, deadline=soon()).text,
            until=lambda shown: shown == "-1000\n",
            deadline=soon(),
        )


def test_an_error_caused_by_a_silent_guest_is_reported_as_such(tmp_path):
    """A call that fails for its own reasons may still be the first sign of it."""
    with start(tmp_path) as machine:
        machine.examine(TargetError("a program failed."))
        assert machine.state is MachineState.READY
        machine.target.run(["sh", "-c", "ip link set eth0 down >/dev/null 2>&1 &"], deadline=soon())
        with recognised(machine, "the guest does not answer any more"):
            # The link goes down a moment later: until then the guest does answer.
            wait(
                "the guest's silence is told",
                lambda: machine.examine(TargetError("a program failed.")),
                until=lambda _: False,
                deadline=soon(),
            )


def test_the_guest_s_full_disk_is_recognised(tmp_path):
    with start(tmp_path) as machine:
        machine.target.run(["sh", "-c", "fallocate -l 100G /full; dd if=/dev/zero of=/rest bs=1M"], deadline=soon())
        with recognised(machine, "the guest's disk is full: .*No space left on device"):
            try:
                checked(machine.target.run(["sh", "-c", "date >/root/now"], deadline=soon()), where="date")
            except TargetError as error:
                machine.examine(error)


@pytest.fixture
def small_cache(tmp_path):
    """The real cache but for the disks of machines, for which there are 1200 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    real, root = default_cache(os.environ).root, tmp_path / "cache"
    machines = root / "machines"
    machines.mkdir(parents=True)
    for name in ("images", "keys", "locks", "checkpoints"):
        (root / name).symlink_to(real / name)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1200m", "memqos-test", machines], check=True)
    yield Cache(root=root)
    subprocess.run(["umount", "--lazy", machines], check=True)


def test_the_host_s_full_disk_is_recognised(tmp_path, small_cache):
    with start(tmp_path / "log", cache=small_cache) as machine:
        output(machine, "dd", "if=/dev/urandom", "of=/dev/shm/random", "bs=1M", "count=64")
        free = shutil.disk_usage(small_cache.root / "machines").free
        with (small_cache.root / "machines" / "filler").open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, free - 16 * MIB)
        with recognised(machine, "the host's disk is full, so QEMU paused the guest while running 'dd"):
            machine.target.run(["dd", "if=/dev/shm/random", "of=/big", "bs=1M", "oflag=direct"], deadline=soon())


@pytest.fixture
def little_memory():
    """A cgroup, of either version, in which a process may take 64 MiB more than it has."""
    for folder, limit in ((CGROUPS / "memory", "memory.limit_in_bytes"), (CGROUPS, "memory.max")):
        group = folder / f"memqos-test-{os.getpid()}"
        if not os.access(folder / "cgroup.procs", os.W_OK):
            continue
        group.mkdir()
        if (group / limit).exists():
            (group / limit).write_text(str(64 * MIB))
            yield group
            group.rmdir()
            return
        group.rmdir()
    pytest.skip("no control group with a memory limit can be made here")


def test_a_host_without_memory_is_recognised(tmp_path, little_memory):
    with start(tmp_path) as machine:
        (little_memory / "cgroup.procs").write_text(str(machine.pid))
        with recognised(machine, "the host ran out of memory and killed QEMU .* while running 'dd"):
            machine.target.run(["dd", "if=/dev/zero", "of=/dev/shm/big", "bs=1M", "count=500"], deadline=soon())


def test_a_lost_connection_is_not_replaced_unnoticed(tmp_path):
    """A new one would serve commands, while the old one's forwards are gone."""
    with start(tmp_path) as machine:
        folder = machine.spec.qmp_socket.parent
        ending = ["ssh", "-F", folder / "ssh_config", "-S", folder / "control.sock", "-O", "exit", "memqos"]
        subprocess.run(ending, check=True, capture_output=True)
        with recognised(machine, "the guest does not answer any more while running 'true'"):
            machine.target.run(["true"], deadline=soon())
