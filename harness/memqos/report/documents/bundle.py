"""The files of a results folder. The text below a field describes it in the schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from memqos.claims import About, ClaimKind
from memqos.engine.answer.finding import Hop, Setter, Verdict
from memqos.engine.plan import Level
from memqos.errors import ExitCode
from memqos.report.documents.kinds import CgroupPath, Count, Positive, Seconds
from memqos.report.documents.plan import Reason
from memqos.report.outcome import Outcome

__all__ = [
    "Attempt",
    "Bundle",
    "Case",
    "CaseFinding",
    "Claim",
    "Counts",
    "Finding",
    "HopState",
    "Kept",
    "LeftOut",
    "Look",
    "Loss",
    "Machine",
    "MachineHost",
    "Matrix",
    "MatrixColumn",
    "MatrixDifference",
    "MatrixRow",
    "Merged",
    "Part",
    "Reading",
    "Request",
    "Result",
    "Run",
    "Setting",
    "Shard",
    "Spoken",
    "Timing",
    "Unreadable",
    "Waited",
]

CountByOutcome = Annotated[dict[Outcome, Count], Meta(extra_json_schema={"propertyNames": {"$ref": "#/$defs/outcome"}})]
PositiveByOutcome = Annotated[
    dict[Outcome, Positive], Meta(extra_json_schema={"propertyNames": {"$ref": "#/$defs/outcome"}})
]
CountByVerdict = Annotated[dict[Verdict, Count], Meta(extra_json_schema={"propertyNames": {"$ref": "#/$defs/verdict"}})]
CountsBySetter = Annotated[
    dict[Setter, CountByVerdict], Meta(extra_json_schema={"propertyNames": {"$ref": "#/$defs/setter"}})
]


class HopState(TypedDict):
    """One hop."""

    hop: Hop
    asked: list[str]
    """What it has to say of the value; several where versions of the runtimes differ, empty for nothing."""
    held: str
    """What it says."""
    why_not: str
    """Why that could not be seen; empty if it was."""


class Loss(TypedDict):
    """The first hop on the way to a control file that does not hold what was asked for."""

    by: str
    """Who lost the value first; empty if no hop could be seen."""
    told: str
    """The same in one line, with what the hop before it had."""
    hops: list[HopState]


class Subject(TypedDict):
    """The thing that a finding is about, as a value; empty fields are left out."""

    level: Level
    """Its place in the tree; the node's for a thing of the machine that is no cgroup."""
    name: NotRequired[str]
    """Of a cgroup above the pods, or of a thing of the machine."""
    pod: NotRequired[str]
    """Namespace and name."""
    container: NotRequired[str]
    part: NotRequired[str]
    """What of it: the scope around a container."""
    when: NotRequired[str]
    """The moment, where there are several."""


class _Finding(TypedDict):
    """What the findings of a result and of a case share."""

    verdict: Verdict
    subject: str
    """What a reader calls the thing."""
    about: Subject
    """The same as a value."""
    cgroup: str
    """CgroupPath below the cgroup mount; empty where the observation is not a cgroup's file."""
    knob: str
    """The control file, or what else was observed."""
    set_by: Setter
    expected: str
    observed: str
    why_not: str
    """For 'not observable': what kept the observation from being made."""
    evidence: dict[str, str]
    """Further facts worth keeping: counters, exit codes."""
    lost: Loss | None
    """Of a container's file that deviates: what lost the value; null where it was not traced."""
    measured: NotRequired[Annotated[bool, Meta(extra_json_schema={"const": True})]]
    """What is expected was read off the machine at that moment, and is another each time; left out for what is not."""


class Finding(_Finding):
    """One expectation and what was seen."""

    reason: Reason | None
    """Why that is expected; null where no rule computes it."""


class CaseFinding(_Finding):
    """One expectation and what was seen, as bundle.json has it."""

    reason: Count | None
    """The place in the bundle's reasons, from 0 on, of why that is expected; null where no rule computes it."""


class Attempt(TypedDict):
    """An attempt at a case that does not count."""

    outcome: Literal["machinery"]
    reason: str
    """What it failed of."""
    again: str
    """Why the case was run again."""
    machine: str
    """Id of its machine."""
    seconds: Seconds
    """Setup, call and teardown together; those of the result include them."""


class Waited(TypedDict):
    """A condition that a case waited for."""

    condition: str
    """By its name, such as 'the container has ended', or 'the runtime answers RunPodSandbox'."""
    seconds: Seconds
    """In all phases of the case together."""


class _Case(TypedDict):
    """What a result and a case share."""

    id: str
    """pytest's node id, below the suites folder."""
    claim: str
    """Id of the claim that the test proves; empty if it cites none."""
    chapter: str
    outcome: Outcome
    seconds: Seconds
    """Setup, call and teardown together."""
    reason: str
    """One line for whatever is not 'conforms'."""
    text: str
    """The failure or error as the user reads it."""
    error_code: int
    """Exit code of the error's class; 0 without an error."""
    machine: str
    """Id of the machine; empty if the test needed none."""
    profile: str
    """Profile of the machine, also of one that did not come up; empty if the test needed none."""
    runtime: NotRequired[str]
    """Name of the runtime under test, such as containerd+runc; empty as for profile. Not in bundles of older versions.
    """
    driver: NotRequired[str]
    """Cgroup driver of the kubelet; empty as for profile. Not in bundles of older versions."""
    host: NotRequired[str]
    """The host of the worker that had the case, as ssh gets it; left out for the host that the run was started on.
    """
    folder: str
    """Evidence, relative to the results folder; empty if none was kept."""
    untried: bool
    """Whether it was given up without an attempt, because several before it had failed alike."""
    earlier_attempts: NotRequired[Annotated[list[Attempt], Meta(min_length=1)]]
    """Attempts that ended in machinery and do not count, because the case was run again; left out for a case that was
    run once.
    """
    kind: NotRequired[str]
    """Kind of the claim: state, behaviour or refusal; left out for a test that cites none. Not in bundles of older
    versions.
    """
    seconds_before: NotRequired[Seconds]
    """Median of the case's last runs on the host of the run, or of those on other systems if it never ran on its own;
    left out if none is known.
    """
    waits: NotRequired[Annotated[list[Waited], Meta(min_length=1)]]
    """What the case waited for, longest first, at most five; left out if nothing took half a second.
    """


class Result(_Case):
    """One case: a line of findings.jsonl. bundle.json has the same, but for the reasons, which it has once each."""

    findings: list[Finding]


class Case(_Case):
    """One case as an entry of bundle.json: a result, whose findings have their reasons by place."""

    findings: list[CaseFinding]


class MatrixColumn(TypedDict):
    """A system under test."""

    name: str
    profile: str
    runtime: str
    driver: str


class MatrixRow(TypedDict):
    """The cases of one claim."""

    claim: str
    cells: dict[str, PositiveByOutcome]
    """By column: how many cases of the claim ended in each outcome; an outcome without cases is left out."""


class MatrixDifference(TypedDict):
    """A difference between systems."""

    claim: str
    knob: str
    what: Literal["expected", "observed"]
    count: Positive
    """How many findings differ."""
    example: str
    """The subject of the first of them."""
    values: dict[str, str]
    """Of the first of them, by column."""
    reasons: dict[str, str]
    """Why its expectation is what it is, by column; only where the rules differ."""


class Matrix(TypedDict):
    """Claims by systems under test, if the run had more than one: profiles by runtimes by cgroup drivers."""

    profiles: list[str]
    """The profiles of the run, each once."""
    columns: NotRequired[list[MatrixColumn]]
    """The systems under test. A column's name is what tells it apart from the others: with one runtime and driver its
    profile. Not in bundles of older versions.
    """
    rows: list[MatrixRow]
    differences: list[MatrixDifference]
    """What is expected, or seen, otherwise in some columns: one entry a claim, control file and pair of rules."""


class Setting(TypedDict):
    """One setting."""

    value: str | bool | int | list[str] | None
    """null is not set."""
    origin: Annotated[str, Meta(min_length=1)]
    """default, the environment variable, the option as it was given, or the file with its line."""


class MachineHost(TypedDict):
    """The host of a machine."""

    address: str
    name: str


class Timing(TypedDict):
    """How long calls of one kind took, in seconds."""

    count: Count
    median: Seconds
    longest: Seconds


class Kept(TypedDict):
    """The machine as it was kept running."""

    name: str


class DiskImage(TypedDict):
    """The file of --image: where it is, its SHA-256 and size in bytes, and the firmware that boots it."""

    path: str
    sha256: str
    bytes: Count
    firmware: Literal["bios", "uefi"]


class Machine(TypedDict):
    """What a machine or another place says of itself: machine.json, and an entry of bundle.json.

    Beside these it has what it was made of (image and packages, replaced files with their hashes), how it ran, the
    facts that plans were made from, and under what name it was kept running.
    """

    id: str
    profile: str
    topology: str
    kernel: NotRequired[str]
    runtimes: NotRequired[list[str]]
    facts: NotRequired[dict[str, Any]]
    timing: NotRequired[dict[str, Timing]]
    """By the method of the runtime that was called."""
    kept: NotRequired[Kept]
    disk_image: NotRequired[DiskImage]
    """The distribution's image that it booted from."""
    system: NotRequired[str]
    """Of such a machine what its os-release calls the system."""
    login: NotRequired[str]
    """The user that memqos logs in as there; any but root uses sudo."""
    cloud_init_seed: NotRequired[bool]
    """Whether cloud-init got that user's key from memqos."""
    lacking: NotRequired[list[str]]
    """What the system lacks of the topology, each as a clause; claims about it are not observable."""
    system_state: NotRequired[str]
    """What systemd reports of the whole system, where that is not "running"."""
    failed_units: NotRequired[list[str]]
    """The systemd units that had failed then."""
    host: NotRequired[MachineHost]
    """The host that it was on, where that is not the one that the run was started on: its address, as ssh gets
    it, its own name, and what else a bundle says of hosts.
    """


class LeftOut(TypedDict):
    """What the default leaves out."""

    claims: Count
    cases: Count


class Counts(TypedDict):
    """How many of each there are."""

    tests: CountByOutcome
    """Tests by outcome; every outcome is named."""
    findings: CountByVerdict
    """Findings by verdict; every verdict is named."""
    not_run: Count
    """Tests that were selected and have no result."""
    left_out: NotRequired[LeftOut]
    """What the suites have beyond the default, and this run had not: claims that no case of it proves, and cases. --all
    runs them too.
    """
    set_by: CountsBySetter
    """The findings by setter and by verdict; every setter and every verdict is named. What memqos
    wrote itself in the kubelet's place and read back says nothing about a runtime.
    """


class Shard(TypedDict):
    """Which part of several a run had."""

    number: Positive
    of: Positive
    cases: Count
    division: str


class Merged(TypedDict):
    """What a bundle was merged of."""

    parts: list[Part]
    doubles: list[str]
    """Cases that several parts have for the same system and agree on; they are in the results once."""
    contradictions: list[str]
    """Cases on which parts do not agree; they are in the results once for each."""


class Bundle(TypedDict):
    """bundle.json, and memqos run --json: everything about one run.

    All times are UTC in ISO 8601, all durations seconds.
    """

    schema: Literal["memqos-bundle/3"]
    started: str
    ended: str
    exit_code: ExitCode
    """The exit code of the process: 0 conforms, 1 deviates, 2 interrupted, 3 machinery, 4 usage, 5 nothing observed, 6
    this host cannot run it, 141 the reader closed the output.
    """
    error: NotRequired[str]
    """What ended the run or came in its way outside of any test, one line each; empty for nothing."""
    interrupted: bool
    """Whether the run was broken off, so that tests are missing."""
    counts: Counts
    known_gone: NotRequired[list[str]]
    """Known deviations of the machines' runtimes that were looked for and not seen any more, one line each. Not in
    bundles of older versions.
    """
    versions: dict[str, str]
    """Of memqos, Python and packages on the host."""
    host: dict[str, Any]
    settings: dict[str, Setting]
    """Each setting by name, with where its value came from."""
    machines: list[Machine]
    reasons: list[Reason]
    """Why values are expected, each chain once: findings name the place of theirs."""
    results: list[Case]
    matrix: NotRequired[Matrix]
    shard: NotRequired[Shard]
    """Of a run that had one part of several: which, of how many, of how many cases in all, and the name of the
    division. Parts with other names overlap or leave something out.
    """
    claims: NotRequired[dict[str, Claim]]
    """The claims that results cite, by id, so that the bundle is read without the suites. Not in bundles of older
    versions.
    """
    merged: NotRequired[Merged]
    """What the bundle was merged of; not there for one run."""
    inconsistencies: NotRequired[Annotated[list[str], Meta(min_length=1)]]
    """What the bundle, or one that it was made of, says and its own results do not: such results never read as
    conforming. Not there for what a run wrote.
    """


class Unreadable(TypedDict):
    """A file that could not be read."""

    unreadable: str
    """Why it could not be read."""


class Reading(TypedDict):
    """A line of readings.jsonl: several cgroups at one instant."""

    source: str
    """The target's address."""
    at: float
    """Seconds of the observer's monotonic clock; only differences mean anything."""
    cgroups: dict[CgroupPath, dict[str, str | Unreadable | None]]
    """Path to files, file to its text; null is a file that is not there."""


class Spoken(TypedDict):
    """A line of workloads.jsonl: what a workload was told to do, or what came into its container's log."""

    at: float
    """Seconds of the machine's monotonic clock; of what was told, those of what was seen last before."""
    container: str
    """Its pod's name and its own, with a slash between."""
    told: bool
    """Whether memqos told the workload so; false for what came into the log."""
    text: str
    """One command, or lines of the log as they came."""


class Look(TypedDict):
    """A line of series.jsonl: what changed in a cgroup that is watched."""

    at: float
    """Seconds of the machine's monotonic clock."""
    folder: str
    why: Literal["new", "clock", "event", "asked", "gone"]
    files: dict[str, str | None]
    """Those that changed since the folder's last line; null is a file that is not there."""


class Request(TypedDict):
    """A line of requests.jsonl: one call to the runtime, its messages as CRI's JSON."""

    method: str
    at: str
    """When the call began, UTC."""
    seconds: Seconds
    request: dict[str, Any]
    reply: dict[str, Any] | None
    """null if the answer was an error."""
    error: str


class Claim(TypedDict):
    """A claim as a bundle keeps it."""

    sentence: str
    source: str
    kind: ClaimKind
    about: About


class Run(TypedDict):
    """run.json: what is known of a run before its first case.

    It is written when the run's folder is made, and again when the cases are known. A run that is killed leaves it
    without a bundle.json.
    """

    schema: Literal["memqos-bundle/3"]
    started: str
    versions: dict[str, str]
    """Of memqos, Python and packages on the host."""
    host: dict[str, Any]
    cases: NotRequired[Positive]
    """How many cases were to be run; left out while they are not known."""
    shard: NotRequired[Shard]
    """Of a run that had one part of several: which, of how many, of how many cases in all, and the name of the
    division. Parts with other names overlap or leave something out.
    """
    settings: dict[str, Setting]
    """Each setting by name, with where its value came from."""


class Part(TypedDict):
    """One of the runs that a bundle was merged of."""

    name: str
    """Ids of machines and names of folders of this part begin with it."""
    started: str
    ended: str
    exit_code: ExitCode
    """The exit code of the process: 0 conforms, 1 deviates, 2 interrupted, 3 machinery, 4 usage, 5 nothing observed, 6
    this host cannot run it, 141 the reader closed the output.
    """
    cases: Count
    versions: dict[str, str]
    """Of memqos, Python and packages on the host."""
    host: dict[str, Any]
    settings: dict[str, Setting]
    """Each setting by name, with where its value came from."""
    verified: NotRequired[Literal["", "verified", "not verified", "failed"]]
    """Whether its folder was as its run left it when it was merged; 'not verified' without SHA256SUMS."""
    faults: NotRequired[list[str]]
    """What was not as its run left it, a line each: changed, missing, added or damaged."""
