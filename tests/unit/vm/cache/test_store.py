import fcntl
import os
import shutil
import subprocess
import sys
import threading

import pytest

from memqos.errors import EnvironmentNotAbleError, NoSpaceError
from memqos.vm.cache.entry import MANIFEST, list_images, load_image, seal_image
from memqos.vm.cache.store import LOCK_NAME, Cache, default_cache, locked_folder, need_space, remove_entry, sweep
from memqos.vm.host.progress import SILENT
from tests.progress import Notes


class PendingConditions(Notes):
    """Progress that signals the first note."""

    def __init__(self):
        super().__init__()
        self.told = threading.Event()

    def note(self, text):
        super().note(text)
        self.told.set()


@pytest.mark.parametrize(
    ("environment", "root"),
    [
        ({"MEMQOS_CACHE": "/own", "XDG_CACHE_HOME": "/xdg"}, "/own"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/memqos"),
        ({"MEMQOS_CACHE": "", "XDG_CACHE_HOME": ""}, "HOME/.cache/memqos"),
    ],
)
def test_environment_chooses_the_cache(environment, root, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert str(default_cache(environment).root) == root.replace("HOME", str(tmp_path))


def test_an_unwritable_cache_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentNotAbleError, match="the cache cannot be written") as caught:
        Cache(root=tmp_path / "file").images  # noqa: B018 - the property makes the folder
    assert "MEMQOS_CACHE" in caught.value.next_step


def test_a_full_disk_is_reported_in_numbers(tmp_path):
    with pytest.raises(NoSpaceError, match=r"the disk has \d+ MiB free, but 1073741824 MiB are needed") as caught:
        need_space(tmp_path, 1 << 50)
    assert caught.value.data["needed"] == 1 << 50


def test_the_second_process_prints_that_it_waits(tmp_path):
    cache, notes, entered = Cache(root=tmp_path), PendingConditions(), threading.Event()

    def second():
        with cache.lock("image-x", progress=notes, waiting="waiting for another process that builds"):
            entered.set()

    thread = threading.Thread(target=second)
    with cache.lock("image-x", progress=SILENT, waiting="not shown"):
        thread.start()
        assert notes.told.wait(10)
        assert not entered.is_set()
    thread.join(10)
    assert entered.is_set()
    assert notes.notes == ["waiting for another process that builds"]


def test_a_locked_folder_is_private_and_goes_with_its_context(tmp_path):
    with locked_folder(tmp_path, "memqos-run-") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        sweep(tmp_path, "memqos-run-")
        assert folder.exists()
    assert list(tmp_path.iterdir()) == []


DIES_WITH_A_FOLDER = """
import os, pathlib, sys
from memqos.vm.cache.store import locked_folder
with locked_folder(pathlib.Path(sys.argv[1]), "memqos-run-") as folder:
    (folder / "overlay").write_text("x")
    print(folder, flush=True)
    os._exit(9)
"""


def test_what_a_dead_owner_left_is_swept(tmp_path):
    made = subprocess.run(
        [
            sys.executable,
            "-c",
            DIES_WITH_A_FOLDER,
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 9
    assert [str(folder) for folder in tmp_path.iterdir()] == [made.stdout.strip()]
    sweep(tmp_path, "memqos-run-")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_lock_is_given_time(tmp_path):
    fresh, old = tmp_path / "memqos-run-fresh", tmp_path / "memqos-run-old"
    fresh.mkdir()
    old.mkdir()
    os.utime(old, (1, 1))
    (tmp_path / "other").mkdir()
    sweep(tmp_path, "memqos-run-")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memqos-run-fresh", "other"]


def test_a_held_lock_keeps_its_folder(tmp_path):
    folder = tmp_path / "memqos-run-held"
    folder.mkdir()
    with (folder / LOCK_NAME).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.utime(folder, (1, 1))
        sweep(tmp_path, "memqos-run-")
        assert folder.exists()


@pytest.fixture
def entry(tmp_path):
    folder = Cache(root=tmp_path).images / "trixie-0123456789ab"
    folder.mkdir()
    files = {"disk.img": b"disk", "vmlinuz": b"kernel", "initrd.img": b"initrd", "known_hosts": b"key"}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    seal_image(folder, {"profile": "trixie", "versions": {"runc": "1.1.15"}})
    return folder


def overwrite(path, content):
    path.chmod(0o600)
    path.write_bytes(content)


def test_a_complete_entry_is_an_image(entry):
    image = load_image(entry)
    assert (image.name, image.profile, image.versions) == ("trixie-0123456789ab", "trixie", {"runc": "1.1.15"})
    assert image.disk.read_bytes() == b"disk"


def test_an_image_may_be_copied_to_another_cache(entry, tmp_path):
    copy = tmp_path / "trixie-0123456789ab"
    shutil.copytree(entry, copy, copy_function=shutil.copyfile)
    assert (copy / "disk.img").stat().st_mtime_ns != (entry / "disk.img").stat().st_mtime_ns
    assert load_image(copy).manifest == load_image(entry).manifest


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: (folder / "disk.img").unlink(),
        lambda folder: overwrite(folder / "vmlinuz", b"kern"),
        lambda folder: overwrite(folder / "disk.img", b"DISK"),
        lambda folder: (folder / MANIFEST).write_text("{"),
        lambda folder: (folder / MANIFEST).write_text("[]"),
        lambda folder: (folder / MANIFEST).unlink(),
    ],
)
def test_a_damaged_entry_is_none(entry, harm):
    harm(entry)
    assert load_image(entry) is None


def test_only_complete_entries_are_listed(entry, tmp_path):
    (entry.parent / ".building-trixie-abc").mkdir()
    (entry.parent / "trixie-damaged").mkdir()
    assert [image.name for image in list_images(Cache(root=tmp_path))] == ["trixie-0123456789ab"]


def test_removing_leaves_nothing(entry):
    remove_entry(entry)
    assert list(entry.parent.iterdir()) == []
