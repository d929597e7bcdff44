"""What the other verbs print with --json. The text below a field describes it in the schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from memqos.engine.cgroup.throttle_analysis import Ending
from memqos.engine.cgroup.throttle_series import Course
from memqos.engine.releases.release import Variant
from memqos.model.node import CgroupDriver
from memqos.report.documents.bundle import CountByVerdict, Finding, MatrixRow, PositiveByOutcome, Setting
from memqos.report.documents.kinds import Count, Format, Jiffies, Positive, Release
from memqos.report.documents.plan import Change, Remark, Resize

__all__ = [
    "Analysis",
    "Audit",
    "Cache",
    "CaseChange",
    "Check",
    "Comparison",
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


class Audit(TypedDict):
    """memqos audit --json."""

    memqos_format: Format
    tree: str
    release: Release
    driver: CgroupDriver
    variant: Variant
    runtimes: Annotated[list[str], Meta(min_length=2, max_length=2)]
    """The CRI runtime and the OCI runtime that the plan is for."""
    not_modelled: NotRequired[list[str]]
    """The runtimes that are not modelled; missing if all are."""
    counts: CountByVerdict
    findings: list[Finding]
    not_judged: list[str]
    remarks: NotRequired[list[Remark]]


class Resizes(TypedDict):
    """memqos expect --resize … --json."""

    memqos_format: Format
    release: Release
    resizes: list[Resize]
    changes: list[Change]
    succession: NotRequired[list[Change]]
    """With --diff or --diff-config: what changed for the running pods before the resize."""


class Check(TypedDict):
    """One check of the host."""

    name: str
    ok: bool
    found: str
    fix: str
    """How to mend it; advice where it is ok."""
    slow: bool
    """It will do, at the price that 'found' names."""


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
    """Empty for a case as a whole."""
    before: str
    after: str
    worse: bool
    """Whether something deviates that did not."""


class Difference(TypedDict):
    """One value that differs."""

    name: str
    before: str
    after: str


class Verified(TypedDict):
    """Whether each of the two is as its run left it."""

    old: Literal["verified", "not verified", "failed"]
    new: Literal["verified", "not verified", "failed"]


class Inconsistencies(TypedDict):
    """What each of the two says against its own results."""

    old: list[str]
    new: list[str]


class Comparison(TypedDict):
    """memqos report compare OLD NEW --json: what differs between two runs."""

    memqos_format: Format
    new_deviations: Count
    same: Count
    """How many cases are the same in both."""
    changes: list[CaseChange]
    differences: list[Difference]
    """Settings, versions and hashes."""
    timing: list[Difference]
    """Medians of requests to the runtime, and the sum of all cases."""
    verified: NotRequired[Verified]
    """Whether each of the two is as its run left it, by SHA256SUMS. Of memqos report compare alone."""
    inconsistencies: NotRequired[Inconsistencies]
    """What each of the two says against its own results, a sentence each. Of memqos report compare alone."""


class SupportColumn(TypedDict):
    """A runtime."""

    name: str
    claims: PositiveByOutcome
    """How many claims ended in which outcome, each in that of its worst case; an outcome without claims is left out."""


class Support(TypedDict):
    """Claims by runtimes and their versions: `memqos report support --json`."""

    memqos_format: Format
    columns: list[SupportColumn]
    """The runtimes, as their machines name them."""
    rows: list[MatrixRow]


class Stretch(_From, TypedDict):
    """One stretch of an analysed series."""

    verdict: Course
    to: float
    """Seconds, as `from`."""
    firstUsage: Count
    """memory.current in bytes."""
    lastUsage: Count
    over: float
    """How far above memory.high, as a part of it, on the average of the passes."""
    passes: float
    """The rise of high over 17 for each level."""
    secondsAPass: float | None
    """As measured; null for fewer than five passes."""
    modelSecondsAPass: float | None
    """As the kernel's formula has it; null where no sleep is due."""
    ratio: float | None
    """Measured over model."""
    pagesAPass: float | None
    """Pages by which memory.current grew in each pass."""
    majfaultsASecond: float | None
    """null if the series has no pgmajfault."""
    why: str


class ThrottleSetup(TypedDict):
    """What the cgroup and its machine were set to."""

    high: Count | None
    """memory.high; null for max."""
    max: Count | None
    """memory.max; null for max, or if it is not known."""
    levels: Positive
    hz: Jiffies
    pageSize: Annotated[int, Meta(ge=4096)]


class LifeEnd(TypedDict):
    """How a series ends."""

    at: float
    """Seconds, of the last sample."""
    usage: Count
    left: Count | None
    """Bytes up to memory.max."""
    leastMilliseconds: Count | None
    """Sleep that was left up to memory.max, keeping all 64 pages of each batch."""
    mostMilliseconds: Count | None
    """The same, keeping one page of each batch."""
    likelyMilliseconds: Count | None
    """The same at the pages a pass that the last stretch of sleep kept."""


class Life(TypedDict):
    """One cgroup of an analysed series."""

    setup: ThrottleSetup
    samples: Count
    verdict: Ending
    why: str
    end: LifeEnd
    secondsAboveHigh: float
    leastMilliseconds: Count | None
    """Sleep from memory.high, or where it was first seen above it, to memory.max."""
    mostMilliseconds: Count | None
    watchedLongEnough: bool
    """Whether a kill at memory.max could have been seen."""
    segments: list[Stretch]


class MutantDeviation(TypedDict):
    """What a claim named when it killed a mutant."""

    knob: str
    """The control file, or what else was observed."""
    level: str
    """Where it was, seen from the container: container, scope, sibling, pod, class, node, sandbox, request, machine."""
    expected: str
    observed: str


class MutantOutcome(TypedDict):
    """What became of one mutant."""

    name: str
    kind: str
    wrong: str
    """The sentence that says what is wrong."""
    fate: Literal["killed", "survived", "equivalent", "not tried"]
    runtime: str
    """The runtime on which it was tried; empty if it was not."""
    claim: str
    """The claim that killed it; empty if none did."""
    claims: list[str]
    """The claims that were tried, in their order."""
    right_knob: bool
    """Whether every deviation named one of the mutant's knobs."""
    right_level: bool
    """Whether every deviation was at the mutant's level."""
    deviations: list[MutantDeviation]
    why: str
    """Why it was not tried, is equivalent, or survived."""
    seconds: float


class MutantScore(TypedDict):
    """How many mutants were killed; not tried and equivalent ones are apart."""

    killed: Count
    right: Count
    """Killed by a claim that named the right file at the right level."""
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
    seconds: float
    score: MutantScore
    chapters: dict[str, MutantScore]
    """The score by the chapter whose claim killed a mutant, or would have been tried first."""
    mutants: list[MutantOutcome]


class Analysis(TypedDict):
    """memqos analyze --json."""

    memqos_format: Format
    notes: list[str]
    runs: list[Life]
