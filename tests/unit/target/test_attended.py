import errno
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memqos.agent.program import program
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline, wait
from memqos.errors import DeadlineError, TargetError
from memqos.model.path import CgroupPath
from memqos.model.reading import NoFile, Unreadable
from memqos.runtime.fake_cgroups import FAKE_HIERARCHY
from memqos.target import attended as attended_module
from memqos.target.attended import attended
from memqos.target.base import CommandResult, Target
from memqos.target.fake import FakeTarget
from memqos.target.local import LocalTarget

PYTHON = ("python3", "-I", "-S", "-c")


class Host(LocalTarget):
    """This host, which records the programs started on it. program: replaces python3."""

    def __init__(self, program: str = "") -> None:
        self.opened: list[subprocess.Popen[bytes]] = []
        self.ran: list[str] = []
        self.program = program

    def open(self, argv):  # type: ignore[no-untyped-def]
        argv = ["sh", "-c", self.program] if self.program else argv
        self.opened.append(super().open(argv))
        return self.opened[-1]

    def run(self, argv, *, deadline, stdin=b""):  # type: ignore[no-untyped-def]
        self.ran.append(argv[0])
        return super().run(argv, deadline=deadline, stdin=stdin)


def soon() -> Deadline:
    return Deadline.after(20)


def test_many_files_are_read_by_one_program_that_stays(tmp_path: Path) -> None:
    (tmp_path / "every").write_bytes(bytes(range(256)))
    (tmp_path / "empty").touch()
    host = Host()
    with attended(host) as target:
        paths = [f"{tmp_path}/{name}" for name in ("every", "empty", "missing", "missing/below")]
        seen = target.read_many([*paths, str(tmp_path)], deadline=soon())
        assert seen == {
            paths[0]: bytes(range(256)),
            paths[1]: b"",
            paths[2]: errno.ENOENT,
            paths[3]: errno.ENOENT,
            str(tmp_path): errno.EISDIR,
        }
        assert target.list(str(tmp_path), deadline=soon()) == ("empty", "every")
        assert target.list(f"{tmp_path}/every", deadline=soon()) is None
        assert target.read(paths[2], deadline=soon()) is None
        assert target.read(paths[3], deadline=soon()) is None
    assert len(host.opened) == 1
    assert host.ran == []
    assert host.opened[0].poll() is not None


def test_many_files_are_written_by_one_program_that_stays(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text("-")
    host = Host()
    with attended(host) as target:
        paths = [f"{tmp_path}/{name}" for name in ("one", "two", "missing", "missing/below")]
        seen = target.write_many([*paths, str(tmp_path), "/dev/full"], b"\xff\n", deadline=soon())
        assert seen == {
            paths[0]: 0,
            paths[1]: 0,
            paths[2]: errno.ENOENT,
            paths[3]: errno.ENOENT,
            str(tmp_path): errno.EISDIR,
            "/dev/full": errno.ENOSPC,
        }
        assert {(tmp_path / name).read_bytes() for name in ("one", "two")} == {b"\xff\n"}
        assert not (tmp_path / "missing").exists()
    assert len(host.opened) == 1
    assert host.ran == []


@pytest.mark.parametrize("program", ["exit 127", "echo nonsense", "exec cat >/dev/null", "read line; printf '{'"])
def test_without_an_agent_that_answers_the_target_does_it_itself(tmp_path: Path, program: str) -> None:
    (tmp_path / "file").write_bytes(b"text")
    host = Host(program)
    with attended(host) as target:
        assert target.read_many([f"{tmp_path}/file"], deadline=Deadline.after(0.2)) is None
        assert target.write_many([f"{tmp_path}/file"], b"other", deadline=soon()) is None
        assert target.read(f"{tmp_path}/file", deadline=soon()) == b"text"
        assert target.list(str(tmp_path), deadline=soon()) == ("file",)
    assert len(host.opened) == 1
    assert host.opened[0].poll() is not None


def test_a_program_of_python_is_run_as_a_command_is() -> None:
    host = Host()
    with attended(host) as target:
        for words, status in (("sys.exit(7)", 7), ("sys.exit('said')", 1), ("os.kill(os.getpid(), 9)", 137), ("0", 0)):
            source = f"import os, sys; sys.stdout.write(sys.stdin.read().upper()); sys.stdout.flush(); {words}"
            result = target.run([*PYTHON, source], stdin=b"\xc3\xa4b", deadline=soon())
            assert (result.status, result.text) == (status, "Äb".upper())
        broken = target.run([*PYTHON, "1/0"], deadline=soon())
        assert broken.status == 1
        assert "ZeroDivisionError" in broken.error_text
        for source in ("open(0).close()", "import sys; sys.stdout.close()", "import os; os.close(1); os.close(2)"):
            silent = target.run([*PYTHON, source], deadline=soon())
            assert (silent.status, silent.stdout, silent.stderr) == (0, b"", b"")
    assert len(host.opened) == 1
    assert host.ran == []


SYSTEMD = """\
import os, time

class RefusedError(Exception):
    pass

class Manager:
    def slices_described(self, beginning):
        exec({act!r})
        return []

    def close(self):
        pass
"""


def sent(monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    """Have the agents of targets do this where they would ask systemd for slices."""
    wrong = program(instead={"memqos.agent.systemd": SYSTEMD.format(act=act)})
    monkeypatch.setattr("memqos.target.attended.program", lambda: wrong)


def leftovers(target: Target, mount: Path, deadline: Deadline | None = None) -> CommandResult:
    asked = attended_module.program()
    stdin = asked.stdin({"leftovers": {"mounts": {"": str(mount)}, "claim": True}})
    return target.run(asked.once, stdin=stdin, deadline=deadline or soon())


def test_a_request_is_answered_by_a_running_agent(tmp_path: Path) -> None:
    host = Host()
    with attended(host) as target:
        for _ in range(2):
            assert json.loads(leftovers(target, tmp_path).stdout) == {"leftovers": []}
        assert target.run(["echo", "1"], deadline=soon()).text == "1\n"
    assert len(host.opened) == 1
    assert host.ran == []


def test_without_an_agent_that_stays_one_is_started_for_the_request(tmp_path: Path) -> None:
    host = Host("exit 127")
    with attended(host) as target:
        assert json.loads(leftovers(target, tmp_path).stdout) == {"leftovers": []}
    assert host.ran == ["python3"]


def test_an_agents_error_is_reported_and_the_next_request_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(monkeypatch, f"os.path.exists('{tmp_path}/whole') or 1/0")
    host = Host()
    with attended(host) as target:
        assert "ZeroDivisionError" in json.loads(leftovers(target, tmp_path).stdout)["error"]
        (tmp_path / "whole").touch()
        assert json.loads(leftovers(target, tmp_path).stdout) == {"leftovers": []}
    assert len(host.opened) == 1


def test_an_agents_work_ends_with_its_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = f"open('{tmp_path}/begun', 'w').close(); time.sleep(30); open('{tmp_path}/over', 'w').close()"
    sent(monkeypatch, f"if not os.path.exists('{tmp_path}/begun'): {slow}")
    host = Host()
    with attended(host) as target:
        assert target.list(str(tmp_path), deadline=soon()) == ()
        with pytest.raises(DeadlineError, match="did not end within"):
            leftovers(target, tmp_path, Deadline.after(1))
        assert host.opened[0].poll() == 1
        assert json.loads(leftovers(target, tmp_path).stdout) == {"leftovers": []}
    assert (tmp_path / "begun").exists()
    assert not (tmp_path / "over").exists()


def test_without_an_agent_a_program_of_python_is_run_by_the_target(tmp_path: Path) -> None:
    host = Host("exit 127")
    with attended(host) as target:
        assert target.run([*PYTHON, "print(6 * 7)"], deadline=soon()).text == "42\n"
    assert host.ran == ["python3"]


def test_a_program_that_was_begun_is_not_begun_again(tmp_path: Path) -> None:
    host = Host()
    kills = f"import os; open('{tmp_path}/begun', 'a').write('x'); os.kill(os.getppid(), 9)"
    with attended(host) as target, pytest.raises(TargetError, match="the agent ended"):
        target.run([*PYTHON, kills], deadline=soon())
    assert (tmp_path / "begun").read_text() == "x"
    assert host.ran == ["true"]


def test_a_program_that_does_not_end_is_a_deadline(tmp_path: Path) -> None:
    with attended(LocalTarget()) as target:
        assert target.list(str(tmp_path), deadline=soon()) == ()
        with pytest.raises(DeadlineError, match="did not end within"):
            target.run([*PYTHON, "import time; time.sleep(3)"], deadline=Deadline.after(0.2))
        assert target.run([*PYTHON, "print(1)"], deadline=soon()).text == "1\n"


def test_an_unreadable_file_is_reported_by_the_inner_target(tmp_path: Path) -> None:
    with attended(LocalTarget()) as target, pytest.raises(TargetError, match="Is a directory"):
        target.read(str(tmp_path), deadline=soon())


def test_an_interrupt_in_mid_answer_ends_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with attended(host) as target:
        monkeypatch.setattr("memqos.agent.channel.select.poll", interrupted)
        with pytest.raises(KeyboardInterrupt):
            target.list(str(tmp_path), deadline=soon())
        monkeypatch.undo()
        assert host.opened[0].poll() is not None
        assert target.list(str(tmp_path), deadline=soon()) == ()
    assert len(host.opened) == 2
    assert host.opened[1].poll() is not None


def test_commands_are_run_by_one_program_that_stays() -> None:
    host = Host()
    with attended(host) as target:
        for status in (0, 7):
            result = target.run(["sh", "-c", f"cat; echo $0 >&2; exit {status}", "Ä"], stdin=b"\xff\0", deadline=soon())
            assert (result.status, result.stdout, result.error_text) == (status, b"\xff\0", "Ä\n")
        assert target.run(["sh", "-c", "kill -9 $$"], deadline=soon()).status == 137
        missing = target.run(["memqos-no-such-program"], deadline=soon())
        assert (missing.status, missing.error_text) == (127, "memqos-no-such-program: No such file or directory\n")
        assert target.run(["/etc/passwd"], deadline=soon()).status == 126
        much = target.run(["sh", "-c", "head -c 9000000 /dev/zero; head -c 70000 /dev/zero >&2"], deadline=soon())
        assert (len(much.stdout), len(much.stderr)) == (9_000_000, 70_000)
    assert len(host.opened) == 1
    assert host.ran == []


def test_a_command_has_pipes_that_end_it() -> None:
    with attended(LocalTarget()) as target:
        result = target.run(["bash", "-c", "yes | head -n 1; echo ${PIPESTATUS[0]}"], deadline=soon())
        assert result.text == "y\n141\n"


def test_a_command_ends_despite_background_processes() -> None:
    with attended(LocalTarget()) as target:
        left = target.run(["sh", "-c", "sleep 60 & echo $!"], deadline=soon())
        assert left.status == 0
        talking = target.run(["sh", "-c", "(exec yes) & echo >&2"], deadline=soon())
        assert (talking.status, talking.stderr) == (0, b"\n")
        assert target.run(["kill", left.text.strip()], deadline=soon()).status == 0


@pytest.mark.parametrize("program", ["sleep 60 & echo $! >started; wait", "echo $$ >started; exec yes"])
def test_a_command_that_does_not_end_is_killed_with_all_that_it_started(tmp_path: Path, program: str) -> None:
    host = Host()
    with attended(host) as target:
        assert target.list(str(tmp_path), deadline=soon()) == ()
        with pytest.raises(DeadlineError, match=r"'sh -c .*did not end within"):
            target.run(["sh", "-c", f"cd {tmp_path}; {program}"], deadline=Deadline.after(1))
        started = int((tmp_path / "started").read_text())
        wait("it is gone", lambda: not Path(f"/proc/{started}").exists(), deadline=soon())
        assert target.run(["echo", "1"], deadline=soon()).text == "1\n"
    assert len(host.opened) == 2


def test_each_thread_has_an_agent_of_its_own(tmp_path: Path) -> None:
    host = Host()
    os.mkfifo(tmp_path / "fifo")
    with attended(host) as target, ThreadPoolExecutor(2) as threads:
        for _ in range(3):
            reading = threads.submit(target.run, ["cat", f"{tmp_path}/fifo"], deadline=soon())
            writing = threads.submit(target.run, ["sh", "-c", f"echo said >{tmp_path}/fifo"], deadline=soon())
            assert reading.result().text == "said\n"
            assert writing.result().status == 0
    assert len(host.opened) == 2
    assert host.ran == []


def test_a_long_input_is_left_to_the_target() -> None:
    host = Host()
    with attended(host) as target:
        assert target.run(["wc", "-c"], stdin=bytes(300_000), deadline=soon()).text.strip() == "300000"
    assert host.ran == ["wc"]


class ReadsByItself(FakeTarget):
    """A target that reads without commands. seen: by path."""

    seen: dict[str, bytes | int]

    def read_many(self, paths, *, deadline):  # type: ignore[no-untyped-def]  # noqa: ARG002 - the port's signature
        return {path: self.seen.get(path, errno.ENOENT) for path in paths}

    def write_many(self, paths, data, *, deadline):  # type: ignore[no-untyped-def]  # noqa: ARG002
        raise AssertionError("nothing is written")


def test_a_tree_reads_without_a_command_if_possible() -> None:
    pod, gone = CgroupPath.parse("/kubepods/pod1"), CgroupPath.parse("/gone")
    folder = FAKE_HIERARCHY.folder(pod)
    target = ReadsByItself()
    target.seen = {
        f"{folder}/memory.max": b"max\n",
        f"{folder}/memory.stat": b"anon 1\nfile 2",
        f"{folder}/cgroup.procs": b"",
        f"{folder}/memory.reclaim": errno.EINVAL,
    }
    names = ["memory.max", "memory.stat", "cgroup.procs", "memory.reclaim", "memory.high"]
    reading = CgroupTree(target, FAKE_HIERARCHY).read_cgroups([pod, gone], names, deadline=soon())
    assert reading.cgroups[pod].files == {
        "memory.max": "max\n",
        "memory.stat": "anon 1\nfile 2\n",
        "cgroup.procs": "",
        "memory.reclaim": Unreadable("Invalid argument"),
        "memory.high": NoFile.NO_FILE,
    }
    assert set(reading.cgroups[gone].files.values()) == {NoFile.NO_FILE}
    assert target.ran == []


def test_a_tree_finds_first_processes_without_a_command() -> None:
    pods = [CgroupPath.parse(f"/kubepods/pod{number}") for number in range(4)]
    target = ReadsByItself()
    lists = [f"{FAKE_HIERARCHY.folder(pod)}/cgroup.procs" for pod in pods]
    target.seen = {
        lists[0]: b"71\n9\n",
        lists[1]: b"",
        lists[2]: b"5\n",
        "/proc/9/oom_score_adj": b"-997\n",
        "/proc/71/oom_score_adj": b"1\n",
    }
    tree = CgroupTree(target, FAKE_HIERARCHY)
    assert tree.read_first_processes(pods, "oom_score_adj", deadline=soon()) == {pods[0]: "-997\n"}
    assert target.ran == []


class KillsByItself(FakeTarget):
    """A target that writes without commands. refused: errnos by path."""

    refused: dict[str, int]
    is_lost = False

    def write_many(self, paths, data, *, deadline):  # type: ignore[no-untyped-def]  # noqa: ARG002 - the port's signature
        assert data == b"1\n"
        return None if self.is_lost else {path: self.refused.get(path, 0) for path in paths}

    def read_many(self, paths, *, deadline):  # type: ignore[no-untyped-def]  # noqa: ARG002
        raise AssertionError("nothing is read")


@pytest.fixture
def kills() -> KillsByItself:
    target = KillsByItself()
    target.refused = {}
    target.on(("sh", "-c"), lambda *_: (0, b"", b""))
    return target


@pytest.mark.parametrize("refused", [{}, {"/gone": errno.ENOENT}, {"/gone": errno.ENODEV}])
def test_a_tree_kills_without_a_command(refused: dict[str, int], kills: KillsByItself) -> None:
    pods = [CgroupPath.parse("/kubepods/pod1"), CgroupPath.parse("/gone")]
    kills.refused = {FAKE_HIERARCHY.file(CgroupPath.parse(path), "cgroup.kill"): why for path, why in refused.items()}
    CgroupTree(kills, FAKE_HIERARCHY).kill(pods, deadline=soon())
    assert kills.ran == []


@pytest.mark.parametrize("how", ["refused", "lost"])
def test_what_cannot_be_killed_so_is_killed_by_a_command(how: str, kills: KillsByItself) -> None:
    pod = CgroupPath.parse("/kubepods/pod1")
    file = FAKE_HIERARCHY.file(pod, "cgroup.kill")
    kills.refused, kills.is_lost = {file: errno.EACCES}, how == "lost"
    CgroupTree(kills, FAKE_HIERARCHY).kill([pod], deadline=soon())
    [argv] = kills.ran
    assert argv[-1] == file
