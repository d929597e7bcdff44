"""--image: a distribution's own disk image as a machine, booted by its own boot loader and left unchanged.

One has cloud-init and boots by UEFI; the other has an account, no cloud-init and no PSI, and boots by BIOS.
"""

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.vm.cloud_images import SYSLINUX_WITHOUT_PSI, SYSTEMD_BOOT, cloud_image
from tests.vm.runs import bundle, memqos_run

pytestmark = [pytest.mark.vm, pytest.mark.profiles]

VALUES = "values/test_values.py::test_pod_and_its_containers_hold_their_values[v1.27-burstable]"
THROTTLED = "throttling/test_throttling.py::test_crossing_memory_high_throttles_and_does_not_kill[v1.27]"
COMPRESSED = "swap/test_zswap.py::test_zswap_compresses_swapped_memory[v1.37-default]"
OBSERVED = {VALUES: "conforms", THROTTLED: "conforms", COMPRESSED: "not observable"}
"""Debian's cloud kernel has no zswap."""

COMPRESSING = {
    "purpose": "two zones and compressed swap",
    "cpus": 2,
    "numaNodes": [{"memoryMiB": 1024, "cpus": [0]}, {"memoryMiB": 1024, "cpus": [1]}],
    "swap": [{"sizeMiB": 512, "priority": 10}],
    "zswap": True,
}


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    """A topology with a part that the images cannot have."""
    path = tmp_path / "compressing.json"
    path.write_text(json.dumps(COMPRESSING))
    return path


def run_on(
    image: Path, folder: Path, topology: Path, *options: str, observed: dict[str, str]
) -> tuple[dict[str, Any], str]:
    """A run of the cases on this image, with its outcomes checked; the machine in its bundle, and the output."""
    before = hashlib.sha256(image.read_bytes()).hexdigest()
    done = memqos_run(
        folder, *observed, "--image", str(image), "--topology", str(topology), "--driver", "cgroupfs",
        "--runtime", "containerd+runc", *options,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert hashlib.sha256(image.read_bytes()).hexdigest() == before
    found = bundle(folder)
    assert {result["id"]: result["outcome"] for result in found["results"]} == observed
    assert "has no memory.zswap.max" in done.stdout
    [machine] = found["machines"]
    assert (machine["disk_image"]["sha256"], machine["disk_image"]["architecture"]) == (before, "amd64")
    assert machine["system"] == "Debian GNU/Linux 13 (trixie)"
    assert machine["kernel"].endswith("-cloud-amd64")
    assert machine["lacking"] == ["zswap is not in its kernel, declared is on"]
    assert machine["checkpoint"]
    return machine, done.stdout


def test_an_image_with_cloud_init_gets_its_login_from_a_seed(tmp_path: Path, topology: Path) -> None:
    image = cloud_image(tmp_path / "image", SYSTEMD_BOOT, packages=["cloud-init", "netplan.io"])
    machine, _ = run_on(image, tmp_path / "results", topology, observed=OBSERVED)
    assert (machine["disk_image"]["firmware"], machine["cloud_init_seed"], machine["login"]) == ("uefi", True, "root")


def test_an_account_of_the_image_needs_no_cloud_init(tmp_path: Path, topology: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    public = key.with_suffix(".pub").read_text()
    image = cloud_image(tmp_path / "image", SYSLINUX_WITHOUT_PSI, user="lab", public_key=public)
    observed = {**OBSERVED, THROTTLED: "not observable"}
    login = ("--ssh-user", "lab", "--ssh-key", str(key))
    machine, told = run_on(image, tmp_path / "results", topology, *login, observed=observed)
    assert "the kernel has no PSI of cgroups" in told
    assert (machine["disk_image"]["firmware"], machine["cloud_init_seed"], machine["login"]) == ("bios", False, "lab")
