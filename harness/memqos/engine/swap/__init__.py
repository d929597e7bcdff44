"""Swap limits of containers, KEP-2400: one module per revision, and the choice among them by release.

No release writes memory.swap.max for pods, QoS classes or the node: swap is a matter of containers alone.
"""

from __future__ import annotations

from functools import cache

from memqos.engine.releases.release import Release
from memqos.engine.releases.table import Novelty
from memqos.engine.swap import preview, v1_22, v1_28, v1_30
from memqos.engine.swap.base import SwapCase, SwapRule, SwapSetting
from memqos.engine.swap.v1_30 import swaps

__all__ = ["SwapCase", "SwapRule", "SwapSetting", "swap_rule", "swaps"]

_LATER = {Novelty.PROPORTIONAL_SWAP: v1_28.decide, Novelty.NO_SWAP: v1_30.decide, Novelty.WORKLOAD_SWAP: preview.decide}


@cache
def swap_rule(release: Release) -> SwapRule:
    """The function that decides a container's swap in this release."""
    return release.newest(v1_22.decide, _LATER)
