"""Real machines: they boot as declared, keep the target's contract, report their death, and leave nothing behind."""

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from memqos.clock import Deadline, wait
from memqos.errors import AbortedError, DeadlineError, MachineError, TargetError, UsageError
from memqos.target.attended import attended
from memqos.target.contract import check_target_contract
from memqos.vm.host.programs import find_qemu
from memqos.vm.options import RuntimeBinary
from memqos.vm.qemu.machine import MachineState
from tests.progress import Notes
from tests.vm.machines import output, soon, start

pytestmark = pytest.mark.vm

MIB = 1 << 20


def in_runcs_place(program):
    return {"runtime_files": (RuntimeBinary(name="runc", path=program),)}


@pytest.fixture(scope="module")
def wrapper(tmp_path_factory):
    """A vendor's runtime: a script that calls the image's own next to it."""
    path = tmp_path_factory.mktemp("runtime") / "runc"
    path.write_text('#!/bin/sh\nexec "$0.dist" "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def machine(tmp_path_factory, wrapper):
    with start(
        tmp_path_factory.mktemp("log"),
        topology="two-numa-nodes",
        runtime_files=(RuntimeBinary(name="runc", path=wrapper),),
    ) as booted:
        yield booted


def test_the_guest_has_the_topology_that_was_declared(machine):
    zones = output(machine, "sh", "-c", "cat /sys/devices/system/node/node*/cpulist").split()
    assert zones == ["0", "1"]
    sizes = output(machine, "sh", "-c", "grep -h MemTotal /sys/devices/system/node/node*/meminfo").split()[3::5]
    assert all(900 * 1024 < int(size) <= 1024 * 1024 for size in sizes)
    # mkswap keeps the first page for itself.
    swap = output(machine, "swapon", "--noheadings", "--bytes", "--show=SIZE,PRIO").split()
    assert swap == [str(512 * MIB - 4096), "10"]


def test_the_guest_has_what_the_rules_need(machine):
    options = output(machine, "findmnt", "--noheadings", "--output=FSTYPE,OPTIONS", "/sys/fs/cgroup")
    assert options.startswith("cgroup2")
    assert "memory_recursiveprot" in options
    assert machine.target.read("/proc/pressure/memory", deadline=soon()).startswith(b"some avg10=")
    assert output(machine, "python3", "-c", "import json; print(json.dumps({'a': 1}))") == '{"a": 1}\n'
    assert output(machine, "jq", "-n", "--compact-output", "{a: 1}") == '{"a":1}\n'


def test_the_container_images_exist(machine):
    images = output(machine, "ctr", "--namespace=k8s.io", "images", "list", "--quiet").split()
    assert {"memqos.local/pause:1", "memqos.local/memload:1"} <= set(images)


def test_containerd_has_a_handler_for_each_runtime_and_driver(machine):
    config = output(machine, "containerd", "config", "dump")
    for handler in ("runc", "runc-cgroupfs", "crun", "crun-cgroupfs"):
        assert f".containerd.runtimes.{handler}]" in config
    assert "disable_hugetlb_controller = false" in config


def test_password_login_is_refused(machine):
    settings = output(machine, "sshd", "-T")
    assert "passwordauthentication no" in settings
    assert "kbdinteractiveauthentication no" in settings


def test_nothing_gets_out(machine):
    """The network is restricted: not even the host behind it answers."""
    result = machine.target.run(
        ["timeout", "5", "bash", "-c", "exec 3<>/dev/tcp/10.0.2.2/22"],
        deadline=soon(),
    )
    assert result.status != 0


def test_the_vendor_s_runtime_is_used_and_recorded(machine, wrapper):
    place = output(machine, "sh", "-c", "command -v runc").strip()
    assert machine.target.read(place, deadline=soon()) == wrapper.read_bytes()
    assert output(machine, "runc", "--version").startswith("runc version")
    recorded = machine.provenance["runtime_binary"]
    assert recorded["sha256"] == hashlib.sha256(wrapper.read_bytes()).hexdigest()
    assert recorded["path"] == place
    assert output(machine, "readlink", "-f", f"{place}.dist").strip() == f"{place}.dist"
    assert machine.provenance["runc"] == "as it is on the disk"


def test_provenance_names_versions(machine):
    assert {"kernel", "systemd", "containerd", "runc", "crun"} <= set(machine.provenance["versions"])
    assert machine.image.versions == machine.provenance["versions"]


@pytest.mark.parametrize("reached", [contextlib.nullcontext, attended])
def test_the_ssh_target_keeps_the_contract(machine, reached):
    folder = f"/tmp/contract-{reached.__name__}"
    output(machine, "sh", "-c", 'mkdir "$0" && touch "$0/keep"', folder)
    check_target_contract(lambda: reached(machine.target), folder=folder)


def test_a_command_over_its_deadline_ends_in_the_guest_too(machine):
    with attended(machine.target) as target:
        assert target.list("/proc/self/fdinfo", deadline=soon())
        with pytest.raises(DeadlineError, match="did not end within"):
            target.run(["sh", "-c", "sleep 600 & echo $! >/tmp/slow; wait"], deadline=Deadline.after(3))
    slow = int(output(machine, "cat", "/tmp/slow"))
    gone = ["test", "!", "-e", f"/proc/{slow}"]
    wait("it is gone", lambda: machine.target.run(gone, deadline=soon()).status == 0, deadline=soon())


def test_a_control_file_is_written_in_one_go_and_refuses_nonsense(machine):
    output(machine, "mkdir", "/sys/fs/cgroup/memqos.test")
    path = "/sys/fs/cgroup/memqos.test/memory.high"
    machine.target.write(path, b"12345", deadline=soon())
    assert machine.target.read(path, deadline=soon()) == b"12288\n"
    with pytest.raises(TargetError, match="Invalid argument"):
        machine.target.write(path, b"plenty", deadline=soon())
    output(machine, "rmdir", "/sys/fs/cgroup/memqos.test")
    assert machine.target.read(path, deadline=soon()) is None


def test_status_255_is_a_command_s_own(machine):
    assert machine.target.run(["sh", "-c", "exit 255"], deadline=soon()).status == 255


def test_a_forward_leads_to_the_runtime(machine):
    with machine.target.forward("/run/containerd/containerd.sock") as path:
        assert path.is_socket()
        assert len(str(path)) < 108
    assert not path.exists()


def test_states_are_kept(machine):
    assert machine.state is MachineState.READY
    with pytest.raises(MachineError, match="cannot start while it is ready: it must be off"):
        machine.start()
    machine.mark_dirty("a test said so")
    assert machine.state is MachineState.DIRTY
    assert machine.target.run(["true"], deadline=soon()).status == 0


@pytest.fixture
def wrapped_qemu(tmp_path, monkeypatch):
    """Start machines with a script of these lines: QEMU's words are "$@" there, and its program is $qemu."""

    def wrap(lines):
        program, found = tmp_path / "qemu-system-x86_64", find_qemu()
        program.write_text(
            f'#!/bin/bash\nqemu={found.program}\ncase "$*" in *virtio-blk*) {lines};; esac\nexec $qemu "$@"\n'
        )
        program.chmod(0o755)
        monkeypatch.setattr("memqos.vm.boot.find_qemu", lambda *_: replace(found, program=program))

    return wrap


def test_a_machine_comes_up_after_a_qemu_crash_before_linux_and_notes_it(tmp_path, wrapped_qemu):
    """As QEMU does occasionally while the firmware maps devices; here the first one that has a disk."""
    mark = tmp_path / "crashed"
    wrapped_qemu(f"[ -e {mark} ] || {{ touch {mark}; kill -ABRT $$; }}")
    with start(tmp_path / "log", checkpoint=False) as machine:
        assert output(machine, "true") == ""
        assert machine.provenance["aborted_boot"].startswith("QEMU ended with status -6")
    assert mark.exists()
    assert (tmp_path / "log/aborted-qemu.log").exists()


def test_a_boot_that_hangs_on_a_lost_timer_is_repeated_twice(tmp_path, wrapped_qemu):
    """A QEMU whose guest never begins; the kernel's timer warning is written to the console for it."""
    serial, starts = tmp_path / "log/serial.log", tmp_path / "starts"
    words = "[   21.0] rcu: rcu_preempt kthread timer wakeup didn't happen for 5252 jiffies! g-1139 f0x0\\n"
    wrapped_qemu(f'echo >>{starts}; (sleep 3; printf "{words}{words}" >{serial}) & exec $qemu -S "$@"')
    notes = Notes()
    with (
        pytest.raises(AbortedError, match="lost a timer of one of the guest's processors"),
        start(tmp_path / "log", checkpoint=False, progress=notes),
    ):
        pytest.fail("there is a machine")
    assert len(starts.read_text().splitlines()) == 3
    told = [note for note in notes.notes if "which is repeated" in note]
    assert len(told) == 2
    assert all("lost a timer" in line for line in told)
    assert "timer wakeup" in (tmp_path / "log/aborted-serial.log").read_text()


@pytest.mark.wrappers
def test_a_boot_without_output_is_repeated_and_comes_up(tmp_path, wrapped_qemu):
    """The first guest never begins; half of a boot's time limit is spent on it."""
    mark = tmp_path / "silent"
    wrapped_qemu(f'[ -e {mark} ] || {{ touch {mark}; exec $qemu -S "$@"; }}')
    with start(tmp_path / "log", checkpoint=False) as machine:
        assert output(machine, "true") == ""
        assert machine.provenance["aborted_boot"].startswith("the guest printed nothing for ")
    assert mark.exists()


@pytest.mark.parametrize("how", ["killed", "panicked", "stopped"])
def test_a_machine_that_dies_is_recognised_and_named(tmp_path, how):
    with start(tmp_path) as machine:
        if how == "panicked":
            trigger = "(sleep 1; echo c >/proc/sysrq-trigger) >/dev/null 2>&1 &"
            machine.target.run(["sh", "-c", trigger], deadline=soon())
        else:
            number = signal.SIGKILL if how == "killed" else signal.SIGSTOP
            threading.Timer(1, os.kill, (machine.pid, number)).start()
        with pytest.raises(MachineError) as caught:
            machine.target.run(["sleep", "50"], deadline=soon())
        words = {
            "killed": "QEMU ended with status -9 while running 'sleep 50'",
            "panicked": "the guest's kernel panicked: sysrq triggered crash while running 'sleep 50'",
            "stopped": "the guest does not answer any more while running 'sleep 50'",
        }
        assert words[how] in str(caught.value)
        assert machine.state is MachineState.BROKEN
        with pytest.raises(MachineError) as again:
            machine.target.run(["true"], deadline=soon())
        assert again.value is caught.value
    assert not Path(f"/proc/{machine.pid}").exists()


OWNER = """
    import os, signal, sys, time
    from pathlib import Path
    from memqos.catalog.profiles import load_profile
    from memqos.catalog.topologies import load_topology
    from memqos.vm.boot import boot
    from memqos.vm.cache.store import default_cache

    # A shell that runs the tests in the background lets them ignore a Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cache = default_cache(os.environ)
    profile, topology = load_profile("trixie"), load_topology("one-numa-node")
    with boot(profile, topology, image_cache=cache, log_dir=Path(sys.argv[1])) as machine:
        print(machine.pid, machine.spec.qmp_socket.parent, machine.spec.disk.parent, flush=True)
        time.sleep(100)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_the_owner_ends(tmp_path, end):
    argv = [sys.executable, "-c", textwrap.dedent(OWNER), str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as owner:
        pid, sockets, disks = owner.stdout.readline().split()
        assert Path(f"/proc/{pid}").exists()
        owner.send_signal(end)
        owner.wait(20)
    left = [Path(f"/proc/{pid}"), Path(sockets), Path(disks)]
    wait(
        "QEMU, its sockets and its disks are gone",
        lambda: [path for path in left if path.exists()],
        until=lambda paths: not paths,
        deadline=Deadline.after(5),
    )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda _: None, "cannot be read: No such file or directory"),
        (lambda path: path.mkdir(), "is not a file"),
        (lambda path: path.write_text("#!/bin/sh\n"), "is not executable"),
    ],
)
def test_a_runtime_that_cannot_be_one_is_refused_before_anything_starts(tmp_path, make, words):
    binary = tmp_path / "my runc"
    make(binary)
    with (
        pytest.raises(UsageError, match=words) as caught,
        start(tmp_path / "log", runtime_files=(RuntimeBinary(name="runc", path=binary),)),
    ):
        pytest.fail("the machine started")
    assert "--runtime-binary" in str(caught.value)
    assert not (tmp_path / "log").exists()
