"""Known deviations: what versions of a runtime or of the kernel are known to do wrong, by claim and knob.

A deviation that is listed is reported as known, and does not fail a run. The list is strict: an entry is for one claim,
one knob, one runtime's versions and, where it says so, one cgroup driver and one observed value; it hides nothing else.
What an entry is about may be a row of `memqos.engine.faults`: then runtime, versions, sentence and link are that row's.

Accepted deviations: a list for runtimes that are not clean yet, each entry for one claim and one knob, until a day.

Known deviations are about a runtime's versions, and hold for all users; an accepted one is a user's own, for a while.
"""

from __future__ import annotations

import datetime
import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, Protocol

from msgspec import Meta, Struct

from memqos.catalog.data import data_root
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.faults import FAULTS, KUBELET, LINUX
from memqos.engine.resize.leftovers import Leftover
from memqos.errors import UnknownNameError
from memqos.model.node import CgroupDriver
from memqos.validation import CheckedFile

__all__ = [
    "EVIDENCE",
    "Accepted",
    "KnownDeviation",
    "System",
    "accepted_or_not",
    "amended",
    "baseline_text",
    "known_deviations",
    "known_fault_or_not",
    "known_or_not",
    "left_by_kubelet",
    "load_all",
    "load_baseline",
    "load_known",
    "runtime_versions",
]

EVIDENCE = "known"
"""The name under which a finding's evidence says which entry it is."""

_RELEASE = re.compile(r"v?(\d{1,9}(?:\.\d{1,9})*)", re.ASCII)


_Told = Annotated[str, Meta(min_length=1, description="a string that is not empty")]
_Release = Annotated[str, Meta(pattern=r"^(v?[0-9]{1,9}(\.[0-9]{1,9})*)?$", description="a release such as 1.2")]


class _Where(Struct, forbid_unknown_fields=True):
    """One place of a table in which its deviation shows: its fields besides those of the table."""

    claim: str | list[str] = ""
    cause: Leftover | None = None
    knob: str | list[str] = ""
    other_runtime: str = ""
    driver: Literal["", "systemd", "cgroupfs"] = ""
    observed: str = ""
    sometimes: bool = False


_Places = Annotated[list[_Where], Meta(min_length=1, description="a list of tables")]


class KnownDeviation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of known.toml, or of a list of the same kind: of one claim and one knob of a table.

    fault: the row of `memqos.engine.faults.FAULTS` that it is of; "" for none. runtime: a CRI or OCI runtime's own
    name, linux for the kernel, or kubelet. since, fixed: the first release that deviates, and the first that no longer
    does; "" for every one from the beginning, and for none yet. claim, knob: what deviates. cause: of a kubelet what it
    leaves behind (`Leftover`), in the place of a claim. other_runtime: the other runtime that it takes, such as the OCI
    runtime below; "" for any. driver, observed: "" for either driver and for any value. upstream: where it is known.
    sometimes: whether it may also be right.
    """

    name: str
    runtime: _Told
    knob: _Told
    sentence: _Told
    upstream: _Told
    fault: str = ""
    claim: str = ""
    cause: Leftover | None = None
    since: _Release = ""
    fixed: _Release = ""
    other_runtime: str = ""
    driver: Literal["", "systemd", "cgroupfs"] = ""
    observed: str = ""
    sometimes: bool = False

    def is_of(self, runtimes: Mapping[str, str], driver: str) -> bool:
        """Whether it is known of one of these runtimes, name to version, under this cgroup driver.

        An unknown version, "", may be any: only entries for all versions apply.
        """
        if not {self.runtime, self.other_runtime or self.runtime} <= set(runtimes) or self.driver not in {"", driver}:
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
    """The finding, marked as known with the entry in its evidence if it is listed, else unchanged."""
    for entry in known:
        if entry.fits(finding, claim) and entry.is_of(runtimes, driver):
            evidence = {**finding.evidence, EVIDENCE: str(entry)}
            return replace(finding, verdict=Verdict.KNOWN, evidence=evidence)
    return finding


def left_by_kubelet(
    finding: Finding, cause: str, known: Iterable[KnownDeviation], *, version: str, driver: str
) -> Finding:
    """A finding about a value that the kubelet left, marked as known if this cause is listed for its version."""
    for entry in known:
        listed = cause and (entry.runtime, entry.cause, entry.knob) == (KUBELET, cause, finding.knob)
        if listed and entry.is_of({KUBELET: version}, driver) and entry.observed in {"", finding.observed}:
            evidence = {**finding.evidence, EVIDENCE: str(entry)}
            return replace(finding, verdict=Verdict.KNOWN, set_by=Setter.KUBELET, evidence=evidence)
    return finding


def runtime_versions(told: Iterable[str], *, kernel: str) -> dict[str, str]:
    """Names and versions in texts such as "containerd 1.7.24", "runc of unknown version (a given file)".

    kernel: its release, as uname tells it, which is linux's version; "" for one that is not known.
    """
    found = {LINUX: kernel} if kernel else {}
    for text in told:
        name, _, version = text.partition(" ")
        found[name] = version.partition(" (")[0] if _RELEASE.match(version) else ""
    return found


def load_known(file: Path) -> tuple[KnownDeviation, ...]:
    """Every entry of a list such as vm/known.toml, a table each.

    Raises ManifestError, with the line where there is one, for what is no entry, UnknownNameError for a fault that is
    not in `FAULTS`, UsageError for a file that cannot be read, is no plain file or is longer than 4 MiB.
    """
    found = CheckedFile.toml(file, what="the list of known deviations")
    return tuple(entry for name in found.document for entry in _entries(found, name))


def load_all(files: Iterable[Path]) -> tuple[KnownDeviation, ...]:
    """The entries of several lists; errors as of `load_known`, and ManifestError for a name that is in two of them."""
    found: list[KnownDeviation] = []
    first: dict[str, Path] = {}
    for file in files:
        for entry in load_known(file):
            if first.setdefault(entry.name, file) != file:
                what, next_step = f"{first[entry.name]} has an entry of this name.", "Give it a name of its own."
                again = CheckedFile.toml(file, what="the list of known deviations")
                raise again.error(what, (entry.name,), next_step=next_step)
            found.append(entry)
    return tuple(found)


_OF_FAULT = ("runtime", "since", "fixed", "sentence", "upstream")
_FIELDS = ("fault", *(name for name in KnownDeviation.__struct_fields__ if name not in {"name", "fault"}), "where")


def _entries(file: CheckedFile, name: str) -> Iterator[KnownDeviation]:
    """The entries that a table is: of each of its places, each claim with each knob."""
    given = file.document[name]
    if not isinstance(given, dict):
        raise file.error(f"it must be a table, not {given!r}.", (name,), got=given)
    if unknown := [key for key in given if key not in _FIELDS]:
        where, known = (name, unknown[0]), f"Known: {', '.join(_FIELDS)}."
        raise file.error(f"unknown field '{unknown[0]}'.", where, field=name, got=given[unknown[0]], next_step=known)
    if "where" in given:
        file.checked((name, "where"), _Places)
    common = {**given, **_of_fault(file, name, given)}
    for place in common.pop("where", [{}]):
        one = {**common, **place}
        lists = [key for key in ("claim", "knob") if isinstance(one.get(key), list) and one[key]]
        for each in itertools.product(*([(key, value) for value in one[key]] for key in lists)):
            entry = file.checked((name,), KnownDeviation, value={**one, **dict(each)}, more={"name": name})
            _check(entry, file)
            yield entry


def _of_fault(file: CheckedFile, name: str, given: Mapping[str, object]) -> Mapping[str, str]:
    """What the fault that a table names says of it; nothing for a table that names none."""
    fault = given.get("fault")
    if not isinstance(fault, str) or not fault:
        return {}
    if fault not in FAULTS:
        error = UnknownNameError.of("fault", fault, sorted(FAULTS))
        raise file.error(error.what, (name, "fault"), field=name, got=fault, next_step=error.next_step)
    if said := [key for key in _OF_FAULT if key in given]:
        what = f"'{said[0]}' comes from the fault '{fault}': leave it out."
        raise file.error(what, (name, said[0]), field=name, got=given[said[0]])
    return {key: str(getattr(FAULTS[fault], key)) for key in _OF_FAULT}


def _check(entry: KnownDeviation, file: CheckedFile) -> None:
    """A runtime or a kernel is known by a claim, a kubelet by a cause or a claim. ManifestError for any other entry."""
    by_cause = entry.runtime == KUBELET and not entry.claim
    needed, other = ("cause", "claim") if by_cause else ("claim", "cause")
    if not getattr(entry, needed):
        raise file.error(f"missing required field '{needed}'.", (entry.name,))
    if getattr(entry, other):
        kubelet = entry.runtime == KUBELET
        why = "an entry has one of both" if kubelet else f"deviations of {entry.runtime} are known by their {needed}"
        what = f"'{other}' does not apply: {why}."
        raise file.error(what, (entry.name, other), field=entry.name)
    if entry.fixed and _release(entry.fixed) <= _release(entry.since):
        what = f"it is fixed in {entry.fixed}, which is not after {entry.since}: it is known of no version."
        raise file.error(what, (entry.name, "fixed"), field=entry.name)


def _release(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with; empty for a text that is none."""
    match = _RELEASE.match(version)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


class System(Protocol):
    """The machine that a finding is about, such as a station."""

    @property
    def driver(self) -> CgroupDriver:
        """The cgroup driver."""
        ...

    def versions_behind(self, finding: Finding) -> Mapping[str, str]:
        """The version of each program that may have caused it, by name."""
        ...


@lru_cache(maxsize=1)
def known_deviations(lists: tuple[Path, ...] = ()) -> tuple[KnownDeviation, ...]:
    """The entries of the shipped list and of these lists; errors as `load_all`."""
    return load_all([data_root() / "vm" / "known.toml", *lists])


def known_or_not(finding: Finding, claim: str, system: System | None, lists: tuple[Path, ...] = ()) -> Finding:
    """The finding, marked as known if a list has it for this claim and the system's versions.

    claim: an id such as "values/pod". system: None matches no entry. Errors as `known_deviations`.
    """
    listed = [entry for entry in known_deviations(lists) if entry.fits(finding, claim)]
    if system is None or not listed:
        return finding
    return amended(finding, claim, listed, runtimes=system.versions_behind(finding), driver=str(system.driver))


def known_fault_or_not(
    finding: Finding, chapters: Collection[str], system: System, lists: tuple[Path, ...] = ()
) -> Finding:
    """The finding, marked as known if a list has the file for a claim of these chapters and the system's versions.

    For findings without a claim, such as those about random pods. Errors as `known_deviations`.
    """
    runtimes = system.versions_behind(finding)
    for entry in known_deviations(lists):
        if entry.claim.partition("/")[0] in chapters and entry.fits(finding, entry.claim):
            told = amended(finding, entry.claim, [entry], runtimes=runtimes, driver=str(system.driver))
            if told is not finding:
                return told
    return finding


MAX_BYTES = 16 << 20
"""A longer baseline is refused."""

_TABLE = "accepted"


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
