import io
import tarfile
from dataclasses import replace

import pytest

from memqos.errors import EnvironmentNotAbleError
from memqos.vm.image.making import need_mirror
from memqos.vm.image.recipe import (
    Mirror,
    compile_arguments,
    fingerprint,
    mmdebstrap_arguments,
    overlay_archive,
    pack_arguments,
)
from memqos.vm.profile import GuestFile
from tests.unit.vm.samples import KEYS, PROFILE


def install(**changes):
    options = {"mode": "root", "target": "/w/root.tar", "overlay": "/w/overlay.tar", "boot": "/w", "stale": False}
    mirror = Mirror(uri="http://mirror.example/debian", keyring="/keys.gpg")
    return mmdebstrap_arguments("mmdebstrap", PROFILE, mirror, **{**options, **changes})


def test_packages_come_from_the_given_mirror():
    argv = install()
    assert argv[-3:] == ["trixie", "/w/root.tar", "deb http://mirror.example/debian trixie main"]
    assert "--keyring=/keys.gpg" in argv
    assert "--include=linux-image-cloud-amd64,containerd,runc" in argv


def test_without_a_mirror_the_tool_chooses_its_own():
    options = {"mode": "root", "target": "/w/root.tar", "overlay": "/w/o.tar", "boot": "/w", "stale": False}
    argv = mmdebstrap_arguments("mmdebstrap", PROFILE, Mirror(), **options)
    assert argv[-2:] == ["trixie", "/w/root.tar"]
    assert not any(word.startswith("--keyring") for word in argv)


def test_a_profile_of_two_suites_needs_a_mirror():
    mixed = replace(PROFILE, kernel_suite="trixie-backports")
    need_mirror(Mirror(uri="http://mirror.example/debian"), mixed)
    need_mirror(Mirror(), PROFILE)
    with pytest.raises(EnvironmentNotAbleError, match="needs packages of trixie and trixie-backports, but this host's"):
        need_mirror(Mirror(), mixed)


def test_a_package_of_another_suite_adds_the_source_of_that_suite():
    mixed = replace(PROFILE, packages=("containerd", "runc/experimental"), kernel_suite="trixie-backports")
    with pytest.raises(EnvironmentNotAbleError, match="packages of trixie and trixie-backports and experimental, but"):
        need_mirror(Mirror(), mixed)
    options = {"mode": "root", "target": "/w/root.tar", "overlay": "/w/o.tar", "boot": "/w", "stale": False}
    argv = mmdebstrap_arguments("mmdebstrap", mixed, Mirror(uri="http://mirror.example/debian"), **options)
    assert "--include=linux-image-cloud-amd64/trixie-backports,containerd,runc/experimental" in argv
    assert argv[-5:] == [
        "trixie",
        "/w/root.tar",
        "deb http://mirror.example/debian trixie main",
        "deb http://mirror.example/debian trixie-backports main",
        "deb http://mirror.example/debian experimental main",
    ]


def test_expired_lists_are_accepted_only_when_asked():
    option = '--aptopt=Acquire::Check-Valid-Until "false"'
    assert option not in install()
    assert option in install(stale=True)


def test_as_root_nothing_is_mounted_into_the_tree():
    assert "--skip=chroot/mount" in install(mode="root")
    assert "--skip=chroot/mount" not in install(mode="unshare")


def test_an_ordinary_user_unpacks_in_memory_in_a_namespace():
    argv = pack_arguments("unshare", folder="/w/root", archive="/w/root.tar", disk="/w/disk", root=False)
    assert argv[:5] == ["unshare", "--user", "--map-root-user", "--map-auto", "--mount"]
    assert "mount -t tmpfs" in argv[7]
    assert argv[-3:] == ["/w/root", "/w/root.tar", "/w/disk"]


def test_root_packs_without_namespace_or_mount():
    argv = pack_arguments("unshare", folder="/w/root", archive="/w/root.tar", disk="/w/disk", root=True)
    assert argv[:2] == ["sh", "-euc"]
    assert "mount" not in argv[2]


def test_workload_is_static_and_free_of_warnings():
    argv = compile_arguments("gcc", ["a.c", "b.c"], "a")
    assert {"-static", "-Wall", "-Werror", "-O2"} <= set(argv)
    assert argv[-4:] == ["-o", "a", "a.c", "b.c"]


def test_fingerprint_is_stable():
    assert fingerprint(PROFILE, "key") == fingerprint(replace(PROFILE), "key")
    assert len(fingerprint(PROFILE, "key")) == 12


def test_fingerprint_changes_with_everything_that_goes_in():
    changed = [
        replace(PROFILE, suite="forky"),
        replace(PROFILE, packages=("containerd",)),
        replace(PROFILE, kernel_arguments=()),
        replace(PROFILE, masked_units=()),
        replace(PROFILE, files=(GuestFile(path="/etc/hostname", content=b"other\n"), PROFILE.files[1])),
        replace(PROFILE, programs=()),
    ]
    prints = {fingerprint(profile, "key") for profile in (PROFILE, *changed)}
    assert len(prints) == 7
    assert fingerprint(PROFILE, "another key") not in prints


def members():
    with tarfile.open(fileobj=io.BytesIO(overlay_archive(PROFILE, KEYS))) as archive:
        return {member.name: member for member in archive}


def test_overlay_belongs_to_root_and_keeps_secrets():
    found = members()
    assert {(member.uid, member.gid) for member in found.values()} == {(0, 0)}
    assert found["./etc/ssh/ssh_host_ed25519_key"].mode == 0o600
    assert found["./root/.ssh/authorized_keys"].mode == 0o600
    assert found["./root/.ssh"].mode == 0o700
    assert found["./etc/ssh/ssh_host_ed25519_key.pub"].mode == 0o644


def test_overlay_makes_scripts_executable_and_nothing_else():
    found = members()
    assert found["./usr/lib/memqos/swap-on"].mode == 0o755
    assert found["./etc/hostname"].mode == 0o644


def test_overlay_leaves_the_system_folders_alone():
    folders = [name for name, member in members().items() if member.isdir()]
    assert folders == ["./root/.ssh"]


def test_overlay_masks_and_enables_units():
    found = members()
    assert found["./etc/systemd/system/apt-daily.timer"].linkname == "/dev/null"
    assert (
        found["./etc/systemd/system/multi-user.target.wants/memqos-swap.service"].linkname == "../memqos-swap.service"
    )
