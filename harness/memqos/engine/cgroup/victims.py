"""OOM kills: the process that the kernel kills when a cgroup or the machine is out of memory, and a plan's order.

A model for claims about behaviour, with the kernel's own arithmetic: whole pages, signed. Among the processes below the
cgroup (or machine) that ran out, the kernel chooses the one with the highest badness:

    badness = resident + swapped + page tables + oom_score_adj * (total / 1000)        all in pages

total is the amount below the limit that ran out: its memory.max, plus the machine's swap up to its memory.swap.max. So
oom_score_adj counts in thousandths of that amount, not of the machine. A process of -1000 is never chosen. If
memory.oom.group is set in the victim's cgroup, or in an ancestor up to the one that ran out, all processes below the
highest such cgroup are killed too, except those of -1000; kubelets set it for containers only.

Source: mm/oom_kill.c `oom_badness` (since Linux 5.9 without rounding to thousandths), `oom_evaluate_task`;
mm/memcontrol.c `mem_cgroup_get_max`, `mem_cgroup_get_oom_group`. The model leaves out tasks that are already dying, and
the marked origin of a shortage (swapoff).

In a plan, each container counts as one process with all of the container's usage. Left out are its page tables, below
0.2 % of that, and sandboxes: a pause program is small, and has -998.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from memqos.engine.answer.finding import Subject, subject_of
from memqos.engine.cgroup.usage import (
    ContainerUsage,
    Unanswered,
    in_sandbox,
    knobs_unmodelled,
    known_usage,
    unanswered_document,
    unanswered_text,
    use_of,
)
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan, PlannedCgroup
from memqos.model.knob import MAX, Bytes, Knob, Max, Number
from memqos.model.path import ROOT, CgroupPath
from memqos.model.pod import ContainerKind

__all__ = [
    "MACHINE",
    "Shortage",
    "Victim",
    "badness",
    "shortages",
    "shortages_document",
    "shortages_text",
    "total_pages",
]

_THOUSANDTHS = 1000


def total_pages(limit: Bytes | Max, swap_limit: Bytes | Max, *, memory: int, swap: int, page_size: int = 4096) -> int:
    """The memory and swap below a limit, in pages.

    limit, swap_limit: memory.max and memory.swap.max of the cgroup that ran out; both MAX for the machine itself.
    memory, swap: the machine's, in bytes.
    """
    most = memory if limit is MAX else limit.count
    more = swap if swap_limit is MAX else min(swap_limit.count, swap)
    return most // page_size + more // page_size


def badness(pages: int, oom_score_adj: int, *, total: int) -> int:
    """The badness of a process when `total` pages ran out: the highest is killed.

    pages: the sum of resident, swapped and page table pages. oom_score_adj: -999 to 1000.
    """
    return pages + oom_score_adj * (total // _THOUSANDTHS)


MACHINE = Subject.of_machine("the machine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """One container. usage: in bytes; use: its source. badness: in pages.

    group: all of its processes are killed together (memory.oom.group). group_unknown: why that is unknown, else "".
    """

    subject: Subject
    usage: int
    use: str
    oom_score_adj: int
    badness: int
    group: bool
    group_unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A limit that can run out, "the machine" or a cgroup with a memory.max, and its containers in kill order.

    total: its amount, in bytes of memory and swap together. left_out: containers in sandboxes: a kill takes the
    sandbox, and its place in the order is unknown.
    """

    subject: Subject
    total: int
    victims: tuple[Victim, ...]
    left_out: tuple[Unanswered, ...] = ()


def shortages(plan: Plan, kubelet: Kubelet, usage: ContainerUsage | None = None) -> tuple[Shortage, ...]:
    """The machine, and every limit of this kubelet's plan with two or more running containers below it, top down.

    For a container without an entry in `usage`, usage is assumed, see `use_of`. KeyError names a container of `usage`
    that the plan does not have.
    """
    running = tuple(_running(plan, kubelet, known_usage(plan, usage)))
    found = [_shortage(domain, kubelet, running) for domain in _domains(plan)]
    return tuple(one for one in found if one.subject == MACHINE or len(one.victims) + len(one.left_out) > 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Domain:
    """The machine (as the root) or a cgroup with a limit, which can run out of memory."""

    subject: Subject
    path: CgroupPath
    limit: Bytes | Max = MAX
    swap_limit: Bytes | Max = MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """A running container; pod: its pod's cgroup. sandbox: why its cgroup does not hold its processes, else ""."""

    subject: Subject
    pod: CgroupPath
    usage: int
    use: str
    oom_score_adj: int
    group: bool
    group_unknown: str
    sandbox: str


def _domains(plan: Plan) -> Iterator[_Domain]:
    yield _Domain(subject=MACHINE, path=ROOT)
    above = [(cgroup, subject_of(cgroup)) for cgroup in (plan.node, *plan.qos)]
    pods = [(pod.cgroup, subject_of(pod.cgroup, pod)) for pod in plan.pods]
    for cgroup, name in (*above, *pods):
        limit = _amount(cgroup, Knob.MEMORY_MAX)
        if cgroup.path != ROOT and isinstance(limit, Bytes):
            swap = _amount(cgroup, Knob.MEMORY_SWAP_MAX)
            yield _Domain(subject=name, path=cgroup.path, limit=limit, swap_limit=swap)


def _amount(cgroup: PlannedCgroup, knob: Knob) -> Bytes | Max:
    """The file's amount; no limit where it is not planned."""
    expected = cgroup.knobs.get(knob)
    return expected.value if expected is not None and isinstance(expected.value, Bytes) else MAX


def _running(plan: Plan, kubelet: Kubelet, usage: ContainerUsage) -> Iterator[_Running]:
    for pod in plan.pods:
        sandbox = in_sandbox(pod.runtimes or kubelet.runtimes)
        for one in pod.containers:
            if one.refusal or one.kind is ContainerKind.INIT:
                continue
            group = one.cgroup.knobs.get(Knob.MEMORY_OOM_GROUP)
            used, use = use_of(one, usage.get((pod.uid, one.name)))
            yield _Running(
                subject=subject_of(one.cgroup, pod),
                pod=pod.cgroup.path,
                usage=used,
                use=use,
                oom_score_adj=one.oom_score_adj,
                group=group is not None and group.value == Number(1),
                group_unknown=knobs_unmodelled(one.cgroup, (Knob.MEMORY_OOM_GROUP,)),
                sandbox=sandbox,
            )


def _shortage(domain: _Domain, kubelet: Kubelet, running: Sequence[_Running]) -> Shortage:
    node = kubelet.node
    total = total_pages(domain.limit, domain.swap_limit, memory=node.memory, swap=node.swap, page_size=node.page_size)
    inside = [one for one in running if one.pod == domain.path or one.pod.below(domain.path)]
    victims = [
        Victim(
            subject=one.subject,
            usage=one.usage,
            use=one.use,
            oom_score_adj=one.oom_score_adj,
            badness=badness(one.usage // node.page_size, one.oom_score_adj, total=total),
            group=one.group,
            group_unknown=one.group_unknown,
        )
        for one in inside
        if not one.sandbox
    ]
    victims.sort(key=lambda one: -one.badness)
    return Shortage(
        subject=domain.subject,
        total=total * node.page_size,
        victims=tuple(victims),
        left_out=tuple(
            Unanswered(subject=one.subject, path=str(one.pod), why=f"{one.sandbox}; {_ORDER}")
            for one in inside
            if one.sandbox
        ),
    )


_ORDER = "a kill takes the whole sandbox, and its place in this order is not modelled"


def shortages_document(found: tuple[Shortage, ...]) -> list[dict[str, Any]]:
    """As JSON: the limits, their totals in bytes, and their containers in kill order; badness in pages."""
    return [
        {
            "subject": str(one.subject),
            "total": one.total,
            "victims": [
                {
                    "subject": str(each.subject),
                    "usage": each.usage,
                    "use": each.use,
                    "oomScoreAdj": each.oom_score_adj,
                    "badness": each.badness,
                    "group": None if each.group_unknown else each.group,
                    **({"not_modelled": each.group_unknown} if each.group_unknown else {}),
                }
                for each in one.victims
            ],
            **({"left_out": unanswered_document(one.left_out)} if one.left_out else {}),
        }
        for one in found
    ]


def shortages_text(found: tuple[Shortage, ...]) -> str:
    """As text: for the machine and each limit, the containers in the order of kills."""
    lines = ["OOM: which containers are killed first, if each is one process with all of its container's usage."]
    for one in found:
        lines += ["", f"{one.subject} runs out of its {one.total} bytes of memory and swap:"]
        for number, each in enumerate(one.victims, 1):
            group = ", with all of its processes" if each.group else ""
            lines.append(f"  {number}. {each.subject}{group}")
            lines.append(f"     uses {each.usage} ({each.use}), oom_score_adj {each.oom_score_adj}")
            lines.append(f"     badness {each.badness} pages")
            if each.group_unknown:
                lines.append(f"     not modelled: {each.group_unknown}")
        lines += (f"  {line}" for line in unanswered_text(one.left_out) if line)
    return "\n".join(lines)
