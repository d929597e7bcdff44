"""Effective protection of a planned tree: how much of each memory.min and memory.low counts, for given use of memory.

The plan says what each cgroup asks for; how much of that counts depends on what its ancestors have and on what it and
its siblings use (`engine.protection`). Use that nobody gave is assumed, and each answer says which it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from memqos.engine.answer.verdict import subject
from memqos.engine.cgroup.protection import Effective, Protected, effective
from memqos.engine.cgroup.unanswered import in_sandbox, why_unanswered
from memqos.engine.cgroup.usage import ContainerUsage, known_usage, use_of
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan, PlannedCgroup, PlannedContainer, PlannedPod
from memqos.engine.translate.container import translate
from memqos.model.knob import MAX, Bytes, Knob, Max
from memqos.model.path import ROOT, CgroupPath

__all__ = ["Sheltered", "shelter", "shelter_document", "shelter_text"]

_ZERO = Bytes(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheltered:
    """One cgroup: what it asks for, and what counts of it.

    path: a container's ends in its name, since only the runtime knows the real one. use: where the usage came from:
    "given", "assumed: …", or "sum of what is below". recursive, plain: with and without memory_recursiveprot, under
    the node's own shortage of memory. crowded: under kubepods' own limit, where reclaim begins at kubepods; None for
    kubepods itself. limited: under its pod's own limit, where reclaim begins at the pod; None above containers. Both
    are with memory_recursiveprot unless `shelter` was told otherwise, and None where there are no such cgroups
    (cgroupsPerQOS off). cache_kills: whether a container's page cache alone can have it OOM-killed, since at its pod's
    limit all that it may use is protected and none of it is reclaimed (kubernetes#137880).
    not_modelled: why there is no answer for a container: its numbers then take its files as the kernel's defaults.
    unsure: what the numbers of another cgroup take for granted that is not modelled. Both "" where all is modelled.
    """

    subject: str
    path: CgroupPath
    use: str
    asked: Protected
    recursive: Effective
    plain: Effective
    crowded: Effective | None
    limited: Effective | None
    cache_kills: bool = False
    not_modelled: str = ""
    unsure: str = ""


def shelter(
    plan: Plan, kubelet: Kubelet, usage: ContainerUsage | None = None, *, recursive: bool = True
) -> tuple[Sheltered, ...]:
    """Every cgroup of this kubelet's plan from kubepods down, parents first.

    recursive: whether memory_recursiveprot counts in `crowded` and `limited`.
    A container that `usage` does not name is assumed to use all of its memory.max, without one its memory.min or
    memory.low, else nothing; an init container has ended and uses nothing. Where crun keeps a container in a cgroup
    below its scope, the scope is in between. KeyError names a container of
    `usage` that the plan does not have.
    """
    given = known_usage(plan, usage)
    rows = list(_rows(plan, given, kubelet))
    page_size = kubelet.node.page_size
    tree = _summed(rows)
    pods = {pod.cgroup.path for pod in plan.pods} - {plan.node.path}
    with_mount, without = (effective(tree, recursive=on, page_size=page_size) for on in (True, False))

    def below(root: CgroupPath) -> Mapping[CgroupPath, Effective]:
        return effective(tree, root=root, recursive=recursive, page_size=page_size)

    crowded = {} if plan.node.path == ROOT else below(plan.node.path)
    inside = {pod: below(pod) for pod in pods}
    tight = {pod.cgroup.path for pod in plan.pods if _is_tight(pod)}

    def in_pod(row: _Row) -> tuple[CgroupPath, Effective] | tuple[None, None]:
        return next(((pod, inside[pod][row.path]) for pod in row.path.ancestors if pod in pods), (None, None))

    return tuple(
        Sheltered(
            subject=row.subject,
            path=row.path,
            use=row.use or "sum of what is below",
            asked=tree[row.path],
            recursive=with_mount[row.path],
            plain=without[row.path],
            crowded=crowded.get(row.path),
            limited=limited,
            cache_kills=pod in tight and limited is not None and bool(row.limit) and limited.min == Bytes(row.limit),
            not_modelled=row.not_modelled,
            unsure=row.unsure,
        )
        for row in rows
        if row.subject
        for pod, limited in [in_pod(row)]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A cgroup of the tree; use "" is a cgroup that uses what those below it do, subject "" one that is only a step.

    limit: a container's memory.max, 0 without one. not_modelled, unsure: as in `Sheltered`.
    """

    subject: str
    path: CgroupPath
    min: Bytes | Max
    low: Bytes | Max
    usage: int = 0
    use: str = ""
    limit: int = 0
    not_modelled: str = ""
    unsure: str = ""


def _is_tight(pod: PlannedPod) -> bool:
    """Whether a pod's memory.max is reached no later than those of all its containers together."""
    limit = _limit(pod.cgroup)
    return 0 < limit <= sum(_limit(one.cgroup) for one in pod.containers)


def _limit(cgroup: PlannedCgroup) -> int:
    asked = _asked(cgroup, Knob.MEMORY_MAX)
    return asked.count if isinstance(asked, Bytes) else 0


def _rows(plan: Plan, given: ContainerUsage, kubelet: Kubelet) -> Iterator[_Row]:
    above = [plan.node, *plan.qos, *(pod.cgroup for pod in plan.pods)]
    for path in sorted({path for cgroup in above for path in cgroup.path.ancestors} - {one.path for one in above}):
        # A cgroupRoot of its own is not planned: it asks for nothing.
        yield _Row(subject="", path=path, min=_ZERO, low=_ZERO)
    for cgroup in (plan.node, *plan.qos):
        if cgroup.path != ROOT:
            yield _row(cgroup, subject(cgroup))
    for pod in plan.pods:
        sandbox = in_sandbox(pod.runtimes or kubelet.runtimes)
        if pod.cgroup.path != plan.node.path:
            yield _row(pod.cgroup, subject(pod.cgroup, pod), unsure=_SANDBOX_USES if sandbox else "")
        left_out = {one.name: why_unanswered(one, sandbox, _CLAIMS) for one in pod.containers}
        for one in pod.containers:
            others = [name for name, why in left_out.items() if why]
            unsure = f"taken as if {' and '.join(others)} of its pod claimed nothing, which is not modelled"
            own = left_out[one.name]
            yield from _container_rows(one, pod, given, kubelet, not_modelled=own, unsure=unsure if others else "")


_CLAIMS = (Knob.MEMORY_MIN, Knob.MEMORY_LOW)
_SANDBOX_USES = "what the sandbox itself uses comes on top of what its containers use, and is not modelled"


def _row(cgroup: PlannedCgroup, name: str, *, unsure: str = "") -> _Row:
    least, low = _asked(cgroup, Knob.MEMORY_MIN), _asked(cgroup, Knob.MEMORY_LOW)
    return _Row(subject=name, path=cgroup.path, min=least, low=low, unsure=unsure)


def _container_rows(
    one: PlannedContainer,
    pod: PlannedPod,
    given: ContainerUsage,
    kubelet: Kubelet,
    *,
    not_modelled: str,
    unsure: str,
) -> Iterator[_Row]:
    cgroup = one.cgroup
    path = cgroup.path.child(one.name)
    name = subject(cgroup, pod)
    if one.refusal:
        return
    translation = translate(one.carried_out, pod.runtimes or kubelet.runtimes, kubelet.host)
    if translation.writes.subgroup:
        scope = {held.name: held.shows for held in translation.scope}
        low, least = (_read(scope.get(knob, "0")) for knob in (Knob.MEMORY_LOW, Knob.MEMORY_MIN))
        yield _Row(subject=f"scope of {name}", path=path, min=least, low=low)
        path = path.child(translation.writes.subgroup)
    usage, use = use_of(one, given.get((pod.uid, one.name)))
    own_min, own_low = _asked(cgroup, Knob.MEMORY_MIN), _asked(cgroup, Knob.MEMORY_LOW)
    limit = _limit(cgroup)
    yield _Row(
        subject=name,
        path=path,
        min=own_min,
        low=own_low,
        usage=usage,
        use=use,
        limit=limit,
        not_modelled=not_modelled,
        unsure="" if not_modelled else unsure,
    )


def _asked(cgroup: PlannedCgroup, knob: Knob) -> Bytes | Max:
    """What the file shows; nothing where it is not planned."""
    expected = cgroup.knobs.get(knob)
    return expected.value if expected is not None and isinstance(expected.value, (Bytes, Max)) else _ZERO


def _read(text: str) -> Bytes | Max:
    return MAX if text == "max" else Bytes(int(text))


def _summed(rows: list[_Row]) -> dict[CgroupPath, Protected]:
    """The tree with every cgroup's use: its containers' together."""
    usage: dict[CgroupPath, int] = defaultdict(int)
    for row in rows:
        for path in (row.path, *row.path.ancestors):
            usage[path] += row.usage
    return {row.path: Protected(usage=usage[row.path], min=row.min, low=row.low) for row in rows}


def shelter_document(found: tuple[Sheltered, ...]) -> list[dict[str, Any]]:
    """As JSON: per cgroup subject, path, usage, use, asked, and what counts: recursive, plain, crowded, limited.

    One that is not modelled has subject, path and not_modelled alone.
    """

    def counts(one: Effective | None) -> dict[str, str] | None:
        return None if one is None else {"min": str(one.min), "low": str(one.low), "shelter": one.shelter.value}

    def row(one: Sheltered) -> dict[str, Any]:
        if one.not_modelled:
            return {"subject": one.subject, "path": str(one.path), "not_modelled": one.not_modelled}
        return {
            "subject": one.subject,
            "path": str(one.path),
            "usage": one.asked.usage,
            "use": one.use,
            "asked": {"min": str(one.asked.min), "low": str(one.asked.low)},
            "recursive": counts(one.recursive),
            "plain": counts(one.plain),
            "crowded": counts(one.crowded),
            "limited": counts(one.limited),
            "cacheKills": one.cache_kills,
            **({"unsure": one.unsure} if one.unsure else {}),
        }

    return list(map(row, found))


def shelter_text(found: tuple[Sheltered, ...]) -> str:
    """For people: each cgroup with its use, and for memory.min and memory.low what is asked for and what counts."""
    lines = [
        "Effective protection: what counts of memory.min and memory.low when the node runs short of memory, cgroup2",
        "mounted with memory_recursiveprot (as systemd does) and without; and under kubepods' or the pod's limit.",
    ]
    for one in found:
        if one.not_modelled:
            lines += ["", one.subject, f"  not modelled: {one.not_modelled}"]
            continue
        lines += ["", one.subject, f"  uses {one.asked.usage} ({one.use})"]
        for knob, pick in ((Knob.MEMORY_MIN, 0), (Knob.MEMORY_LOW, 1)):
            asked, recursive, plain = ((side.min, side.low)[pick] for side in (one.asked, one.recursive, one.plain))
            text = f"  {knob} {asked}: {recursive} counts"
            if plain != recursive:
                text += f", {plain} without memory_recursiveprot"
            crowded = recursive if one.crowded is None else (one.crowded.min, one.crowded.low)[pick]
            if crowded != recursive:
                text += f", {crowded} under kubepods' limit"
            if one.limited is not None:
                text += f", {(one.limited.min, one.limited.low)[pick]} under the pod's limit"
            lines.append(text)
        lines.append(f"  reclaim: {_FATES[one.recursive.shelter.value]}")
        if one.unsure:
            lines.append(f"  not certain: {one.unsure}")
        if one.cache_kills:
            lines += [
                "  warning: memory.min equals memory.max, so at the pod's limit none of its page cache is reclaimed:",
                "           a program that reads or writes files can be OOM-killed for it (kubernetes#137880)",
            ]
    return "\n".join(lines)


_FATES = {
    "hard": "skips it: memory.min covers all it uses",
    "soft": "skips it until nothing unprotected is left: memory.low covers all it uses",
    "partial": "takes what it uses beyond its protection",
    "none": "takes from it as from any other",
}
