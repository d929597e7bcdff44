"""Known deviations: what versions of a runtime or of the kernel are known to do wrong, by claim and knob.

A deviation that is listed is told as known, and does not fail a run. The list is strict: an entry is for one claim, one
knob, one runtime's versions and, where it says so, one cgroup driver and one observed value; it hides nothing else.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from memqos.config.lines import line_of
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.resize.leftovers import Leftover
from memqos.errors import ManifestError, UsageError
from memqos.model.node import CgroupDriver
from memqos.plain_file import read_plain

__all__ = [
    "EVIDENCE",
    "KUBELET",
    "KnownDeviation",
    "amended",
    "left_by_kubelet",
    "load_all",
    "load_known",
    "runtimes_told",
]

EVIDENCE = "known"
"""The name under which a finding's evidence says which entry it is."""

MAX_BYTES = 4 << 20
"""A longer list is refused."""

KUBELET = "kubelet"
"""What the kubelet is called in a list."""

LINUX = "linux"
"""What the kernel is called in a list."""

_RELEASE = re.compile(r"v?(\d{1,9}(?:\.\d{1,9})*)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDeviation:
    """One entry of known.toml, or of a list of the same kind; a table with several claims is an entry for each of them.

    runtime: a CRI or OCI runtime's own name, linux for the kernel, or kubelet. since, fixed: the first release that
    deviates, and the first that does not any more; "" for every one from the beginning, and for none yet. claim, knob:
    what deviates. cause: of a kubelet what it leaves behind (`Leftover`), in the place of a claim. beside: the other
    runtime that it takes, such as the OCI runtime below; "" for any. driver, observed: "" for either driver and for any
    value. upstream: where it is known. sometimes: whether it may also be right.
    """

    name: str
    runtime: str
    knob: str
    sentence: str
    upstream: str
    claim: str = ""
    cause: str = ""
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


def left_by_kubelet(
    finding: Finding, cause: str, known: Iterable[KnownDeviation], *, version: str, driver: str
) -> Finding:
    """A finding about a value that the kubelet left behind for this cause: known, if it is listed for its version."""
    for entry in known:
        listed = cause and (entry.runtime, entry.cause, entry.knob) == (KUBELET, cause, finding.knob)
        if listed and entry.is_of({KUBELET: version}, driver) and entry.observed in {"", finding.observed}:
            evidence = {**finding.evidence, EVIDENCE: str(entry)}
            return replace(finding, verdict=Verdict.KNOWN, set_by=Setter.KUBELET, evidence=evidence)
    return finding


def runtimes_told(told: Iterable[str], *, kernel: str) -> dict[str, str]:
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

    Raises ManifestError, with the line where there is one, for what is no entry, UsageError for a file that cannot be
    read, is no plain file or has more than MAX_BYTES.
    """
    try:
        text = read_plain(file, most=MAX_BYTES).decode()
        document = tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"the list of known deviations cannot be read: {error.strerror}.", where=str(file)) from None
    except tomllib.TOMLDecodeError as error:
        told = re.search(r"at line (\d+)", str(error))
        line = int(told[1]) if told else 0
        raise ManifestError.at(f"the file is not TOML: {error}.", file=str(file), line=line) from None
    except UnicodeDecodeError:
        raise ManifestError.at("the file is not TOML: it is not UTF-8.", file=str(file)) from None
    return tuple(entry for name, given in document.items() for entry in _entries(_Table(str(file), text, name), given))


def load_all(files: Iterable[Path]) -> tuple[KnownDeviation, ...]:
    """The entries of several lists; errors as of `load_known`, and ManifestError for a name that is in two of them."""
    found: list[KnownDeviation] = []
    first: dict[str, Path] = {}
    for file in files:
        for entry in load_known(file):
            if first.setdefault(entry.name, file) != file:
                table = _Table(str(file), read_plain(file, most=MAX_BYTES).decode(), entry.name)
                raise table.error(
                    f"{first[entry.name]} has an entry of this name.", next_step="Give it a name of its own."
                )
            found.append(entry)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Table:
    """One table of a list's text."""

    file: str
    text: str
    name: str

    def error(self, what: str, *, key: str = "", got: object = None, next_step: str = "") -> ManifestError:
        """What is wrong with it, with the line of a key, or else of the table's head."""
        line = line_of(self.text, self.name, key) or line_of(self.text, self.name)
        return ManifestError.at(what, file=self.file, line=line, field=self.name, got=got, next_step=next_step)


_KINDS = {field.name: bool if field.name == "sometimes" else str for field in fields(KnownDeviation)}
_NEEDED = ("runtime", "claim", "knob", "sentence", "upstream")
_NEEDED_OF_KUBELET = ("runtime", "cause", "knob", "sentence", "upstream")
_FIELDS = tuple(name for name in _KINDS if name != "name")


def _entries(table: _Table, given: Any) -> Iterator[KnownDeviation]:
    if not isinstance(given, dict):
        raise table.error("a known deviation is a table.", got=given)
    each: list[list[dict[str, Any]]] = [
        [{key: one} for one in given[key]] if isinstance(given.get(key), list) and given[key] else [{}]
        for key in ("claim", "knob")
    ]
    for claim, knob in itertools.product(*each):
        yield _entry(table, {**given, **claim, **knob})


def _entry(table: _Table, given: Mapping[str, Any]) -> KnownDeviation:
    for key, value in given.items():
        if key not in _FIELDS:
            next_step = f"Its fields are {', '.join(_FIELDS)}."
            raise table.error(f"'{key}' is no field of a known deviation.", key=key, got=value, next_step=next_step)
        if not isinstance(value, _KINDS[key]):
            kind = "true or false" if _KINDS[key] is bool else "a text"
            raise table.error(f"'{key}' is {kind}, not {value!r}.", key=key, got=value)
    _check_subject(table, given)
    for key in ("since", "fixed"):
        if given.get(key) and not _RELEASE.fullmatch(given[key]):
            raise table.error(f"'{key}' is a release such as 1.2, not '{given[key]}'.", key=key, got=given[key])
    if given.get("driver", "") not in {"", *CgroupDriver}:
        raise table.error(f"there is no driver '{given['driver']}': {', '.join(CgroupDriver)}.", key="driver")
    entry = KnownDeviation(name=table.name, **given)
    if entry.fixed and _release(entry.fixed) <= _release(entry.since):
        what = f"it is fixed in {entry.fixed}, which is not after {entry.since}: it is known of no version."
        raise table.error(what, key="fixed")
    return entry


def _check_subject(table: _Table, given: Mapping[str, Any]) -> None:
    """A runtime or a kernel is known by a claim, a kubelet by a cause; ManifestError for what is missing of either."""
    of_kubelet = given.get("runtime") == KUBELET
    if missing := [key for key in (_NEEDED_OF_KUBELET if of_kubelet else _NEEDED) if not given.get(key)]:
        raise table.error(f"'{missing[0]}' has to be said.")
    if (key := "claim" if of_kubelet else "cause") in given:
        what = "of a kubelet a cause is known, and no claim" if of_kubelet else "a cause is known of the kubelet alone"
        raise table.error(f"{what}: '{key}' is too much.", key=key, got=given[key])
    if of_kubelet and given["cause"] not in list(Leftover):
        what = f"there is no cause '{given['cause']}': {', '.join(Leftover)}."
        raise table.error(what, key="cause", got=given["cause"])


def _release(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with; empty for a text that is none."""
    match = _RELEASE.match(version)
    return tuple(int(part) for part in match[1].split(".")) if match else ()
