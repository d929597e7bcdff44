"""The output of `memqos audit --json`. The text below a field describes it in the schema."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

from memqos.engine.releases.release import Variant
from memqos.model.node import CgroupDriver
from memqos.report.documents.bundle import CountByVerdict, Finding
from memqos.report.documents.kinds import Amount, CgroupPath, Count, Format, OomScoreAdj, Release
from memqos.report.documents.plan import Remark

__all__ = [
    "Audit",
    "AuditState",
    "ContainerNow",
    "DriftExample",
    "DriftOfNode",
    "Fleet",
    "FleetCause",
    "FleetNode",
    "HeldUp",
    "KillNow",
    "MemoryQosNow",
    "NodeForce",
    "NodeNow",
    "NumaNow",
    "PodState",
    "ProtectionNow",
    "SupposedChange",
    "SwapNow",
    "SwapOfContainer",
    "WatchEvent",
    "WhatIf",
]

AuditState = Literal["FULFILLED", "DRIFTED", "INSUFFICIENT_EVIDENCE"]
"""The words of kubernetes#141286."""


class PodState(TypedDict):
    """A pod that was searched for."""

    pod: str
    """Namespace and name."""
    state: AuditState


class MemoryQosNow(TypedDict):
    """Whether memory QoS has an effect on the node."""

    on: bool
    """Whether the gate MemoryQoS is on."""
    force: Literal["in force", "partly in force", "not in force", "on, but inert", "off", "unknown"]
    why: str
    policy: str
    factor: str
    """Empty without a memoryThrottlingFactor."""


class ProtectionNow(TypedDict):
    """The effective protection of a cgroup when the node runs short of memory."""

    subject: str
    cgroup: CgroupPath
    usage: Count
    memory_min: Amount
    memory_low: Amount
    effective_min: Amount
    effective_low: Amount
    protected: Count
    """Bytes of the usage that memory.min and memory.low protect."""
    exposed: Count
    """Unprotected bytes of the usage."""


class ContainerNow(TypedDict):
    """A running container, and the usage at which the kernel slows it."""

    pod: str
    container: str
    uid: str
    cgroup: CgroupPath
    usage: Count | None
    memory_high: Count | None
    effective_memory_high: Count | None
    """The least memory.high of the container and the cgroups above it; null for none."""
    effective_by: str
    """The cgroup that has it."""
    sleeps_from: Count | None
    stalls_at: Count | None
    effective_memory_max: Count | None


class HeldUp(TypedDict):
    """A cgroup that is throttled now."""

    subject: str
    cgroup: CgroupPath
    kind: Literal["is throttled", "thrashes", "stalls"]
    evidence: str


class SwapOfContainer(TypedDict):
    """Swap of a container, in bytes."""

    subject: str
    limit: Count | None
    used: Count


class SwapNow(TypedDict):
    """Swap of the node, in bytes."""

    total: Count
    containers: list[SwapOfContainer]


class NumaNow(TypedDict):
    """The node's NUMA nodes with their bytes, and containers bound to some of them."""

    nodes: dict[str, Count]
    bound: dict[str, str]


class KillNow(TypedDict):
    """The order of kills when the machine runs out of memory, the first victim first."""

    name: str
    bytes: Count
    oom_score_adj: OomScoreAdj
    badness: int
    """In pages."""
    daemon: bool
    """Whether it is a process outside of pods."""
    assumed: str
    """The meaning of its bytes if memory.stat was not read."""


class NodeNow(TypedDict):
    """The effect of memory QoS on a node now."""

    memory_qos: MemoryQosNow
    recursive: bool | None
    """Whether cgroup2 is mounted with memory_recursiveprot; null if unknown: it is then assumed."""
    protection: list[ProtectionNow]
    containers: list[ContainerNow]
    stalls: list[HeldUp]
    swap: SwapNow
    numa: NumaNow
    kills: list[KillNow]
    killers: list[str]
    """Userspace programs that kill processes."""
    collected_at: str


class Audit(TypedDict):
    """memqos audit --json."""

    memqos_format: Format
    tree: str
    release: Release
    driver: CgroupDriver
    variant: Variant
    runtimes: Annotated[list[str], Meta(min_length=2, max_length=2)]
    """The CRI runtime and the OCI runtime of the plan."""
    not_modelled: NotRequired[list[str]]
    """The runtimes that are not modelled; missing if all are."""
    state: AuditState
    pods: list[PodState]
    counts: CountByVerdict
    findings: list[Finding]
    not_judged: list[str]
    node: NodeNow
    remarks: NotRequired[list[Remark]]


class NodeForce(TypedDict):
    """Whether memory QoS has an effect on a node of a fleet."""

    on: bool
    force: str
    why: str


class DriftOfNode(TypedDict):
    """A deviation, known or not."""

    verdict: Literal["deviates", "known"]
    state: Literal["DRIFTED"]
    subject: str
    cgroup: str
    knob: str
    expected: str
    observed: str
    rule: str
    set_by: str
    hint: str
    """The possible writer; empty if unknown."""


class DriftExample(DriftOfNode):
    """The same, with its node."""

    node: str


class FleetNode(TypedDict):
    """A node of a fleet."""

    place: str
    node: str
    release: str
    state: AuditState
    exit_code: int
    error: str
    """Why it was not judged; empty if it was."""
    counts: dict[str, Count]
    pods: dict[str, Count]
    """Pods by state."""
    memory_qos: NodeForce | None
    drifts: list[DriftOfNode]
    not_observable: dict[str, Count]
    """Reasons, each with the number of values."""
    notes: dict[str, str]
    """Unreadable files."""


class FleetCause(TypedDict):
    """Equal findings of several nodes."""

    verdict: Literal["deviates", "known"]
    knob: str
    level: str
    rule: str
    set_by: str
    hint: str
    pods: Count
    nodes: Count
    findings: Count
    examples: list[DriftExample]


class Fleet(TypedDict):
    """memqos audit PLACE PLACE… --json."""

    memqos_format: Format
    states: dict[str, Count]
    """Nodes by state, without those that were not judged."""
    exit_code: int
    nodes: list[FleetNode]
    causes: list[FleetCause]
    """Those on the most nodes first."""


class SupposedChange(TypedDict):
    """One value that would change."""

    subject: str
    what: str
    before: str
    after: str
    at_once: bool
    """Whether running pods get it, or only recreated ones."""
    effect: str
    """Its effect at the current usage; empty if unknown."""


class WhatIf(TypedDict):
    """memqos audit PLACE --what-if --json."""

    memqos_format: Format
    tree: str
    name: str
    changes: list[SupposedChange]
    protected_now: Count
    """Bytes of pods' usage that are protected when the node runs short of memory."""
    protected_then: Count


class WatchEvent(TypedDict):
    """A line of memqos audit PLACE --watch --json."""

    memqos_format: Format
    place: str
    event: Literal["drift", "back"]
    after_seconds: float
    subject: str
    cgroup: str
    knob: str
    expected: str
    observed: str
    writer: str
    """Empty if unknown."""
