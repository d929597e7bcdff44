"""A plan and what else `memqos expect` answers, as JSON has them. The text below a field describes it in the schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from memqos.engine.cgroup.protection import Shelter
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


# msgspec takes no union of two objects that have no tag.
def _or_unanswered(name: str) -> Meta:
    choices = [{"$ref": f"#/$defs/{one}"} for one in (name, "unanswered")]
    return Meta(extra_json_schema={"items": {"anyOf": choices}})


class Input(TypedDict):
    """One input of a rule."""

    name: str
    value: str
    origin: str
    """Where it was written ('pod.yaml:12'), 'default', or what it was made from."""


class Reason(TypedDict):
    """Why; fields that are empty are left out."""

    rule: NotRequired[str]
    revision: NotRequired[str]
    source: NotRequired[str]
    inputs: NotRequired[list[Input]]
    arithmetic: NotRequired[str]
    rounding: NotRequired[str]
    because: NotRequired[list[Reason]]


class Knob(TypedDict):
    """What is expected of one control file."""

    written: str | None
    """What is written; null for an unwritten file. The text of the file: bytes, a number, 'max' (-1 on cgroup v1),
    'quota period', a list of CPUs or zones.
    """
    value: str | None
    """What the file shows afterwards, or the kernel's default; null where nothing can be expected ('not_modelled')."""
    not_modelled: NotRequired[str]
    """Why nothing can be expected of this file: a runtime or an annotation that is not modelled decides."""
    undecided: NotRequired[list[str]]
    """What versions of the runtime make of it, where they differ and its own is not known, or what a pod may have while
    it is resized; 'value' is the first of them, and none is expected.
    """
    unasked: NotRequired[str]
    """Why the runtime cannot be asked for what is wanted of this file: its interface has no word for it. What the file
    holds then says nothing about the runtime.
    """
    unsettled: NotRequired[str]
    """Why the value is not known while a pod is being resized; 'undecided' has the values that are possible, as far as
    they are known.
    """
    reason: Reason


class Cgroup(TypedDict):
    """One cgroup of a plan."""

    level: Level
    path: CgroupPath
    """Below the mount; of a container: its pod's."""
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
    """CRI LinuxContainerResources; fields that are not specified are left out."""

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
    """The runtime's error, where it refuses the request: the container then has no files."""
    oom_score_adj_unsure: NotRequired[str]
    """Why the container's processes may have another score: a resize in place does not change that of a running
    process.
    """
    translation: NotRequired[Translation]
    """With --translate or --protection only."""


class Sandbox(TypedDict):
    """What RunPodSandbox is sent."""

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
    """A pod that does not get onto the node."""

    pod: str
    name: str
    reason_name: str
    message: str
    reason: Reason
    by: NotRequired[RefusedBy]
    """What keeps the pod off the node."""


class Ignored(TypedDict):
    """A field that the release does not know."""

    field: str
    origin: str
    """Where it was written; empty if unknown."""
    what: str


class PassedOver(TypedDict):
    """Objects of one kind among the manifests that were not applied."""

    kind: str
    """Empty for documents that are no objects."""
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
    """Fields that were given though the release does not know them, and what comes of them there."""
    remarks: NotRequired[list[Remark]]
    unavailable: NotRequired[dict[ControlFile, Reason]]
    """Control files that no cgroup of the plan has, and why."""
    revisions: dict[str, str]
    pods: list[Pod]
    cgroups: Annotated[list[Cgroup], Meta(min_length=1)]
    refusals: list[Refusal]
    passed_over: NotRequired[list[PassedOver]]
    """Objects among the manifests that were not applied, and what they may do to pods."""
    protection: NotRequired[Annotated[list[Any], _or_unanswered("protected")]]
    """With --protection only."""
    throttling: NotRequired[Annotated[list[Any], _or_unanswered("slowed")]]
    """With --throttling only."""
    oom: NotRequired[list[Shortage]]
    """With --oom only."""


class Change(TypedDict):
    """One value that changes from one plan to the other."""

    subject: str
    what: str
    before: str
    after: str
    reason_before: Reason | None
    reason_after: Reason | None


class Unsayable(TypedDict):
    """A value that the interface has no field for."""

    knob: str
    """The control file that stays as it was, or 'oom_score_adj'."""
    value: str
    why: str


class CriSteps(TypedDict):
    """What an update by CRI does not carry."""

    unsaid: list[Unsayable]
    final: list[str]
    """What an update cannot take back."""


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
    """One control file and its text."""

    name: str
    written: str | None
    """null if nothing writes it."""
    shows: str
    after_reload: str | None
    """What it shows after systemctl daemon-reload; null where that is not modelled."""


class ContainerFiles(TypedDict):
    """The control files of a container and of its scope."""

    below_scope: str
    """The cgroup below the scope that holds the files; empty: the scope itself."""
    own: list[WrittenFile]
    scope: list[WrittenFile]
    properties: dict[str, str] | None
    """Of the systemd scope; null without one."""


class Translation(TypedDict):
    """A container's request in the words of each interface, and the files that it becomes."""

    runtimes: Annotated[list[str], Meta(min_length=2, max_length=2)]
    refusal: str
    """Why there is no container; empty if there is one."""
    cri: CriSteps
    oci: OciSteps
    docker: DockerSteps
    files: ContainerFiles | None
    """null where the container is refused."""


class Protection(TypedDict):
    """memory.min and memory.low."""

    min: Amount
    low: Amount


class EffectiveProtection(Protection):
    """What memory.min and memory.low come to, and what reclaim makes of it."""

    shelter: Shelter


class Protected(TypedDict):
    """The protection of one cgroup, in several settings."""

    subject: str
    path: CgroupPath
    usage: Count
    use: str
    """Where the usage came from."""
    asked: Protection
    recursive: EffectiveProtection
    plain: EffectiveProtection
    crowded: EffectiveProtection | None
    """Under kubepods' own memory.max; null for kubepods itself."""
    limited: EffectiveProtection | None
    """Under the pod's own memory.max; null above containers."""
    cacheKills: bool
    """Whether its page cache alone can have it OOM-killed at its pod's limit: memory.min equals memory.max."""
    unsure: NotRequired[str]
    """What the numbers take for granted that is not modelled; missing where all is modelled."""


class Shortage(TypedDict):
    """What can run out of memory, and the containers in it in the order in which they are killed."""

    subject: str
    """The machine, or a cgroup with a memory.max."""
    total: Count
    """Bytes of memory and swap together."""
    victims: list[Victim]
    left_out: NotRequired[list[Unanswered]]
    """Containers whose place in the order is not modelled; missing if there are none."""


class Slowed(TypedDict):
    """A cgroup with a memory.high, and what that does to one task that grows: amounts in bytes."""

    subject: str
    path: str
    high: Count
    sleepsFrom: Count
    """memory.current from which growth costs sleep."""
    stallsFrom: Count
    """memory.current from which it is 256 KiB in 2 s."""
    end: Count | None
    """memory.max, at which it is killed; null without one."""
    stalls: bool
    """Whether it stalls before its end."""
    leastMilliseconds: Count | None
    """How long it sleeps at least on its way to its end, keeping all 64 pages of each batch; null without one."""
    mostMilliseconds: Count | None
    """How long it sleeps if it keeps one page of each batch: 64 times as long; null without an end."""
    hz: Jiffies
    """Jiffies in a second that were assumed, or given by --hz."""
    endNotModelled: NotRequired[str]
    """Why memory.max is not known; missing where it is. Then end is null."""


class Unanswered(TypedDict):
    """A container whose own files are not modelled: an answer about its memory leaves it out."""

    subject: str
    path: str
    not_modelled: str
    """Why."""


class Victim(TypedDict):
    """One container, if it is one process that uses all that the container does."""

    subject: str
    usage: Count
    use: str
    """Where the usage comes from."""
    oomScoreAdj: OomScoreAdj
    badness: int
    """In pages; the most is killed first."""
    group: bool | None
    """All of its processes are killed together (memory.oom.group); null where that is not modelled."""
    not_modelled: NotRequired[str]
    """Why group is null; missing where it is not."""


class ResizeStep(TypedDict):
    """Fields that are empty are left out."""

    kind: StepKind
    resource: NotRequired[Literal["memory", "cpu"]]
    cgroup: str
    """The pod's."""
    container: NotRequired[str]
    cri: NotRequired[ResizeMessage]
    knobs: NotRequired[dict[str, Knob]]
    reach: NotRequired[str]
    """What UpdateContainerResources comes to where the OCI runtime writes no control file for it, or where that is not
    known.
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
    """Why no step writes it; empty if that is not known."""
    upstream: str


class Resize(TypedDict):
    """What becomes of one resize."""

    name: str
    namespace: str
    uid: str
    outcome: ResizeOutcome
    message: str
    """In the words of the kubelet or API server; '' where they say nothing."""
    reason: Reason
    steps: list[ResizeStep]
    left: list[Leftover]
    """What the resize leaves behind: values that a pod of the new size, made anew, does not have."""


class ResizeMessage(TypedDict):
    """CRI LinuxContainerResources; of a pod as a whole -1 is no limit, less the pod's overhead."""

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
    """What was assumed, what of the input was not read, or what will not work on a node."""

    about: str
    """A field, a flag, a pod or a container."""
    origin: str
    """Where it was written; empty if nothing says so."""
    what: str
