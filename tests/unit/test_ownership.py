import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from memqos.clock import Deadline, wait
from memqos.errors import MachineryError
from memqos.ownership import ProcessGroup, temporary_folder


def is_running(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_members_end_with_the_group():
    with ProcessGroup() as group:
        member = group.start(["sleep", "100"])
        assert member.poll() is None
    assert member.returncode == -signal.SIGTERM


def test_a_member_that_will_not_end_is_killed(tmp_path):
    ready = tmp_path / "ready"
    with ProcessGroup() as group:
        member = group.start(["sh", "-c", 'trap "" TERM; : >"$1"; while :; do sleep 0.1; done', "sh", ready])
        wait("the trap is set", ready.exists, deadline=Deadline.after(10), every=0.02)
    assert member.returncode == -signal.SIGKILL


def test_an_orderly_end_leaves_the_folders_to_their_makers(tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    with ProcessGroup(folders=(folder,)):
        pass
    assert folder.is_dir()


def test_the_group_is_not_the_terminal_s():
    with ProcessGroup() as group:
        member = group.start(["sleep", "100"])
        assert os.getpgid(member.pid) != os.getpgid(0)


def test_output_goes_where_it_is_wanted(tmp_path):
    log = tmp_path / "log"
    with ProcessGroup() as group, log.open("wb") as output:
        group.start(["sh", "-c", "echo out; echo err >&2"], output=output).wait(10)
    assert log.read_text() == "out\nerr\n"


def test_a_group_that_is_not_open_starts_nothing():
    with pytest.raises(MachineryError, match="not open"):
        ProcessGroup().start(["true"])


OWNER = """
    import os, sys, threading, time
    from pathlib import Path
    from memqos.ownership import ProcessGroup, temporary_folder

    with ProcessGroup(folders=(Path(sys.argv[1]),)) as group:
        started = []
        thread = threading.Thread(target=lambda: started.append(group.start(["sleep", "100"])))
        thread.start()
        thread.join()
        started.append(group.start(["sh", "-c", "sleep 100 & echo $! >" + sys.argv[2] + "; wait"]))
        print(*(process.pid for process in started), flush=True)
        time.sleep(100)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_an_owner_that_dies(tmp_path, end):
    folder, child = tmp_path / "run", tmp_path / "child"
    folder.mkdir()
    (folder / "overlay").write_text("x")
    argv = [sys.executable, "-c", textwrap.dedent(OWNER), str(folder), str(child)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as owner:
        pids = [int(word) for word in owner.stdout.readline().split()]
        wait(
            "the grandchild is there", lambda: child.exists() and child.read_text().strip(), deadline=Deadline.after(10)
        )
        pids.append(int(child.read_text()))
        assert all(map(is_running, pids))
        owner.send_signal(end)
        owner.wait(10)
    wait("all are gone", lambda: not any(map(is_running, pids)) and not folder.exists(), deadline=Deadline.after(5))


KEEPER = """
    import sys
    from pathlib import Path
    from memqos.ownership import ProcessGroup, temporary_folder

    with ProcessGroup(folders=(Path(sys.argv[1]),), keepable=True) as group:
        member = group.start(["sleep", sys.argv[2]])
        print(member.pid, group.keep(member), flush=True)
"""


def kept(folder: Path, seconds: int) -> tuple[int, int]:
    """A member, kept by an owner that has ended already, and its guard."""
    folder.mkdir()
    argv = [sys.executable, "-W", "error", "-c", textwrap.dedent(KEEPER), str(folder), str(seconds)]
    owner = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=20)
    assert owner.stderr == ""
    member, guard = owner.stdout.split()
    return int(member), int(guard)


def test_a_kept_group_outlives_its_owner_until_its_guard_is_told_to_end_it(tmp_path):
    folder = tmp_path / "run"
    member, guard = kept(folder, 100)
    assert is_running(member)
    assert folder.exists()

    def is_gone():
        with contextlib.suppress(ProcessLookupError):
            os.kill(guard, signal.SIGTERM)
        return not is_running(member) and not is_running(guard) and not folder.exists()

    wait("all is gone", is_gone, deadline=Deadline.after(10))


def test_a_kept_group_ends_with_the_member_that_it_is_kept_for(tmp_path):
    folder = tmp_path / "run"
    _, guard = kept(folder, 1)
    wait("the guard is gone", lambda: not is_running(guard) and not folder.exists(), deadline=Deadline.after(15))


def test_only_a_group_that_was_opened_for_it_is_kept():
    with ProcessGroup() as group:
        member = group.start(["sleep", "100"])
        with pytest.raises(MachineryError, match="cannot be kept"):
            group.keep(member)
    assert member.returncode == -signal.SIGTERM


def test_a_guard_that_is_there_is_ready(monkeypatch):
    """A TERM at any moment after the group was opened leaves the guard, and with it the members' owner, alive."""
    started = []

    class Started(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Started)
    with ProcessGroup() as group:
        [guard] = started
        guard.send_signal(signal.SIGTERM)
        member = group.start(["sleep", "100"])
        assert member.poll() is None
        assert is_running(guard.pid)
    assert member.returncode == -signal.SIGTERM


HOLDER = """
    import time
    from memqos.ownership import temporary_folder

    with temporary_folder("memqos-test-") as folder:
        (folder / "file").write_text("evidence")
        print(folder, flush=True)
        time.sleep(100)
"""


def test_a_temporary_folder_is_gone_when_it_ends_and_when_its_owner_is_killed():
    with temporary_folder("memqos-test-") as folder:
        (folder / "file").write_text("evidence")
    assert not folder.exists()

    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(HOLDER)], stdout=subprocess.PIPE, text=True) as owner:
        left = Path(owner.stdout.readline().strip())
        assert (left / "file").exists()
        owner.kill()
    wait("the guard has removed the folder", lambda: not left.exists(), deadline=Deadline.after(20), every=0.05)
