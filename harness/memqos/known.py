"""Known deviations: what a runtime's versions are known to do wrong, claim by claim and knob by knob.

A deviation that is listed is told as known, and does not fail a run. The list is strict: an entry is for one claim, one
knob, one runtime's versions and, where it says so, one cgroup driver and one observed value; it hides nothing else.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from memqos.engine.answer.finding import Finding, Verdict
from memqos.errors import ManifestError

__all__ = ["EVIDENCE", "KnownDeviation", "amended", "load_known", "runtimes_told"]

EVIDENCE = "known"
"""The name under which a finding's evidence says which entry it is."""

_RELEASE = re.compile(r"v?(\d{1,9}(?:\.\d{1,9})*)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDeviation:
    """One entry of known.toml.

    runtime: a CRI or OCI runtime's own name. since, fixed: the first release that deviates, and the first that does
    not any more; "" for every one from the beginning, and for none yet. claim, knob: what deviates. beside: the other
    runtime that it takes, such as the OCI runtime below; "" for any. driver, observed: "" for either driver and for any
    value. upstream: where it is known. sometimes: whether it may also be right.
    """

    name: str
    runtime: str
    claim: str
    knob: str
    sentence: str
    upstream: str
    since: str = ""
    fixed: str = ""
    beside: str = ""
    driver: str = ""
    observed: str = ""
    sometimes: bool = False

    def is_of(self, runtimes: Mapping[str, str], driver: str) -> bool:
        """Whether it is known of one of these runtimes, name to version, under this cgroup driver.

        A version that nobody tells, "", may be any: it is known of that only if it is known of all.
        """
        if not {self.runtime, self.beside or self.runtime} <= set(runtimes) or self.driver not in {"", driver}:
            return False
        version = _release(runtimes[self.runtime])
        if not version:
            return not (self.since or self.fixed)
        return _release(self.since) <= version and not (self.fixed and version >= _release(self.fixed))

    def fits(self, finding: Finding, claim: str) -> bool:
        """Whether this is the deviation of that claim's finding."""
        same = (self.claim, self.knob) == (claim, finding.knob)
        return same and finding.verdict is Verdict.DEVIATES and self.observed in {"", finding.observed}

    def __str__(self) -> str:
        return f"{self.name}: {self.sentence} ({self.upstream})"


def amended(
    finding: Finding, claim: str, known: Iterable[KnownDeviation], *, runtimes: Mapping[str, str], driver: str
) -> Finding:
    """The finding as known, with the entry in its evidence, if it is listed; as it is otherwise."""
    for entry in known:
        if entry.fits(finding, claim) and entry.is_of(runtimes, driver):
            evidence = {**finding.evidence, EVIDENCE: str(entry)}
            return replace(finding, verdict=Verdict.KNOWN, evidence=evidence)
    return finding


def runtimes_told(told: Iterable[str]) -> dict[str, str]:
    """Names and versions in texts such as "containerd 1.7.24", "runc of unknown version (a given file)"."""
    found = {}
    for text in told:
        name, _, version = text.partition(" ")
        found[name] = version.partition(" (")[0] if _RELEASE.match(version) else ""
    return found


def load_known(file: Path) -> tuple[KnownDeviation, ...]:
    """Every entry of a known.toml, a table each; ManifestError, naming the entry, for what is none."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ManifestError.at(f"the file is not TOML: {error}.", file=str(file)) from None
    return tuple(_entries(document, str(file)))


def _entries(document: Mapping[str, Any], file: str) -> Iterator[KnownDeviation]:
    kinds = {field.name: bool if field.name == "sometimes" else str for field in fields(KnownDeviation)}
    needed = ("runtime", "claim", "knob", "sentence", "upstream")
    for name, given in document.items():
        if not isinstance(given, dict):
            raise ManifestError.at("a known deviation is a table.", file=file, field=name, got=given)
        for key, value in given.items():
            if key not in kinds or key == "name" or not isinstance(value, kinds[key]):
                raise ManifestError.at(f"'{key}' is no field of a known deviation.", file=file, field=name, got=value)
        if missing := [key for key in needed if not given.get(key)]:
            raise ManifestError.at(f"'{missing[0]}' has to be said.", file=file, field=name)
        for key in ("since", "fixed"):
            if given.get(key) and not _RELEASE.fullmatch(given[key]):
                raise ManifestError.at(f"'{key}' is a release such as 1.2.", file=file, field=name, got=given[key])
        yield KnownDeviation(name=name, **given)


def _release(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with; empty for a text that is none."""
    match = _RELEASE.match(version)
    return tuple(int(part) for part in match[1].split(".")) if match else ()
