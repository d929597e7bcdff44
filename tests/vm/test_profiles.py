"""Every profile and topology for real: it boots, is what it says, and runs a container whose values are right.

The gate runs trixie (the other tests here) and bookworm, whose suite does not change any more; the others are marked
`profiles` and run with `./memqos test -e profiles`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memqos.catalog.profiles import load_profile, profile_names
from memqos.catalog.topologies import load_topology, topology_names
from memqos.clock import Deadline
from memqos.model.node import CgroupVersion
from memqos.vm.boot import boot
from memqos.vm.cache.store import default_cache
from memqos.vm.options import BootOptions

pytestmark = pytest.mark.vm

RUN_SECONDS = 900
IN_THE_GATE = {"bookworm", "four-zones"}
DEFAULTS = {"trixie", "one-zone", "two-zones", "two-zones-no-swap"}
"""Booted by the tests beside these."""

LEGACY = [name for name in profile_names() if not load_profile(name).cgroup_v1.refused]


def cases(names):
    return [
        pytest.param(name, marks=() if name in IN_THE_GATE else pytest.mark.profiles)
        for name in names
        if name not in DEFAULTS
    ]


def start(profile: str, topology: str, log_dir: Path, **options):
    return boot(
        load_profile(profile),
        load_topology(topology),
        image_cache=default_cache(os.environ),
        log_dir=log_dir,
        options=BootOptions(**options),
    )


def output(machine, *argv: str) -> str:
    result = machine.target.run(list(argv), deadline=Deadline.after(60))
    assert result.status == 0, result
    return result.text


@pytest.mark.parametrize("profile", cases(profile_names()))
def test_a_value_case_conforms(tmp_path, profile):
    argv = [sys.executable, "-m", "memqos", "run", "--profile", profile, "--results", str(tmp_path / "results")]
    done = subprocess.run(
        [*argv, "-k", "v1.27-burstable and containers"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [machine] = json.loads((tmp_path / "results/bundle.json").read_text())["machines"]
    manifest = machine["image_manifest"]
    assert manifest["suite"] == load_profile(profile).suite
    assert {"vmlinuz", "initrd.img", "disk.img"} == set(manifest["sha256"])
    assert {"containerd", "runc", "crun"} <= set(manifest["packages"])
    assert machine["kernel"] == manifest["versions"]["kernel"]


@pytest.mark.parametrize("topology", cases(topology_names()))
def test_a_topology_is_what_the_guest_sees(tmp_path, topology):
    """A machine that differs from its topology does not come up at all: see memqos.vm.guest.view."""
    with start("trixie", topology, tmp_path, checkpoint=False) as machine:
        nodes = output(machine, "sh", "-c", "ls -d /sys/devices/system/node/node[0-9]*").split()
        assert len(nodes) == len(load_topology(topology).zones)


@pytest.mark.profiles
@pytest.mark.parametrize("profile", LEGACY)
def test_the_old_hierarchy_limits_memory_and_swap(tmp_path, profile):
    with start(profile, "one-zone", tmp_path, cgroup=CgroupVersion.V1, checkpoint=False) as machine:
        group = "/sys/fs/cgroup/memory/memqos.test"
        output(machine, "mkdir", group)
        output(machine, "sh", "-c", f"echo 64M >{group}/memory.limit_in_bytes")
        output(machine, "sh", "-c", f"echo 80M >{group}/memory.memsw.limit_in_bytes")
        assert output(machine, "cat", f"{group}/memory.memsw.limit_in_bytes") == f"{80 << 20}\n"
        ended = machine.target.run(
            ["ctr", "--namespace=k8s.io", "run", "--rm", "memqos.local/memload:1", "t", "/memload", "exit", "3"],
            deadline=Deadline.after(60),
        )
        assert ended.status == 3


@pytest.mark.profiles
@pytest.mark.parametrize("profile", profile_names())
def test_recursive_protection_can_be_off(tmp_path, profile):
    with start(profile, "one-zone", tmp_path, recursiveprot=False, checkpoint=False) as machine:
        options = output(machine, "findmnt", "--noheadings", "--output=OPTIONS", "/sys/fs/cgroup")
        assert "memory_recursiveprot" not in options
        assert "nsdelegate" in options
