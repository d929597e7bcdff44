"""The current effect of memory QoS on a node, computed from recorded files and counters as the kernel computes it.

Gives no verdicts. Effective protection comes from `engine.cgroup.protection`; the order of OOM kills comes from
`engine.cgroup.victims`, with each container as one process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from memqos.audits.answer import Audit
from memqos.catalog.recorded_contents import foreign_writers
from memqos.engine.answer.finding import Subject, Verdict
from memqos.engine.cgroup.effective_protection import Effective, Protected, effective
from memqos.engine.cgroup.throttle import DEFAULT_HZ, sleeps_from, stalls_from
from memqos.engine.cgroup.victims import badness, total_pages
from memqos.model.knob import MAX, Bytes, Knob, Max
from memqos.model.path import ROOT, CgroupPath
from memqos.model.reading import CgroupReading

__all__ = [
    "Force",
    "InForce",
    "KillCandidate",
    "NodeState",
    "Stall",
    "SwapShare",
    "Threshold",
    "Worth",
    "in_force",
    "least_free",
    "node_state",
]

QOS_FILES = frozenset({Knob.MEMORY_MIN.value, Knob.MEMORY_LOW.value, Knob.MEMORY_HIGH.value})
_NOTHING = frozenset({"0", "max", ""})
FULL_THROTTLED, FULL_LIVELOCK = 5.0, 10.0
"""Percent of full avg10: KEP-2570 takes a container above the first for throttled, above the second for a livelock."""
FAULTS_A_SECOND = 10.0
_STILL = 0.02
"""Anonymous memory that grew by less than this fraction counts as constant."""


class Force(StrEnum):
    """Whether memory QoS is in force on a node."""

    IN_FORCE = "in force"
    PARTLY = "partly in force"
    NOT_IN_FORCE = "not in force"
    INERT = "on, but inert"
    OFF = "off"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """on: the gate MemoryQoS. holds, lacks: files of memory QoS with their expected value, and with another one."""

    on: bool
    force: Force
    why: str
    policy: str
    factor: str
    holds: int
    lacks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """The effective protection of a cgroup when the node runs short of memory."""

    subject: Subject
    cgroup: str
    configured: Protected
    counts: Effective


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A container's throttling threshold. own: its memory.high. high: the least of it and its ancestors'. by: whose.

    None: no threshold. sleeps, stalls: bytes from which the kernel makes it sleep, and at which a sleep is longest.
    limit: the least memory.max of it and its ancestors, None for none.
    """

    subject: Subject
    cgroup: str
    uid: str
    usage: int | None
    own: int | None
    high: int | None
    by: str
    sleeps: int | None
    stalls: int | None
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A cgroup that makes little progress now. kind: "is throttled", "thrashes", "stalls". evidence: the numbers."""

    subject: Subject
    cgroup: str
    kind: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapShare:
    """Swap of a container, in bytes. limit: None for no limit."""

    subject: Subject
    limit: int | None
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KillCandidate:
    """A process, or a container as one, in the kernel's order of OOM kills.

    daemon: whether it is outside pods. assumed: the source of its bytes if memory.stat was not read, else "".
    """

    name: str
    bytes: int
    oom_score_adj: int
    badness: int
    daemon: bool
    assumed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """The state of a node. recursive: whether cgroup2 has memory_recursiveprot; None, if unread, counts as true.

    left_out: cgroups whose usage could not be read. killers: userspace OOM killers, with the evidence.
    """

    in_force: InForce
    recursive: bool | None
    worth: tuple[Worth, ...]
    thresholds: tuple[Threshold, ...]
    stalls: tuple[Stall, ...]
    swap_total: int
    swap: tuple[SwapShare, ...]
    numa: Mapping[str, int]
    bound: Mapping[str, str]
    kills: tuple[KillCandidate, ...]
    killers: tuple[str, ...]
    left_out: int


def node_state(audit: Audit) -> NodeState:
    """The state of an audited node."""
    there = _Observed(audit)
    options = audit.question.tree.machine.cgroup_mount.options
    recursive = "memory_recursiveprot" in options.split(",") if options else None
    worth, left_out = _worth(there, recursive=recursive is not False)
    node = audit.question.kubelet.node
    return NodeState(
        in_force=in_force(audit),
        recursive=recursive,
        worth=worth,
        thresholds=tuple(_thresholds(there)),
        stalls=tuple(_stalls(there)),
        swap_total=node.swap,
        swap=tuple(_swap(there)),
        numa={f"node{numa.id}": numa.memory for numa in node.numa_nodes},
        bound={str(subject): mems for subject, mems in _bound(there)},
        kills=tuple(sorted(_kills(there), key=lambda one: (-one.badness, one.name))),
        killers=tuple(_killers(audit)),
        left_out=left_out,
    )


class _Observed:
    """The planned cgroups of an audit with their recorded paths."""

    def __init__(self, audit: Audit) -> None:
        self.audit = audit
        self.tree = audit.question.tree
        self.page_size = audit.question.kubelet.node.page_size
        self.cgroups: Mapping[CgroupPath, CgroupReading] = self.tree.reading.cgroups
        plan = audit.plan
        self.subjects: dict[CgroupPath, Subject] = {}
        self.containers: dict[CgroupPath, tuple[Subject, str]] = {}
        for above in (plan.node, *plan.qos):
            self.subjects[above.path] = Subject(level=above.level, name=above.path.name or "root")
        for pod in plan.pods:
            self.subjects[pod.cgroup.path] = Subject.of_pod(pod.namespace, pod.name)
            for one in pod.containers:
                id_ = audit.ids.get((pod.uid, one.name))
                if id_ is None:
                    continue
                path = plan.layout_of(pod).found(pod.cgroup.path, id_, self.cgroups)
                if path in self.cgroups:
                    subject = Subject.of_container(one.name, f"{pod.namespace}/{pod.name}")
                    self.subjects[path] = subject
                    self.containers[path] = (subject, pod.uid)

    def text(self, path: CgroupPath, name: str) -> str | None:
        """A file's text; None if it was not read."""
        text = self.tree.reading.file(path, name)
        return text if isinstance(text, str) else None

    def later(self, path: CgroupPath, name: str) -> str | None:
        """The file's text at the second look."""
        return self.tree.second_look.counters.get(str(path), {}).get(name, self.text(path, name))

    def amount(self, path: CgroupPath, name: str) -> Bytes | Max | None:
        """Bytes or no limit; None for any other text and for an unread file."""
        text = (self.text(path, name) or "").strip()
        if text == "max":
            return MAX
        return Bytes(int(text)) if text.isascii() and text.isdigit() and len(text) <= 20 else None  # noqa: PLR2004

    def bytes(self, path: CgroupPath, name: str) -> int | None:
        """Bytes; None for no limit, for any other text and for an unread file."""
        found = self.amount(path, name)
        return found.count if isinstance(found, Bytes) else None


def in_force(audit: Audit) -> InForce:
    """Whether memory QoS is in force on the node, by the findings about its files."""
    kubelet = audit.question.kubelet
    holds = lacks = unseen = 0
    for one in audit.findings:
        if one.knob in QOS_FILES and one.expected not in _NOTHING:
            holds += one.verdict is Verdict.CONFORMS
            lacks += one.verdict in {Verdict.DEVIATES, Verdict.KNOWN}
            unseen += one.verdict is Verdict.NOT_OBSERVABLE
    policy, factor = str(kubelet.policy), kubelet.factor_text if kubelet.factor is not None else ""
    force, why = Force.UNKNOWN, "no file of memory QoS could be observed"
    if audit.question.unknown:
        why = audit.question.unknown
    elif not kubelet.v2:
        force, why = Force.OFF, "the node has no cgroup v2"
    elif not kubelet.memory_qos:
        force, why = Force.OFF, "the feature gate MemoryQoS is off"
    elif not holds + lacks + unseen:
        nothing = not factor and policy == "None"
        why = "neither memoryThrottlingFactor nor memoryReservationPolicy is set" if nothing else "no pod qualifies"
        force = Force.INERT
    elif holds and not lacks:
        force, why = Force.IN_FORCE, f"{holds} files have the values of memory QoS"
    elif holds:
        force, why = Force.PARTLY, f"{holds} files have the values of memory QoS, {lacks} do not"
    elif lacks:
        force, why = Force.NOT_IN_FORCE, f"none of {lacks} files has the value of memory QoS"
    return InForce(on=kubelet.memory_qos, force=force, why=why, policy=policy, factor=factor, holds=holds, lacks=lacks)


def _worth(there: _Observed, *, recursive: bool) -> tuple[tuple[Worth, ...], int]:
    """Effective protection when the node runs short of memory, and the number of omitted cgroups."""
    tree: dict[CgroupPath, Protected] = {}
    left_out = 0
    for path in sorted(there.cgroups):
        if path == ROOT:
            continue
        usage = there.bytes(path, "memory.current")
        if usage is None or (path.parent != ROOT and path.parent not in tree):
            left_out += path in there.subjects
            continue
        least = there.amount(path, Knob.MEMORY_MIN)
        low = there.amount(path, Knob.MEMORY_LOW)
        tree[path] = Protected(
            usage=usage,
            min=Bytes(0) if least is None else least,
            low=Bytes(0) if low is None else low,
        )
    found = effective(tree, recursive=recursive, page_size=there.page_size)
    rows = (
        Worth(subject=subject, cgroup=str(path), configured=tree[path], counts=found[path])
        for path, subject in there.subjects.items()
        if path in found
    )
    return tuple(rows), left_out


def _least(there: _Observed, path: CgroupPath, name: str) -> tuple[int | None, str]:
    """The least amount of a cgroup and its ancestors, with its cgroup; None for no limit."""
    found = [(amount, str(one)) for one in (path, *path.ancestors) if (amount := there.bytes(one, name)) is not None]
    return min(found, default=(None, ""), key=lambda one: -1 if one[0] is None else one[0])


def _thresholds(there: _Observed) -> Iterator[Threshold]:
    for path, (subject, uid) in there.containers.items():
        high, by = _least(there, path, Knob.MEMORY_HIGH)
        yield Threshold(
            subject=subject,
            cgroup=str(path),
            uid=uid,
            usage=there.bytes(path, "memory.current"),
            own=there.bytes(path, Knob.MEMORY_HIGH),
            high=high,
            by=by,
            sleeps=None if high is None else sleeps_from(Bytes(high), hz=DEFAULT_HZ, page_size=there.page_size),
            stalls=None if high is None else stalls_from(Bytes(high), hz=DEFAULT_HZ, page_size=there.page_size),
            limit=_least(there, path, Knob.MEMORY_MAX)[0],
        )


def counters(text: str | None) -> dict[str, int]:
    """The lines "name number" of a file."""
    return {name: int(number) for name, number in re.findall(r"(?m)^(\w+) (\d{1,20})$", text or "", re.ASCII)}


def _stalls(there: _Observed) -> Iterator[Stall]:
    seconds = there.tree.second_look.after_seconds
    for path, subject in there.subjects.items():
        usage, high = there.bytes(path, "memory.current"), there.bytes(path, Knob.MEMORY_HIGH)
        rose = _rise(there, path, "memory.events", "high")
        if usage is not None and high is not None and usage > high:
            more = f"; {rose} more events `high` in {seconds:.1f} s" if rose else ""
            yield Stall(
                subject=subject,
                cgroup=str(path),
                kind="is throttled",
                evidence=f"it uses {usage} bytes, {usage - high} above its memory.high{more}",
            )
        yield from _thrashing(there, path, subject, seconds)
        match = re.search(r"(?m)^full avg10=(\d+\.\d+) ", there.text(path, "memory.pressure") or "", re.ASCII)
        if match and float(match[1]) > FULL_THROTTLED:
            more = " (KEP-2570: a livelock, if it lasts)" if float(match[1]) > FULL_LIVELOCK else ""
            yield Stall(
                subject=subject,
                cgroup=str(path),
                kind="stalls",
                evidence=f"all its tasks waited for memory {match[1]} % of the last 10 s{more}",
            )


def _thrashing(there: _Observed, path: CgroupPath, subject: Subject, seconds: float) -> Iterator[Stall]:
    """Thrashing: major faults rise while anonymous memory is constant, so file pages are evicted and read again."""
    before, after = (counters(text(path, "memory.stat")) for text in (there.text, there.later))
    if not seconds or "anon" not in before or "anon" not in after:
        return
    faults = max(0, after.get("pgmajfault", 0) - before.get("pgmajfault", 0)) / seconds
    refaults = max(0, after.get("workingset_refault_file", 0) - before.get("workingset_refault_file", 0)) / seconds
    grew = abs(after["anon"] - before["anon"])
    if faults >= FAULTS_A_SECOND and grew <= _STILL * max(before["anon"], 1 << 20):
        yield Stall(
            subject=subject,
            cgroup=str(path),
            kind="thrashes",
            evidence=f"{faults:.0f} major faults and {refaults:.0f} refaults a second, while anon is constant",
        )


def _rise(there: _Observed, path: CgroupPath, name: str, counter: str) -> int:
    before, after = (counters(text(path, name)).get(counter, 0) for text in (there.text, there.later))
    return max(0, after - before)


def _swap(there: _Observed) -> Iterator[SwapShare]:
    for path, (subject, _) in there.containers.items():
        limit = there.amount(path, Knob.MEMORY_SWAP_MAX)
        used = there.bytes(path, "memory.swap.current") or 0
        if limit is not None and (limit is MAX or limit.count or used):
            yield SwapShare(subject=subject, limit=None if limit is MAX else limit.count, used=used)


def _bound(there: _Observed) -> Iterator[tuple[Subject, str]]:
    for path, (subject, _) in there.containers.items():
        if mems := (there.text(path, Knob.CPUSET_MEMS) or "").strip():
            yield subject, mems


def _kills(there: _Observed) -> Iterator[KillCandidate]:
    node = there.audit.question.kubelet.node
    total = total_pages(MAX, MAX, memory=node.memory, swap=node.swap, page_size=node.page_size)

    def candidate(name: str, size: int, score: int, *, daemon: bool, assumed: str = "") -> KillCandidate:
        weight = badness(size // node.page_size, score, total=total)
        return KillCandidate(name=name, bytes=size, oom_score_adj=score, badness=weight, daemon=daemon, assumed=assumed)

    for path, (subject, _) in there.containers.items():
        score = (there.text(path, "oom_score_adj") or "").strip()
        stat = counters(there.text(path, "memory.stat"))
        held = stat.get("anon", 0) + stat.get("file_mapped", 0)
        current = there.bytes(path, "memory.current")
        if not re.fullmatch(r"-?\d{1,4}", score, re.ASCII) or (current is None and not stat) or int(score) == _NEVER:
            continue
        size = held + (there.bytes(path, "memory.swap.current") or 0) if stat else current or 0
        assumed = "" if stat else "memory.current, page cache included"
        yield candidate(str(subject), size, int(score), daemon=False, assumed=assumed)
    for one in there.tree.daemons:
        if one.oom_score_adj != _NEVER:
            yield candidate(
                f"{one.name} ({one.cgroup or 'no cgroup known'})", one.bytes, one.oom_score_adj, daemon=True
            )


_NEVER = -1000
_KILLERS = ("systemd-oomd", "earlyoom", "nohang", "oomd", "ohmyd")
"""Userspace OOM killers, by process name: https://github.com/rfjakob/earlyoom, hakavlad/nohang."""


def _killers(audit: Audit) -> Iterator[str]:
    tree = audit.question.tree
    named = {one.name: one.cgroup for one in tree.daemons}
    for name in _KILLERS:
        if name in named:
            yield f"{name} runs in {named[name] or 'a cgroup that is not known'}"
    for writer in foreign_writers():
        sign = writer.sign(tree, ()) if writer.kills else ""
        if sign and writer.name not in named:
            yield f"{writer.name}: {writer.kills} ({sign})"


def least_free(thresholds: Iterable[Threshold]) -> tuple[Threshold, ...]:
    """Containers with a threshold, the nearest to it first."""
    known = [one for one in thresholds if one.high is not None and one.usage is not None]
    return tuple(sorted(known, key=lambda one: (one.high or 0) - (one.usage or 0)))
