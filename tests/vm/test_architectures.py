"""Machines of other architectures and page sizes for real: `./memqos test -e architectures`.

Emulated unless the host is of that architecture, so nothing of it is in the gate.
"""

import platform

import pytest

from tests.vm.machines import output, start
from tests.vm.runs import bundle, memqos_run

pytestmark = [pytest.mark.vm, pytest.mark.architectures]

PAGES = {
    "trixie-arm64": ("aarch64", 4096, 9998336),
    "trixie-arm64-16k": ("aarch64", 16384, 9994240),
    "trixie-ppc64le-64k": ("ppc64le", 65536, 9961472),
}
"""The output of `uname -m`, bytes of a page, and memory.high for 10000000: whole pages, rounded down."""


@pytest.mark.parametrize("profile", PAGES)
def test_a_machine_has_its_pages_nodes_and_swap(tmp_path, profile):
    machine_name, page_size, high = PAGES[profile]
    with start(tmp_path, profile=profile, topology="two-zones") as machine:
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
        # QEMU restores no clock of an emulated ppc64le machine: it boots each time.
        has_checkpoint = machine_name != "ppc64le" or platform.machine() == machine_name
        assert machine.checkpoint_name.startswith(f"{profile}-two-zones-") is has_checkpoint


@pytest.mark.parametrize("profile", PAGES)
def test_the_packages_are_configured_as_dpkg_would_have_them(tmp_path, profile):
    with start(tmp_path, profile=profile, topology="two-zones") as machine:
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
