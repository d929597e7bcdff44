"""Machines of other architectures and page sizes for real: `./memqos test -e architectures`.

Emulated unless the host is of that architecture, so nothing of it is in the gate.
"""

import os
import platform

import pytest

from memqos.catalog.profiles import load_profile
from memqos.vm.cache.store import client_key, default_cache
from memqos.vm.host.progress import SILENT
from memqos.vm.image.making import ensure_image
from tests.vm.cloud_images import image_of_profile
from tests.vm.machines import output, start
from tests.vm.runs import bundle, memqos_run

pytestmark = [pytest.mark.vm, pytest.mark.architectures]

PAGES = {
    "trixie-arm64": ("aarch64", 4096, 9998336),
    "trixie-arm64-16k": ("aarch64", 16384, 9994240),
    "trixie-ppc64le-64k": ("ppc64le", 65536, 9961472),
    "forky-ppc64le-64k": ("ppc64le", 65536, 9961472),
}
"""The output of `uname -m`, bytes of a page, and memory.high for 10000000: whole pages, rounded down."""


@pytest.mark.parametrize("profile", PAGES)
def test_a_machine_has_its_pages_nodes_and_swap(tmp_path, profile):
    machine_name, page_size, high = PAGES[profile]
    with start(tmp_path, profile=profile, topology="two-numa-nodes") as machine:
        assert output(machine, "uname", "-m").strip() == machine_name
        assert output(machine, "getconf", "PAGESIZE").strip() == str(page_size)
        group = "/sys/fs/cgroup/memqos.test"
        output(machine, "mkdir", group)
        output(machine, "sh", "-c", f"echo 10000000 >{group}/memory.high")
        assert output(machine, "cat", f"{group}/memory.high") == f"{high}\n"
        assert "node0/distance:10 20" in output(
            machine, "sh", "-c", "cd /sys/devices/system/node; grep -H '' node*/distance"
        )
        assert "vdb" in output(machine, "cat", "/proc/swaps")
        # QEMU restores no timers of an emulated ppc64le machine: it boots each time.
        has_checkpoint = machine_name != "ppc64le" or platform.machine() == machine_name
        assert machine.checkpoint_name.startswith(f"{profile}-two-numa-nodes-") is has_checkpoint


@pytest.mark.parametrize("profile", PAGES)
def test_each_numa_node_has_its_huge_pages(tmp_path, profile):
    with start(tmp_path, profile=profile, topology="hugepages", checkpoint=False) as machine:
        pools = "cd /sys/devices/system/node; cat node*/hugepages/hugepages-2048kB/nr_hugepages"
        assert output(machine, "sh", "-c", pools).split() == ["64", "32"]


@pytest.mark.parametrize("profile", PAGES)
def test_the_packages_are_configured_as_dpkg_would_have_them(tmp_path, profile):
    with start(tmp_path, profile=profile, topology="two-numa-nodes") as machine:
        assert output(machine, "dpkg", "--audit") == ""
        assert output(machine, "sh", "-c", "ldconfig -p | grep -c x86-64 || :").strip() == "0"
        assert output(machine, "systemctl", "is-system-running").strip() == "running"


@pytest.mark.parametrize("profile", PAGES)
def test_a_value_case_conforms(tmp_path, profile):
    done = memqos_run(
        tmp_path / "results", "--profile", profile, "--runtime", "oci:crun", "-k", "v1.27-burstable and containers"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [result] = bundle(tmp_path / "results")["results"]
    assert result["outcome"] == "conforms"


def test_a_disk_image_of_arm64_boots_by_uefi(tmp_path):
    cache, profile = default_cache(os.environ), load_profile("trixie-arm64-16k")
    image = image_of_profile(tmp_path / "image", ensure_image(profile, cache), profile)
    case = "values/test_values.py::test_pod_and_its_containers_hold_their_values[v1.27-burstable]"
    key = str(client_key(cache, progress=SILENT))
    done = memqos_run(tmp_path / "results", case, "--image", str(image), "--ssh-key", key, "--runtime", "oci:crun")
    assert done.returncode == 0, done.stdout + done.stderr
    found = bundle(tmp_path / "results")
    assert [result["outcome"] for result in found["results"]] == ["conforms"]
    [machine] = found["machines"]
    assert (machine["disk_image"]["architecture"], machine["disk_image"]["firmware"]) == ("arm64", "uefi")
    assert machine["kernel"].endswith("-arm64-16k")
