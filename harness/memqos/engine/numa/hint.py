"""Topology hints: where a provider could serve a request, and whether that is as good as it gets.

Source: kubelet `topologymanager.TopologyHint` and `HintProvider`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memqos.engine.numa.bitmask import Mask

__all__ = ["NO_AFFINITY", "Hint", "ProviderHints"]


@dataclass(frozen=True, slots=True)
class Hint:
    """A set of zones that a request could be served from.

    affinity: None means any zone; an empty mask means no zone at all. preferred: fewer zones would not have done.
    """

    affinity: Mask | None
    preferred: bool

    def __str__(self) -> str:
        affinity = "any zone" if self.affinity is None else f"zones {self.affinity}"
        return f"{affinity}, {'preferred' if self.preferred else 'not preferred'}"


ProviderHints = Mapping[str, Sequence[Hint] | None]
"""What one provider answers, by resource. No resource at all: no preference. A resource with None: no preference for
that one. A resource with an empty sequence: no zone can serve it."""

NO_AFFINITY = Hint(None, preferred=False)
"""What is stored for a container when the Topology Manager's policy is none."""
