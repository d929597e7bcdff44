"""What a container runtime makes of the same request, as far as runtimes differ: facts by version, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from memqos.model.node import RuntimeFlavour

__all__ = ["CONTAINERD_1_7_RUNC_1_1", "RuntimeTraits", "WeightConversion"]


class WeightConversion(StrEnum):
    """How an OCI runtime turns cpu.shares into cpu.weight.

    LINEAR: runc up to 1.3.1 and crun up to 1.22; QUADRATIC: runc from 1.3.2 and crun from 1.23.
    """

    LINEAR = "linear"
    QUADRATIC = "quadratic"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeTraits:
    """How a CRI runtime and its OCI runtime behave where versions differ; None where that is not known.

    name: as reasons print it. flavour: which CRI runtime names the cgroup.
    weight: the shares to weight conversion.
    hugetlb: whether hugepage_limits reach the container's cgroup (containerd's `disable_hugetlb_controller`, true
    unless configured otherwise, drops them).
    swap_follows_memory: whether a memory limit without a swap limit means "no swap" (containerd from 1.6.13, CRI-O).
    systemd_rounds_quota: whether the systemd driver rounds a container's quota up to whole percents of a CPU and
    writes the rounded one into cpu.max (newer opencontainers/cgroups; runc 1.1 rounds the unit property only).
    subgroup: the cgroup below a systemd scope in which the OCI runtime keeps the processes and writes the files
    ("container" for crun); "" for the scope itself. The cgroupfs driver has no such thing.
    """

    name: str
    flavour: RuntimeFlavour = RuntimeFlavour.CONTAINERD
    weight: WeightConversion | None = WeightConversion.LINEAR
    hugetlb: bool = False
    swap_follows_memory: bool | None = True
    systemd_rounds_quota: bool | None = False
    subgroup: str = ""


CONTAINERD_1_7_RUNC_1_1 = RuntimeTraits(name="containerd 1.7 with runc 1.1")
