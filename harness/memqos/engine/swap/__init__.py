"""Swap limits of containers, KEP-2400: one module a revision, and the choice among them by release.

No release writes memory.swap.max for pods, QoS classes or the node: swap is a matter of containers alone.
"""

from __future__ import annotations

from memqos.engine.release import Release
from memqos.engine.swap import v1_22, v1_28, v1_30
from memqos.engine.swap.base import SwapCase, SwapRule, SwapSetting
from memqos.engine.swap.v1_30 import swaps

__all__ = ["SwapCase", "SwapRule", "SwapSetting", "swap_rule", "swaps"]


def swap_rule(release: Release) -> SwapRule:
    """The function that decides a container's swap in this release."""
    if release.since(30):
        return v1_30.decide
    return v1_28.decide if release.since(28) else v1_22.decide
