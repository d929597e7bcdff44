"""OOM kills: which process the kernel kills when a cgroup or the machine is out of memory, and the order for a plan.

A model for claims about behaviour, with the kernel's own arithmetic: whole pages, signed. Of the processes below what
ran out, the one with the highest badness is chosen:

    badness = resident + swapped + page tables + oom_score_adj * (total / 1000)        all in pages

total is the amount below the limit that ran out: its memory.max, and as much swap as its memory.swap.max lets it
have of the machine's. So oom_score_adj weighs a process by thousandths of what ran out, not of the machine. A process
of -1000 is never chosen. With memory.oom.group in the victim's cgroup, or in one above it up to the one that ran out,
all processes below the highest such cgroup go with it, but for those of -1000; kubelets set it for containers alone.

Source: mm/oom_kill.c `oom_badness` (since Linux 5.9 without rounding to thousandths), `oom_evaluate_task`;
mm/memcontrol.c `mem_cgroup_get_max`, `mem_cgroup_get_oom_group`. A task that is dying already, and one that is marked
as the origin of the shortage (swapoff), are left out.

Of a plan, each container counts as one process that uses all of what the container uses
and is none of the kernel's own; its page tables, below 0.2 % of that, are left out. Sandboxes are too: a pause program
is small, and has -998.
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
    """What there is below a limit, in pages.

    limit, swap_limit: memory.max and memory.swap.max of the cgroup that ran out; both MAX for the machine itself.
    memory, swap: what the machine has, in bytes.
    """
    most = memory if limit is MAX else limit.count
    more = swap if swap_limit is MAX else min(swap_limit.count, swap)
    return most // page_size + more // page_size


def badness(pages: int, oom_score_adj: int, *, total: int) -> int:
    """How likely a victim a process is where `total` pages ran out: the one with the most is killed.

    pages: resident, swapped out and of page tables together. oom_score_adj: -999 to 1000.
    """
    return pages + oom_score_adj * (total // _THOUSANDTHS)


MACHINE = Subject.of_machine("the machine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """One container. usage: in bytes; use: how that is known. badness: in pages.

    group: all of its processes are killed together (memory.oom.group). group_unknown: why that is not known, else "".
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
    """What runs out, "the machine" or a cgroup with a memory.max, and the containers in it, the first victim first.

    total: its amount, in bytes of memory and swap together. left_out: containers in sandboxes, of which it is
    not known where in that order they are: what is killed is the sandbox.
    """

    subject: Subject
    total: int
    victims: tuple[Victim, ...]
    left_out: tuple[Unanswered, ...] = ()


def shortages(plan: Plan, kubelet: Kubelet, usage: ContainerUsage | None = None) -> tuple[Shortage, ...]:
    """The machine, and every limit of this kubelet's plan with two running containers or more below it, from above.

    What a container uses that `usage` does not name is assumed, see `use_of`. KeyError names a container of `usage`
    that the plan does not have.
    """
    running = tuple(_running(plan, kubelet, known_usage(plan, usage)))
    found = [_shortage(domain, kubelet, running) for domain in _domains(plan)]
    return tuple(one for one in found if one.subject == MACHINE or len(one.victims) + len(one.left_out) > 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Domain:
    """What can run out: the machine as the root, or a cgroup with a limit."""

    subject: Subject
    path: CgroupPath
    limit: Bytes | Max = MAX
    swap_limit: Bytes | Max = MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """One container that runs; pod: its pod's cgroup. sandbox: why its cgroup does not hold its processes, else ""."""

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
    """What the file shows; no limit where it is not planned."""
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
    """As JSON: what runs out, its total in bytes, and its containers, the first victim first; badness in pages."""
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
    """For people: of each thing that can run out the containers in the order in which they are killed."""
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
