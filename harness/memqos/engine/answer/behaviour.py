"""Why something is expected to happen: the rule for each file that behaviour shows in, and the knobs behind it."""

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
    """One sentence that holds whether the thing happens or not; knobs: whose values decide it.

    set_by: who makes it happen, or says that it did.
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
        rule="`high` is counted each time a cgroup uses more than memory.high, and only then",
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
        rule="before a task sleeps above memory.high the kernel reclaims all that it can, the program's own text too, "
        "which it then reads in again",
        revision=_V2,
        source="mm/memcontrol.c, mem_cgroup_handle_over_high (retry_reclaim)",
        knobs=(Knob.MEMORY_HIGH,),
    ),
    "memory.events max": _Rule(
        rule="`max` is counted each time a charge would pass memory.max, before anything is reclaimed for it",
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
        rule="while every task of a cgroup that is not idle is stalled for memory, nothing of it gets on",
        revision=_V2,
        source="kernel accounting/psi.rst, full; mm/memcontrol.c, mem_cgroup_handle_over_high",
        knobs=(Knob.MEMORY_HIGH, Knob.MEMORY_MAX),
    ),
    "memory.pressure entry": _Rule(
        rule="a program that is started in a container above memory.high sleeps for what it is charged like any other",
        revision=_V2,
        source="mm/memcontrol.c, mem_cgroup_handle_over_high; KEP-2570, why it was put on hold in 1.28",
        knobs=(Knob.MEMORY_HIGH,),
    ),
    "memory.pressure threads": _Rule(
        rule="each thread sleeps for what it is charged itself, when it returns to user space; none sleeps for another",
        revision=_V2,
        source="mm/memcontrol.c, mem_cgroup_handle_over_high (memcg_nr_pages_over_high of the task)",
        knobs=(Knob.MEMORY_HIGH,),
    ),
    "memory.peak": _Rule(
        rule="the most memory that was ever in use is kept, whatever was given back since",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.peak; mm/page_counter.c, page_counter_try_charge",
    ),
    "memory.current fallen": _Rule(
        rule="memory that a program gives back, or leaves when it ends, is not charged any more",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.current; mm/memcontrol.c, uncharge_folio",
    ),
    "memory.current left": _Rule(
        rule="a page of a file is charged to the cgroup that brought it into memory until it leaves it, whoever ends",
        revision=_V2,
        source="kernel cgroup-v2.rst, Memory Ownership; mm/memcontrol.c, uncharge_folio",
    ),
    "memory.current limited": _Rule(
        rule="a memory.max that is written below what is in use takes what can be reclaimed before anything is killed",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.max; mm/memcontrol.c, memory_max_write",
        knobs=(Knob.MEMORY_MAX,),
    ),
    "memory.current": _Rule(
        rule="a task above memory.high sleeps for what it is charged, the longer the further above it is, up to 2 s",
        revision=_V2,
        source="mm/memcontrol.c, calculate_high_delay and mem_cgroup_handle_over_high",
        knobs=(Knob.MEMORY_HIGH,),
    ),
    "memory.current kept": _Rule(
        rule="reclaim passes over a cgroup whose memory.min or memory.low, as far as it counts, covers its use",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.min and memory.low; mm/vmscan.c, shrink_node_memcgs",
        knobs=(Knob.MEMORY_MIN, Knob.MEMORY_LOW),
    ),
    "memory.current share": _Rule(
        rule="siblings that claim more protection than their parent has are passed over when what they use fits that",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.min and memory.low; mm/page_counter.c, effective_protection",
        knobs=(Knob.MEMORY_MIN, Knob.MEMORY_LOW),
    ),
    "memory.current taken": _Rule(
        rule="reclaim takes what nothing protects, then what memory.low protects, and nothing of memory.min",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.min and memory.low; mm/vmscan.c, shrink_node_memcgs",
        knobs=(Knob.MEMORY_MIN, Knob.MEMORY_LOW),
    ),
    "memory.events low": _Rule(
        rule="`low` is counted each time memory is taken from a cgroup though its memory.low covers it, and only then",
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
        rule="a cgroup without room for its anonymous memory swaps some of it out, as far as memory.swap.max lets it",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.swap.max; mm/vmscan.c, can_reclaim_anon_pages and get_scan_count",
        knobs=(Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX),
    ),
    "memory.swap.current given back": _Rule(
        rule="a page's place in swap is free again when its program frees the page, or ends",
        revision=_V2,
        source="mm/memory.c, zap_pte_range; mm/memcontrol.c, __mem_cgroup_uncharge_swap",
    ),
    "memory.swap.current zswapped": _Rule(
        rule="what is kept compressed in memory has its place in swap, and counts there with its full size",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.swap.current and memory.stat, zswapped; mm/zswap.c, zswap_store",
        knobs=(Knob.MEMORY_SWAP_MAX,),
    ),
    "memory.zswap.current": _Rule(
        rule="with zswap on, what is swapped out is compressed in memory, and what that takes is charged to the cgroup",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.zswap.current; mm/zswap.c, zswap_store",
        knobs=(Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX),
    ),
    "memory.zswap.current limited": _Rule(
        rule="no page is stored in zswap while the cgroup, or one above it, has reached its memory.zswap.max there",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.zswap.max; mm/memcontrol.c, obj_cgroup_may_zswap",
    ),
    "memory.stat pgsteal": _Rule(
        rule="the multi-generational LRU passes what memory.low covers over once, and then takes pages of it",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.stat, pgsteal; mm/vmscan.c, shrink_one (MEMCG_LRU_TAIL, MEMCG_LOW)",
        knobs=(Knob.MEMORY_MIN, Knob.MEMORY_LOW),
    ),
    "memory.stat workingset_refault_file": _Rule(
        rule="a page of a file is counted each time it was taken from the cgroup and is read again, and only then",
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
        rule="`fail` is counted each time a page is not swapped out because the devices are full or memory.swap.max is",
        revision=_V2,
        source="kernel cgroup-v2.rst, memory.swap.events; mm/memcontrol.c, __mem_cgroup_try_charge_swap",
        knobs=(Knob.MEMORY_SWAP_MAX,),
    ),
    "cpuset.mems": _Rule(
        rule="a container may take memory from the zones that its request names, whatever other rules would name",
        revision=_CRI,
        source="CRI LinuxContainerResources.cpuset_mems",
        knobs=(Knob.CPUSET_MEMS,),
        set_by=Setter.RUNTIME,
    ),
    "memory.numa_stat": _Rule(
        rule="every page of a program that starts inside is taken from the zones of cpuset.mems",
        revision=_V2,
        source="kernel cgroup-v2.rst, cpuset.mems",
        knobs=(Knob.CPUSET_MEMS,),
    ),
    "memory.numa_stat spilled": _Rule(
        rule="where a program's own zone is full, its pages are taken from the nearest zone of cpuset.mems with room",
        revision=_V2,
        source="mm/page_alloc.c, find_next_best_node and get_page_from_freelist; Documentation/mm/numa.rst",
        knobs=(Knob.CPUSET_MEMS,),
    ),
    "memory.numa_stat moved": _Rule(
        rule="a program's pages move to the zones that cpuset.mems names when it is written",
        revision=_V2,
        source="kernel cgroup-v2.rst, cpuset.mems; kernel/cgroup/cpuset.c, cpuset_migrate_mm",
        knobs=(Knob.CPUSET_MEMS,),
    ),
    "huge pages in use": _Rule(
        rule="a huge page is taken from those that the zones of cpuset.mems have set aside, as any other page is",
        revision=_V2,
        source="kernel cgroup-v2.rst, cpuset.mems; mm/hugetlb.c, dequeue_hugetlb_folio_nodemask",
    ),
    "memory.numa_stat reclaimed": _Rule(
        rule="where the zones of cpuset.mems are full, page cache on them makes room for what is asked of them",
        revision=_V2,
        source="kernel cgroup-v2.rst, cpuset.mems; mm/page_alloc.c, __alloc_pages_direct_reclaim",
        knobs=(Knob.CPUSET_MEMS,),
    ),
    "memory.events oom_kill zone": _Rule(
        rule="a program is killed where the zones of its cpuset.mems are full, however much is free on others",
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
        rule="what memory.limit_in_bytes has no room for is swapped out, as far as memory.memsw.limit_in_bytes lets it",
        revision=_V1,
        source="kernel cgroup-v1/memory.rst, memsw.limit_in_bytes",
        knobs=(Knob.MEMORY_LIMIT_IN_BYTES, Knob.MEMORY_MEMSW_LIMIT_IN_BYTES),
    ),
    "answer": _Rule(
        rule="a daemon whose memory is kept, or can be fetched again, goes on answering while pods take all they can",
        revision=_V2,
        source="Reserve Compute Resources for System Daemons; kernel cgroup-v2.rst, memory.min",
    ),
    "pace": _Rule(
        rule="what protection keeps in memory need not be read again, so a program that reads it keeps its pace",
        revision=_V2,
        source="KEP-2570, motivation; kernel cgroup-v2.rst, memory.min and memory.low",
        knobs=(Knob.MEMORY_MIN, Knob.MEMORY_LOW),
    ),
    "state": _Rule(
        rule="a container runs on as long as its first process is not killed and does not end",
        revision=_CRI,
        source="CRI ContainerState",
        set_by=Setter.RUNTIME,
    ),
    "exit code": _Rule(
        rule="a process that SIGKILL ended gives 128 + 9",
        revision=_CRI,
        source="CRI ContainerStatus.exit_code",
        set_by=Setter.RUNTIME,
    ),
    "reason": _Rule(
        rule="a container whose memory cgroup counted `oom_kill` ended for the reason OOMKilled",
        revision=_CRI,
        source="CRI ContainerStatus.reason",
        set_by=Setter.RUNTIME,
    ),
    "report": _Rule(
        rule="a program that is not killed says how far it came", revision=_WORKLOAD, source="the workload's own report"
    ),
}


def behaviour_reason(file: str, key: str, planned: Mapping[Knob, Expected]) -> Reason:
    """Why something is expected of a container whose plan is this one, with the reasons for its knobs behind it.

    file: a file that behaviour shows in, or the name of something that the runtime or the workload says; key: of an
    events file, or of memory.pressure, "" elsewhere. KeyError for what has no rule.
    """
    rule = _RULES[f"{file} {key}".rstrip()]
    because = tuple(planned[knob].reason for knob in rule.knobs if knob in planned)
    return Reason(rule=rule.rule, revision=rule.revision, source=rule.source, because=because)


def behaviour_setter(file: str, key: str) -> Setter:
    """Who makes a behaviour happen, or says that it did; file, key: as above."""
    return _RULES[f"{file} {key}".rstrip()].set_by
