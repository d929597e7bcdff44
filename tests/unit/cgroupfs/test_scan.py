"""The reading commands, run by this host's own find, grep and xargs on folders that look like a tree of cgroups."""

import os
import subprocess
from pathlib import Path

import pytest

from memqos.cgroupfs import scan
from memqos.model.reading import NoFile, Unreadable


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in {
        "memory.max": "max\n",
        "memory.events": "low 0\nhigh 1\n",
        "pod:a:1/memory.max": "4096\n",
        "pod:a:1/cpuset.mems": "\n",
        "pod:a:1/cgroup.procs": "",
        "pod b 'c/memory.max": "8192\n",
        "other/else": "not asked for\n",
        "other/memory.max.bak": "not asked for\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def scan_tree(root: Path, *names: str) -> scan.Scan:
    done = subprocess.run(scan.tree_command([str(root)], names), capture_output=True, check=True)
    return scan.parse_tree(done.stdout, done.stderr)


def scan_files(*paths: str) -> scan.Scan:
    argv, stdin = scan.files_command(paths)
    done = subprocess.run(argv, input=stdin, capture_output=True, check=False)
    return scan.parse_files(paths, done.stdout, done.stderr)


def test_a_whole_tree(tree: Path) -> None:
    seen = scan_tree(tree, "memory.max", "memory.events", "cpuset.mems", "cgroup.procs")
    assert sorted(seen.folders) == sorted(map(str, [tree, tree / "pod:a:1", tree / "pod b 'c", tree / "other"]))
    assert seen.files == {
        f"{tree}/memory.max": "max\n",
        f"{tree}/memory.events": "low 0\nhigh 1\n",
        f"{tree}/pod:a:1/memory.max": "4096\n",
        f"{tree}/pod:a:1/cpuset.mems": "\n",
        f"{tree}/pod:a:1/cgroup.procs": "",
        f"{tree}/pod b 'c/memory.max": "8192\n",
    }
    assert seen.complaints == ()


def test_names_are_not_patterns(tree: Path) -> None:
    assert scan_tree(tree, "memory.*").files == {}


def test_a_root_that_does_not_exist_has_nothing(tree: Path) -> None:
    seen = scan_tree(tree / "gone", "memory.max")
    assert (seen.folders, seen.files, seen.complaints) == ((), {}, ())


def test_a_tree_without_the_file(tree: Path) -> None:
    assert scan_tree(tree / "other", "memory.max") == scan.Scan(folders=(f"{tree}/other",))


def test_files_that_are_there_missing_empty_and_below_what_is_gone(tree: Path) -> None:
    paths = [f"{tree}/memory.max", f"{tree}/memory.low", f"{tree}/pod:a:1/cgroup.procs", f"{tree}/gone/memory.max"]
    assert scan_files(*paths).files == {
        paths[0]: "max\n",
        paths[1]: NoFile.NO_FILE,
        paths[2]: "",
        paths[3]: NoFile.NO_FILE,
    }


def test_a_file_that_cannot_be_read_says_why(tree: Path) -> None:
    folder = f"{tree}/pod:a:1"
    assert scan_files(folder, f"{tree}/memory.max").files == {
        folder: Unreadable("Is a directory"),
        f"{tree}/memory.max": "max\n",
    }


def test_several_roots_are_one_tree(tree: Path) -> None:
    argv = scan.tree_command([str(tree / "pod:a:1"), str(tree / "pod b 'c")], ["memory.max"])
    done = subprocess.run(argv, capture_output=True, check=True)
    seen = scan.parse_tree(done.stdout, done.stderr)
    assert seen.files == {f"{tree}/pod:a:1/memory.max": "4096\n", f"{tree}/pod b 'c/memory.max": "8192\n"}
    assert seen.folders == (f"{tree}/pod:a:1", f"{tree}/pod b 'c")


def test_a_file_of_the_first_process(tree: Path) -> None:
    """The first of a cgroup's processes is the one with the lowest number: here this very process."""
    own, gone, empty = (tree / name / "cgroup.procs" for name in ("pod b 'c", "other", "pod:a:1"))
    own.write_text(f"{2**30}\n{os.getpid()}\n")
    gone.write_text(f"{2**30}\n")
    argv = scan.first_process_command("oom_score_adj", [str(own), str(gone), str(empty), f"{tree}/none"])
    done = subprocess.run(argv, capture_output=True, check=True)
    expected = Path("/proc/self/oom_score_adj").read_text()
    assert (scan.parse_first_process(done.stdout), done.stderr) == ({str(own): expected}, b"")


def test_no_files_are_no_command_that_waits() -> None:
    assert scan_files() == scan.Scan()


def test_what_grep_read_before_an_error_does_not_count() -> None:
    seen = scan.parse_files(["/a/f"], b"/a/f\0half\n", b"grep: /a/f: Input/output error\n")
    assert seen.files == {"/a/f": Unreadable("Input/output error")}


def test_a_file_that_vanishes_between_find_and_grep_is_not_there() -> None:
    seen = scan.parse_tree(b"d /a\0f /a/f\0\0", b"grep: /a/f: No such file or directory\n")
    assert (seen.folders, seen.files) == (("/a",), {})
    late = scan.parse_tree(b"d /a\0f /a/f\0\0", b"grep: /a/f: No such device\n")
    assert late.files == {}


def test_a_complaint_that_names_no_file_is_kept() -> None:
    assert scan.parse_files([], b"", b"xargs: grep: Permission denied\n\n").complaints == (
        "xargs: grep: Permission denied",
    )


def test_bytes_that_are_no_text_do_not_break_reading(tree: Path) -> None:
    (tree / "odd").write_bytes(b"\xff\xfe 1\n")
    assert scan_files(f"{tree}/odd").files == {f"{tree}/odd": "\udcff\udcfe 1\n"}
