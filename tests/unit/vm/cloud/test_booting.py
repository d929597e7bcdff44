"""What a distribution's image boots with: UEFI by the host's descriptors, and a seed with cloud-init's two files."""

import json
import shutil
import struct
import subprocess

import pytest

from memqos.errors import MissingProgramError
from memqos.vm.architecture import AMD64, ARM64
from memqos.vm.cloud.booting import find_uefi, iso_image, seed_image, user_data


@pytest.fixture
def host(tmp_path):
    """Writes a descriptor by docs/interop/firmware.json of QEMU, and its files."""

    def describe(
        name, *, architecture="x86_64", machines=("pc-q35-*",), features=(), form="raw", kind="uefi", exists=True
    ):
        code, variables = tmp_path / f"{name}.code", tmp_path / f"{name}.vars"
        for file in (code, variables) if exists else ():
            file.write_bytes(b"firmware")
        (tmp_path / "firmware").mkdir(exist_ok=True)
        document = {
            "interface-types": [kind],
            "mapping": {
                "device": "flash",
                "executable": {"filename": str(code), "format": form},
                "nvram-template": {"filename": str(variables), "format": form},
            },
            "targets": [{"architecture": architecture, "machines": list(machines)}],
            "features": list(features),
        }
        (tmp_path / "firmware" / f"{name}.json").write_text(json.dumps(document))
        return code, variables

    return describe


def test_the_first_that_fits_is_taken(host, tmp_path):
    arm = host("10-arm", architecture="aarch64", machines=("virt-*",))
    host("20-secure", features=("requires-smm", "secure-boot"))
    host("30-enrolled", features=("enrolled-keys",))
    host("40-qcow2", form="qcow2")
    host("50-bios", kind="bios")
    host("55-gone", exists=False)
    code, variables = host("60-plain", features=("acpi-s3", "verbose-dynamic"))
    host("70-later")
    (tmp_path / "firmware" / "00-broken.json").write_text("{")
    (tmp_path / "firmware" / "01-other.json").write_text('{"mapping": 1, "targets": [{}]}')

    found = find_uefi(AMD64, folders=[tmp_path / "firmware"])

    assert (found.code, found.variables) == (code, variables)
    other = find_uefi(ARM64, folders=[tmp_path / "firmware"])
    assert (other.code, other.variables) == arm


@pytest.mark.parametrize(("architecture", "package"), [(AMD64, "ovmf"), (ARM64, "qemu-efi-aarch64")])
def test_a_host_without_one_hears_the_packages(architecture, package, tmp_path):
    with pytest.raises(
        MissingProgramError, match=f"this host has no UEFI for QEMU's {architecture.machine}"
    ) as refused:
        find_uefi(architecture, folders=[tmp_path / "none"])
    assert package in refused.value.next_step


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
