"""Every profile and topology for real: it boots, is as declared, and runs a container whose values are right.

The gate runs trixie (the other tests here) and bookworm, whose suite does not change any more; the others are marked
`profiles` and run with `./memqos test -e profiles`.
"""

import json
import xml.etree.ElementTree as ET

import pytest

from memqos.catalog.profiles import load_profile, profile_names
from memqos.catalog.topologies import load_topology, topology_names
from memqos.clock import Deadline
from memqos.model.node import CgroupVersion
from memqos.vm.architecture import AMD64
from tests.vm.machines import output, start
from tests.vm.runs import bundle, memqos_run

pytestmark = pytest.mark.vm

IN_THE_GATE = {"bookworm"}
DEFAULTS = {"trixie", "one-numa-node", "two-numa-nodes", "two-numa-nodes-no-swap", "four-numa-nodes"}
"""Booted by the other tests here."""

NATIVE = [name for name in profile_names() if load_profile(name).architecture is AMD64]
"""Those of other architectures, which need other programs of the host: test_architectures.py."""

LEGACY = [name for name in profile_names() if not load_profile(name).cgroup_v1.refused]


def cases(names):
    return [
        pytest.param(name, marks=() if name in IN_THE_GATE else pytest.mark.profiles)
        for name in names
        if name not in DEFAULTS
    ]


def bundle_of(folder, *arguments):
    """The bundle of a `memqos run` in this folder that ends with 0."""
    done = memqos_run(folder / "results", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return bundle(folder / "results")


@pytest.mark.parametrize("profile", cases(NATIVE))
def test_a_value_case_conforms_and_leaves_a_bundle(tmp_path, profile):
    written = bundle_of(tmp_path, "--profile", profile, "-k", "v1.27-burstable and containers")
    [result] = written["results"]
    assert result["id"] == "values/test_values.py::test_pod_and_its_containers_hold_their_values[v1.27-burstable]"
    assert result["outcome"] == "conforms"
    assert {finding["knob"] for finding in result["findings"]} >= {"memory.min", "memory.high", "memory.max"}
    junit = (tmp_path / "results/junit_01.xml").read_text()
    assert ET.fromstring(junit).get("failures") == "0"  # noqa: S314 - it is our own
    [population] = (tmp_path / "results/populations").iterdir()
    kept = {path.name.removesuffix(".gz") for path in population.iterdir()}
    assert kept >= {"plan.json", "readings.jsonl", "requests.jsonl"}
    [machine] = written["machines"]
    assert machine["runtimes"][0].startswith("containerd ")
    assert machine["versions"]["runc"]
    manifest = machine["image_manifest"]
    assert manifest["suite"] == load_profile(profile).suite
    assert {"vmlinuz", "initrd.img", "disk.img"} == set(manifest["sha256"])
    assert {"containerd", "runc", "crun"} <= set(manifest["packages"])
    assert machine["kernel"] == manifest["versions"]["kernel"]


@pytest.mark.parametrize("topology", cases(topology_names()))
def test_a_topology_is_what_the_guest_sees(tmp_path, topology):
    """A machine that differs from its topology does not come up at all: see memqos.vm.guest.view."""
    with start(tmp_path, topology=topology, checkpoint=False) as machine:
        nodes = output(machine, "sh", "-c", "ls -d /sys/devices/system/node/node[0-9]*").split()
        assert len(nodes) == len(load_topology(topology).numa_nodes)


@pytest.mark.profiles
@pytest.mark.parametrize("profile", LEGACY)
def test_the_old_hierarchy_limits_memory_and_swap(tmp_path, profile):
    with start(tmp_path, profile=profile, cgroup=CgroupVersion.V1, checkpoint=False) as machine:
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
@pytest.mark.parametrize("profile", NATIVE)
def test_recursive_protection_can_be_off(tmp_path, profile):
    with start(tmp_path, profile=profile, recursiveprot=False, checkpoint=False) as machine:
        options = output(machine, "findmnt", "--noheadings", "--output=OPTIONS", "/sys/fs/cgroup")
        assert "memory_recursiveprot" not in options
        assert "nsdelegate" in options


ZSWAP = {
    "purpose": "a plain machine whose swap is compressed in memory first",
    "cpus": 2,
    "numaNodes": [{"memoryMiB": 1024, "cpus": [0, 1]}],
    "swap": [{"sizeMiB": 512}],
    "zswap": True,
}

SWAPS = """
import pathlib
data = bytes(range(256)) * (96 << 12)
path = pathlib.Path("/proc/self/cgroup").read_text().strip().removeprefix("0::")
print(*(word for word in pathlib.Path(f"/sys/fs/cgroup{path}/memory.stat").read_text().split()))
"""
"""Takes 96 MiB, in pages of more than one value, and prints its cgroup's statistics."""


@pytest.mark.profiles
@pytest.mark.parametrize("profile", ["trixie-bpo", "forky", "sid"])
def test_swap_is_compressed_in_memory_if_the_topology_declares_it(tmp_path, profile):
    topology = tmp_path / "zswap.json"
    topology.write_text(json.dumps(ZSWAP))
    with start(tmp_path / "log", profile=profile, topology=str(topology), checkpoint=False) as machine:
        assert output(machine, "cat", "/sys/module/zswap/parameters/enabled") == "Y\n"
        told = output(
            machine, "systemd-run", "--quiet", "--wait", "--pipe", "--collect", "--property=MemoryMax=48M",
            "python3", "-c", SWAPS,
        ).split()  # fmt: skip
        assert int(told[told.index("zswpout") + 1]) > 1000


@pytest.mark.profiles
def test_compressed_swap_is_no_deviation(tmp_path):
    """Pages in zswap stay charged, so the program is killed as soon as its swap is full: often between two samples."""
    topology = tmp_path / "zswap.json"
    topology.write_text(json.dumps(ZSWAP))
    found = bundle_of(tmp_path, "--profile", "forky", "--topology", str(topology), "-k", "test_swap")
    outcomes = {test["claim"]: test["outcome"] for test in found["results"]}
    assert outcomes["swap/none-means-none"] == "conforms"
    assert outcomes["swap/limit-is-reached"] in {"conforms", "not observable"}
