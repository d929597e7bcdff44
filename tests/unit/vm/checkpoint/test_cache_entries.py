"""Cache entries that machines are restored from: which are trusted, and which are removed. Boots nothing."""

import json
import os

import pytest

from memqos.vm.cache.store import Cache, remove_entry
from memqos.vm.checkpoint import (
    checkpoint_key,
    checkpoints_folder,
    damaged_checkpoint_files,
    list_checkpoints,
    load_checkpoint,
    prune_checkpoints,
    recheck_checkpoint,
    seal_checkpoint,
)
from tests.progress import Notes

MIB = 1 << 20
IMAGES = frozenset({"trixie-0"})


@pytest.fixture
def cache(tmp_path):
    return Cache(root=tmp_path / "cache")


@pytest.fixture
def make(cache):
    def entry(name, *, image="trixie-0", used=1000.0, disk_file=None):
        folder = checkpoints_folder(cache) / name
        folder.mkdir()
        (folder / "state").write_bytes(b"devices")
        (folder / "root.qcow2").write_bytes(b"disk")
        (folder / "console.log").write_bytes(b"")
        with (folder / "numa0.ram").open("wb") as ram:
            ram.truncate(64 * MIB)
            ram.seek(32 * MIB)
            ram.write(b"x" * MIB)
        seal_checkpoint(folder, {"image": image, "provenance": {"accelerator": "tcg"}, "disk_file": disk_file or {}})
        os.utime(folder / "checkpoint.json", (used, used))
        return folder

    return entry


def overwrite(path, offset, data):
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_a_complete_entry_has_its_description(make):
    checkpoint = load_checkpoint(make("trixie-one-numa-node-0"))
    assert (checkpoint.name, checkpoint.image) == ("trixie-one-numa-node-0", "trixie-0")
    assert checkpoint.provenance == {"accelerator": "tcg"}
    assert checkpoint.used_bytes < 3 * MIB
    assert checkpoint.used_at == 1000.0
    checkpoint.touch()
    assert checkpoint.used_at > 1000.0


def test_its_owner_alone_may_look_into_a_machine_s_memory(make, cache):
    folder = make("a")
    assert checkpoints_folder(cache).stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir() if path.suffix != ".json"} == {0o400}


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: overwrite(folder / "state", 0, b"D"),
        lambda folder: overwrite(folder / "numa0.ram", 32 * MIB + 5, b"y"),
        lambda folder: (folder / "numa0.ram").chmod(0o600) or os.truncate(folder / "numa0.ram", MIB),
        lambda folder: (folder / "root.qcow2").unlink(),
        lambda folder: (folder / "checkpoint.json").write_text("{"),
        lambda folder: (folder / "checkpoint.json").write_text("[]"),
        lambda folder: (folder / "checkpoint.json").write_text('{"files": {}}'),
        lambda folder: (folder / "checkpoint.json").write_text('{"files": {"state": {}, "root.qcow2": {}}}'),
        lambda folder: (folder / "checkpoint.json").unlink(),
    ],
)
def test_a_harmed_entry_is_none(make, harm):
    folder = make("a")
    harm(folder)
    assert load_checkpoint(folder) is None


def test_memory_with_changed_samples_is_not_trusted_despite_equal_times(make):
    folder = make("a")
    ram = folder / "numa0.ram"
    times = ram.stat().st_atime_ns, ram.stat().st_mtime_ns
    overwrite(ram, 32 * MIB, b"y" * 100)
    os.utime(ram, ns=times)
    assert load_checkpoint(folder) is None


def test_a_manifest_is_written_last_and_names_every_file(make):
    files = json.loads((make("a") / "checkpoint.json").read_text())["files"]
    assert sorted(files) == ["console.log", "numa0.ram", "root.qcow2", "state"]
    assert files["numa0.ram"]["bytes"] == 64 * MIB


def test_only_complete_entries_are_listed(make, cache):
    make("b")
    overwrite(make("a") / "state", 0, b"D")
    (checkpoints_folder(cache) / ".making-1").mkdir()
    assert [checkpoint.name for checkpoint in list_checkpoints(cache)] == ["b"]


def test_what_is_removed_is_gone(make, cache):
    remove_entry(make("a"))
    assert list(checkpoints_folder(cache).iterdir()) == []


def test_entries_of_no_use_go_and_the_longest_unused_beyond_the_limit(make, cache):
    make("old", used=1000.0)
    make("new", used=3000.0)
    make("middle", used=2000.0)
    make("of-another-image", image="gone-1", used=4000.0)
    overwrite(make("harmed") / "state", 0, b"D")
    size = load_checkpoint(checkpoints_folder(cache) / "new").used_bytes
    assert prune_checkpoints(cache, images=IMAGES, kept_bytes=2 * size) == ["harmed", "of-another-image", "old"]
    assert [checkpoint.name for checkpoint in list_checkpoints(cache)] == ["middle", "new"]


def test_the_key_changes_with_every_argument_and_fact():
    keys = {
        checkpoint_key(["qemu", "-cpu", "max"], {"qemu": "10.0.2"}),
        checkpoint_key(["qemu", "-cpu", "host"], {"qemu": "10.0.2"}),
        checkpoint_key(["qemu", "-cpu", "max"], {"qemu": "10.0.3"}),
        checkpoint_key(["qemu", "-cpu", "max"], {"qemu": "10.0.2", "contents": {"runtime runc": "00"}}),
    }
    assert len(keys) == 4
    assert checkpoint_key(["a"], {"x": 1, "y": 2}) == checkpoint_key(["a"], {"y": 2, "x": 1})


def flip_unseen(path, offset):
    """Change a byte between the samples, and leave the file's times as they were."""
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    overwrite(path, offset, b"y")
    os.utime(path, ns=times)


def test_one_byte_between_the_samples_is_found_when_all_is_looked_at(make):
    folder = make("a")
    assert damaged_checkpoint_files(load_checkpoint(folder)) == []
    flip_unseen(folder / "numa0.ram", 32 * MIB + 5000)
    checkpoint = load_checkpoint(folder)
    assert checkpoint is not None
    assert damaged_checkpoint_files(checkpoint) == ["numa0.ram"]


def test_a_byte_in_a_hole_is_found_and_zeros_in_one_are_no_damage(make):
    folder = make("a")
    ram = folder / "numa0.ram"
    times = ram.stat().st_atime_ns, ram.stat().st_mtime_ns
    overwrite(ram, 50 * MIB, bytes(MIB))
    os.utime(ram, ns=times)
    assert damaged_checkpoint_files(load_checkpoint(folder)) == []
    flip_unseen(ram, 60 * MIB + 5000)
    assert damaged_checkpoint_files(load_checkpoint(folder)) == ["numa0.ram"]


def test_a_checkpoint_without_whole_file_hashes_counts_as_damaged(make):
    folder = make("a")
    manifest = json.loads((folder / "checkpoint.json").read_text())
    del manifest["whole"]
    (folder / "checkpoint.json").write_text(json.dumps(manifest))
    assert damaged_checkpoint_files(load_checkpoint(folder)) == ["console.log", "numa0.ram", "root.qcow2", "state"]


def test_a_damaged_checkpoint_is_removed_with_a_note(make, cache):
    folder = make("a")
    notes = Notes()
    assert recheck_checkpoint(load_checkpoint(folder), cache, progress=notes)
    assert folder.exists()
    flip_unseen(folder / "numa0.ram", 32 * MIB + 5000)
    assert not recheck_checkpoint(load_checkpoint(folder), cache, progress=notes)
    assert not folder.exists()
    said = "after a failure in its machine the checkpoint 'a' was checked in full: "
    assert notes.notes == [
        f"{said}it is undamaged.",
        f"{said}numa0.ram changed since its creation, so it is rebuilt.",
    ]


def test_a_checkpoint_that_another_process_removed_is_not_called_damaged(make, cache):
    folder = make("a")
    checkpoint, notes = load_checkpoint(folder), Notes()
    remove_entry(folder)
    assert not recheck_checkpoint(checkpoint, cache, progress=notes)
    assert notes.notes == ["the checkpoint 'a' of a machine with a failure was already removed."]


def test_a_checkpoint_recreated_meanwhile_is_left_alone(make, cache):
    folder = make("a")
    checkpoint = load_checkpoint(folder)
    remove_entry(folder)
    make("a", image="trixie-1")
    assert not recheck_checkpoint(checkpoint, cache, progress=Notes())
    assert load_checkpoint(folder).image == "trixie-1"


def test_one_of_a_disk_image_outside_of_the_cache_stays_as_long_as_the_file_does(cache, make, tmp_path):
    file = tmp_path / "debian.qcow2"
    file.write_bytes(b"image")
    told = {"path": str(file), "bytes": 5, "changed": file.stat().st_mtime_ns}
    make("debian-two-numa-nodes-0", image="debian.qcow2", disk_file=told)

    assert prune_checkpoints(cache, images=IMAGES) == []
    os.utime(file, (1, 1))
    assert prune_checkpoints(cache, images=IMAGES) == ["debian-two-numa-nodes-0"]
    make("debian-two-numa-nodes-0", image="debian.qcow2", disk_file=told)
    file.unlink()
    assert prune_checkpoints(cache, images=IMAGES) == ["debian-two-numa-nodes-0"]
