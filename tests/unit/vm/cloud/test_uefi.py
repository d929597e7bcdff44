"""UEFI is found by QEMU's firmware descriptors, whatever the distribution's file names."""

import json

import pytest

from memqos.errors import MissingProgramError
from memqos.vm.architecture import AMD64, ARM64
from memqos.vm.cloud.booting import find_uefi


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
