"""The output of `memqos explore --json`. The text below a field describes it in the schema."""

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
    """One example: pods under a kubelet, their later changes, a container's lifecycle, or a tree of cgroups."""

    kubernetes: str
    config: dict[str, Any]
    """A KubeletConfiguration."""
    pods: NotRequired[list[dict[str, Any]]]
    """Pod manifests, in the order of their admission."""
    to: NotRequired[dict[str, Any]]
    """The manifest of the in-place resize."""
    then: NotRequired[list[ExploredKubelet]]
    """The kubelets that start one after another while the pods run."""
    steps: NotRequired[list[dict[str, Any]]]
    """A container's lifecycle: each step has a verb and its request in CRI fields."""
    tree: NotRequired[dict[str, Any]]
    """Nested cgroups without pods (`children`), with amounts in bytes for min, low, high, max and swap. A leaf uses
    page cache (`file`) or anonymous memory (`anon`); the root has the `limit`, which is set after all leaves use their
    memory.
    """


class ExploredFinding(TypedDict):
    """An example that makes a file deviate; a file of a database has one of these."""

    memqos_explore: Format
    name: str
    """The name of the deviation; also that of its file in the database."""
    finding: str
    expected: str
    observed: str
    lost: NotRequired[str]
    """The hop that lost the value."""
    known: NotRequired[str]
    shrunk: bool
    """Whether no smaller example was found; false if the time ended first."""
    seen_again: bool
    """Whether the example deviated again when tried alone."""
    system: list[str]
    example: ExploredExample
    seen: NotRequired[Count]
    """The number of examples of the session with it."""
    tries: NotRequired[Count]
    """The number of smaller examples tried."""
    found_after_seconds: NotRequired[Seconds]
    shrunk_after_seconds: NotRequired[Seconds]


class ExploredCounts(TypedDict):
    """The examples that a session tried and judged."""

    examples: dict[str, Count]
    """By kind: pods, resize, restart, lifecycle, kernel."""
    shapes: Count
    """Examples that differ in more than amounts."""
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
    """The time of judging examples, without shrinking."""
    counts: ExploredCounts
    skipped: dict[str, Count]
    """Why examples were not tried. Digits are written as #."""
    troubles: dict[str, Count]
    """Machines and pods that did not start, which are no findings."""
    known: dict[str, Count]
    """The observed listed faults."""
    gone: list[str]
    """Findings of the database that no longer deviate."""
    findings: list[ExploredFinding]


class EngineCounts(TypedDict):
    """The planned and audited examples."""

    situations: Count
    pods: Count
    files: Count


class EngineFault(TypedDict):
    """A contradiction between plan and audit, or a fault of the program."""

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
    """Examples rejected before a plan, by their error. Digits are written as #."""
    wrong: list[EngineFault]
