"""What reaches a terminal: never a control character out of a file, whatever page prints it."""

import json

import pytest

from memqos.cli.main import run
from memqos.cli.terminal import harmless
from tests.unit.cli.test_audit import TIERED

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
    assert "not judged, since they were not given: pods a\\x1b]0;owned" in out
    assert not any(line.startswith("all is well") for line in out.splitlines())
