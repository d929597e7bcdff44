"""The guard of an existing machine, on this host: a real process, a real socket, folders of the test's own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memqos.agent import cleanup
from memqos.agent.program import program
from memqos.clock import Deadline, wait
from memqos.errors import EnvironmentNotAbleError, MachineryError, TargetError
from memqos.place import guard as module
from memqos.place.guard import guarded
from memqos.runtime.fake_cgroups import FAKE_HIERARCHY
from memqos.target.local import LocalTarget

STEPS = """
import json

def answer(asked):
    if "leftovers" in asked:
        return {{"leftovers": json.load(open({left!r}))}}
    [step] = asked["perform"]["steps"]
    with open({log!r}, "a") as file:
        file.write(f"{{step['action']}} {{step['path']}} {{step['unit']}} {{asked['perform']['mark']}}\\n")
    return {{"done": 1, "killed": [], "failure": {failure!r}}}
"""


class World:
    """This host as the target: folders, cgroups that an agent reports, and their later state."""

    def __init__(self, folder, monkeypatch):
        self.made_in = folder / "var"
        self.made_in.mkdir()
        self.agent_log = folder / "agent.log"
        self.left = folder / "left.json"
        self.lock = folder / "lock"
        self.failure = None
        self.monkeypatch = monkeypatch
        self.leave([])
        monkeypatch.setattr(module, "LOCK", str(self.lock))
        monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.5)
        monkeypatch.setattr(module, "REMOVAL_SECONDS", 2.0)
        monkeypatch.setattr(module, "MADE_IN", ((str(self.made_in), ""), (str(folder / "nowhere"), "")))
        monkeypatch.setattr(module, "program", self.program)

    def leave(self, cgroups):
        self.left.write_text(json.dumps(cgroups))

    def program(self):
        steps = STEPS.format(log=str(self.agent_log), left=str(self.left), failure=self.failure)
        return program(instead={"memqos.agent.steps": steps})

    def guarded(self, sandboxes):
        return guarded(LocalTarget(), socket=str(sandboxes.socket), hierarchy=FAKE_HIERARCHY)

    @property
    def taken_back(self):
        return self.agent_log.read_text().splitlines() if self.agent_log.exists() else []


@pytest.fixture
def world(tmp_path, monkeypatch):
    return World(tmp_path, monkeypatch)


def test_only_a_runs_own_changes_are_undone(world, sandboxes, tmp_path):
    sandboxes.add("theirs", ours=False)
    (world.made_in / "theirs").mkdir()
    with world.guarded(sandboxes) as guard:
        assert world.lock.exists()
        sandboxes.add("ours-1", ours=True)
        sandboxes.add("ours-2", ours=True)
        (world.made_in / "ours").mkdir()
        (world.made_in / "ours" / "log").write_text("a line")
        world.leave([["/system.slice", "memqos", True], ["/kubepods.slice", "memqos", False]])
        guard.at_the_end(["touch", str(tmp_path / "first")])
        guard.at_the_end(["test", "!", "-e", str(tmp_path / "first")])
    assert list(sandboxes.known) == ["theirs"]
    assert sandboxes.asked == ["stop ours-1", "remove ours-1", "stop ours-2", "remove ours-2"]
    assert [path.name for path in world.made_in.iterdir()] == ["theirs"]
    assert world.taken_back == [
        "remove /kubepods.slice kubepods.slice memqos",
        "give back /system.slice system.slice memqos",
    ]
    assert (tmp_path / "first").exists()
    assert not world.lock.exists()


def test_a_folder_may_have_several_prefixes(world, sandboxes, monkeypatch):
    """The second prefix replaced the first, and /var/log/pods stayed."""
    monkeypatch.setattr(module, "MADE_IN", ((str(world.made_in), "pods"), (str(world.made_in), "memqos")))
    with world.guarded(sandboxes):
        for name in ("pods", "memqos", "other"):
            (world.made_in / name).mkdir()
    assert [path.name for path in world.made_in.iterdir()] == ["other"]


def test_what_a_run_without_a_guard_left_is_taken_back_first(world, sandboxes):
    sandboxes.add("ours", ours=True)
    world.leave([["/kubepods.slice", "memqos", False]])
    with world.guarded(sandboxes):
        assert sandboxes.known == {}
        assert world.taken_back == ["remove /kubepods.slice kubepods.slice memqos"]


def test_two_runs_do_not_meet(world, sandboxes):
    busy = pytest.raises(EnvironmentNotAbleError, match="another run of memqos is on this machine")
    with world.guarded(sandboxes), busy, world.guarded(sandboxes):
        pytest.fail("it was let in")
    with world.guarded(sandboxes):
        pass


def test_a_guard_waits_for_another_one_cleaning_up(world, sandboxes, tmp_path, monkeypatch):
    """As when a run connects again that has lost its connection."""
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 30.0)
    with running(tmp_path, sandboxes, silence=2, silent=True):
        assert not is_clean(world, sandboxes)
        with world.guarded(sandboxes):
            assert sandboxes.known == {}
            assert list(world.made_in.iterdir()) == []


def test_a_sandbox_with_a_starting_container_is_removed_after_the_start(world, sandboxes):
    """As when a run is killed between its last request and the runtime's answer."""
    with world.guarded(sandboxes):
        sandboxes.add("ours", ours=True)
        sandboxes.starting.add("ours")
    assert sandboxes.known == {}
    assert sandboxes.asked == ["stop ours", "remove ours"] * 2


def test_what_cannot_be_removed_is_reported_and_the_rest_is_removed(world, sandboxes):
    told = pytest.raises(TargetError, match=r"cleanup incomplete: sandboxes are left: ours")
    with told, world.guarded(sandboxes):
        sandboxes.add("ours", ours=True)
        sandboxes.stuck.add("ours")
        world.leave([["/kubepods.slice", "memqos", False]])
        (world.made_in / "ours").mkdir()
    assert list(world.made_in.iterdir()) == []
    assert world.taken_back


def test_something_recreated_after_each_removal_does_not_block_the_guard(monkeypatch):
    monkeypatch.setattr(cleanup, "LOOK_EVERY", 0.01)
    looks = iter([["ours"], []] * 100)
    with pytest.raises(OSError, match="sandboxes are left: ours"):
        cleanup.until_settled(lambda: next(looks), "sandboxes", seconds=0.1, settling=1.0)


def test_a_cgroup_that_an_earlier_run_left_and_that_stays_is_machinery(world, sandboxes):
    world.leave([["/kubepods.slice", "memqos", False]])
    world.failure = {"step": 0, "what": "it is busy", "kind": "refused"}
    told = pytest.raises(MachineryError, match=r"cannot be cleaned up: /kubepods\.slice: it is busy")
    with told, world.guarded(sandboxes):
        pytest.fail("it was let in")


def test_each_cgroup_is_taken_back_whatever_becomes_of_another(world, sandboxes):
    world.failure = {"step": 0, "what": "it is busy", "kind": "refused"}
    told = pytest.raises(TargetError, match=r"/kubepods\.slice/b\.slice: it is busy; /kubepods\.slice: it is busy")
    with told, world.guarded(sandboxes):
        world.leave([["/kubepods.slice", "memqos", False], ["/kubepods.slice/b.slice", "memqos", False]])
    assert len(world.taken_back) == 2


def test_a_machine_without_python_cannot_be_guarded(world, sandboxes, monkeypatch, tmp_path):
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    told = pytest.raises(EnvironmentNotAbleError, match="its python3 does not run")
    with told, world.guarded(sandboxes):
        pytest.fail("it was let in")


RUN = """
import sys, time
from pathlib import Path
from memqos.runtime.fake_cgroups import FAKE_HIERARCHY
from memqos.agent.program import program
from memqos.place import guard
from memqos.target.local import LocalTarget

folder = Path({folder!r})
guard.LOCK, guard.MADE_IN = str(folder / "lock"), ((str(folder / "var"), ""),)
guard.SILENCE_SECONDS, guard.SETTLING_SECONDS = {silence}, {settling}
if {silent}:
    guard.SIGN_EVERY = 1000
STEPS = "def answer(asked): return {{'leftovers': []}}"
guard.program = lambda: program(instead={{"memqos.agent.steps": STEPS}})
with guard.guarded(LocalTarget(), socket={socket!r}, hierarchy=FAKE_HIERARCHY):
    (folder / "var" / "ours").mkdir()
    print("ready", flush=True)
    time.sleep(100)
"""


@contextlib.contextmanager
def running(folder: Path, sandboxes, *, silence=30, silent=False, settling=0):
    code = RUN.format(
        folder=str(folder), socket=str(sandboxes.socket), silence=silence, silent=silent, settling=settling
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            sandboxes.add("ours", ours=True)
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def is_clean(world, sandboxes):
    return not sandboxes.known and not list(world.made_in.iterdir()) and not world.lock.exists()


def test_a_killed_run_leaves_nothing(world, sandboxes, tmp_path):
    with running(tmp_path, sandboxes) as process:
        process.send_signal(signal.SIGKILL)
        wait("nothing is left", lambda: is_clean(world, sandboxes), deadline=Deadline.after(30))


def test_a_sandbox_requested_by_a_killed_run_is_removed_when_it_appears(world, sandboxes, tmp_path):
    """containerd, whose caller is gone, fails to clean up, and only then lists what is left."""
    with running(tmp_path, sandboxes, settling=2) as process:
        sandboxes.late["late"] = 5
        process.send_signal(signal.SIGKILL)
        wait("nothing is left", lambda: is_clean(world, sandboxes), deadline=Deadline.after(30))
    assert sandboxes.asked == ["stop ours", "remove ours", "stop late", "remove late"]
    assert sandboxes.late == {}


def test_a_silent_run_leaves_nothing(world, sandboxes, tmp_path):
    """As when the network is gone, and neither end is notified."""
    with running(tmp_path, sandboxes, silence=1, silent=True) as process:
        wait("nothing is left", lambda: is_clean(world, sandboxes), deadline=Deadline.after(30))
        assert process.poll() is None


def test_signs_of_life_keep_the_guard_on_its_post(world, sandboxes, monkeypatch):
    monkeypatch.setattr(module, "SIGN_EVERY", 0.1)
    monkeypatch.setattr(module, "SILENCE_SECONDS", 1.0)
    with world.guarded(sandboxes):
        sandboxes.add("ours", ours=True)
        with pytest.raises(Exception, match="nothing is left"):
            wait("nothing is left", lambda: not sandboxes.known, deadline=Deadline.after(2.5))
    assert sandboxes.known == {}


def arguments(process):
    return Path(f"/proc/{process.pid}/cmdline").read_bytes()


def test_the_runtimes_of_a_lost_run_are_killed(tmp_path):
    """Only processes with an argument below the folder of bundles; others that name it in a text stay."""
    ours, other = (
        subprocess.Popen(["sh", "-c", "sleep 60; true", "sh", word])
        for word in (f"{tmp_path}/bundles/runc/s/c", f"see {tmp_path}/bundles/")
    )
    try:
        # A process has no arguments for a moment after Popen returns.
        wait("both have started", lambda: all(map(arguments, (ours, other))), deadline=Deadline.after(30))
        cleanup.end_runtimes(f"{tmp_path}/bundles")
        assert ours.wait(30) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for one in (ours, other):
            one.kill()
            one.wait()


@pytest.mark.parametrize("bundles", [True, False])
def test_runtimes_without_a_server_end_with_the_run(world, tmp_path, monkeypatch, bundles):
    monkeypatch.setattr(module, "BUNDLES", f"{tmp_path}/bundles")
    with subprocess.Popen(["sh", "-c", "sleep 60; true", "sh", f"{tmp_path}/bundles/runc/s/c"]) as conmon:
        wait("it has started", lambda: arguments(conmon), deadline=Deadline.after(30))
        with guarded(LocalTarget(), socket="", hierarchy=FAKE_HIERARCHY, bundles=bundles):
            # The leftovers of an earlier run end before this one begins.
            if bundles:
                assert conmon.wait(30) == -signal.SIGKILL
            assert (conmon.poll() is None) is not bundles
            conmon.kill()
