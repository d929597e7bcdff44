"""What `memqos explore --json` prints. The text below a field describes it in the schema."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from memqos.report.documents.kinds import Count, Format, Seconds

__all__ = [
    "EngineCounts",
    "EngineExploration",
    "EngineFault",
    "Exploration",
    "ExploredCounts",
    "ExploredExample",
    "ExploredFinding",
    "ExploredKubelet",
]


class ExploredKubelet(TypedDict):
    """A kubelet as data."""

    kubernetes: str
    config: dict[str, Any]
    """A KubeletConfiguration."""


class ExploredExample(TypedDict):
    """What was tried: pods under a kubelet, what becomes of them, a container's lifecycle, or a tree of cgroups."""

    kubernetes: str
    config: dict[str, Any]
    """A KubeletConfiguration."""
    pods: NotRequired[list[dict[str, Any]]]
    """Pod manifests, in the order of their admission."""
    to: NotRequired[dict[str, Any]]
    """The manifest that the pod is resized to in place."""
    then: NotRequired[list[ExploredKubelet]]
    """The kubelets that come back one after another while the pods run."""
    steps: NotRequired[list[dict[str, Any]]]
    """What a container goes through: each step has a verb and its request, in the fields of CRI."""
    tree: NotRequired[dict[str, Any]]
    """Nested cgroups without pods (`children`), with amounts in bytes for min, low, high, max and swap. A leaf uses
    page cache (`file`) or anonymous memory (`anon`); the root has the `limit` that is set once all leaves use theirs.
    """


class ExploredFinding(TypedDict):
    """An example after which a file deviates; a file of a database has one of these."""

    memqos_explore: Format
    name: str
    """What deviates; also the name of its file in the database."""
    finding: str
    expected: str
    observed: str
    lost: NotRequired[str]
    """The hop that lost the value."""
    known: NotRequired[str]
    shrunk: bool
    """Whether no smaller example was found; false if the time was over first."""
    seen_again: bool
    """Whether it deviated again when the same was tried alone."""
    system: list[str]
    example: ExploredExample
    seen: NotRequired[Count]
    """In how many examples of the session."""
    tries: NotRequired[Count]
    """How many smaller examples were tried."""
    found_after_seconds: NotRequired[Seconds]
    shrunk_after_seconds: NotRequired[Seconds]


class ExploredCounts(TypedDict):
    """What a session tried and judged."""

    examples: dict[str, Count]
    """By kind: pods, resize, restart, lifecycle, kernel."""
    shapes: Count
    """Distinct examples, amounts aside."""
    pods: Count
    containers: Count
    files: Count
    skipped: Count


class Exploration(TypedDict):
    """memqos explore --json."""

    memqos_format: Format
    seed: Count
    interrupted: bool
    system: list[str]
    """The machine, its runtimes and kernel; with --against those of both."""
    against: str
    seconds: Seconds
    containers_per_minute: Seconds
    """While examples were judged, without the time of shrinking."""
    counts: ExploredCounts
    skipped: dict[str, Count]
    """Why examples were not tried. Digits are written as #."""
    troubles: dict[str, Count]
    """What did not come up, which is no finding."""
    known: dict[str, Count]
    """The listed faults that showed."""
    gone: list[str]
    """Findings of the database that deviate no longer."""
    findings: list[ExploredFinding]


class EngineCounts(TypedDict):
    """What was planned and audited."""

    situations: Count
    pods: Count
    files: Count


class EngineFault(TypedDict):
    """What plan and audit disagree about, or a fault of the program."""

    wrong: str
    situation: dict[str, Any]
    """The smallest one: node, kubelet, objects of admission and pods."""


class EngineExploration(TypedDict):
    """memqos explore --expect --json."""

    memqos_format: Format
    seed: Count
    interrupted: bool
    seconds: Seconds
    counts: EngineCounts
    refused: dict[str, Count]
    """What is rejected before a plan, by its error. Digits are written as #."""
    wrong: list[EngineFault]
