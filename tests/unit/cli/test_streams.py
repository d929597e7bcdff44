"""Standard output that is full, limited, closed or not read: never a lost write, and never exit code 0 for one."""

import fcntl
import os
import resource
import subprocess
import sys
import threading

import pytest

from tests.recorded import TRIXIE

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, resources: {limits: {memory: 128Mi}}}]}
"""
PODS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 400
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: c, resources: {limits: {memory: 128Mi}}}]}
"""
ANSWERS = {
    "expect": ("expect", "pod.yaml", "--kubernetes", "1.36"),
    "expect-json": ("expect", "pod.yaml", "--kubernetes", "1.36", "--json"),
    "junit": ("report", "junit", str(TRIXIE)),
    "tap": ("report", "tap", str(TRIXIE)),
    "markdown": ("report", "markdown", str(TRIXIE)),
    "badge": ("report", "badge", str(TRIXIE)),
    "show": ("report", "show", str(TRIXIE)),
    "html": ("report", "html", str(TRIXIE), "-o", "-"),
    "compare": ("report", "compare", str(TRIXIE), str(TRIXIE)),
    "settings": ("settings",),
    "help": ("--help",),
    "help-of-a-verb": ("run", "--help"),
    "version": ("--version",),
}
LONG = {
    "expect": ("expect", "pods.yaml", "--kubernetes", "1.36"),
    "expect-json": ("expect", "pods.yaml", "--kubernetes", "1.36", "--json"),
    "html": ANSWERS["html"],
}

both_modes = pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
each_answer = pytest.mark.parametrize("words", ANSWERS.values(), ids=ANSWERS)


@pytest.fixture
def memqos(tmp_path):
    """Starts memqos in a folder with two manifests."""
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "pods.yaml").write_text(PODS)

    def started(words, unbuffered, **options):
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        command = [sys.executable, "-m", "memqos", *words]
        return subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, **options)

    return started


def ended(process):
    err = process.communicate(timeout=120)[1]
    assert "Traceback" not in err
    return process.returncode, err


@both_modes
@each_answer
def test_a_full_disk(memqos, words, unbuffered):
    with open("/dev/full", "w") as full:  # noqa: PTH123 - it is a stream for a process
        code, err = ended(memqos(words, unbuffered, stdout=full))
    assert code == 6
    assert "standard output: No space left on device." in err


def few_bytes():
    """As `ulimit -f` does, which counts in KiB."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9))


@both_modes
@each_answer
def test_a_file_that_may_hold_a_few_bytes_alone(memqos, tmp_path, words, unbuffered):
    with (tmp_path / "out").open("w") as out:
        process = memqos(words, unbuffered, stdout=out, preexec_fn=few_bytes)
        code, err = ended(process)
    assert code == 6
    assert "File too large." in err


@both_modes
@each_answer
def test_a_closed_standard_output(memqos, words, unbuffered):
    code, err = ended(memqos(words, unbuffered, preexec_fn=lambda: os.close(1)))
    assert code == 4
    assert "memqos: error: standard output is closed." in err


@both_modes
@pytest.mark.parametrize("words", LONG.values(), ids=LONG)
def test_a_reader_that_has_seen_enough(memqos, words, unbuffered):
    process = memqos(words, unbuffered, stdout=subprocess.PIPE)
    process.stdout.read(1)
    process.stdout.close()
    process.stdout = None
    code, err = ended(process)
    assert code == 141
    assert "memqos: error" not in err


@both_modes
@pytest.mark.parametrize("words", LONG.values(), ids=LONG)
def test_a_non_blocking_pipe(memqos, words, unbuffered):
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETFL, fcntl.fcntl(writer, fcntl.F_GETFL) | os.O_NONBLOCK)
    process = memqos(words, unbuffered, stdout=writer)
    os.close(writer)
    pieces = []
    with os.fdopen(reader, "rb") as stream:
        thread = threading.Thread(target=lambda: pieces.append(stream.read()))
        thread.start()
        code, err = ended(process)
        thread.join()
    assert (code, err.count("error")) == (0, 0)
    assert pieces[0].endswith((b"\n", b">"))
    assert len(pieces[0]) > 1 << 16


@both_modes
def test_notes_to_a_closed_stream_are_no_error(memqos, unbuffered):
    process = memqos(ANSWERS["expect"], unbuffered, stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2))
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "memory.max" in out
