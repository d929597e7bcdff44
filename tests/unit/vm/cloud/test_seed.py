"""The seed is an ISO 9660 image with cloud-init's two files, the same for the same user and key."""

import json
import shutil
import struct
import subprocess

import pytest

from memqos.vm.cloud.booting import iso_image, seed_image, user_data

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGlZ memqos\n"


def files_of(image):
    """The contents by name, read by ECMA-119: the root directory's record is at 156 of sector 16."""
    assert image[16 * 2048 : 16 * 2048 + 6] == b"\x01CD001"
    place, size = struct.unpack_from("<I4xI", image, 16 * 2048 + 156 + 2)
    folder, found, at = image[place * 2048 : place * 2048 + size], {}, 0
    while at < size and folder[at]:
        start, length = struct.unpack_from("<I4xI", folder, at + 2)
        assert struct.unpack_from(">I", folder, at + 6)[0] == start
        name = folder[at + 33 : at + 33 + folder[at + 32]]
        if not folder[at + 25] & 2:
            found[name.decode()] = image[start * 2048 : start * 2048 + length]
        at += folder[at]
    return found


def test_it_has_cloud_inits_files_and_label():
    image = seed_image("root", KEY)
    files = files_of(image)

    assert image[16 * 2048 + 40 : 16 * 2048 + 72] == b"cidata".ljust(32)
    assert set(files) == {"META-DATA.;1", "USER-DATA.;1"}
    assert json.loads(files["META-DATA.;1"])["instance-id"] == "memqos"
    assert files["USER-DATA.;1"].startswith(b"#cloud-config\n")
    assert len(image) % 2048 == 0
    assert struct.unpack_from("<I", image, 16 * 2048 + 80)[0] == len(image) // 2048


def test_it_is_the_same_for_the_same_user_and_key():
    assert seed_image("root", KEY) == seed_image("root", KEY)
    assert len({seed_image("root", KEY), seed_image("fedora", KEY), seed_image("root", KEY[:-9])}) == 3


def test_root_gets_the_key_and_others_may_become_root():
    root = json.loads(user_data("root", KEY).removeprefix("#cloud-config\n"))
    other = json.loads(user_data("fedora", KEY).removeprefix("#cloud-config\n"))

    assert root["disable_root"] is False
    # cloud-init restarts sshd where it is told whether to take passwords.
    assert "ssh_pwauth" not in root
    assert root["users"] == [{"name": "root", "ssh_authorized_keys": [KEY.strip()], "lock_passwd": True}]
    assert other["users"][0]["sudo"] == "ALL=(ALL) NOPASSWD:ALL"


def test_files_of_any_size_are_complete():
    contents = {"A.;1": b"", "B.;1": b"b" * 2048, "C.;1": b"c" * 5000}
    assert files_of(iso_image("x", contents)) == contents


def test_blkid_finds_the_label(tmp_path):
    blkid = shutil.which("blkid", path="/usr/sbin:/sbin:/usr/bin")
    if blkid is None:
        pytest.skip("needs the program blkid")
    (tmp_path / "seed.iso").write_bytes(seed_image("root", KEY))
    told = subprocess.run(
        [blkid, "-p", "-o", "export", tmp_path / "seed.iso"], capture_output=True, text=True, check=True
    )
    assert {"LABEL=cidata", "TYPE=iso9660"} <= set(told.stdout.split())
