"""The results folder: of this run alone, writable, and with room; checked first."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from tests.plugin.conftest import HEAD

pytest_plugins = ["pytester"]

ONE = """
@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("number", range(3))
def test_it(qos_evidence, number):
    qos_evidence.settle(finding("conforms"))
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")


@pytest.fixture
def small_disk(pytester):
    """Mount a disk of this size in ./disk."""
    mounted = []

    def mount(size, *options):
        (pytester.path / "disk").mkdir()
        words = ["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", *options]), "none", pytester.path / "disk"]
        if subprocess.run(words, check=False, capture_output=True).returncode:
            pytest.skip("no disk can be mounted here")
        mounted.append(pytester.path / "disk")
        return pytester.path / "disk"

    yield mount
    for place in mounted:
        subprocess.run(["umount", "--lazy", place], check=True)


def pytest_run(pytester, *words, **options):
    command = [sys.executable, "-m", "pytest", "suites", *words]
    return subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, check=False, **options)


ALWAYS_THE_SAME_SECOND = """
import datetime
from memqos.plugin.results import results_folder
now = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
results_folder.utc_now = lambda: now
"""


def test_runs_that_start_in_the_same_second_have_a_folder_each(suite, pytester):
    suite(ONE)
    (pytester.path / "suites/conftest.py").write_text(ALWAYS_THE_SAME_SECOND)

    started = [
        subprocess.Popen([sys.executable, "-m", "pytest", "suites"], cwd=pytester.path, stdout=subprocess.DEVNULL)
        for _ in range(3)
    ]

    assert [process.wait() for process in started] == [0, 0, 0]
    folders = sorted(path.name for path in (pytester.path / "results").iterdir())
    assert folders == ["2026-01-02T03-04-05Z", "2026-01-02T03-04-05Z-2", "2026-01-02T03-04-05Z-3"]
    for folder in folders:
        assert len((pytester.path / "results" / folder / "findings.jsonl").read_text().splitlines()) == 3
        assert json.loads((pytester.path / "results" / folder / "bundle.json").read_text())["exit_code"] == 0


@pytest.fixture
def elsewhere(pytester):
    """Tests of a folder outside memqos, one of which is a memqos test."""

    def write(text):
        pytester.makepyfile(test_ours=HEAD + textwrap.dedent(text), test_theirs="def test_theirs():\n    pass\n")

    return write


def test_workers_of_runs_elsewhere_that_start_in_the_same_second_have_a_folder_each_too(elsewhere, pytester):
    elsewhere(
        """
        @pytest.mark.parametrize("number", range(4))
        def test_it(qos_evidence, number):
            qos_evidence.settle(finding("conforms"))
        """
    )
    pytester.makepyfile(same_second=ALWAYS_THE_SAME_SECOND)

    command = [sys.executable, "-m", "pytest", "-p", "same_second", "-n", "2"]
    started = [subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.PIPE, text=True) for _ in range(3)]

    out = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], out
    folders = list((pytester.path / "results").iterdir())
    assert len(folders) == 3
    for folder in folders:
        assert len((folder / "findings.jsonl").read_text().splitlines()) == 4
        assert json.loads((folder / "bundle.json").read_text())["exit_code"] == 0


def test_workers_of_other_peoples_runs_leave_no_folder(pytester):
    pytester.makepyfile("def test_theirs():\n    pass\n")

    assert pytester.runpytest_subprocess("-n", "2").ret == 0
    assert not (pytester.path / "results").exists()


def test_a_folder_that_another_run_writes_to_is_refused(suite, run, pytester):
    suite(
        """
        import time
        from pathlib import Path

        @pytest.mark.claim("demo/one")
        def test_it(qos_evidence):
            Path("begun").touch()
            while not Path("end").exists():
                time.sleep(0.05)
            qos_evidence.settle(finding("conforms"))
        """
    )
    command = [sys.executable, "-m", "pytest", "suites", "--memqos-results=out"]
    first = subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.DEVNULL)
    while not (pytester.path / "begun").exists():
        time.sleep(0.05)

    second = run()
    (pytester.path / "end").touch()

    assert second.ret == 4
    second.stderr.fnmatch_lines(["ERROR: *another run is writing its results to '*out'*"])
    assert first.wait() == 0
    assert json.loads((pytester.path / "out/bundle.json").read_text())["exit_code"] == 0


@pytest.mark.parametrize(
    ("command", "place"),
    [
        *(("pytest", place) for place in ("ok.yaml/x", "x" * 300, "/proc/1/fd/nothing", "/dev/null/x")),
        *(("memqos", place) for place in ("ok.yaml/x", "ok.yaml", "/dev/null")),
    ],
    ids=lambda text: text[:20],
)
def test_an_impossible_place_is_one_sentence(suite, pytester, place, command):
    suite(ONE)
    (pytester.path / "ok.yaml").write_text("years of work")
    words = ["run", "suites", "--results", place] if command == "memqos" else ["suites", "--memqos-results", place]

    result = subprocess.run(
        [sys.executable, "-m", command, *words], cwd=pytester.path, capture_output=True, text=True, check=False
    )

    assert result.returncode in {4, 6}
    assert "ERROR: " in result.stderr or "error: " in result.stderr
    assert "Traceback" not in result.stderr
    assert "INTERNALERROR" not in result.stdout + result.stderr
    assert (pytester.path / "ok.yaml").read_text() == "years of work"


@needs_root
@pytest.mark.parametrize("words", [[], ["--memqos-results=out"]], ids=["time", "named"])
@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["alone", "xdist"])
def test_a_read_only_disk_is_an_environment_error(suite, small_disk, pytester, words, workers):
    suite(ONE)
    disk = small_disk("1m", "ro")
    command = [sys.executable, "-m", "pytest", str(pytester.path / "suites"), *words, *workers]

    result = subprocess.run(command, cwd=disk, capture_output=True, text=True, check=False)

    assert result.returncode == 6, result.stdout + result.stderr
    assert "Read-only file system." in result.stderr
    assert "Name a writable folder" in result.stderr
    assert "Traceback" not in result.stderr
    assert "INTERNALERROR" not in result.stdout + result.stderr


@needs_root
def test_too_little_room_is_reported_before_the_first_case(suite, small_disk, pytester):
    suite(ONE)
    small_disk("1m")

    result = pytest_run(pytester, "--memqos-results=disk/out")

    assert result.returncode == 6
    assert "the disk has 1 MiB free, but results may need 64 MiB." in result.stderr
    assert "test_it" not in result.stdout


FILLS = """
import os

def fill():
    with open("disk/fill", "wb") as stream:
        while True:
            try:
                os.write(stream.fileno(), bytes(1 << 20))
            except OSError:
                break
        for _ in range(1 << 12):
            try:
                os.write(stream.fileno(), b"x")
            except OSError:
                break
"""


@needs_root
@pytest.mark.parametrize("verdict", ["conforms", "deviates"])
def test_a_full_disk_ends_the_run_with_its_results(suite, small_disk, pytester, verdict):
    suite(
        f"{FILLS}\n"
        '@pytest.mark.claim("demo/one")\n@pytest.mark.parametrize("number", range(9))\n'
        "def test_it(qos_evidence, number):\n    if number == 4:\n        fill()\n"
        f'    qos_evidence.settle(finding("{verdict}"))\n'
    )
    disk = small_disk("80m")

    result = pytest_run(pytester, "--memqos-results=disk/out")

    assert result.returncode == (6 if verdict == "conforms" else 1)
    assert "No space left on device" in result.stderr
    assert "verdict: " in result.stdout
    assert "Traceback" not in result.stdout + result.stderr
    assert "INTERNALERROR" not in result.stdout + result.stderr
    assert len((disk / "out/findings.jsonl").read_text().splitlines()) >= 4


@needs_root
def test_a_disk_that_fills_up_after_the_last_case_is_the_hosts_matter(suite, small_disk, pytester):
    suite(ONE)
    (pytester.path / "suites/conftest.py").write_text(
        f"{FILLS}\nimport pytest\n@pytest.hookimpl(tryfirst=True)\ndef pytest_sessionfinish():\n    fill()\n"
    )
    small_disk("80m")

    result = pytest_run(pytester, "--memqos-results=disk/out")

    assert result.returncode == 6, result.stdout + result.stderr
    assert "bundle.json: No space left on device" in result.stderr
    assert "verdict: this host cannot run it (3 cases observed" in result.stdout
    assert "Traceback" not in result.stdout + result.stderr
    assert not list((pytester.path / "disk/out").glob(".*"))


@needs_root
def test_evidence_that_cannot_be_kept_is_no_deviation(suite, small_disk, pytester):
    suite(
        f"{FILLS}\n"
        '@pytest.mark.claim("demo/one")\ndef test_it(qos_evidence):\n    fill()\n'
        '    qos_evidence.attach("big.txt", "x" * 100000)\n    qos_evidence.settle(finding("conforms"))\n'
    )
    small_disk("80m")

    result = pytest_run(pytester, "--memqos-results=disk/out")

    assert result.returncode == 6
    assert "big.txt: No space left on device" in result.stdout


def test_listing_creates_no_folder(suite, pytester):
    suite(ONE)

    assert pytest_run(pytester, "--collect-only").returncode == 0
    assert not (pytester.path / "results").exists()


def test_a_folder_removed_during_the_run_is_recreated(suite, run, pytester):
    suite(
        """
        import shutil

        @pytest.mark.claim("demo/one")
        @pytest.mark.parametrize("number", range(3))
        def test_it(qos_evidence, number):
            if number == 1:
                shutil.rmtree("out")
            qos_evidence.settle(finding("conforms"))
        """
    )

    assert run().ret == 0
    assert json.loads((pytester.path / "out/bundle.json").read_text())["counts"]["tests"]["conforms"] == 3
    shutil.rmtree(pytester.path / "out")


ORDINARY = """
import contextlib, os, sys
from pathlib import Path
from types import SimpleNamespace
from memqos.errors import MemqosError
from memqos.plugin.results.results_folder import make_folder

named, place, mask = sys.argv[1] == "named", Path(sys.argv[2]), sys.argv[3]
if os.geteuid() == 0:
    os.chmod(place, 0o777)
    os.setgid(65534)
    os.setuid(65534)
os.umask(int(mask, 8))
settings = SimpleNamespace(results=place / "r" if named else None, origins={"results": "--results"})
with contextlib.ExitStack() as held:
    try:
        make_folder(place / "r", settings, held=held)
    except MemqosError as error:
        print(type(error).__name__, error)
"""


def made_by_an_ordinary_user(how, place, mask):
    """The error of make_folder for a user who is not root, in a folder that they may write to."""
    words = [sys.executable, "-c", ORDINARY, how, str(place), mask]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.fixture
def open_place():
    """A folder that every user can reach, whatever the mode of pytest's own folders."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        place = Path(folder) / "place"
        place.mkdir()
        yield place


@pytest.mark.parametrize("how", ["named", "unnamed"])
def test_a_folder_with_an_unusable_mode_is_removed(open_place, how):
    done = made_by_an_ordinary_user(how, open_place, "777")
    assert done.stdout.startswith("EnvironmentNotAbleError"), done.stderr
    assert list(open_place.iterdir()) == []


@pytest.mark.parametrize("how", ["named", "unnamed"])
def test_a_folder_below_one_that_cannot_be_read_is_refused_in_one_line(open_place, how):
    closed = open_place / "closed"
    closed.mkdir(mode=0o700)
    below = closed / "place"
    below.mkdir()
    closed.chmod(0o000)
    done = made_by_an_ordinary_user(how, below, "022")
    closed.chmod(0o700)
    assert done.stdout.startswith("EnvironmentNotAbleError"), done.stderr


# Not earlier: only root may be able to read the interpreter's folders.
LOOKS_AS_NOBODY = """
import os
import memqos.plugin.entry

chosen_folder = memqos.plugin.entry.chosen_folder

def chosen_by_nobody(config, settings):
    os.setgid(65534)
    os.setuid(65534)
    return chosen_folder(config, settings)

memqos.plugin.entry.chosen_folder = chosen_by_nobody
"""


@needs_root
def test_an_unreadable_results_folder_ends_the_run_in_one_line(open_place):
    """As another user than root, since root reads every folder."""
    (open_place / "conftest.py").write_text(LOOKS_AS_NOBODY)
    closed = open_place / "closed"
    closed.mkdir(mode=0o700)
    words = [sys.executable, "-m", "pytest", "--rootdir=.", "-p", "no:cacheprovider", f"--memqos-results={closed}/r"]
    done = subprocess.run(words, cwd=open_place, capture_output=True, text=True, check=False)
    assert done.returncode == 6, done.stderr
    advice = "Name a writable folder (--memqos-results)."
    assert done.stderr == f"Exit: {closed}/r: Permission denied. {advice}\n"
