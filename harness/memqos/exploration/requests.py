"""Hypothesis strategies of CRI requests and of container lifecycles."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from memqos.exploration.amounts import MIB, chosen, drawn_bytes, once_in
from memqos.exploration.documents import Document, Verb, resources_of
from memqos.model.cri import ContainerResources

__all__ = ["cri_requests", "lifecycles", "requests"]

LEAST_LIMIT = 32 * MIB
"""The least memory limit with which a container starts, in bytes."""
LEAST_HIGH = 48 * MIB
"""The least memory.high that does not throttle the runtime's own process during creation, in bytes."""
_MOST_PROTECTED = 1 << 36
_PERIODS = (100_000, 50_000, 10_000, 200_000)
_NUMA_NODES = ("", "", "0", "1", "0-1")


@st.composite
def requests(
    draw: st.DrawFn, *, least_limit: int = LEAST_LIMIT, numa_nodes: Sequence[str] = _NUMA_NODES, update: bool = False
) -> Document:
    """Valid CRI LinuxContainerResources as a document; {} is an empty request.

    least_limit: the smallest memory limit. numa_nodes: lists of NUMA nodes and CPUs, "" for none. update: whether it
    updates a running container: the limit then stays above its usage, and oom_score_adj is not set.
    """
    found: Document = {}
    if not once_in(draw, 3):
        limit = drawn_bytes(draw, least_limit, 1 << 33)
        found["memory_limit_in_bytes"] = limit
        if once_in(draw, 2):
            found["memory_swap_limit_in_bytes"] = chosen(draw, (limit, limit + drawn_bytes(draw, 0, 1 << 32), -1))
    if once_in(draw, 2):
        found["cpu_shares"] = draw(st.integers(2, 262144))
    if once_in(draw, 2):
        period = chosen(draw, _PERIODS)
        found |= {"cpu_period": period, "cpu_quota": draw(st.integers(period // 2, period * 4))}
    if not update and once_in(draw, 2):
        found["oom_score_adj"] = draw(st.integers(-997, 1000))
    for field in ("cpuset_cpus", "cpuset_mems"):
        if (text := chosen(draw, numa_nodes)) and once_in(draw, 2):
            found[field] = text
    if unified := _unified(draw):
        found["unified"] = unified
    return found


def _unified(draw: st.DrawFn) -> Document:
    found: Document = {}
    for name, least, most in (
        ("memory.min", 0, _MOST_PROTECTED),
        ("memory.low", 0, _MOST_PROTECTED),
        ("memory.high", LEAST_HIGH, _MOST_PROTECTED),
    ):
        if once_in(draw, 2):
            found[name] = str(drawn_bytes(draw, least, most))
    if once_in(draw, 6):
        found["memory.oom.group"] = chosen(draw, ("1", "0"))
    return found


def cri_requests(*, update: bool = False) -> st.SearchStrategy[ContainerResources]:
    """The CRI messages of `requests`."""
    return requests(update=update).map(resources_of)


_USUAL = (Verb.EXEC, Verb.STATS, Verb.RESTART, Verb.UPDATE, Verb.UPDATE, Verb.UPDATE)


@st.composite
def lifecycles(draw: st.DrawFn, *, most: int = 5, node_wide: bool = True) -> list[Document]:
    """A container's lifecycle as a list of steps; the first creates it.

    most: the number of later steps. node_wide: whether to include steps that affect the whole machine.
    """
    steps: list[Document] = [{Verb.CREATE.value: draw(requests())}]
    count = draw(st.integers(0, most))
    reloads = node_wide and once_in(draw, 6)
    if once_in(draw, 6):
        steps += [{Verb.UPDATE.value: draw(requests(update=True))}, {Verb.START.value: {}}]
    for _ in range(count):
        verb = chosen(draw, (*_USUAL, Verb.RELOAD) if reloads else _USUAL)
        steps.append({verb.value: draw(requests(update=True)) if verb is Verb.UPDATE else {}})
    return steps
