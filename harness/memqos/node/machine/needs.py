"""The needs of claims, and why a node lacks one."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

from memqos.enactor.base import Ability
from memqos.engine.translate.versions import Feature, Traits
from memqos.errors import UsageError
from memqos.model.node import CgroupDriver, CgroupVersion, NodeFacts
from memqos.model.topology import Fallback, fallback
from memqos.probe.facts import TargetFacts
from memqos.runtime.base import Capability, Runtime

__all__ = ["OF_KUBELETS", "lacking", "required_fallback"]

OF_KUBELETS = {
    "kubelet": (Ability.ANSWER,),
    "kubelet resizes": (Ability.ANSWER, Ability.RESIZE),
    "two kubelets": (Ability.ANSWER, Ability.UPGRADE),
}
"""The abilities of an enactor that a claim about a kubelet needs."""

_WOULD_DO = {
    "swap": "--topology two-numa-nodes",
    "small swap": "--topology small-swaps",
    "roomy shares": "--topology two-numa-nodes",
    "scant shares": "--topology two-numa-nodes",
    "NUMA nodes": "--topology two-numa-nodes",
    "two NUMA nodes": "--topology two-numa-nodes",
    "far NUMA node": "--topology far-memory",
    "small NUMA nodes": "--topology two-numa-nodes",
    "three NUMA nodes": "--topology four-numa-nodes",
    "distances": "--topology four-numa-nodes",
    "zswap": "--profile forky",
    "zswap writeback": "--profile forky",
}
"""The machine option that provides each need."""

SMALL_SWAP = 128 << 20
"""Bytes: what a program under emulation fills in a minute."""

SMALL_NUMA_NODE = 1100 << 20
"""Bytes. Two pods of 500 MiB fit into more, beside what a kubelet reserves."""

ROOMY, SCANT = Fraction(1, 5), Fraction(3, 2)
"""Swap as a fraction of memory. LimitedSwap lets a container swap this fraction of its request.

From a fifth on, programs that must fit into their share do; they need up to a sixth of their request above their limit.
Up to one and a half, programs that must exhaust their share do; they allocate twice as much.
"""

NOSWAP_SINCE = (6, 4)
"""The kernel release from which the kubelet assumes noswap without trying it (kubelet pkg/util/swap)."""


_OF_SCOPES = frozenset({"bare scope", "no bare scope"})
"""A scope is bare if the runtime keeps a container in a cgroup below it and gives the scope no protection."""


def lacking(need: str, *, facts: TargetFacts, runtime: Runtime, oci: Traits, driver: CgroupDriver, is_own: bool) -> str:
    """Why the node lacks this need, "" if it has it; names are those of `claims.NEEDS`, KeyError for another.

    oci: the OCI runtime under test. is_own: the machine is memqos's own and disposable; then the reason names a fitting
    option.
    """
    if oci.below and need in _OF_SCOPES:
        return f"{oci} is not modelled, so it is unknown whether it protects the scope above a container"
    bare_scope = bool(driver is CgroupDriver.SYSTEMD and oci.subgroup and not oci.has(Feature.SCOPE_HAS_PROTECTION))
    lacks = {
        **_of_machine(facts),
        **_of_runtime(runtime),
        "bare scope": not bare_scope and f"{runtime.name} puts no containers below a scope without protection",
        "no bare scope": bare_scope and f"{runtime.name} puts containers below a scope without protection",
        "no memory policy": _knows_policy(runtime, oci),
        "modelled": not oci.modelled
        and f"{oci} is not modelled: no trait explains how it differs from another runtime",
        "own machine": _not_own(facts, is_own=is_own),
    }
    why = lacks[need] or ""
    return f"{why}: try {_WOULD_DO[need]}" if why and is_own and need in _WOULD_DO else why


def required_fallback(node: NodeFacts) -> Fallback:
    """Three NUMA nodes whose distances determine the kernel's fallback order; UsageError without them."""
    if (order := fallback(node.numa_nodes)) is None:
        raise UsageError(
            "each NUMA node of the machine is equally far from all others.",
            next_step="Add 'distances' to the claim's needs.",
        )
    return order


def _of_machine(facts: TargetFacts) -> dict[str, str | Literal[False]]:
    """By need of the machine, why it lacks it."""
    node = facts.node
    return {
        "swap": not (node.swap and node.swap_controller) and "the machine has no swap",
        "small swap": not 0 < node.swap <= SMALL_SWAP
        and f"the machine has {node.swap >> 20} MiB of swap; the claim needs between 1 and {SMALL_SWAP >> 20} MiB",
        "roomy shares": node.swap < ROOMY * node.memory and f"containers' shares are too small with {_swap_of(node)}",
        "scant shares": node.swap > SCANT * node.memory
        and f"no program of this claim fills its share of {_swap_of(node)}",
        "noswap": _kernel(node.kernel) < NOSWAP_SINCE
        and f"tmpfs of kernel {node.kernel} has no mount option noswap (6.4 or later)",
        "memory_recursiveprot": not facts.hierarchy.is_recursive and "cgroups are mounted without memory_recursiveprot",
        "psi": not facts.pressure and "the kernel has no PSI of cgroups",
        "NUMA nodes": len(node.numa_nodes) < 2 and "the machine has one NUMA node",  # noqa: PLR2004
        "two NUMA nodes": len(node.numa_nodes) != 2  # noqa: PLR2004
        and f"the machine has {len(node.numa_nodes)} NUMA nodes, not two",
        "small NUMA nodes": any(numa_node.memory > SMALL_NUMA_NODE for numa_node in node.numa_nodes)
        and f"a NUMA node of the machine has more than {SMALL_NUMA_NODE >> 20} MiB, room for two of the claim's pods",
        "far NUMA node": all(numa_node.cpus for numa_node in node.numa_nodes)
        and "every NUMA node of the machine has CPUs",
        "three NUMA nodes": len(node.numa_nodes) < 3  # noqa: PLR2004
        and "the machine has fewer than three NUMA nodes",
        "distances": fallback(node.numa_nodes) is None
        and "each NUMA node of the machine is equally far from all others",
        "zswap": "memory.zswap.max" not in facts.zswap and f"kernel {node.kernel} has no memory.zswap.max",
        "zswap writeback": "memory.zswap.writeback" not in facts.zswap
        and f"kernel {node.kernel} has no memory.zswap.writeback (6.8 or later)",
        "no zswap": facts.zswap_is_on
        and "zswap is on: what it holds stays charged to the swapped-out cgroup, so swapping may make no room",
        "2 MiB pages": 2 << 20 not in node.hugepage_sizes and "the kernel has no huge pages of 2 MiB",
        "cgroup v2": _mounts(CgroupVersion.V1, node),
        "cgroup v1": _mounts(CgroupVersion.V2, node),
    }


def _of_runtime(runtime: Runtime) -> dict[str, str | Literal[False]]:
    """By need of the runtime, why it lacks it."""
    return {
        "unified": _unsaid(Capability.UNIFIED, runtime),
        "update": _unsaid(Capability.UPDATE, runtime),
        "update unified": _unsaid(Capability.UPDATE_UNIFIED, runtime),
        "cpuset.mems": _unsaid(Capability.CPUSET_MEMS, runtime),
        "OOM reason": _unsaid(Capability.OOM_REASON, runtime),
        "CRI": Capability.CRI not in runtime.capabilities and f"{runtime.name} is not used over CRI",
        "docker": _unsaid(Capability.HOST_CONFIG, runtime),
        "oci": Capability.BUNDLE not in runtime.capabilities and f"{runtime.name} accepts no bundles from memqos",
        "unit properties": Capability.UNIT_PROPERTIES not in runtime.capabilities
        and f"{runtime.name} sets no systemd unit properties from annotations with this cgroup driver",
        "options of update": Capability.UPDATE_OPTIONS not in runtime.capabilities
        and f"{runtime.name} accepts documents in updates, but no options",
        "events": Capability.EVENTS not in runtime.capabilities
        and f"{runtime.name} has no command 'events' that reports the cgroup",
        "memory policy": Capability.MEMORY_POLICY not in runtime.capabilities
        and f"{runtime.name} has no linux.memoryPolicy, by its features or its version",
    }


def _knows_policy(runtime: Runtime, oci: Traits) -> str:
    """Why a runtime may not ignore linux.memoryPolicy: its features need not report the field."""
    if Capability.MEMORY_POLICY in runtime.capabilities:
        return f"{runtime.name} has linux.memoryPolicy"
    return "" if oci.modelled else f"{oci} is not modelled, and does not report whether it has linux.memoryPolicy"


def _not_own(facts: TargetFacts, *, is_own: bool) -> str:
    if facts.delegated:
        return f"the pods are an ordinary user's, below {facts.delegated}: what is above it stays as it is"
    return "" if is_own else "memqos may not restart services on this machine"


def _swap_of(node: NodeFacts) -> str:
    return f"{node.swap >> 20} MiB of swap on a machine with {node.memory >> 20} MiB of memory"


def _kernel(release: str) -> tuple[int, ...]:
    """The first two numbers of a kernel release; empty if it is unknown."""
    return tuple(map(int, re.findall(r"\d+", release, re.ASCII)[:2]))


def _mounts(other: CgroupVersion, node: NodeFacts) -> str:
    return f"the machine has cgroup {other}" if node.cgroup_version is other else ""


def _unsaid(capability: Capability, runtime: Runtime) -> str:
    return "" if capability in runtime.capabilities else f"{runtime.name} does not support '{capability}'"
