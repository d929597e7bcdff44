"""Which claim a test cites, and what that says of the test."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from memqos import claims

__all__ = ["about_of", "cited_by", "claim_of", "claims_below", "needs_of"]


def claim_of(item: pytest.Item) -> str:
    """The id of the claim that a test cites, "" for none."""
    marker = item.get_closest_marker("claim")
    return str(marker.args[0]) if marker and marker.args else ""


def about_of(item: pytest.Item) -> claims.About | None:
    """Whom the claim that a test cites is about, None for a test that cites none."""
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
    """The claims of a folder of suites; errors as `claims.load`."""
    return claims.load(root)
