"""Feature gates: which stage one has in a release, and whether it is on. The stages are in `releases.table`."""

from __future__ import annotations

from collections.abc import Mapping

from memqos.engine.releases.release import Release
from memqos.engine.releases.table import STAGES, Gate, GateStage, Maturity

__all__ = ["GROUPS", "enabled", "stage"]

GROUPS: Mapping[Maturity, str] = {Maturity.ALPHA: "AllAlpha", Maturity.BETA: "AllBeta"}
"""The names that set every gate of one stage which is not named itself."""


def stage(gate: Gate, release: Release) -> GateStage | None:
    """The gate's stage in a release; None before the release that brought it."""
    passed = [one for one in STAGES[gate] if one.since <= release.minor]
    return passed[-1] if passed else None


def enabled(gate: Gate, release: Release, given: Mapping[str, bool]) -> bool:
    """Whether the gate is on: as named, else as AllAlpha or AllBeta sets its stage in this release, else its default.

    Never on before it exists; at its default once it is locked or removed.
    Source: component-base `featuregate.SetFromMap`, in which a named gate wins over both groups in any order.
    """
    now = stage(gate, release)
    if now is None:
        return False
    if now.locked:
        return now.default
    return given.get(gate, given.get(GROUPS.get(now.maturity, ""), now.default))
