"""The output of the other verbs with --json. The text below a field describes it in the schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from memqos.engine.cgroup.throttle_analysis import Ending
from memqos.engine.cgroup.throttle_series import Course
from memqos.engine.releases.release import Variant
from memqos.model.node import CgroupDriver
from memqos.report.documents.bundle import MatrixRow, PositiveByOutcome, Setting
from memqos.report.documents.kinds import Count, Format, Jiffies, OomScoreAdj, Positive, Release
from memqos.report.documents.plan import Change, Resize

__all__ = [
    "Analysis",
    "Cache",
    "CaseChange",
    "Check",
    "Comparison",
    "Compatibility",
    "CompatibilityRow",
    "Difference",
    "Differences",
    "Doctor",
    "Errata",
    "Erratum",
    "Inconsistencies",
    "Life",
    "LifeEnd",
    "MutantDeviation",
    "MutantOutcome",
    "MutantScore",
    "Mutants",
    "Resizes",
    "Settings",
    "Stretch",
    "Support",
    "SupportColumn",
    "ThrottleSetup",
    "TopicClaims",
    "VectorCase",
    "VectorCgroup",
    "VectorExpected",
    "VectorFile",
    "VectorNode",
    "VectorRefusal",
    "Vectors",
    "Verified",
]

# `from` is no name in Python.
_From = TypedDict("_From", {"from": float})


class Differences(TypedDict):
    """memqos expect --diff … --json."""

    memqos_format: Format
    before: str
    after: str
    changes: list[Change]


class Erratum(TypedDict):
    """One erratum of an upstream document."""

    id: str
    source: str
    says: str
    holds: str
    releases: Annotated[list[Release], Meta(min_length=1)]
    variant: bool


class Errata(TypedDict):
    """memqos expect --errata --json."""

    memqos_format: Format
    errata: list[Erratum]


class VectorNode(TypedDict):
    """The node of a case. Amounts in bytes."""

    memory: Count
    swap: Count
    cpus: Positive
    pageSize: Positive
    cgroup: Literal["v1", "v2"]


class VectorRefusal(TypedDict):
    """Why a pod is not admitted."""

    by: str
    reason: str
    message: str


class VectorFile(TypedDict):
    """An interface file."""

    written: str | None
    """null: nothing is written."""
    shown: str
    """The file's text after that."""


class VectorCgroup(TypedDict):
    """A cgroup with its files."""

    level: Literal["node", "qos", "pod", "container"]
    path: str
    """Below the mount; empty for a container, since the runtime names it."""
    name: str
    """In the kubelet's form: kubepods/burstable/pod…; empty for a container."""
    container: str
    files: dict[str, VectorFile]


class VectorExpected(TypedDict):
    """The expectation for one case."""

    cgroupDriver: CgroupDriver
    refused: list[VectorRefusal]
    qosClass: str
    """Empty for a refused pod."""
    oomScoreAdj: dict[str, OomScoreAdj]
    cgroups: list[VectorCgroup]


class VectorCase(TypedDict):
    """A pod, a configuration and a node, with the expectation."""

    name: str
    pod: dict[str, Any]
    kubeletConfiguration: dict[str, Any]
    node: VectorNode
    expected: VectorExpected


class Vectors(TypedDict):
    """memqos vectors export: literal cases for table tests of other programs."""

    memqos_vectors: Literal[1]
    kubernetes: str
    variant: Variant
    cases: Annotated[list[VectorCase], Meta(min_length=1)]


class Resizes(TypedDict):
    """memqos expect --resize … --json."""

    memqos_format: Format
    release: Release
    resizes: list[Resize]
    changes: list[Change]
    succession: NotRequired[list[Change]]
    """With --diff or --diff-config: changes for the running pods before the resize."""


class Check(TypedDict):
    """One check of the host."""

    name: str
    ok: bool
    found: str
    fix: str
    """The fix; advice if it is ok."""
    slow: bool
    """Usable, with the drawback in 'found'."""


class Doctor(TypedDict):
    """memqos doctor --json."""

    able: bool
    checks: list[Check]
    bench: NotRequired[dict[str, float]]
    """With --bench only: seconds by milestone, and the host's load."""


class Settings(TypedDict):
    """memqos settings --json."""

    memqos_format: Format
    settings: dict[str, Setting]


class Cache(TypedDict):
    """memqos vm list --json: sizes in bytes, ages in seconds."""

    cache: str
    images: list[dict[str, Any]]
    checkpoints: list[dict[str, Any]]
    kept: list[dict[str, Any]]
    profiles: list[Any]
    topologies: list[Any]


class CaseChange(TypedDict):
    """A case, or one of its findings, that differs."""

    claim: str
    case: str
    system: str
    what: Literal["new", "gone", "changed"]
    subject: str
    knob: str
    """Empty for a whole case."""
    before: str
    after: str
    worse: bool
    """Whether there is a new deviation."""


class Difference(TypedDict):
    """One value that differs."""

    name: str
    before: str
    after: str


class Verified(TypedDict):
    """Whether each of the two is unchanged since its run."""

    old: Literal["verified", "not verified", "failed"]
    new: Literal["verified", "not verified", "failed"]


class Inconsistencies(TypedDict):
    """Contradictions within each of the two."""

    old: list[str]
    new: list[str]


class Comparison(TypedDict):
    """memqos report compare OLD NEW --json: the differences between two runs."""

    memqos_format: Format
    new_deviations: Count
    same: Count
    """The number of equal cases."""
    changes: list[CaseChange]
    differences: list[Difference]
    """Settings, versions and hashes."""
    timing: list[Difference]
    """Medians of requests to the runtime, and the sum of all cases."""
    verified: NotRequired[Verified]
    """Whether each of the two is unchanged since its run, by SHA256SUMS. Only from memqos report compare."""
    inconsistencies: NotRequired[Inconsistencies]
    """Contradictions within each of the two, a sentence each. Only from memqos report compare."""


class SupportColumn(TypedDict):
    """A runtime."""

    name: str
    claims: PositiveByOutcome
    """The number of claims by outcome, each by its worst case; an outcome without claims is left out."""


class Support(TypedDict):
    """Claims by runtimes and their versions: `memqos report support --json`."""

    memqos_format: Format
    columns: list[SupportColumn]
    """The runtimes by the names that their machines report."""
    rows: list[MatrixRow]


class TopicClaims(TypedDict):
    """The claims of a topic."""

    claims: PositiveByOutcome
    """Their number by outcome, each by its worst case."""
    deviates: list[str]
    known: list[str]


class CompatibilityRow(TypedDict):
    """Runtimes judged by the rules of one Kubernetes release."""

    runtimes: str
    kubernetes: str
    """The word any for cases without a kubelet."""
    topics: dict[str, TopicClaims]


class Compatibility(TypedDict):
    """memqos report support --compatibility --json."""

    memqos_format: Format
    topics: list[str]
    rows: list[CompatibilityRow]


class Stretch(_From, TypedDict):
    """One stretch of an analysed series."""

    verdict: Course
    to: float
    """Seconds, as `from`."""
    firstUsage: Count
    """memory.current in bytes."""
    lastUsage: Count
    over: float
    """The mean overage of the passes as a fraction of memory.high."""
    passes: float
    """The rise of high over 17 for each level."""
    secondsAPass: float | None
    """As measured; null for fewer than five passes."""
    modelSecondsAPass: float | None
    """By the kernel's formula; null if no sleep is due."""
    ratio: float | None
    """Measured over model."""
    pagesAPass: float | None
    """Pages by which memory.current grew in each pass."""
    majfaultsASecond: float | None
    """null if the series has no pgmajfault."""
    why: str


class ThrottleSetup(TypedDict):
    """The settings of the cgroup and its machine."""

    high: Count | None
    """memory.high; null for max."""
    max: Count | None
    """memory.max; null for max or unknown."""
    levels: Positive
    hz: Jiffies
    pageSize: Annotated[int, Meta(ge=4096)]


class LifeEnd(TypedDict):
    """How a series ends."""

    at: float
    """Seconds of the last sample."""
    usage: Count
    left: Count | None
    """Bytes up to memory.max."""
    leastMilliseconds: Count | None
    """The remaining sleep up to memory.max if all 64 pages of each batch are kept."""
    mostMilliseconds: Count | None
    """The same if one page of each batch is kept."""
    likelyMilliseconds: Count | None
    """The same at the pages a pass of the last stretch of sleep."""


class Life(TypedDict):
    """One cgroup of an analysed series."""

    setup: ThrottleSetup
    samples: Count
    verdict: Ending
    why: str
    end: LifeEnd
    secondsAboveHigh: float
    leastMilliseconds: Count | None
    """Sleep from memory.high, or from the first sample above it, to memory.max."""
    mostMilliseconds: Count | None
    watchedLongEnough: bool
    """Whether the series is long enough to show a kill at memory.max."""
    segments: list[Stretch]


class MutantDeviation(TypedDict):
    """The observation by which a claim killed a mutant."""

    knob: str
    """The interface file, or the name of another observation."""
    level: str
    """Its level, as seen from the container: container, scope, sibling, pod, class, node, sandbox, request, machine."""
    expected: str
    observed: str


class MutantOutcome(TypedDict):
    """The result of one mutant."""

    name: str
    kind: str
    wrong: str
    """The sentence that describes its fault."""
    fate: Literal["killed", "survived", "equivalent", "not tried"]
    runtime: str
    """The runtime on which it was tried; empty if not tried."""
    claim: str
    """The claim that killed it; empty if none did."""
    claims: list[str]
    """The claims that were tried, in order."""
    right_knob: bool
    """Whether every deviation named one of the mutant's knobs."""
    right_level: bool
    """Whether every deviation was at the mutant's level."""
    deviations: list[MutantDeviation]
    why: str
    """Why it was not tried, is equivalent, or survived."""
    seconds: float


class MutantScore(TypedDict):
    """The numbers of killed and surviving mutants; not tried and equivalent ones are separate."""

    killed: Count
    right: Count
    """Killed by a claim that names the right file at the right level."""
    survived: Count
    equivalent: Count
    not_tried: Count


class Mutants(TypedDict):
    """memqos mutants --json."""

    memqos_format: Format
    memqos: str
    """The version of memqos."""
    at: str
    """When the trial ended, in UTC."""
    system: str
    """Profile, runtimes and driver."""
    complete: bool
    """Whether all chosen mutants were tried; false after an interrupt."""
    default_run: NotRequired[bool]
    """Whether only cases of the default run were tried."""
    seconds: float
    score: MutantScore
    chapters: dict[str, MutantScore]
    """The score by chapter: that of the killing claim, else of the first claim to try."""
    mutants: list[MutantOutcome]


class Analysis(TypedDict):
    """memqos analyze --json."""

    memqos_format: Format
    notes: list[str]
    runs: list[Life]
