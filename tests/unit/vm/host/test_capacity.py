from pathlib import Path

import pytest

from memqos.errors import EnvironmentNotAbleError
from memqos.vm.host import capacity as module
from memqos.vm.host.capacity import Host, capacity, check_room, fastest, host_memory, read_host

GIB = 1 << 30
MIB = 1 << 20


@pytest.mark.parametrize(
    ("available", "cores", "machines", "reason"),
    [
        (23 * GIB, 2, 2, "this host has 2 processors"),
        (23 * GIB, 1, 1, "this host has 1 processor"),
        (23 * GIB, 64, 14, "23552 MiB of memory are available, and a machine takes up to 1600 MiB"),
        (4 * GIB, 64, 2, "4096 MiB of memory are available, and a machine takes up to 1600 MiB"),
        (GIB, 64, 1, "1024 MiB of memory are available, and a machine takes up to 1600 MiB"),
        (0, 64, 1, "0 MiB of memory are available, and a machine takes up to 1600 MiB"),
    ],
)
def test_as_many_machines_as_memory_and_processors_allow_and_one_at_least(available, cores, machines, reason):
    found = capacity(Host(available=available, cores=cores), memory_bytes=2 * GIB, checkpoint_bytes=400 * MIB)
    assert (found.machines, found.reason) == (machines, reason)


def test_a_checkpoint_is_in_memory_once_however_many_share_it():
    host = Host(available=5 * 1600 * MIB + 400 * MIB, cores=64)
    assert capacity(host, memory_bytes=2 * GIB, checkpoint_bytes=400 * MIB).machines == 5
    assert capacity(host, memory_bytes=2 * GIB, checkpoint_bytes=401 * MIB).machines == 4


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host with 8 GiB available, and this process in /outer/inner."""
    inner = tmp_path / "fs" / "outer" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable: {8 * GIB >> 10} kB\nHugePages_Total: 0\n")
    (tmp_path / "cgroup").write_text("0::/outer/inner\n")
    for name, path in (("MEMINFO", "meminfo"), ("CGROUP", "cgroup"), ("CGROUP_ROOT", "fs")):
        monkeypatch.setattr(module, name, tmp_path / path)
    return inner


def limit(cgroup: Path, limit: str, current: int, inactive_file: int) -> None:
    (cgroup / "memory.max").write_text(f"{limit}\n")
    (cgroup / "memory.current").write_text(f"{current}\n")
    (cgroup / "memory.stat").write_text(f"anon 1\ninactive_file {inactive_file}\n")


def test_what_the_host_has_available_counts(host):
    assert read_host().available == 8 * GIB
    assert read_host().cores >= 1


def test_a_control_group_may_leave_less(host):
    limit(host, "max", 1, 0)
    limit(host.parent, str(4 * GIB), 3 * GIB, 512 * MIB)
    assert read_host().available == 1536 * MIB


def test_an_unreadable_cgroup_limits_nothing(host):
    limit(host, "nonsense", 0, 0)
    assert read_host().available == 8 * GIB


@pytest.fixture
def old_host(host, tmp_path):
    """The same with cgroup v1 for memory, and v2 without controllers, as in systemd's hybrid layout."""
    (tmp_path / "cgroup").write_text("9:name=systemd:/\n4:cpu,memory:/outer/inner\n3:cpu,cpuset:/\n0::/\n")
    inner = tmp_path / "fs" / "memory" / "outer" / "inner"
    inner.mkdir(parents=True)
    return inner


def old_limit(cgroup: Path, limit: int, usage: int, total_inactive_file: int) -> None:
    (cgroup / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (cgroup / "memory.usage_in_bytes").write_text(f"{usage}\n")
    (cgroup / "memory.stat").write_text(f"inactive_file 1\ntotal_inactive_file {total_inactive_file}\n")


def test_a_control_group_of_version_1_may_leave_less(old_host):
    old_limit(old_host, 9223372036854771712, 1, 0)
    assert read_host().available == 8 * GIB
    old_limit(old_host.parent, 4 * GIB, 3 * GIB, 512 * MIB)
    assert read_host().available == 1536 * MIB


def test_a_container_with_its_hosts_path_is_limited_by_its_visible_cgroups(old_host):
    """It sees its own cgroup as the root, and reads the host's path to it."""
    old_host.rmdir()
    old_host.parent.rmdir()
    old_limit(old_host.parent.parent, 2 * GIB, GIB, 0)
    assert read_host().available == GIB


def test_a_host_without_cgroups_limits_nothing(host, tmp_path):
    (tmp_path / "cgroup").unlink()
    assert read_host().available == 8 * GIB


def test_the_memory_of_a_host_is_what_its_cgroups_allow(host, tmp_path):
    (tmp_path / "meminfo").write_text(f"MemTotal: {23 * GIB >> 10} kB\nMemAvailable: 1 kB\n")
    assert host_memory() == 23 * GIB
    limit(host.parent, str(4 * GIB), 3 * GIB, 0)
    assert host_memory() == 4 * GIB


def test_a_topology_larger_than_the_host_is_rejected_with_the_possible_size():
    with pytest.raises(EnvironmentNotAbleError) as caught:
        check_room("large", 195 * GIB, memory=23 * GIB)
    assert str(caught.value) == (
        "--topology: the topology 'large' has 199680 MiB of memory, but this host only 23552 MiB. "
        "Reduce its NUMA nodes to 23360 MiB in total: QEMU needs 192 MiB for itself."
    )
    check_room("large", 195 * GIB, memory=195 * GIB + 192 * MIB)


@pytest.mark.parametrize(
    ("cores", "cpus", "emulated", "machines", "reason"),
    [
        (2, 2, True, 1, "under emulation a machine keeps 2 of this host's 2 processors busy, so more"),
        (1, 2, True, 1, "this host has 1 processor"),
        (8, 2, True, 4, "under emulation a machine keeps 2 of this host's 8 processors busy, so more"),
        (8, 1, True, 8, "this host has 8 processors"),
        (64, 2, True, 14, "23552 MiB of memory are available, and a machine takes up to 1600 MiB"),
        (2, 2, False, 2, "with KVM machines mostly wait, so this host runs one per processor"),
        (64, 2, False, 14, "23552 MiB of memory are available, and a machine takes up to 1600 MiB"),
    ],
)
def test_the_useful_number_of_machines_depends_on_the_accelerator(cores, cpus, emulated, machines, reason):
    host = Host(available=23 * GIB, cores=cores)
    fitting = capacity(host, memory_bytes=2 * GIB, checkpoint_bytes=400 * MIB)
    found = fastest(host, fitting, cpus=cpus, emulated=emulated)
    assert found.machines == machines
    assert found.reason.startswith(reason)
