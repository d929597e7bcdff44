"""The agent on a folder that stands for a cgroup mount, with files made beforehand where a kernel would make them."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from memqos.enforce import agent


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpu\n")
    return tmp_path


@pytest.fixture(autouse=True)
def marks(monkeypatch: pytest.MonkeyPatch) -> dict[Path, bytes]:
    """Extended attributes in memory: those of a cgroup need privileges on an ordinary file system."""
    kept: dict[Path, bytes] = {}

    def get(path: Path, _: str) -> bytes:
        if path not in kept:
            raise OSError(errno.ENODATA, "No data available")
        return kept[path]

    monkeypatch.setattr(os, "setxattr", lambda path, _, value: kept.update({path: value}))
    monkeypatch.setattr(os, "getxattr", get)
    return kept


def request(mount: Path, *steps: dict[str, Any], seconds: float = 0.1) -> dict[str, Any]:
    return {"verb": "perform", "mount": str(mount), "mark": "run 1", "seconds": seconds, "steps": list(steps)}


def step(action: str, path: str, *writes: list[str], unit: str = "") -> dict[str, Any]:
    properties = [["MemoryMax", "t", ["4096"]]]
    return {"action": action, "path": path, "unit": unit, "properties": properties, "writes": list(writes)}


def test_a_cgroup_is_made_marked_and_given_controllers(mount: Path) -> None:
    answer = agent.perform(request(mount, step("make", "/kubepods")))
    assert answer == {"done": 1, "killed": [], "failure": None}
    assert (mount / "kubepods").is_dir()
    # One write for each controller that is not handed down yet; a file keeps the last, a kernel adds them up.
    assert (mount / "cgroup.subtree_control").read_text().startswith("+memory")


def test_files_are_written_in_turn(mount: Path) -> None:
    (mount / "a").mkdir()
    for name in ("memory.max", "memory.min"):
        (mount / "a" / name).write_text("")
    answer = agent.perform(request(mount, step("change", "/a", ["memory.max", "max"], ["memory.min", "0"])))
    assert answer["failure"] is None
    assert [(mount / "a" / name).read_text() for name in ("memory.max", "memory.min")] == ["max", "0"]


def test_the_step_that_fails_is_named_and_later_ones_are_not_done(mount: Path) -> None:
    answer = agent.perform(
        request(mount, step("make", "/a"), step("make", "/b", ["memory.max", "1"]), step("make", "/c"))
    )
    assert answer["done"] == 1
    assert answer["failure"] == {
        "step": 1,
        "what": f"writing '1' to '{mount}/b/memory.max' failed: No such file or directory",
        "kind": "refused",
    }
    assert not (mount / "c").exists()


def test_somebody_elses_cgroup_is_not_taken_over(mount: Path) -> None:
    (mount / "kubepods").mkdir()
    failure = agent.perform(request(mount, step("make", "/kubepods")))["failure"]
    assert (failure["kind"], failure["step"]) == ("foreign", 0)


def test_what_an_earlier_run_left_is_told_from_somebody_elses(mount: Path) -> None:
    agent.perform(request(mount, step("make", "/kubepods")))
    failure = agent.perform(request(mount, step("make", "/kubepods")))["failure"]
    assert failure["kind"] == "leftover"
    assert "'run 1'" in failure["what"]
    (mount / "other").mkdir()
    assert agent.leftovers(mount) == [("/kubepods", "run 1")]


def test_somebody_elses_cgroup_is_neither_killed_nor_removed(mount: Path, marks: dict[Path, bytes]) -> None:
    (mount / "kubepods").mkdir()
    (mount / "kubepods" / "cgroup.procs").write_text("7\n")
    (mount / "kubepods" / "cgroup.kill").write_text("")
    for mark in (None, b"run 2"):
        if mark:
            marks[mount / "kubepods"] = mark
        answer = agent.perform(request(mount, step("remove", "/kubepods")))
        assert (answer["done"], answer["failure"]["kind"]) == (0, "foreign")
        assert (mount / "kubepods" / "cgroup.kill").read_text() == ""


def test_a_removal_takes_what_is_below_and_is_no_error_when_nothing_is_there(
    mount: Path, marks: dict[Path, bytes]
) -> None:
    (mount / "a" / "b" / "c").mkdir(parents=True)
    marks[mount / "a"] = b"run 1"
    answer = agent.perform(request(mount, step("remove", "/a"), step("remove", "/gone")))
    assert answer == {"done": 2, "killed": [], "failure": None}
    assert not (mount / "a").exists()


def test_processes_are_killed_and_named(mount: Path, marks: dict[Path, bytes]) -> None:
    folder = mount / "a" / "b"
    folder.mkdir(parents=True)
    marks[mount / "a"] = b"run 1"
    (folder / "cgroup.procs").write_text("7\n11\n")
    (mount / "a" / "cgroup.kill").write_text("")
    answer = agent.perform(request(mount, step("remove", "/a")))
    assert answer["killed"] == [7, 11]
    assert (mount / "a" / "cgroup.kill").read_text() == "1"
    assert answer["failure"] == {"step": 0, "what": "it is still there after 0 s", "kind": "refused"}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with a busctl that makes the slice's cgroup, and a systemctl; both keep what they were asked."""
    folder = tmp_path / "bin"
    folder.mkdir()
    log = folder / "log"
    (folder / "busctl").write_text(f'#!/bin/sh\necho "$@" >>{log}\nmkdir -p {tmp_path}/a.slice\n')
    (folder / "systemctl").write_text(f'#!/bin/sh\necho "$@" >>{log}\n')
    for program in folder.iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return log


def test_a_slice_is_started_changed_and_stopped_through_systemd(mount: Path, programs: Path) -> None:
    make, change = step("make", "/a.slice", unit="a.slice"), step("change", "/a.slice", unit="a.slice")
    assert agent.perform(request(mount, make, change))["failure"] is None
    agent.perform(
        request(mount, step("remove", "/a.slice", unit="a.slice"), step("remove", "/b.slice", unit="b.slice"))
    )
    bus = "--system --quiet call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager"
    assert programs.read_text().splitlines() == [
        f"{bus} StartTransientUnit ssa(sv)a(sa(sv)) a.slice replace 1 MemoryMax t 4096 0",
        f"{bus} SetUnitProperties sba(sv) a.slice true 1 MemoryMax t 4096",
        "--quiet stop a.slice",
    ]


def test_a_slice_whose_cgroup_does_not_appear(mount: Path, programs: Path) -> None:
    failure = agent.perform(request(mount, step("make", "/b.slice", unit="b.slice")))["failure"]
    assert "did not appear" in failure["what"]


def test_what_systemd_says_is_the_reason(mount: Path, programs: Path) -> None:
    (programs.parent / "busctl").write_text("#!/bin/sh\necho 'Unit a.slice is masked.' >&2\nexit 1\n")
    failure = agent.perform(request(mount, step("make", "/a.slice", unit="a.slice")))["failure"]
    assert failure["what"] == "'busctl' ended with status 1: Unit a.slice is masked."


def test_a_machine_without_systemd(mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(mount))
    failure = agent.perform(request(mount, step("make", "/a.slice", unit="a.slice")))["failure"]
    assert failure["what"] == "'busctl' cannot be run: No such file or directory"
