"""Accepted deviations: for those who cannot be clean yet, each for one claim and one knob, and each until a day.

Known deviations are about a runtime's versions, and true for everybody; an accepted one is somebody's own, for a while.
"""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memqos.engine.answer.finding import Finding, Verdict
from memqos.errors import ManifestError, UsageError
from memqos.known import EVIDENCE
from memqos.plain_file import read_plain

__all__ = ["Accepted", "accepted_or_not", "baseline_text", "load_baseline"]

MAX_BYTES = 16 << 20
"""A longer baseline is refused."""

_FIELDS = {"claim": str, "knob": str, "until": datetime.date, "reason": str, "subject": str, "observed": str}
_NEEDED = ("claim", "knob", "until", "reason")
_TABLE = "accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """One entry. until: the last day on which it counts, in UTC. subject: "" for any; * stands for any text.

    observed: "" for any value. reason: why it is accepted.
    """

    claim: str
    knob: str
    until: datetime.date
    reason: str
    subject: str = ""
    observed: str = ""

    def fits(self, finding: Finding, claim: str) -> bool:
        """Whether this is the deviation of that claim's finding."""
        subject = re.escape(self.subject or "*").replace(r"\*", ".*")
        return (
            finding.verdict is Verdict.DEVIATES
            and (self.claim, self.knob) == (claim, finding.knob)
            and self.observed in {"", finding.observed}
            and re.fullmatch(subject, finding.subject, re.DOTALL) is not None
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
    try:
        document = tomllib.loads(read_plain(file, most=MAX_BYTES).decode())
    except OSError as error:
        raise UsageError(f"the baseline cannot be read: {error.strerror}.", where=str(file)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ManifestError.at(f"the file is not TOML: {error}.", file=str(file)) from None
    entries = document.pop(_TABLE, [])
    if document or not isinstance(entries, list):
        raise ManifestError.at(
            f"a baseline has tables [[{_TABLE}]] and nothing else.", file=str(file), field=next(iter(document), _TABLE)
        )
    return tuple(_entry(entry, f"{_TABLE} {number}", str(file)) for number, entry in enumerate(entries, start=1))


def _entry(given: Any, where: str, file: str) -> Accepted:
    if not isinstance(given, dict):
        raise ManifestError.at("an accepted deviation is a table.", file=file, field=where, got=given)
    for key, value in given.items():
        if key not in _FIELDS:
            raise ManifestError.at(
                f"'{key}' is no field of it.", file=file, field=where, next_step=f"Its fields are {', '.join(_FIELDS)}."
            )
        # A date with a time is one, too, for Python.
        if not isinstance(value, _FIELDS[key]) or isinstance(value, datetime.datetime):
            kind = "a day such as 2027-01-31, without quotes" if key == "until" else "a text"
            raise ManifestError.at(f"'{key}' is {kind}.", file=file, field=where, got=value)
    if missing := [key for key in _NEEDED if not given.get(key)]:
        raise ManifestError.at(f"'{missing[0]}' has to be said.", file=file, field=where)
    return Accepted(**given)


def baseline_text(deviations: Iterable[tuple[str, Finding]], *, until: datetime.date, reason: str) -> str:
    """A file that accepts these, claim and finding, each claim, knob, subject and value once."""
    seen = dict.fromkeys((claim, one.knob, one.subject, one.observed) for claim, one in deviations)
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
