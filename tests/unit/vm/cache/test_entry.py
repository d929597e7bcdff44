"""An image's record of its files, and which entries belong to which profile."""

import dataclasses
import hashlib
import os

import pytest

from memqos.errors import EnvironmentNotAbleError
from memqos.vm.cache.entry import Image, images_of, load_image, recheck_image, seal_image, sparse_hash
from memqos.vm.cache.store import Cache
from memqos.vm.image.derived import derived_name
from memqos.vm.options import Brought
from tests.progress import Notes

MIB = 1 << 20


def sparse(path, size, **pieces):
    with path.open("wb") as file:
        file.truncate(size)
        for offset, data in pieces.items():
            file.seek(int(offset[1:]))
            file.write(data)
    return path


def test_a_sparse_files_hash_covers_content_and_offsets(tmp_path):
    expected = hashlib.sha256((2 * MIB).to_bytes(8) + b"x".ljust(MIB, b"\0")).hexdigest()
    at = f"_{2 * MIB}"
    assert sparse_hash(sparse(tmp_path / "a", 5 * MIB, **{at: b"x"})) == expected
    # The same content, once without any hole.
    (tmp_path / "b").write_bytes((tmp_path / "a").read_bytes())
    assert sparse_hash(tmp_path / "b") == expected
    assert sparse_hash(sparse(tmp_path / "c", 5 * MIB, _0=b"x")) != expected
    assert sparse_hash(sparse(tmp_path / "d", 5 * MIB)) == hashlib.sha256().hexdigest()


def test_a_partial_last_block_counts_as_it_is(tmp_path):
    (tmp_path / "a").write_bytes(b"ab")
    assert sparse_hash(tmp_path / "a") == hashlib.sha256(bytes(8) + b"ab").hexdigest()


def test_kernel_and_initrd_have_sha256sums_hashes(tmp_path):
    for name in ("disk.img", "vmlinuz", "initrd.img", "known_hosts"):
        (tmp_path / name).write_bytes(name.encode())
    seal_image(tmp_path, {"profile": "trixie"})
    manifest = load_image(tmp_path).manifest
    sizes = {name: told["bytes"] for name, told in manifest["files"].items()}
    assert sizes == {"disk.img": 8, "vmlinuz": 7, "initrd.img": 10, "known_hosts": 11}
    assert manifest["sha256"]["vmlinuz"] == hashlib.sha256(b"vmlinuz").hexdigest()
    assert set(manifest["sha256"]) == {"disk.img", "vmlinuz", "initrd.img"}


@pytest.fixture
def image(tmp_path):
    cache = Cache(root=tmp_path)
    folder = cache.images / "trixie-0123456789ab"
    folder.mkdir(parents=True)
    sparse(folder / "disk.img", 64 * MIB, _0=b"x", **{f"_{32 * MIB}": b"y"})
    for name in ("vmlinuz", "initrd.img", "known_hosts"):
        (folder / name).write_bytes(name.encode())
    seal_image(folder, {"profile": "trixie"})
    return load_image(folder), cache


def test_a_byte_of_an_images_disk_that_no_sample_sees_is_found_when_all_is_checked(image):
    whole, cache = image
    notes = Notes()
    assert recheck_image(whole, cache, progress=notes)
    assert notes.notes == []
    whole.disk.chmod(0o600)
    with whole.disk.open("r+b") as file:
        file.seek(32 * MIB + 5000)
        file.write(b"z")
    assert load_image(whole.folder) is not None
    assert not recheck_image(whole, cache, progress=notes)
    assert not whole.folder.exists()
    [told] = notes.notes
    assert told == (
        "after a failure in its machine the image 'trixie-0123456789ab' was checked in full: "
        "disk.img changed since its creation, so it is rebuilt."
    )


def test_an_image_without_hashes_in_its_manifest_is_left(image):
    whole, cache = image
    older = dataclasses.replace(whole, manifest={**whole.manifest, "sha256": {}})
    assert recheck_image(older, cache, progress=Notes())
    assert whole.folder.exists()


def test_a_profiles_images_are_found_by_their_full_name(tmp_path):
    cache = Cache(root=tmp_path)
    names = [
        "trixie-0123456789ab",
        "trixie-0123456789ab-with-ba9876543210",
        "trixie-bpo-0123456789ab",
        ".building-trixie-x",
        "trixie-short",
    ]
    for name in names:
        (cache.images / name).mkdir()
    assert [folder.name for folder in images_of(cache, "trixie")] == names[:2]
    assert [folder.name for folder in images_of(cache, "trixie-bpo")] == ["trixie-bpo-0123456789ab"]


def test_a_derived_image_is_named_by_its_base_and_its_packages(tmp_path):
    base = Image(folder=tmp_path / "trixie-0123456789ab", manifest={})
    first, second = (Brought(option="--kernel-deb", path=tmp_path, sha256=hash_, size=1) for hash_ in ("a", "b"))
    name = derived_name(base, [first, second])
    assert name.startswith("trixie-0123456789ab-with-")
    assert len({name, derived_name(base, [first]), derived_name(base, [second, first])}) == 3


def test_another_users_cache_is_left_alone(tmp_path, monkeypatch):
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(EnvironmentNotAbleError, match=f"belongs to another user \\(uid {mine}\\)") as caught:
        _ = Cache(root=tmp_path).images
    assert "MEMQOS_CACHE" in caught.value.next_step
