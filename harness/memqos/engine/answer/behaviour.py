"""Expected behaviour: the rule for each file that shows it, and the knobs that decide it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memqos.engine.answer.finding import Setter
from memqos.engine.plan import Expected, Reason, kernel_revision
from memqos.model.knob import Knob
from memqos.model.node import CgroupVersion

__all__ = ["behaviour_reason", "behaviour_setter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """One rule, true whether the behaviour occurs or not; knobs: the files whose values decide it.

    set_by: the program that causes or reports it.
    """

    rule: str
    revision: str
    source: str
    knobs: tuple[Knob, ...] = ()
    set_by: Setter = Setter.KERNEL


_V1, _V2 = kernel_revision(CgroupVersion.V1), kernel_revision(CgroupVersion.V2)
_CRI = "CRI v1"
_WORKLOAD = "memqos workload"

_RULES: Mapping[str, _Rule] = {
    "memory.events high": _Rule(
        rule="`high` counts each time a cgroup uses more than memory.high, and only then",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.high and memory.events; mm/memcontrol.c, mem_cgroup_handle_over_high",
        knobs=(Knob.MEMORY_HIGH,),
    ),
    "memory.events passes": _Rule(
        rule="a pass above memory.high that reclaims nothing counts `high` once for each of 17 tries, in each cgroup "
        "that is over it",
        revision=_V2,
        source="mm/memcontrol.c, mem_cgroup_handle_over_high (MAX_RECLAIM_RETRIES) and reclaim_high",
        knobs=(Knob.MEMORY_HIGH,),
    ),
    "memory.stat pgmajfault": _Rule(
        rule="before a task sleeps above memory.high the kernel reclaims all it can, the program's own text "
        "included, which is then read in again",
        revision=_V2,
        source="mm/memcontrol.c, mem_cgroup_handle_over_high (retry_reclaim)",
        knobs=(Knob.MEMORY_HIGH,),
    ),
    "memory.events max": _Rule(
        rule="`max` counts each time a charge would pass memory.max, before anything is reclaimed for it",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.max and memory.events; mm/memcontrol.c, try_charge_memcg",
        knobs=(Knob.MEMORY_MAX,),
    ),
    "memory.events oom_kill": _Rule(
        rule="a process is killed where memory.max is reached and nothing is left to reclaim, never for memory.high",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.max and memory.events; mm/memcontrol.c, mem_cgroup_oom",
        knobs=(Knob.MEMORY_HIGH, Knob.MEMORY_MAX),
    ),
    "memory.pressure some total": _Rule(
        rule="a task that reclaims for its own charge, or sleeps above memory.high, is stalled for memory",
        revision=_V2,
        source="kernel accounting/psi.rst; mm/memcontrol.c, mem_cgroup_handle_over_high and try_charge_memcg",
        knobs=(Knob.MEMORY_HIGH, Knob.MEMORY_MAX),
    ),
    "memory.pressure full total": _Rule(
        rule="`full` counts the time in which every non-idle task of a cgroup is stalled for memory",
        revision=_V2,
        source="kernel accounting/psi.rst, full; mm/memcontrol.c, mem_cgroup_handle_over_high",
        knobs=(Knob.MEMORY_HIGH, Knob.MEMORY_MAX),
    ),
    "memory.pressure entry": _Rule(
        rule="a program started in a container above memory.high sleeps for its own charges like any other",
        revision=_V2,
        source="mm/memcontrol.c, mem_cgroup_handle_over_high; KEP-2570, why it was put on hold in 1.28",
        knobs=(Knob.MEMORY_HIGH,),
    ),
    "memory.pressure threads": _Rule(
        rule="each thread sleeps for its own charges when it returns to user space, and never for those of "
        "another thread",
        revision=_V2,
        source="mm/memcontrol.c, mem_cgroup_handle_over_high (memcg_nr_pages_over_high of the task)",
        knobs=(Knob.MEMORY_HIGH,),
    ),
    "memory.peak": _Rule(
        rule="memory.peak keeps the highest usage, whatever was freed since",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.peak; mm/page_counter.c, page_counter_try_charge",
    ),
    "memory.current fallen": _Rule(
        rule="memory that a program frees, or leaves when it exits, is no longer charged",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.current; mm/memcontrol.c, uncharge_folio",
    ),
    "memory.current left": _Rule(
        rule="a file page stays charged to the cgroup that brought it into memory until it leaves memory, also if "
        "processes exit",
        revision=_V2,
        source="kernel cgroup-v2.rst, Memory Ownership; mm/memcontrol.c, uncharge_folio",
    ),
    "memory.current limited": _Rule(
        rule="writing memory.max below current usage reclaims what it can before anything is killed",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.max; mm/memcontrol.c, memory_max_write",
        knobs=(Knob.MEMORY_MAX,),
    ),
    "memory.current": _Rule(
        rule="a task above memory.high sleeps for its charges, longer the further usage is above it, up to 2 s",
        revision=_V2,
        source="mm/memcontrol.c, calculate_high_delay and mem_cgroup_handle_over_high",
        knobs=(Knob.MEMORY_HIGH,),
    ),
    "memory.current kept": _Rule(
        rule="reclaim skips a cgroup whose effective memory.min or memory.low covers its usage",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.min and memory.low; mm/vmscan.c, shrink_node_memcgs",
        knobs=(Knob.MEMORY_MIN, Knob.MEMORY_LOW),
    ),
    "memory.current share": _Rule(
        rule="reclaim skips siblings that claim more protection than their parent has, while their usage together "
        "fits the parent's",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.min and memory.low; mm/page_counter.c, effective_protection",
        knobs=(Knob.MEMORY_MIN, Knob.MEMORY_LOW),
    ),
    "memory.current taken": _Rule(
        rule="reclaim takes unprotected memory first, then what memory.low protects, and nothing that memory.min "
        "protects",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.min and memory.low; mm/vmscan.c, shrink_node_memcgs",
        knobs=(Knob.MEMORY_MIN, Knob.MEMORY_LOW),
    ),
    "memory.events low": _Rule(
        rule="`low` counts each time reclaim takes memory from a cgroup although its memory.low covers it, and "
        "only then",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.low and memory.events; mm/vmscan.c, shrink_node_memcgs",
        knobs=(Knob.MEMORY_LOW,),
    ),
    "memory.swap.current": _Rule(
        rule="no page of a cgroup is swapped out beyond its memory.swap.max",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.swap.max; mm/memcontrol.c, __mem_cgroup_try_charge_swap",
        knobs=(Knob.MEMORY_SWAP_MAX,),
    ),
    "memory.swap.current used": _Rule(
        rule="a cgroup without room for its anonymous memory swaps some of it out, as far as memory.swap.max allows",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.swap.max; mm/vmscan.c, can_reclaim_anon_pages and get_scan_count",
        knobs=(Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX),
    ),
    "memory.swap.current given back": _Rule(
        rule="a page's swap slot is freed when its program frees the page or exits",
        revision=_V2,
        source="mm/memory.c, zap_pte_range; mm/memcontrol.c, __mem_cgroup_uncharge_swap",
    ),
    "memory.swap.current zswapped": _Rule(
        rule="a page compressed in zswap keeps its swap slot and counts in memory.swap.current with its full size",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.swap.current and memory.stat, zswapped; mm/zswap.c, zswap_store",
        knobs=(Knob.MEMORY_SWAP_MAX,),
    ),
    "memory.zswap.current": _Rule(
        rule="with zswap on, swapped-out pages are compressed in memory, and the compressed size is charged to "
        "the cgroup",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.zswap.current; mm/zswap.c, zswap_store",
        knobs=(Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX),
    ),
    "memory.zswap.current limited": _Rule(
        rule="no page is stored in zswap while the cgroup or an ancestor has reached its memory.zswap.max",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.zswap.max; mm/memcontrol.c, obj_cgroup_may_zswap",
    ),
    "memory.stat pgsteal": _Rule(
        rule="the multi-generational LRU skips a cgroup that memory.low covers once, and then takes pages of it",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.stat, pgsteal; mm/vmscan.c, shrink_one (MEMCG_LRU_TAIL, MEMCG_LOW)",
        knobs=(Knob.MEMORY_MIN, Knob.MEMORY_LOW),
    ),
    "memory.stat workingset_refault_file": _Rule(
        rule="a file page counts each time it is read again after reclaim took it from the cgroup, and only then",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.stat, workingset_refault_file; mm/workingset.c, workingset_refault",
        knobs=(Knob.MEMORY_MIN, Knob.MEMORY_LOW),
    ),
    "memory.stat zswpwb": _Rule(
        rule="a pool at memory.zswap.max writes pages back to the swap device, unless memory.zswap.writeback is 0",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.zswap.writeback and memory.stat, zswpwb; mm/zswap.c, shrink_memcg",
    ),
    "memory.swap.events fail": _Rule(
        rule="`fail` counts each time a page is not swapped out because the devices are full or memory.swap.max is "
        "reached",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.swap.events; mm/memcontrol.c, __mem_cgroup_try_charge_swap",
        knobs=(Knob.MEMORY_SWAP_MAX,),
    ),
    "cpuset.mems": _Rule(
        rule="a container may take memory from the NUMA nodes that its request names, whatever other rules would name",
        revision=_CRI,
        source="CRI LinuxContainerResources.cpuset_mems",
        knobs=(Knob.CPUSET_MEMS,),
        set_by=Setter.RUNTIME,
    ),
    "memory.numa_stat": _Rule(
        rule="every page of a program that starts inside comes from the NUMA nodes of cpuset.mems",
        revision=_V2,
        source="kernel cgroup-v2.rst, cpuset.mems",
        knobs=(Knob.CPUSET_MEMS,),
    ),
    "memory.numa_stat spilled": _Rule(
        rule="where a program's own NUMA node is full, its pages come from the nearest NUMA node of cpuset.mems "
        "with room",
        revision=_V2,
        source="mm/page_alloc.c, find_next_best_node and get_page_from_freelist; Documentation/mm/numa.rst",
        knobs=(Knob.CPUSET_MEMS,),
    ),
    "memory.numa_stat moved": _Rule(
        rule="writing cpuset.mems moves a program's pages to the NUMA nodes that it names",
        revision=_V2,
        source="kernel cgroup-v2.rst, cpuset.mems; kernel/cgroup/cpuset.c, cpuset_migrate_mm",
        knobs=(Knob.CPUSET_MEMS,),
    ),
    "huge pages in use": _Rule(
        rule="a huge page comes from the pools of the NUMA nodes of cpuset.mems, like any other page",
        revision=_V2,
        source="kernel cgroup-v2.rst, cpuset.mems; mm/hugetlb.c, dequeue_hugetlb_folio_nodemask",
    ),
    "memory.numa_stat reclaimed": _Rule(
        rule="where the NUMA nodes of cpuset.mems are full, page cache on them is reclaimed for new allocations",
        revision=_V2,
        source="kernel cgroup-v2.rst, cpuset.mems; mm/page_alloc.c, __alloc_pages_direct_reclaim",
        knobs=(Knob.CPUSET_MEMS,),
    ),
    "memory.events oom_kill NUMA node": _Rule(
        rule="a program is killed where the NUMA nodes of its cpuset.mems are full, however much is free on others",
        revision=_V2,
        source="kernel cgroup-v2.rst, cpuset.mems; mm/oom_kill.c, constrained_alloc (CONSTRAINT_CPUSET)",
        knobs=(Knob.CPUSET_MEMS,),
    ),
    "memory.failcnt": _Rule(
        rule="each charge that would pass memory.limit_in_bytes is counted",
        revision=_V1,
        source="kernel cgroup-v1/memory.rst, failcnt",
        knobs=(Knob.MEMORY_LIMIT_IN_BYTES,),
    ),
    "memory.max_usage_in_bytes": _Rule(
        rule="memory in use does not pass memory.limit_in_bytes",
        revision=_V1,
        source="kernel cgroup-v1/memory.rst, limit_in_bytes",
        knobs=(Knob.MEMORY_LIMIT_IN_BYTES,),
    ),
    "memory.memsw.max_usage_in_bytes": _Rule(
        rule="memory and swap in use together do not pass memory.memsw.limit_in_bytes",
        revision=_V1,
        source="kernel cgroup-v1/memory.rst, memsw.limit_in_bytes",
        knobs=(Knob.MEMORY_MEMSW_LIMIT_IN_BYTES,),
    ),
    "memory.memsw.usage_in_bytes": _Rule(
        rule="memory beyond memory.limit_in_bytes is swapped out, as far as memory.memsw.limit_in_bytes allows",
        revision=_V1,
        source="kernel cgroup-v1/memory.rst, memsw.limit_in_bytes",
        knobs=(Knob.MEMORY_LIMIT_IN_BYTES, Knob.MEMORY_MEMSW_LIMIT_IN_BYTES),
    ),
    "answer": _Rule(
        rule="a daemon whose memory stays resident, or can be read in again, keeps answering while pods take all "
        "they can",
        revision=_V2,
        source="Reserve Compute Resources for System Daemons; kernel cgroup-v2.rst, memory.min",
    ),
    "pace": _Rule(
        rule="protected data stays in memory and is not read again, so a program that reads it keeps its pace",
        revision=_V2,
        source="KEP-2570, motivation; kernel cgroup-v2.rst, memory.min and memory.low",
        knobs=(Knob.MEMORY_MIN, Knob.MEMORY_LOW),
    ),
    "state": _Rule(
        rule="a container runs until its first process exits or is killed",
        revision=_CRI,
        source="CRI ContainerState",
        set_by=Setter.RUNTIME,
    ),
    "exit code": _Rule(
        rule="a process killed by SIGKILL has the exit code 128 + 9",
        revision=_CRI,
        source="CRI ContainerStatus.exit_code",
        set_by=Setter.RUNTIME,
    ),
    "reason": _Rule(
        rule="a container whose memory cgroup counted `oom_kill` has the reason OOMKilled",
        revision=_CRI,
        source="CRI ContainerStatus.reason",
        set_by=Setter.RUNTIME,
    ),
    "report": _Rule(
        rule="a program that is not killed reports how far it came",
        revision=_WORKLOAD,
        source="the workload's own report",
    ),
}


def behaviour_reason(file: str, key: str, planned: Mapping[Knob, Expected]) -> Reason:
    """The reason to expect a behaviour of a container with this plan, based on the reasons of its knobs.

    file: the file that shows the behaviour, or the name of a value that the runtime or the workload reports; key: of an
    events file or of memory.pressure, "" elsewhere. KeyError without a rule.
    """
    rule = _RULES[f"{file} {key}".rstrip()]
    because = tuple(planned[knob].reason for knob in rule.knobs if knob in planned)
    return Reason(rule=rule.rule, revision=rule.revision, source=rule.source, because=because)


def behaviour_setter(file: str, key: str) -> Setter:
    """The program that causes or reports a behaviour; file, key: as above."""
    return _RULES[f"{file} {key}".rstrip()].set_by
