"""The reading commands, run by this host's own find, grep and xargs on folders that look like a tree of cgroups."""

import os
import subprocess
from pathlib import Path

import pytest

from memqos.cgroupfs import parse
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


def scan_files(*paths: str) -> parse.Scan:
    argv, stdin = parse.files_command(paths)
    done = subprocess.run(argv, input=stdin, capture_output=True, check=False)
    return parse.parse_files(paths, done.stdout, done.stderr)


def test_what_find_lists_and_grep_prints(tree: Path) -> None:
    script = 'find "$@" -type f -printf "f %p\\0"; printf "\\0"; grep -aHZr "" "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", f"{tree}/pod:a:1", f"{tree}/other"], capture_output=True, check=True
    )
    assert parse.parse_listed(done.stdout, done.stderr) == parse.Scan(
        files={
            f"{tree}/pod:a:1/memory.max": "4096\n",
            f"{tree}/pod:a:1/cpuset.mems": "\n",
            f"{tree}/pod:a:1/cgroup.procs": "",
            f"{tree}/other/else": "not asked for\n",
            f"{tree}/other/memory.max.bak": "not asked for\n",
        }
    )


def test_an_empty_list() -> None:
    assert parse.parse_listed(b"\0", b"") == parse.Scan()


def test_existing_missing_and_empty_files_and_those_of_removed_cgroups(tree: Path) -> None:
    paths = [f"{tree}/memory.max", f"{tree}/memory.low", f"{tree}/pod:a:1/cgroup.procs", f"{tree}/gone/memory.max"]
    assert scan_files(*paths).files == {
        paths[0]: "max\n",
        paths[1]: NoFile.NO_FILE,
        paths[2]: "",
        paths[3]: NoFile.NO_FILE,
    }


def test_an_unreadable_file_has_the_reason(tree: Path) -> None:
    folder = f"{tree}/pod:a:1"
    assert scan_files(folder, f"{tree}/memory.max").files == {
        folder: Unreadable("Is a directory"),
        f"{tree}/memory.max": "max\n",
    }


def test_a_file_of_the_first_process(tree: Path) -> None:
    """The first of a cgroup's processes is the one with the lowest number: here this very process."""
    own, gone, empty = (tree / name / "cgroup.procs" for name in ("pod b 'c", "other", "pod:a:1"))
    own.write_text(f"{2**30}\n{os.getpid()}\n")
    gone.write_text(f"{2**30}\n")
    argv = parse.first_process_command("oom_score_adj", [str(own), str(gone), str(empty), f"{tree}/none"])
    done = subprocess.run(argv, capture_output=True, check=True)
    expected = Path("/proc/self/oom_score_adj").read_text()
    assert (parse.parse_first_process(done.stdout), done.stderr) == ({str(own): expected}, b"")


def test_a_file_of_each_process_that_runs_a_program(tree: Path) -> None:
    own = tree / "pod b 'c" / "cgroup.procs"
    own.write_text(f"1073741824\n{os.getpid()}\n")
    comm, score = (Path(f"/proc/self/{name}").read_text().strip() for name in ("comm", "oom_score_adj"))
    for program, expected in ((comm, {os.getpid(): score}), ("another", {})):
        argv = parse.named_processes_command("oom_score_adj", str(own), program)
        done = subprocess.run(argv, capture_output=True, check=True)
        assert (parse.parse_named_processes(done.stdout), done.stderr) == (expected, b"")
    gone = parse.named_processes_command("oom_score_adj", f"{tree}/none", comm)
    assert subprocess.run(gone, capture_output=True, check=True).stdout == b""


def test_no_files_are_no_command_that_waits() -> None:
    assert scan_files() == parse.Scan()


def test_what_grep_read_before_an_error_does_not_count() -> None:
    seen = parse.parse_files(["/a/f"], b"/a/f\0half\n", b"grep: /a/f: Input/output error\n")
    assert seen.files == {"/a/f": Unreadable("Input/output error")}


def test_a_file_that_vanishes_between_find_and_grep_counts_as_missing() -> None:
    for reason in (b"No such file or directory", b"No such device"):
        assert parse.parse_listed(b"f /a/f\0\0", b"grep: /a/f: " + reason + b"\n") == parse.Scan()


def test_a_complaint_that_names_no_file_is_kept() -> None:
    assert parse.parse_files([], b"", b"xargs: grep: Permission denied\n\n").complaints == (
        "xargs: grep: Permission denied",
    )


def test_bytes_that_are_no_text_do_not_break_reading(tree: Path) -> None:
    (tree / "odd").write_bytes(b"\xff\xfe 1\n")
    assert scan_files(f"{tree}/odd").files == {f"{tree}/odd": "\udcff\udcfe 1\n"}
