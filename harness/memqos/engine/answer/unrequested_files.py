"""Settings of a cgroup without a plan or a request: each must show its default.

A runtime that writes memory.zswap.max, pids.max or cgroup.freeze without a request limits its containers as much as one
that writes memory.high; cgroup.pressure turns pressure accounting off.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.engine.cgroup.interface_files import default_text, is_unknown_file, shows_default
from memqos.engine.plan import Reason
from memqos.model.knob import Knob
from memqos.model.path import CgroupPath
from memqos.model.reading import FileText

__all__ = ["UNNAMED", "Unnamed", "shown_text", "unnamed_findings"]

UNNAMED = "unnamed settings"
"""The knob of the finding for all files that hold the expected value."""

_KERNEL = "kernel, Documentation/admin-guide/cgroup-v2.rst"
_SCOPE = ".scope"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unnamed:
    """The facts that decide the expected settings of one cgroup.

    judged: files to skip, since a plan covers them or nothing certain is expected. begun: name prefixes of such files,
    unless they are requested.
    requested: requested values of unplanned files, by name, as the kernel shows them; None if uncertain. tasks_max:
    systemd's DefaultTasksMax, "" if unknown. baseline: the files of a container without requests; empty without such a
    container. unmodelled: why an unrequested setting is not judged, "" if its default is expected.
    """

    judged: Collection[str] = ()
    begun: tuple[str, ...] = ()
    requested: Mapping[str, str | None] = field(default_factory=dict)
    tasks_max: str = ""
    baseline: Mapping[str, FileText] = field(default_factory=dict)
    unmodelled: str = ""


def shown_text(name: str, text: str, page_size: int) -> str | None:
    """The text that a file shows after this text was requested; None if uncertain.

    Amounts of memory are rounded down to pages of this size in bytes. Source: kernel page_counter_memparse.
    """
    if text == "max" or not (text.isascii() and text.isdecimal()):
        return "max" if text == "max" else None
    if name.startswith("memory.") and default_text(name) == "max":
        return str(int(text) // page_size * page_size)
    return str(int(text)) if default_text(name) in {"0", "1", "max"} and not name.startswith("hugetlb.") else None


@dataclass(frozen=True, slots=True)
class _Expected:
    """The text that a file must show, and the rule. why_not: why it is uncertain, "" if it is certain."""

    text: str
    rule: str
    source: str = _KERNEL
    why_not: str = ""


def unnamed_findings(
    path: CgroupPath,
    files: Mapping[str, FileText],
    unnamed: Unnamed,
    *,
    subject: Subject,
    deviates: Setter = Setter.RUNTIME,
    holds: Setter = Setter.RUNTIME,
) -> list[Finding]:
    """One finding for each file with an unexpected value, and one for all others together.

    files: the settings read from the cgroup at this path; a missing or unreadable one is not judged. An unknown file is
    compared with the baseline; without one, the finding for all others lists it as not judged. deviates, holds: the
    setter of a deviating and of a conforming file.
    """
    held: list[str] = []
    uncompared: list[str] = []
    found: list[Finding] = []
    for name, read in files.items():
        if not isinstance(read, str) or name in unnamed.judged:
            continue
        if name.startswith(unnamed.begun) and unnamed.requested.get(name) is None:
            continue
        text, expected = read.strip(), _expected(path, name, read, unnamed)
        if expected is None:
            uncompared.append(name)
            continue
        why_not = expected.why_not or ("" if name in unnamed.requested else unnamed.unmodelled)
        if text == expected.text:
            held.append(name)
        else:
            found.append(
                Finding(
                    verdict=Verdict.of(False, why_not),
                    subject=subject,
                    cgroup=str(path),
                    knob=name,
                    set_by=deviates,
                    expected=expected.text,
                    observed=text,
                    reason=Reason(rule=expected.rule, revision="", source=expected.source),
                    why_not=why_not,
                )
            )
    requested = [name for name in held if name in unnamed.requested] if unnamed.unmodelled else held
    defaults = [name for name in held if name not in requested]
    if requested:
        found.append(_all_of_them(path, requested, uncompared, subject=subject, holds=holds))
    if defaults:
        found.append(_all_of_them(path, defaults, uncompared, subject=subject, holds=holds, why_not=unnamed.unmodelled))
    return found


def _all_of_them(
    path: CgroupPath,
    held: Collection[str],
    uncompared: Collection[str],
    *,
    subject: Subject,
    holds: Setter,
    why_not: str = "",
) -> Finding:
    evidence = {"files": " ".join(sorted(held))}
    return Finding(
        verdict=Verdict.of(True, why_not),
        subject=subject,
        cgroup=str(path),
        knob=UNNAMED,
        set_by=holds,
        expected="defaults",
        observed="defaults",
        why_not=why_not,
        evidence={**evidence, "not judged": " ".join(sorted(uncompared))} if uncompared else evidence,
    )


def _expected(path: CgroupPath, name: str, text: str, unnamed: Unnamed) -> _Expected | None:
    """The text that a file must show; None if nothing certain is expected."""
    if name in unnamed.requested:
        requested, source = unnamed.requested[name], "OCI runtime specification, linux.resources"
        return None if requested is None else _Expected(requested, f"a request names {name}", source)
    if name == Knob.PIDS_MAX and path.name.endswith(_SCOPE) and text.strip() != "max":
        return _of_tasks(unnamed.tasks_max)
    if is_unknown_file(name):
        other = unnamed.baseline.get(name)
        rule = f"unknown file differs: a container without requests shows another {name}"
        return _Expected(other.strip(), rule) if isinstance(other, str) else None
    default = default_text(name) or ""
    return _Expected(
        text.strip() if shows_default(name, text) else default, f"no request names {name}: the kernel's default applies"
    )


def _of_tasks(tasks_max: str) -> _Expected:
    """pids.max of a scope for which the request names no limit; some runtimes set TasksMax to infinity."""
    return _Expected(
        "max" if tasks_max == "infinity" else tasks_max,
        "no request names pids.max: systemd's DefaultTasksMax applies, or no limit",
        "systemd-system.conf(5), DefaultTasksMax",
        "" if tasks_max else "systemd does not report its DefaultTasksMax",
    )
