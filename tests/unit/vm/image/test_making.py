"""The environment of a build's tools, and which images need none. Nothing is installed or booted."""

import shutil

import pytest

from memqos.catalog.profiles import load_profile
from memqos.errors import ImageError
from memqos.ownership import ProcessGroup
from memqos.vm.cache.entry import load_image, seal_image
from memqos.vm.cache.store import Cache
from memqos.vm.host import programs
from memqos.vm.host.progress import SILENT
from memqos.vm.image.making import Build, ensure_image, image_name

TRIXIE = load_profile("trixie")


@pytest.fixture
def tool(tmp_path):
    """One tool of a build that is run to its end."""
    build = Build(profile=TRIXIE, cache=Cache(root=tmp_path / "cache"), work=tmp_path, progress=SILENT)
    with ProcessGroup() as group:
        yield lambda argv, **how: build.tool(group, argv, **how)


def test_tools_outside_an_ordinary_users_path_are_found(tool, tmp_path, monkeypatch):
    """A root's file system is made by a shell in a user namespace, which calls mke2fs by its name."""
    sbin = tmp_path / "sbin"
    sbin.mkdir()
    (sbin / "make-it").write_text(f"#!/bin/sh\necho $LC_ALL >{tmp_path}/made\n")
    (sbin / "make-it").chmod(0o755)
    with pytest.raises(ImageError, match="sh ended with status 127"):
        tool(["sh", "-c", "make-it"])
    monkeypatch.setattr(programs, "SBIN", (str(sbin),))
    tool(["sh", "-c", "make-it"], environment={"LC_ALL": "C.UTF-8"})
    assert (tmp_path / "made").read_text() == "C.UTF-8\n"


APT = "E: Failed to fetch http://mirror.example/debian/pool/main/j/jq/jq_1.7.1_ppc64el.deb  404  Not Found [IP: ::1 80]"


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        (APT, "The cache is unchanged; the mirror lacks packages that its index lists. Set another mirror in"),
        ("E: Unable to locate package jq", "The cache is unchanged; fix the cause and build again."),
    ],
)
def test_the_next_step_after_a_failed_build_fits_its_cause(tool, printed, words):
    with pytest.raises(ImageError) as caught:
        tool(["sh", "-c", 'echo "$1"; exit 25', "sh", printed])
    assert caught.value.next_step.startswith(words)


def test_a_folder_removed_during_a_build_is_reported(tmp_path):
    """Like `rm -r` of a cache in use: the tool's output is gone as well."""
    work = tmp_path / "work"
    work.mkdir()
    build = Build(profile=TRIXIE, cache=Cache(root=tmp_path / "cache"), work=work, progress=SILENT)
    with (
        pytest.raises(ImageError, match="the folder of the image 'trixie' was removed during its build"),
        build.translating(),
        ProcessGroup() as group,
    ):
        build.tool(group, ["sh", "-c", f"rm -r {work}; exit 1"])


@pytest.fixture
def cache(tmp_path):
    """A cache that has trixie's image."""
    cache = Cache(root=tmp_path / "cache")
    folder = cache.images / image_name(TRIXIE, cache, progress=SILENT)
    folder.mkdir()
    for name in ("disk.img", "vmlinuz", "initrd.img", "known_hosts"):
        (folder / name).write_bytes(name.encode())
    seal_image(folder, {"profile": "trixie"})
    return cache


@pytest.mark.parametrize(("parts", "found"), [(("images", "keys"), True), (("images",), False)])
def test_an_image_kept_between_jobs_is_found_by_its_key(cache, tmp_path, parts, found):
    """Copied without permissions or times, as some archivers do."""
    other = Cache(root=tmp_path / "other")
    for part in parts:
        shutil.copytree(cache.root / part, other.root / part, copy_function=shutil.copyfile)
    folder = other.images / image_name(TRIXIE, other, progress=SILENT)
    assert (load_image(folder) is not None) is found
    if found:
        assert ensure_image(TRIXIE, other).folder == folder
