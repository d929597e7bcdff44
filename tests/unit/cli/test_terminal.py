"""Output on a terminal: never a control character from a file, whatever page prints it."""

import contextlib
import json
import os
import pty
import subprocess
import sys

import click
import pytest

from memqos.catalog.data import data_root
from memqos.cli.main import run
from memqos.face.text import for_terminal, harmless
from tests.unit.cli.audit.recordings import TIERED

HIDDEN = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202e"


@pytest.mark.parametrize(("text", "shown"), [
    ("plain, and wide: \u00e9 \u6c34", "plain, and wide: \u00e9 \u6c34"),
    ("one\ntwo", "one\ntwo"),
    ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
    ("a\rb\tc\x7f\x85", r"a\rb\tc\x7f\x85"),
    ("\u202eabc\u2066\u2028", r"\u202eabc\u2066\u2028"),
    ("\ud800", r"\ud800"),
])  # fmt: skip
def test_what_could_do_something_is_written_out(text, shown):
    assert harmless(text) == shown


def manifest(**more):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c"}]},
        **more,
    }


@pytest.mark.parametrize("document", [
    manifest(kind=HIDDEN),
    manifest(metadata={"name": HIDDEN}),
    manifest(metadata={"name": "p", HIDDEN: 1}),
    manifest(spec={"containers": [{"name": "c", "resources": {"limits": {"memory": HIDDEN}}}]}),
    manifest(spec={"containers": [{"name": "c", "restartPolicy": HIDDEN}]}),
    manifest(metadata={"name": "p", "uid": HIDDEN}),
])  # fmt: skip
def test_a_hostile_manifest(capsys, tmp_path, document):
    (tmp_path / "pod.json").write_text(json.dumps(document))
    assert run(["expect", str(tmp_path / "pod.json"), "--kubernetes", "1.36"]) == 4
    streams = capsys.readouterr()
    assert streams.out == ""
    assert set(streams.err) & set("\x1b\x07\x9b\r\u202e") == set()
    assert r"\x1b]0;owned\x07" in streams.err


def test_a_text_from_a_file_begins_no_line_of_its_own(capsys, tmp_path):
    (tmp_path / "pod.json").write_text(json.dumps(manifest(metadata={"name": "p\nmemqos: all is well"})))
    assert run(["expect", str(tmp_path / "pod.json"), "--kubernetes", "1.36"]) == 4
    assert not any(line.startswith("memqos: all") for line in capsys.readouterr().err.splitlines())


def test_words_on_the_command_line(capsys):
    for arguments in (["\x1b[2J"], ["expect", "--\x1b[2J"], ["expect", "\x1b[2J.yaml", "--kubernetes", "1.36"]):
        assert run(arguments) == 4
        assert "\x1b" not in capsys.readouterr().err


def test_what_a_recording_holds(capsys, tmp_path):

    data = json.loads(TIERED.read_text())
    data["cgroups"]["/kubepods.slice"]["memory.min"] = HIDDEN
    data["cgroups"]["/kubepods.slice"]["memory.max"] = f"max\nall is well{HIDDEN}"
    data["containers"]["x"] = [f"a{HIDDEN}", "c", "u"]
    (tmp_path / "tree.json").write_text(json.dumps(data))
    assert run(["audit", "--tree", str(tmp_path / "tree.json")]) == 0
    out = capsys.readouterr().out
    assert set(out) & set("\x1b\x07\x9b\r\u202e") == set()
    assert "not judged, since no manifest was given: pods a\\x1b]0;owned" in out
    assert not any(line.startswith("all is well") for line in out.splitlines())


PLAN = """Kubernetes 1.36, cgroup driver cgroupfs, below /sys/fs/cgroup

pod default/web (Burstable)
  /kubepods/burstable/pod5f13baf1-1e56-5792-acc0-d8d2c466cc7b
  memory.max        209715200  200 MiB
  not written: memory.min 0, memory.low 0, memory.high max
  container app of pod default/web, oom_score_adj 993"""


def test_continuation_lines_are_indented():
    assert for_terminal(PLAN, width=50, colours=False).splitlines() == [
        "Kubernetes 1.36, cgroup driver cgroupfs, below",
        "    /sys/fs/cgroup",
        "",
        "pod default/web (Burstable)",
        "  /kubepods/burstable/pod5f13baf1-1e56-5792-acc0-d8d2c466cc7b",
        "  memory.max        209715200  200 MiB",
        "  not written: memory.min 0, memory.low 0,",
        "               memory.high max",
        "  container app of pod default/web, oom_score_adj",
        "      993",
    ]
    assert for_terminal(PLAN, width=200, colours=False) == PLAN
    assert for_terminal(PLAN, width=1, colours=False) == for_terminal(PLAN, width=40, colours=False)


def test_colours_are_on_top_of_the_same_text():
    coloured = for_terminal(PLAN, width=50, colours=True)
    assert click.unstyle(coloured) == for_terminal(PLAN, width=50, colours=False)
    assert "\x1b[1mpod default/web (Burstable)\x1b[0m" in coloured
    deviation = "memory.max of container c of pod default/p is 4096, expected 209715200"
    assert for_terminal(deviation, width=99, colours=True).startswith("\x1b[31m\x1b[1mmemory.max")
    judged = for_terminal("t.json: Kubernetes 1.36: 3 conform, 0 deviate, 1 not observable", width=99, colours=True)
    assert judged.startswith("\x1b[32m")


def shown_on(arguments, *, columns, **environment):
    """The output for a terminal of so many columns."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "memqos", *arguments]
    environ = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm", **environment}
    environ = {name: value for name, value in environ.items() if name != "NO_COLOR" or name in environment}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL, env=environ) as process:
        os.close(theirs)
        sent = b""
        with contextlib.suppress(OSError), os.fdopen(ours, "rb", buffering=0) as terminal:
            while piece := terminal.read(1 << 16):
                sent += piece
        assert process.wait() == 0
    return sent.decode().replace("\r\n", "\n")


def test_on_a_terminal():
    arguments = ["expect", str(data_root() / "fixtures" / "pods" / "burstable.yaml"), "--kubernetes", "1.36"]
    plain = subprocess.run(
        [sys.executable, "-m", "memqos", *arguments], check=True, capture_output=True, text=True
    ).stdout
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines())) > 120
    coloured = shown_on(arguments, columns=70)
    assert "\x1b[1mpod default/burstable (Burstable)\x1b[0m" in coloured
    assert max(len(line) for line in click.unstyle(coloured).splitlines()) <= 70
    assert click.unstyle(coloured).split() == plain.split()
    for calm in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert shown_on(arguments, columns=70, **calm) == click.unstyle(coloured)
    # The output for programs is the same everywhere.
    document = shown_on([*arguments, "--json"], columns=70)
    assert json.loads(document)["release"] == "1.36"
    assert "\x1b" not in document
