"""JSON of a plan and of the other answers of `memqos expect`. The text below a field describes it in the schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from memqos.engine.cgroup.effective_protection import ProtectionKind
from memqos.engine.plan import Level, RefusedBy
from memqos.engine.releases.release import Variant
from memqos.engine.resize.outcome import ResizeOutcome, StepKind
from memqos.model.node import CgroupDriver, CgroupVersion
from memqos.model.pod import QosClass
from memqos.report.documents.kinds import (
    Amount,
    CgroupPath,
    ControlFile,
    Count,
    CountOrNoLimit,
    Format,
    Jiffies,
    OomScoreAdj,
    Positive,
    Release,
)

__all__ = [
    "Cgroup",
    "Change",
    "Container",
    "ContainerFiles",
    "Cri",
    "CriSteps",
    "DockerSteps",
    "EffectiveProtection",
    "HugepageLimit",
    "Ignored",
    "Input",
    "Knob",
    "Leftover",
    "OciSteps",
    "PassedOver",
    "Plan",
    "Pod",
    "Protected",
    "Protection",
    "Reason",
    "Refusal",
    "Remark",
    "Resize",
    "ResizeMessage",
    "ResizeStep",
    "Sandbox",
    "Shortage",
    "Slowed",
    "Translation",
    "Unanswered",
    "Unsayable",
    "Victim",
    "WrittenFile",
]


# msgspec does not support a union of two objects without a tag.
def _or_unanswered(name: str) -> Meta:
    choices = [{"$ref": f"#/$defs/{one}"} for one in (name, "unanswered")]
    return Meta(extra_json_schema={"items": {"anyOf": choices}})


class Input(TypedDict):
    """One input of a rule."""

    name: str
    value: str
    origin: str
    """Its place ('pod.yaml:12'), 'default', or its source."""


class Reason(TypedDict):
    """A reason; empty fields are left out."""

    rule: NotRequired[str]
    revision: NotRequired[str]
    source: NotRequired[str]
    inputs: NotRequired[list[Input]]
    arithmetic: NotRequired[str]
    rounding: NotRequired[str]
    because: NotRequired[list[Reason]]


class Knob(TypedDict):
    """The expectation for one interface file."""

    written: str | None
    """The written text; null for an unwritten file: bytes, a number, 'max' (-1 on cgroup v1), 'quota period', a list of
    CPUs or NUMA nodes.
    """
    value: str | None
    """The file's text after that, or the kernel's default; null if nothing can be expected ('not_modelled')."""
    not_modelled: NotRequired[str]
    """Why nothing can be expected of this file: a runtime or an annotation that is not modelled decides."""
    undecided: NotRequired[list[str]]
    """The possible values if versions of the runtime differ and its version is unknown, or while a pod is resized;
    'value' is the first of them, and the file is not judged.
    """
    inexpressible: NotRequired[str]
    """Why the wanted value cannot be requested: the runtime's interface has no field for it. The file's text is then no
    finding about the runtime.
    """
    unsettled: NotRequired[str]
    """Why the value is unknown while a pod is being resized; 'undecided' has the possible values, if known.
    """
    reason: Reason


class Cgroup(TypedDict):
    """One cgroup of a plan."""

    level: Level
    path: CgroupPath
    """Below the mount; for a container its pod's."""
    qos: QosClass | None
    pod: str | None
    """The pod's uid."""
    container: str | None
    knobs: dict[ControlFile, Knob]


class HugepageLimit(TypedDict):
    """The limit for huge pages of one size, in bytes."""

    page_size: str
    limit: Count


class Cri(TypedDict):
    """CRI LinuxContainerResources; unspecified fields are left out."""

    cpu_period: NotRequired[Count]
    cpu_quota: NotRequired[CountOrNoLimit]
    cpu_shares: NotRequired[Count]
    memory_limit_in_bytes: NotRequired[Count]
    memory_swap_limit_in_bytes: NotRequired[CountOrNoLimit]
    oom_score_adj: NotRequired[OomScoreAdj]
    cpuset_cpus: NotRequired[str]
    cpuset_mems: NotRequired[str]
    hugepage_limits: NotRequired[list[HugepageLimit]]
    unified: NotRequired[dict[str, str]]


class Container(TypedDict):
    """One container of a plan."""

    name: str
    cri: Cri
    oom_score_adj: OomScoreAdj
    oom_score_adj_reason: Reason
    refusal: NotRequired[str]
    """The runtime's error if it refuses the request: the container then has no files."""
    oom_score_adj_unsure: NotRequired[str]
    """Why the container's processes may have another score: an in-place resize does not change the score of a running
    process.
    """
    translation: NotRequired[Translation]
    """With --translate or --protection only."""


class Sandbox(TypedDict):
    """The resources in RunPodSandbox."""

    resources: Cri
    overhead: Cri


class Pod(TypedDict):
    """One pod of a plan."""

    name: str
    namespace: str
    uid: str
    qos: QosClass
    qos_reason: Reason
    cgroup: str
    containers: Annotated[list[Container], Meta(min_length=1)]
    sandbox: Sandbox


class Refusal(TypedDict):
    """A pod that is not admitted."""

    pod: str
    name: str
    reason_name: str
    message: str
    reason: Reason
    by: NotRequired[RefusedBy]
    """The component that refuses the pod."""


class Ignored(TypedDict):
    """A field that the release does not know."""

    field: str
    origin: str
    """Its place; empty if unknown."""
    what: str


class PassedOver(TypedDict):
    """Objects of one kind in the manifests that were not applied."""

    kind: str
    """Empty for documents that are not objects."""
    count: Positive
    effect: Literal[
        "none",
        "may change pods",
        "may make pods",
        "may change how many pods there are",
        "may refuse pods",
        "sets up nodes",
        "unknown",
    ]
    why: str


class Plan(TypedDict):
    """memqos expect --json."""

    memqos_format: Format
    release: Release
    variant: Variant
    driver: CgroupDriver
    cgroup_version: NotRequired[CgroupVersion]
    not_modelled: NotRequired[list[str]]
    """The runtimes that are not modelled; missing if all are."""
    ignored: NotRequired[list[Ignored]]
    """Given fields that the release does not know, with the consequence."""
    remarks: NotRequired[list[Remark]]
    unavailable: NotRequired[dict[ControlFile, Reason]]
    """Interface files that no cgroup of the plan has, with the reason."""
    revisions: dict[str, str]
    pods: list[Pod]
    cgroups: Annotated[list[Cgroup], Meta(min_length=1)]
    refusals: list[Refusal]
    passed_over: NotRequired[list[PassedOver]]
    """Objects in the manifests that were not applied, and their possible effect on pods."""
    protection: NotRequired[Annotated[list[Any], _or_unanswered("protected")]]
    """With --protection only."""
    throttling: NotRequired[Annotated[list[Any], _or_unanswered("slowed")]]
    """With --throttling only."""
    oom: NotRequired[list[Shortage]]
    """With --oom only."""


class Change(TypedDict):
    """One difference between two plans."""

    subject: str
    what: str
    before: str
    after: str
    reason_before: Reason | None
    reason_after: Reason | None


class Unsayable(TypedDict):
    """A value that the interface has no field for."""

    knob: str
    """The interface file that does not change, or 'oom_score_adj'."""
    value: str
    why: str


class CriSteps(TypedDict):
    """Values that a CRI update does not change."""

    unsaid: list[Unsayable]
    final: list[str]
    """Values that an update cannot remove."""


class OciSteps(TypedDict):
    """The request to the OCI runtime."""

    resources: dict[str, Any]
    """linux.resources of the OCI runtime specification."""
    oom_score_adj: int | None
    unsayable: list[Unsayable]


class DockerSteps(TypedDict):
    """The request to the Docker Engine."""

    host_config: dict[str, Any]
    annotations: dict[str, str]
    unsayable: list[Unsayable]


class WrittenFile(TypedDict):
    """One interface file and its text."""

    name: str
    written: str | None
    """null if nothing writes it."""
    shows: str
    after_reload: str | None
    """Its text after systemctl daemon-reload; null if not modelled."""


class ContainerFiles(TypedDict):
    """The interface files of a container and of its scope."""

    below_scope: str
    """The cgroup below the scope with the files; empty for the scope itself."""
    own: list[WrittenFile]
    scope: list[WrittenFile]
    properties: dict[str, str] | None
    """Of the systemd scope; null without one."""


class Translation(TypedDict):
    """A container's request in each interface, and the resulting files."""

    runtimes: Annotated[list[str], Meta(min_length=2, max_length=2)]
    refusal: str
    """Why there is no container; empty if there is one."""
    cri: CriSteps
    oci: OciSteps
    docker: DockerSteps
    files: ContainerFiles | None
    """null if the container is refused."""


class Protection(TypedDict):
    """memory.min and memory.low."""

    min: Amount
    low: Amount


class EffectiveProtection(Protection):
    """The effective memory.min and memory.low, and the effect on reclaim."""

    protection: ProtectionKind


class Protected(TypedDict):
    """The protection of one cgroup, in several settings."""

    subject: str
    path: CgroupPath
    usage: Count
    use: str
    """The source of the usage."""
    configured: Protection
    recursive: EffectiveProtection
    plain: EffectiveProtection
    crowded: EffectiveProtection | None
    """At kubepods' own memory.max; null for kubepods itself."""
    limited: EffectiveProtection | None
    """At the pod's own memory.max; null above containers."""
    cacheKills: bool
    """Whether page cache alone can get it OOM-killed at its pod's limit: memory.min equals memory.max."""
    unsure: NotRequired[str]
    """Assumptions of the numbers that are not modelled; missing if all is modelled."""


class Shortage(TypedDict):
    """The machine or a limit that can run out of memory, with its containers in kill order."""

    subject: str
    """The machine, or a cgroup with a memory.max."""
    total: Count
    """Bytes of memory and swap together."""
    victims: list[Victim]
    left_out: NotRequired[list[Unanswered]]
    """Containers whose place in the order is not modelled; missing if there are none."""


class Slowed(TypedDict):
    """A cgroup with a memory.high, and its effect on one growing task: amounts in bytes."""

    subject: str
    path: str
    high: Count
    sleepsFrom: Count
    """memory.current at which growth begins to cost sleep."""
    stallsFrom: Count
    """memory.current at which growth is one batch of 64 pages in 2 s."""
    end: Count | None
    """memory.max, at which it is killed; null without one."""
    stalls: bool
    """Whether it stalls before its end."""
    leastMilliseconds: Count | None
    """Its least sleep up to its end, if it keeps all 64 pages of each batch; null without an end."""
    mostMilliseconds: Count | None
    """Its sleep if it keeps one page of each batch: 64 times as long; null without an end."""
    hz: Jiffies
    """Jiffies in a second, assumed or given by --hz."""
    endNotModelled: NotRequired[str]
    """Why memory.max is unknown; missing if it is known. end is then null."""


class Unanswered(TypedDict):
    """A container whose files are not modelled: answers about memory leave it out."""

    subject: str
    path: str
    not_modelled: str
    """Why."""


class Victim(TypedDict):
    """One container, as one process with all of its usage."""

    subject: str
    usage: Count
    use: str
    """The source of the usage."""
    oomScoreAdj: OomScoreAdj
    badness: int
    """In pages; the highest is killed first."""
    group: bool | None
    """All of its processes are killed together (memory.oom.group); null if not modelled."""
    not_modelled: NotRequired[str]
    """Why group is null; missing where it is not."""


class ResizeStep(TypedDict):
    """Empty fields are left out."""

    kind: StepKind
    resource: NotRequired[Literal["memory", "cpu"]]
    cgroup: str
    """The pod's."""
    container: NotRequired[str]
    cri: NotRequired[ResizeMessage]
    knobs: NotRequired[dict[str, Knob]]
    reach: NotRequired[str]
    """The effect of UpdateContainerResources if the OCI runtime writes no interface file for it, or if that is unknown.
    """
    reason: Reason


class Leftover(TypedDict):
    """A value that a resize leaves behind."""

    subject: str
    cgroup: str
    knob: str
    holds: str
    anew: str
    cause: str
    """Why no step writes it; empty if unknown."""
    upstream: str


class Resize(TypedDict):
    """The outcome of one resize."""

    name: str
    namespace: str
    uid: str
    outcome: ResizeOutcome
    message: str
    """The kubelet's or API server's; '' for none."""
    reason: Reason
    volumes: str
    """What is known of memory-backed volumes that have another size in the request; '' for none."""
    steps: list[ResizeStep]
    left: list[Leftover]
    """Leftovers of the resize: values that a new pod of the same size would not have."""


class ResizeMessage(TypedDict):
    """CRI LinuxContainerResources; for a whole pod -1 is no limit, and the pod's overhead is subtracted."""

    cpu_period: NotRequired[Count]
    cpu_quota: NotRequired[int]
    cpu_shares: NotRequired[Count]
    memory_limit_in_bytes: NotRequired[int]
    memory_swap_limit_in_bytes: NotRequired[CountOrNoLimit]
    oom_score_adj: NotRequired[OomScoreAdj]
    cpuset_cpus: NotRequired[str]
    cpuset_mems: NotRequired[str]
    hugepage_limits: NotRequired[list[HugepageLimit]]
    unified: NotRequired[dict[str, str]]


class Remark(TypedDict):
    """An assumption, unread input, or a problem on a real node."""

    about: str
    """A field, a flag, a pod or a container."""
    origin: str
    """Its place; empty if unknown."""
    what: str
