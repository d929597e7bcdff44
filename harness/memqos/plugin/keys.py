"""What the plugin's modules store for one another on pytest's objects, and which tests are memqos tests.

Also which claim a test cites, and what that implies for the test.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from memqos import claims
from memqos.config.settings import Settings
from memqos.engine.answer.finding import Finding
from memqos.errors import MachineryError, UsageError
from memqos.interruption import Interruption
from memqos.report.bundle import LeftOut
from memqos.report.outcome import Outcome, Phase

__all__ = [
    "AGAIN",
    "ASKING",
    "ATTRIBUTE",
    "BUILDS",
    "CONCURRENT_FAILURE",
    "HOST",
    "INTERRUPTION",
    "LANE",
    "LEFT_OUT",
    "MARKERS",
    "NODES",
    "NOTES",
    "RESULTS",
    "SCENE",
    "SETTINGS_KEY",
    "SHARD",
    "USAGE",
    "WORKERS",
    "ConcurrentFailure",
    "Notes",
    "about_of",
    "cited_by",
    "claim_of",
    "claims_below",
    "host_of",
    "is_ours",
    "is_run_of_suites",
    "needs_of",
    "node_fixture",
    "outcome_of_phase",
    "phase_of",
    "plain_id",
    "without_outcome",
    "worker_id",
]


@dataclass(slots=True)
class Notes:
    """What one test has found so far, filled by `qos_evidence` and read for the test's report.

    machine: id of the machine it used. folder: its evidence, None while there is none.
    """

    findings: list[Finding] = field(default_factory=list)
    machine: str = ""
    folder: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrentFailure:
    """A case that failed while others ran on the same machine: its name and its error."""

    name: str
    error: MachineryError


AGAIN = "again"
"""The outcome that pytest gets for a phase of a test that runs again."""

ATTRIBUTE = "memqos"
"""The key of a report's Phase; JSON on its way from a worker."""

SETTINGS_KEY = pytest.StashKey[Settings]()
RESULTS = pytest.StashKey[Path]()
BUILDS = pytest.StashKey[Mapping[str, str]]()
"""The SHA-256, at the start of the run, of each file given by the user, by its path."""

NOTES = pytest.StashKey[Notes]()
CONCURRENT_FAILURE = pytest.StashKey[ConcurrentFailure]()
"""Of a module: the last test that was rerun; from then on its cases are judged one at a time."""

SCENE = pytest.StashKey[Path]()
"""Of a module: the evidence of what its tests currently share."""

HOST = "memqos_host"
"""The key under which a worker receives its host's name."""

LANE = pytest.StashKey[Any]()
"""This worker's `machines.lane.Lane`, once a test needed a node; Any, since it is too heavy to import here."""

INTERRUPTION = pytest.StashKey[Interruption]()
"""Of this process."""

LEFT_OUT = pytest.StashKey[LeftOut]()
"""What the default leaves out of the suites of this run."""

SHARD = pytest.StashKey[Mapping[str, Any]]()
"""Of a run that is one of several shards: its number, of how many, of how many cases, and the division's name."""

USAGE = pytest.StashKey[UsageError]()
"""A usage error found by an xdist worker while collecting; the controller reports it."""

WORKERS = pytest.StashKey[str]()
"""How many machines run at a time, as a line; set in xdist's controller."""

MARKERS = (
    'claim(id): the claim of claims.toml, as "chapter/name", that this test proves; exactly one per test',
    "needs(feature, ...): what the machine or runtime must have; without it the claim is not observable",
    "behaviour: time and memory pressure are involved",
    "machine(profile=..., topology=...): the machine this test needs, if it differs from the settings",
    "more(id, ...): not in the default run (or not under these kubelets); needs --all or an explicit selection",
    "kubelet(id, ..., instead=...): run only under these kubelets of kubelets.toml, or others if the run has none",
)

NODES = ("qos_node", "qos_fresh_node")
"""The fixtures that provide a test's node."""
ASKING = frozenset({"qos_requests", "qos_lifecycle", "qos_cri", "qos_cases"})
"""The fixtures through which all tests of a module request containers in one pod."""

_GROUP = re.compile(r"@[^@\[\]/:]+$")


def is_ours(item: pytest.Item) -> bool:
    """Whether this is a memqos test: it cites a claim, or uses one of the plugin's fixtures."""
    if item.get_closest_marker("claim"):
        return True
    return any(name.startswith("qos_") for name in getattr(item, "fixturenames", ()))


def is_run_of_suites(config: pytest.Config) -> bool:
    """Whether everything that this run collects is in suites folders, so that all of it is memqos's."""
    if claims.is_suites_root(config.rootpath):
        return True
    places = [config.invocation_params.dir / word.partition("::")[0] for word in config.args]
    return bool(places) and all(
        any(claims.is_suites_root(folder) for folder in (place, *place.parents)) for place in places
    )


def node_fixture(names: Iterable[str]) -> str:
    """Which of NODES is among the names of a test's fixtures, "" if none is."""
    return next((name for name in NODES if name in names), "")


def outcome_of_phase(report: pytest.TestReport) -> Outcome | None:
    """The Phase of a memqos test's report; None without one, or for other tests."""
    phase = phase_of(report)
    return None if phase is None else phase.outcome


def phase_of(report: pytest.TestReport) -> Phase | None:
    """The Phase of a report; None for other tests."""
    phase: Phase | None = getattr(report, ATTRIBUTE, None)
    return phase


def without_outcome(report: pytest.TestReport, why: str) -> pytest.TestReport:
    """The report of a phase that does not count because the test is run again, and why: neither passed nor failed."""
    report.outcome = AGAIN  # type: ignore[assignment]
    phase = phase_of(report)
    if phase is not None:
        setattr(report, ATTRIBUTE, replace(phase, outcome=None, findings=(), again=why))
    return report


def plain_id(nodeid: str) -> str:
    """A node id without the group that xdist appends to it under --dist loadgroup."""
    return _GROUP.sub("", nodeid)


def worker_id(config: pytest.Config) -> str:
    """gw0, gw1 … in an xdist worker, "main" without xdist."""
    workerinput: dict[str, str] = getattr(config, "workerinput", {})
    return workerinput.get("workerid", "main")


def host_of(process: object) -> str:
    """The name of a worker's host, as ssh knows it; "" for the host on which the run was started.

    process: a worker's own configuration, or what its controller has of it; any other is the controller itself.
    """
    told: dict[str, str] = getattr(process, "workerinput", {})
    return told.get(HOST, "")


def claim_of(item: pytest.Item) -> str:
    """The id of the claim that a test cites, "" for none."""
    marker = item.get_closest_marker("claim")
    return str(marker.args[0]) if marker and marker.args else ""


def about_of(item: pytest.Item) -> claims.About | None:
    """The subject of the claim that a test cites, None for a test that cites none."""
    claim = cited_by(item)
    return claim.about if claim is not None else None


def cited_by(item: pytest.Item) -> claims.Claim | None:
    """The claim that a test cites, None if it cites none."""
    name = claim_of(item)
    return claims_below(item.path.parent.parent)[name] if name else None


def needs_of(item: pytest.Item) -> tuple[str, ...]:
    """What a test needs, by its own markers and by its claim."""
    claim = cited_by(item)
    by_claim = claim.needs if claim is not None else ()
    marked = [name for marker in item.iter_markers("needs") for name in marker.args]
    return tuple(dict.fromkeys([*by_claim, *marked]))


@lru_cache(maxsize=32)
def claims_below(root: Path) -> claims.Claims:
    """The claims of a folder of suites; errors as for `claims.load`."""
    return claims.load(root)
