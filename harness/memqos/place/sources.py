"""What helps to understand a failure, as seen from inside a machine with systemd; each is one command."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["MACHINE_LOGS"]

_CGROUP_DUMP = """\
cd /sys/fs/cgroup && grep -rsH '' --include='memory.*' --include='cpu.weight' --include='cpu.max' \
  --include='cpu.shares' --include='cpu.cfs_*' --include='pids.max' --include='cpuset.*' --include='cgroup.procs' \
  -- */ | head -c 2000000
"""

MACHINE_LOGS: Mapping[str, tuple[str, ...]] = {
    "dmesg.txt": ("sh", "-c", "dmesg | tail -n 200"),
    "containerd.txt": ("journalctl", "--no-pager", "--unit", "containerd", "--lines", "200"),
    "docker.txt": ("journalctl", "--no-pager", "--unit", "memqos-docker@*", "--unit", "docker", "--lines", "200"),
    "cgroups.txt": ("sh", "-c", _CGROUP_DUMP),
}
