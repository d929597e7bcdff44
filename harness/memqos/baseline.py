"""Accepted deviations: a list for runtimes that are not clean yet, each entry for one claim and one knob, until a day.

Known deviations are about a runtime's versions, and hold for all users; an accepted one is a user's own, for a while.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from memqos.engine.answer.finding import Finding, Verdict
from memqos.known import EVIDENCE
from memqos.validation import CheckedFile

__all__ = ["Accepted", "accepted_or_not", "baseline_text", "load_baseline"]

MAX_BYTES = 16 << 20
"""A longer baseline is refused."""

_TABLE = "accepted"
_Told = Annotated[str, Meta(min_length=1, description="a string that is not empty")]


class Accepted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry. until: the last day on which it counts, in UTC. subject: "" for any; * stands for any text.

    observed: "" for any value. reason: why it is accepted.
    """

    claim: _Told
    knob: _Told
    until: datetime.date
    reason: _Told
    subject: str = ""
    observed: str = ""

    def fits(self, finding: Finding, claim: str) -> bool:
        """Whether this is the deviation of that claim's finding."""
        subject = re.escape(self.subject or "*").replace(r"\*", ".*")
        return (
            finding.verdict is Verdict.DEVIATES
            and (self.claim, self.knob) == (claim, finding.knob)
            and self.observed in {"", finding.observed}
            and re.fullmatch(subject, str(finding.subject), re.DOTALL) is not None
        )


def accepted_or_not(finding: Finding, claim: str, accepted: Iterable[Accepted], *, today: datetime.date) -> Finding:
    """The finding as known if it is accepted today; one that was accepted till before today says so, and deviates."""
    fitting = [one for one in accepted if one.fits(finding, claim)]
    for one in fitting:
        if today <= one.until:
            told = f"accepted until {one.until}: {one.reason}"
            return replace(finding, verdict=Verdict.KNOWN, evidence={**finding.evidence, EVIDENCE: told})
    if fitting:
        last = max(fitting, key=lambda one: one.until)
        told = f"accepted until {last.until}, which is over: {last.reason}"
        return replace(finding, evidence={**finding.evidence, "baseline": told})
    return finding


def load_baseline(file: Path) -> tuple[Accepted, ...]:
    """Every entry of a file: tables `[[accepted]]`.

    Raises UsageError for a file that cannot be read, is no plain file or has more than MAX_BYTES,
    ManifestError for what is no entry.
    """
    found = CheckedFile.toml(file, most=MAX_BYTES, what="the baseline")
    entries = found.document.get(_TABLE, [])
    if set(found.document) - {_TABLE} or not isinstance(entries, list):
        what = f"a baseline has tables [[{_TABLE}]] and nothing else."
        raise found.error(what, (next((name for name in found.document if name != _TABLE), _TABLE),))
    return tuple(found.checked((_TABLE, at), Accepted) for at in range(len(entries)))


def baseline_text(deviations: Iterable[tuple[str, Finding]], *, until: datetime.date, reason: str) -> str:
    """A file that accepts these, claim and finding, each claim, knob, subject and value once."""
    seen = dict.fromkeys((claim, one.knob, str(one.subject), one.observed) for claim, one in deviations)
    return "\n".join(
        f"[[{_TABLE}]]\n"
        f"claim = {_quoted(claim)}\n"
        f"knob = {_quoted(knob)}\n"
        f"subject = {_quoted(subject)}\n"
        f"observed = {_quoted(observed)}\n"
        f"until = {until.isoformat()}\n"
        f"reason = {_quoted(reason)}\n"
        for claim, knob, subject, observed in seen
    )


def _quoted(text: str) -> str:
    """A basic string of TOML: as in JSON, which need not escape DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
