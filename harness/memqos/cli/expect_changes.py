"""The answer of `memqos expect --diff` and `--diff-config`: how two plans for the same pods differ."""

from __future__ import annotations

import json
from collections.abc import Sequence

from memqos.engine.answer.difference import differences, differences_document, differences_text
from memqos.engine.answer.succession import succession
from memqos.engine.plan import Plan

__all__ = ["changes_text"]


def changes_text(plans: Sequence[Plan], names: Sequence[str], *, running: bool, as_json: bool) -> str:
    """The answer about two plans with these names. running: the pods run through the change."""
    before, after = plans
    found = differences(before, succession(before, after) if running else after)
    if as_json:
        return json.dumps(differences_document(found, *names), indent=1)
    return differences_text(found, *names)
