"""The files of a results folder without its evidence. The text below a field describes it in the schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from memqos.claims import About, ClaimKind
from memqos.engine.answer.finding import Hop, Setter, Verdict
from memqos.engine.plan import Level
from memqos.errors import ExitCode
from memqos.report.documents.kinds import Count, Positive, Seconds
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
    "Loss",
    "Machine",
    "MachineHost",
    "Matrix",
    "MatrixColumn",
    "MatrixDifference",
    "MatrixRow",
    "Merged",
    "Part",
    "Result",
    "Run",
    "Setting",
    "Shard",
    "Timing",
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
    """The expected text; several if versions of the runtimes differ, empty for none."""
    held: str
    """Its text."""
    why_not: str
    """Why it was not observed; empty if it was."""


class Loss(TypedDict):
    """The first hop to an interface file that does not have the requested value."""

    by: str
    """The program that lost the value first; empty if no hop is observable."""
    told: str
    """The same in one line, with the text of the previous hop."""
    hops: list[HopState]


class Subject(TypedDict):
    """The subject of a finding as a value; empty fields are left out."""

    level: Level
    """Its level in the tree; the node's for a part of the machine other than a cgroup."""
    name: NotRequired[str]
    """For a cgroup above the pods, or a part of the machine."""
    pod: NotRequired[str]
    """Namespace and name."""
    container: NotRequired[str]
    part: NotRequired[str]
    """A part of it: the scope around a container."""
    when: NotRequired[str]
    """The moment, if there are several."""


class _Finding(TypedDict):
    """The common fields of findings."""

    verdict: Verdict
    subject: str
    """The subject's name for readers."""
    about: Subject
    """The same as a value."""
    cgroup: str
    """CgroupPath below the cgroup mount; empty if the observation is not a cgroup's file."""
    knob: str
    """The interface file, or the name of another observation."""
    set_by: Setter
    expected: str
    observed: str
    why_not: str
    """For 'not observable': the reason."""
    evidence: dict[str, str]
    """Further facts: counters, exit codes."""
    lost: Loss | None
    """For a container's file that deviates: the hop that lost the value; null if it was not traced."""
    measured: NotRequired[Annotated[bool, Meta(extra_json_schema={"const": True})]]
    """Whether the expected value was measured on the machine and so varies between runs; left out if false."""


class Finding(_Finding):
    """One expectation and its observation."""

    reason: Reason | None
    """The reason for the expectation; null if no rule computes it."""


class CaseFinding(_Finding):
    """One expectation and its observation in bundle.json."""

    reason: Count | None
    """The index, from 0, of its reason in the bundle's reasons; null if no rule computes it."""


class Attempt(TypedDict):
    """An attempt at a case that does not count."""

    outcome: Literal["machinery"]
    reason: str
    """The failure."""
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
    """The common fields of a result and a case."""

    id: str
    """pytest's node id, below the suites folder."""
    claim: str
    """Id of the claim that the test proves; empty without one."""
    chapter: str
    outcome: Outcome
    seconds: Seconds
    """Setup, call and teardown together."""
    reason: str
    """One line for every outcome except 'conforms'."""
    text: str
    """The text of the failure or error."""
    error_code: int
    """Exit code of the error's class; 0 without an error."""
    machine: str
    """Id of the machine; empty if the test needed none."""
    profile: str
    """Profile of the machine, even if it did not come up; empty if the test needed none."""
    runtime: NotRequired[str]
    """Name of the runtime under test, such as containerd+runc; empty as for profile.
    """
    driver: NotRequired[str]
    """Cgroup driver of the kubelet; empty as for profile."""
    host: NotRequired[str]
    """The ssh address of the worker's host; left out for the host on which the run was started.
    """
    folder: str
    """Evidence, relative to the results folder; empty if none was kept."""
    untried: bool
    """Whether it was given up without an attempt, because several cases before it failed in the same way."""
    earlier_attempts: NotRequired[Annotated[list[Attempt], Meta(min_length=1)]]
    """Attempts that ended in machinery and do not count, because the case was run again; left out if there are none.
    """
    kind: NotRequired[str]
    """Kind of the claim: state, behaviour or refusal; left out without a claim.
    """
    seconds_before: NotRequired[Seconds]
    """Median of the case's last runs on the host of the run, or of those on other systems if it never ran on its own;
    left out if none is known.
    """
    waits: NotRequired[Annotated[list[Waited], Meta(min_length=1)]]
    """The waits of the case, longest first, at most five; left out if none took half a second.
    """


class Result(_Case):
    """One case: a line of findings.jsonl. bundle.json has the same, with each reason stored once."""

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
    """By column: the number of the claim's cases by outcome; an outcome without cases is left out."""


class MatrixDifference(TypedDict):
    """A difference between systems."""

    claim: str
    knob: str
    what: Literal["expected", "observed"]
    count: Positive
    """The number of differing findings."""
    example: str
    """The subject of the first of them."""
    values: dict[str, str]
    """The first one's values, by column."""
    reasons: dict[str, str]
    """Its rules by column; only if the rules differ."""


class Matrix(TypedDict):
    """Claims by systems under test, if the run had more than one: profiles by runtimes by cgroup drivers."""

    profiles: list[str]
    """The profiles of the run, each once."""
    columns: NotRequired[list[MatrixColumn]]
    """The systems under test. A column's name has only the distinguishing parts: with one runtime and driver its
    profile.
    """
    rows: list[MatrixRow]
    differences: list[MatrixDifference]
    """Expected or observed values that differ between columns: one entry for each claim, interface file and pair of
    rules.
    """


class Setting(TypedDict):
    """One setting."""

    value: str | bool | int | list[str] | None
    """null is not set."""
    origin: Annotated[str, Meta(min_length=1)]
    """default, the environment variable, the option as given, or the file with its line."""


class MachineHost(TypedDict):
    """The host of a machine."""

    address: str
    name: str


class Timing(TypedDict):
    """Durations of calls of one kind, in seconds."""

    count: Count
    median: Seconds
    longest: Seconds


class Kept(TypedDict):
    """The machine that was kept running."""

    name: str


class DiskImage(TypedDict):
    """The file of --image: path, SHA-256, size in bytes, the firmware that boots it, and the architecture."""

    path: str
    sha256: str
    bytes: Count
    firmware: Literal["bios", "uefi"]
    architecture: NotRequired[Literal["amd64", "arm64"]]


class Machine(TypedDict):
    """The description of a machine or another place: machine.json, and an entry of bundle.json.

    It also has its components (image and packages, replaced files with their hashes), how it ran, the facts for plans,
    and the name under which it was kept running.
    """

    id: str
    profile: str
    topology: str
    kernel: NotRequired[str]
    runtimes: NotRequired[list[str]]
    kubelets: NotRequired[list[str]]
    """The versions of the kubelets under test, the one for upgrades last."""
    facts: NotRequired[dict[str, Any]]
    timing: NotRequired[dict[str, Timing]]
    """By the called method of the runtime."""
    kept: NotRequired[Kept]
    disk_image: NotRequired[DiskImage]
    """The distribution's image from which it booted."""
    system: NotRequired[str]
    """For such a machine the system's name in os-release."""
    login: NotRequired[str]
    """The user for logging in; any user except root uses sudo."""
    cloud_init_seed: NotRequired[bool]
    """Whether memqos gave that user's key to cloud-init."""
    lacking: NotRequired[list[str]]
    """Missing parts of the topology, each as a clause; claims about them are not observable."""
    system_state: NotRequired[str]
    """systemd's state of the whole system, if not "running"."""
    failed_units: NotRequired[list[str]]
    """The systemd units that had failed then."""
    host: NotRequired[MachineHost]
    """Its host, if it differs from the host on which the run was started: its ssh address, its own name, and the other
    fields of hosts.
    """


class LeftOut(TypedDict):
    """The part that the default run skips."""

    claims: Count
    cases: Count


class Counts(TypedDict):
    """The counts."""

    tests: CountByOutcome
    """Tests by outcome, including zeros."""
    findings: CountByVerdict
    """Findings by verdict, including zeros."""
    not_run: Count
    """Selected tests without a result."""
    left_out: NotRequired[LeftOut]
    """Claims and cases that the default run skips and this run did not have. --all runs them too.
    """
    set_by: CountsBySetter
    """The findings by writer and by verdict, including zeros. Values that memqos wrote in the kubelet's place and read
    back are no findings about a runtime.
    """


class Shard(TypedDict):
    """The shard of a run."""

    number: Positive
    of: Positive
    cases: Count
    division: str


class Merged(TypedDict):
    """The parts of a merged bundle."""

    parts: list[Part]
    doubles: list[str]
    """Cases that several parts have for the same system with equal results; the results have them once."""
    contradictions: list[str]
    """Cases with contradictory results; the results have them once for each part."""


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
    """Errors outside of any test, one line each; empty for none."""
    interrupted: bool
    """Whether the run was interrupted, so that tests are missing."""
    counts: Counts
    known_gone: NotRequired[list[str]]
    """Known deviations of the machines' runtimes that were checked and no longer observed, one line each. Not in
    bundles of older versions.
    """
    versions: dict[str, str]
    """The versions of memqos, Python and packages on the host."""
    host: dict[str, Any]
    settings: dict[str, Setting]
    """Each setting by name, with the origin of its value."""
    machines: list[Machine]
    reasons: list[Reason]
    """The reason chains, each once: findings have the index of theirs."""
    results: list[Case]
    matrix: NotRequired[Matrix]
    shard: NotRequired[Shard]
    """For one shard of several: its number, the number of shards, the number of all cases, and the name of the
    division. Shards of different divisions overlap or leave cases out.
    """
    claims: NotRequired[dict[str, Claim]]
    """The claims that results cite, by id, so that the bundle can be read without the suites. Not in bundles of older
    versions.
    """
    merged: NotRequired[Merged]
    """The merged parts; missing for one run."""
    inconsistencies: NotRequired[Annotated[list[str], Meta(min_length=1)]]
    """Contradictions between the bundle's (or a part's) statements and its results: such results never count as
    conforming. Missing in a bundle that a run wrote.
    """


class Claim(TypedDict):
    """A claim in a bundle."""

    sentence: str
    source: str
    kind: ClaimKind
    about: About


class Run(TypedDict):
    """run.json: the facts about a run before its first case.

    It is written when the run's folder is created, and again when the cases are known. A killed run leaves it without a
    bundle.json.
    """

    schema: Literal["memqos-bundle/3"]
    started: str
    versions: dict[str, str]
    """The versions of memqos, Python and packages on the host."""
    host: dict[str, Any]
    cases: NotRequired[Positive]
    """The number of planned cases; left out while it is unknown."""
    shard: NotRequired[Shard]
    """For one shard of several: its number, the number of shards, the number of all cases, and the name of the
    division. Shards of different divisions overlap or leave cases out.
    """
    settings: dict[str, Setting]
    """Each setting by name, with the origin of its value."""


class Part(TypedDict):
    """One of the merged runs."""

    name: str
    """The prefix of ids of machines and names of folders of this part."""
    started: str
    ended: str
    exit_code: ExitCode
    """The exit code of the process: 0 conforms, 1 deviates, 2 interrupted, 3 machinery, 4 usage, 5 nothing observed, 6
    this host cannot run it, 141 the reader closed the output.
    """
    cases: Count
    versions: dict[str, str]
    """The versions of memqos, Python and packages on the host."""
    host: dict[str, Any]
    settings: dict[str, Setting]
    """Each setting by name, with the origin of its value."""
    verified: NotRequired[Literal["", "verified", "not verified", "failed"]]
    """Whether its folder was unchanged since its run when it was merged; 'not verified' without SHA256SUMS."""
    faults: NotRequired[list[str]]
    """Changes since its run, a line each: changed, missing, added or damaged."""
