"""Files and units that are installed in a guest, and the errors of faults."""

import json
import subprocess
import sys

import pytest

from memqos.clock import Deadline
from memqos.errors import DeadlineError, UnfitFileError
from memqos.target.fake import FakeTarget
from memqos.vm.guest import installing
from memqos.vm.guest.installing import LOOK, put_trees, start_units
from memqos.vm.trees import CopiedTree, bring_tree


@pytest.fixture
def look(tmp_path, monkeypatch):
    """The guest's own script, with a dpkg that knows one file, on paths below a folder."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "dpkg").write_text('#!/bin/sh\ncase $2 in */owned) echo "bash: $2";; *) exit 1;; esac\n')
    (programs / "dpkg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    root = tmp_path / "root"
    (root / "usr/lib").mkdir(parents=True)
    (root / "lib").symlink_to("usr/lib")
    for name in ("owned", "needed", "old"):
        (root / "usr/lib" / name).write_text("")

    def ask(name, is_folder=False):
        told = subprocess.run(
            [sys.executable, "-c", LOOK, f"{root}/usr/lib/needed"],
            input=json.dumps([[f"{root}/{name}", is_folder]]),
            capture_output=True,
            text=True,
            check=True,
        )
        return [why for _, why in json.loads(told.stdout)]

    return ask


@pytest.mark.parametrize(
    ("name", "is_folder", "why"),
    [
        ("usr/lib/new", False, []),
        ("usr/lib/deep/er/new", False, []),
        ("usr/lib/old", False, []),
        ("usr/lib", True, []),
        ("usr/lib/owned", False, ["it belongs to the package bash"]),
        ("lib/owned", False, ["it belongs to the package bash"]),
        ("lib/needed", False, ["the machine needs its own"]),
        ("usr/lib", False, ["it exists and is a folder"]),
        ("lib", False, ["it exists and is a link or a special file"]),
        ("usr/lib/old", True, ["it exists and is not a folder"]),
    ],
)
def test_a_place_is_refused_that_another_thing_has(look, name, is_folder, why):
    assert look(name, is_folder) == why


def test_a_place_below_a_file_is_refused(look):
    [why] = look("usr/lib/old/new")
    assert why.endswith("/usr/lib/old is not a folder")


def tree(tmp_path):
    (tmp_path / "crio").write_text("x")
    return bring_tree("--guest-file", CopiedTree(tmp_path / "crio", "/opt/crio"))


def soon():
    return Deadline.after(5)


def test_a_tree_is_packed_for_the_guests_tar(tmp_path):
    given = []
    commands = {
        ("python3", "-c"): lambda *_: (0, b"[]", b""),
        ("tar",): lambda argv, stdin, _: given.append((argv, stdin)) or (0, b"", b""),
    }
    put_trees(FakeTarget(commands=commands), [tree(tmp_path)], deadline=soon())
    [(argv, archive)] = given
    assert argv[:4] == ("tar", "-x", "-C", "/")
    assert b"opt/crio" in archive


@pytest.mark.parametrize(
    ("faults", "tar", "words"),
    [
        ([["/opt/crio", "it exists and is a folder"]], (0, b"", b""), "to /opt/crio in this machine: it exists"),
        ([["/a", "x"], ["/b", "y"]], (0, b"", b""), "to /a in this machine: x, and 1 more"),
        ([], (2, b"", b"tar: No space left on device"), "into this machine: tar: No space left on device"),
    ],
)
def test_an_impossible_destination_is_rejected_with_its_path(tmp_path, faults, tar, words):
    looked = (0, json.dumps(faults).encode(), b"")
    commands = {("python3", "-c"): lambda *_: looked, ("tar",): lambda *_: tar}
    with pytest.raises(UnfitFileError, match=f"--guest-file: .*{words}"):
        put_trees(FakeTarget(commands=commands), [tree(tmp_path)], deadline=soon())


class Systemd:
    """Answers systemctl; `fails` is the failing verb, and `state` the unit's state then."""

    def __init__(self, *, fails="", state="active", late=""):
        self.fails, self.state, self.late = fails, state, late
        self.ran = []

    def __call__(self, argv, *_):
        self.ran.append(argv[1:])
        if argv[1] == self.late:
            raise DeadlineError("waited 120 s.")
        if argv[1] == self.fails:
            return 1, b"", b"Unit nope.service not found."
        return 0, self.state.encode() if argv[1] == "show" else b"", b""


def started(monkeypatch, **how):
    monkeypatch.setattr(installing, "SETTLING_SECONDS", 0.0)
    systemd = Systemd(**how)
    commands = {("systemctl",): systemd, ("journalctl",): lambda *_: (0, b"level=fatal msg=no storage\n", b"")}
    start_units(FakeTarget(commands=commands), ("crio.service",))
    return systemd.ran


@pytest.mark.parametrize("state", ["active", "inactive"])
def test_units_are_enabled_and_started_and_a_finished_one_is_accepted(monkeypatch, state):
    ran = started(monkeypatch, state=state)
    assert [words[0] for words in ran] == ["daemon-reload", "enable", "start", "show"]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"fails": "enable"}, "it cannot be enabled. Unit nope.service not found."),
        ({"fails": "start"}, "it cannot be started. Unit nope"),
        ({"late": "start"}, "it did not start within 120 s"),
        ({"state": "failed"}, "0 s after its start it is failed"),
        ({"state": "activating"}, "0 s after its start it is activating"),
    ],
)
def test_a_failed_unit_is_reported_with_its_journal(monkeypatch, how, words):
    with pytest.raises(UnfitFileError) as told:
        started(monkeypatch, **how)
    assert f"the unit crio.service does not run in this machine: {words}" in told.value.what
    assert told.value.what.endswith("Its journal ends with:\nlevel=fatal msg=no storage")
    assert (told.value.where, told.value.exit_code) == ("--guest-unit", 4)
