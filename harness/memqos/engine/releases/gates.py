"""Feature gates: which stage one has in a release, and whether it is on. The stages are in `releases.table`."""

from __future__ import annotations

from collections.abc import Mapping

from memqos.engine.releases.release import Release
from memqos.engine.releases.table import STAGES, Gate, GateStage

__all__ = ["enabled", "stage"]


def stage(gate: Gate, release: Release) -> GateStage | None:
    """The gate's stage in a release; None before the release that brought it."""
    passed = [one for one in STAGES[gate] if one.since <= release.minor]
    return passed[-1] if passed else None


def enabled(gate: Gate, release: Release, given: Mapping[str, bool]) -> bool:
    """Whether the gate is on: as configured, else its default; never on before it exists, always on once locked on."""
    now = stage(gate, release)
    if now is None:
        return False
    if now.locked:
        return now.default
    # AllAlpha and AllBeta are not modelled: a kubelet that sets them is outside of what the rules describe.
    return given.get(gate, now.default)
