"""Effective protection in a planned tree, for every cgroup from kubepods down.

It depends on a cgroup's ancestors, its own usage and its siblings' usage. Usage that the caller does not give is
assumed, and each answer says so. `effective_protection` has the kernel's arithmetic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from memqos.engine.answer.finding import Subject, subject_of
from memqos.engine.cgroup.effective_protection import Effective, Protected, effective
from memqos.engine.cgroup.usage import ContainerUsage, in_sandbox, known_usage, use_of, why_unanswered
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan, PlannedCgroup, PlannedContainer, PlannedPod
from memqos.engine.translate.container import translate
from memqos.model.knob import MAX, Bytes, Knob, Max
from memqos.model.path import ROOT, CgroupPath

__all__ = [
    "CgroupProtection",
    "planned_protection",
    "protection_document",
    "protection_text",
]

_ZERO = Bytes(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupProtection:
    """One cgroup: its configured and its effective protection.

    path: a container's ends in its name, since only the runtime knows the real one. use: the source of the usage:
    "given", "assumed: …", or "sum of the cgroups below". recursive, plain: with and without memory_recursiveprot, when
    the node is short of memory. crowded: at kubepods' limit, where reclaim begins at kubepods; None for kubepods
    itself. limited: at its pod's limit, where reclaim begins at the pod; None above containers. crowded and limited are
    with memory_recursiveprot unless `planned_protection` was called with recursive False, and None without such cgroups
    (cgroupsPerQOS off). cache_kills: whether page cache alone can get a container OOM-killed, since all its usage is
    protected at its pod's limit and none of it is reclaimed (kubernetes#137880). not_modelled: why there is no answer
    for a container; its numbers then assume the kernel's defaults. unsure: what the numbers of another cgroup assume
    without a model. Both are "" if all is modelled.
    """

    subject: Subject
    path: CgroupPath
    use: str
    configured: Protected
    recursive: Effective
    plain: Effective
    crowded: Effective | None
    limited: Effective | None
    cache_kills: bool = False
    not_modelled: str = ""
    unsure: str = ""


def planned_protection(
    plan: Plan, kubelet: Kubelet, usage: ContainerUsage | None = None, *, recursive: bool = True
) -> tuple[CgroupProtection, ...]:
    """Every cgroup of this kubelet's plan from kubepods down, parents first.

    recursive: whether `crowded` and `limited` assume memory_recursiveprot.
    A container without an entry in `usage` is assumed to use all of its memory.max, else of its memory.min or
    memory.low, else nothing; an init container has ended and uses nothing. If crun keeps a container in a cgroup below
    its scope, the tree has the scope too. KeyError names a container of
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
        CgroupProtection(
            subject=row.subject,
            path=row.path,
            use=row.use or "sum of the cgroups below",
            configured=tree[row.path],
            recursive=with_mount[row.path],
            plain=without[row.path],
            crowded=crowded.get(row.path),
            limited=limited,
            cache_kills=pod in tight and limited is not None and bool(row.limit) and limited.min == Bytes(row.limit),
            not_modelled=row.not_modelled,
            unsure=row.unsure,
        )
        for row in rows
        if row.subject is not None
        for pod, limited in [in_pod(row)]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A cgroup of the tree. use: "" if its usage is the sum of its children's. subject: None if it is not reported.

    limit: a container's memory.max, 0 without one. not_modelled, unsure: as in `CgroupProtection`.
    """

    subject: Subject | None
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
    configured = _asked(cgroup, Knob.MEMORY_MAX)
    return configured.count if isinstance(configured, Bytes) else 0


def _rows(plan: Plan, given: ContainerUsage, kubelet: Kubelet) -> Iterator[_Row]:
    above = [plan.node, *plan.qos, *(pod.cgroup for pod in plan.pods)]
    for path in sorted({path for cgroup in above for path in cgroup.path.ancestors} - {one.path for one in above}):
        # A configured cgroupRoot is not planned and has no protection.
        yield _Row(subject=None, path=path, min=_ZERO, low=_ZERO)
    for cgroup in (plan.node, *plan.qos):
        if cgroup.path != ROOT:
            yield _row(cgroup, subject_of(cgroup))
    for pod in plan.pods:
        sandbox = in_sandbox(pod.runtimes or kubelet.runtimes)
        if pod.cgroup.path != plan.node.path:
            yield _row(pod.cgroup, subject_of(pod.cgroup, pod), unsure=_SANDBOX_USES if sandbox else "")
        left_out = {one.name: why_unanswered(one, sandbox, _CLAIMS) for one in pod.containers}
        for one in pod.containers:
            others = [name for name, why in left_out.items() if why]
            unsure = f"computed as if {' and '.join(others)} of its pod claimed nothing, which is not modelled"
            own = left_out[one.name]
            yield from _container_rows(one, pod, given, kubelet, not_modelled=own, unsure=unsure if others else "")


_CLAIMS = (Knob.MEMORY_MIN, Knob.MEMORY_LOW)
_SANDBOX_USES = "the sandbox's own usage comes on top of its containers' usage, and is not modelled"


def _row(cgroup: PlannedCgroup, name: Subject, *, unsure: str = "") -> _Row:
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
    name = subject_of(cgroup, pod)
    if one.refusal:
        return
    translation = translate(one.carried_out, pod.runtimes or kubelet.runtimes, kubelet.host)
    if translation.writes.subgroup:
        scope = {held.name: held.shows for held in translation.scope}
        low, least = (_read(scope.get(knob, "0")) for knob in (Knob.MEMORY_LOW, Knob.MEMORY_MIN))
        yield _Row(subject=name.scope(), path=path, min=least, low=low)
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
    """The file's amount; zero where it is not planned."""
    expected = cgroup.knobs.get(knob)
    return expected.value if expected is not None and isinstance(expected.value, (Bytes, Max)) else _ZERO


def _read(text: str) -> Bytes | Max:
    return MAX if text == "max" else Bytes(int(text))


def _summed(rows: list[_Row]) -> dict[CgroupPath, Protected]:
    """The tree with every cgroup's usage: the sum of its containers'."""
    usage: dict[CgroupPath, int] = defaultdict(int)
    for row in rows:
        for path in (row.path, *row.path.ancestors):
            usage[path] += row.usage
    return {row.path: Protected(usage=usage[row.path], min=row.min, low=row.low) for row in rows}


def protection_document(found: tuple[CgroupProtection, ...]) -> list[dict[str, Any]]:
    """As JSON: per cgroup subject, path, usage, use, configured, and the effective recursive, plain, crowded, limited.

    A cgroup that is not modelled has only subject, path and not_modelled.
    """

    def counts(one: Effective | None) -> dict[str, str] | None:
        return None if one is None else {"min": str(one.min), "low": str(one.low), "protection": one.protection.value}

    def row(one: CgroupProtection) -> dict[str, Any]:
        if one.not_modelled:
            return {"subject": str(one.subject), "path": str(one.path), "not_modelled": one.not_modelled}
        return {
            "subject": str(one.subject),
            "path": str(one.path),
            "usage": one.configured.usage,
            "use": one.use,
            "configured": {"min": str(one.configured.min), "low": str(one.configured.low)},
            "recursive": counts(one.recursive),
            "plain": counts(one.plain),
            "crowded": counts(one.crowded),
            "limited": counts(one.limited),
            "cacheKills": one.cache_kills,
            **({"unsure": one.unsure} if one.unsure else {}),
        }

    return list(map(row, found))


def protection_text(found: tuple[CgroupProtection, ...]) -> str:
    """As text: each cgroup with its usage, and the configured and the effective memory.min and memory.low."""
    lines = [
        "Effective protection: memory.min and memory.low when the node runs short of memory, with cgroup2 mounted",
        "with memory_recursiveprot (as systemd does) and without, and at the limits of kubepods and of the pod.",
    ]
    for one in found:
        if one.not_modelled:
            lines += ["", str(one.subject), f"  not modelled: {one.not_modelled}"]
            continue
        lines += ["", str(one.subject), f"  uses {one.configured.usage} ({one.use})"]
        for knob, pick in ((Knob.MEMORY_MIN, 0), (Knob.MEMORY_LOW, 1)):
            configured, recursive, plain = (
                (side.min, side.low)[pick] for side in (one.configured, one.recursive, one.plain)
            )
            text = f"  {knob} {configured}: {recursive} effective"
            if plain != recursive:
                text += f", {plain} without memory_recursiveprot"
            crowded = recursive if one.crowded is None else (one.crowded.min, one.crowded.low)[pick]
            if crowded != recursive:
                text += f", {crowded} at kubepods' limit"
            if one.limited is not None:
                text += f", {(one.limited.min, one.limited.low)[pick]} at the pod's limit"
            lines.append(text)
        lines.append(f"  reclaim: {_FATES[one.recursive.protection.value]}")
        if one.unsure:
            lines.append(f"  not certain: {one.unsure}")
        if one.cache_kills:
            lines += [
                "  warning: memory.min equals memory.max, so at the pod's limit none of its page cache is reclaimed:",
                "           a program that reads or writes files can be OOM-killed for it (kubernetes#137880)",
            ]
    return "\n".join(lines)


_FATES = {
    "hard": "skips it: memory.min covers all of its usage",
    "soft": "skips it until no unprotected memory is left: memory.low covers all of its usage",
    "partial": "takes its usage above the protection",
    "none": "treats it as unprotected",
}
