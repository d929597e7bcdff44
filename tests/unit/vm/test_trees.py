"""Files and folders with a destination of their own in a machine: rejections, archives, and keys."""

import io
import os
import tarfile

import pytest

from memqos.errors import UsageError
from memqos.vm.options import BootOptions, check_options
from memqos.vm.trees import CopiedTree, bring_tree


@pytest.fixture
def folder(tmp_path):
    """A folder with a program, a file in a folder below, and a link."""
    root = tmp_path / "crio"
    (root / "conf.d").mkdir(parents=True)
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "conf.d/a.conf").write_text("[crio]\n")
    (root / "latest").symlink_to("conf.d/a.conf")
    return root


def members(tree):
    with tarfile.open(fileobj=io.BytesIO(tree.archive())) as tar:
        return {one.name: (one.type, one.mode & 0o777, one.linkname, one.uid, one.mtime) for one in tar}


def test_a_folder_keeps_its_files_modes_and_links_and_belongs_to_root(folder):
    tree = bring_tree("--guest-file", CopiedTree(folder, "/etc/crio"))
    found = members(tree)
    assert list(found) == ["etc/crio", "etc/crio/conf.d", "etc/crio/latest", "etc/crio/run", "etc/crio/conf.d/a.conf"]
    assert found["etc/crio/run"] == (tarfile.REGTYPE, 0o755, "", 0, 0)
    assert found["etc/crio/latest"][0] == tarfile.SYMTYPE
    assert found["etc/crio/latest"][2] == "conf.d/a.conf"
    assert list(tree.places())[:2] == [("/etc/crio", True), ("/etc/crio/conf.d", True)]
    assert tree.size == len("#!/bin/sh\n") + len("[crio]\n")


def test_a_file_gets_the_requested_mode_and_a_link_is_followed(folder):
    asked = bring_tree("--guest-file", CopiedTree(folder / "latest", "/etc/a.conf", 0o600))
    assert members(asked) == {"etc/a.conf": (tarfile.REGTYPE, 0o600, "", 0, 0)}


@pytest.mark.parametrize(
    ("source", "destination", "mode", "words"),
    [
        ("missing", "/opt/x", None, "missing' cannot be read: No such file or directory"),
        ("", "/opt/x", 0o755, "is a folder; its files keep their modes"),
        ("run", "/proc/x", None, "nothing can be copied below /proc"),
        ("run", "/usr/lib/memqos/memwatch", None, "nothing can be copied below /usr/lib/memqos"),
        ("pipe", "/opt/x", None, "pipe' is neither a file nor a folder"),
        ("/dev/null", "/opt/x", None, "/dev/null' is neither a file nor a folder"),
    ],
)
def test_an_impossible_destination_is_rejected_before_anything_starts(folder, source, destination, mode, words):
    os.mkfifo(folder.parent / "pipe")
    place = folder.parent / "pipe" if source == "pipe" else folder / source
    with pytest.raises(UsageError, match=f"--guest-file: .*{words}"):
        check_options(BootOptions(guest_files=(CopiedTree(place, destination, mode),)))


def test_what_is_changed_while_it_is_in_use_is_not_put_in(folder):
    tree = bring_tree("--guest-file", CopiedTree(folder, "/etc/crio"))
    (folder / "new").write_text("")
    with pytest.raises(UsageError, match="was changed while it was in use"):
        tree.archive()


def test_content_places_modes_and_units_are_in_the_fingerprint(folder):
    other = folder.parent / "other"
    other.mkdir()
    run = folder / "run"
    given = [
        BootOptions(guest_files=(CopiedTree(run, "/opt/a"),)),
        BootOptions(guest_files=(CopiedTree(run, "/opt/b"),)),
        BootOptions(guest_files=(CopiedTree(run, "/opt/a", 0o700),)),
        BootOptions(guest_files=(CopiedTree(folder, "/opt/a"),)),
        BootOptions(guest_files=(CopiedTree(other, "/opt/a"),)),
        BootOptions(guest_files=(CopiedTree(run, "/opt/a"),), guest_units=("a.service",)),
        BootOptions(guest_units=("a.service", "b.service")),
        BootOptions(guest_units=("b.service", "a.service")),
    ]
    fingerprints = [check_options(options).fingerprint for options in given]
    assert len(set(fingerprints)) == len(given)
    os.utime(run, (1, 1))
    assert check_options(given[0]).fingerprint == fingerprints[0]


def test_a_bundle_lists_the_copied_files(folder):
    options = BootOptions(guest_files=(CopiedTree(folder / "run", "/opt/a", 0o700),), guest_units=("a.service",))
    told = check_options(options).provenance
    [file] = told["guest_file"]
    assert (file["destination"], file["mode"], file["bytes"]) == ("/opt/a", "0700", 10)
    assert told["guest_unit"] == ["a.service"]


def test_one_place_is_for_one_file_and_folders_may_join(folder):
    twice = (CopiedTree(folder / "run", "/opt/a"), CopiedTree(folder / "latest", "/opt/a"))
    with pytest.raises(UsageError, match="--guest-file: '/opt/a' is the destination of several files"):
        check_options(BootOptions(guest_files=twice))
    joined = (CopiedTree(folder, "/opt/a"), CopiedTree(folder / "conf.d", "/opt/a"))
    assert len(check_options(BootOptions(guest_files=joined)).trees) == 2


def test_names_that_are_no_text_are_packed_as_they_are(folder):
    (folder / os.fsdecode(b"caf\xe9")).write_text("")
    [name] = [name for name in members(bring_tree("--guest-file", CopiedTree(folder, "/opt/a"))) if "caf" in name]
    assert os.fsencode(name) == b"opt/a/caf\xe9"


def test_a_link_that_leads_nowhere_is_kept_in_a_folder_and_no_file_by_itself(folder):
    (folder / "gone").symlink_to("/no/such/file")
    assert members(bring_tree("--guest-file", CopiedTree(folder, "/opt/a")))["opt/a/gone"][2] == "/no/such/file"
    with pytest.raises(UsageError, match="gone' cannot be read: No such file"):
        bring_tree("--guest-file", CopiedTree(folder / "gone", "/opt/a"))
