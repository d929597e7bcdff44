"""Settings of a cgroup that nothing planned and no request named: each shows its default.

A runtime that writes one changes what its containers may use as much as one that writes memory.high: memory.zswap.max,
pids.max or cgroup.freeze, or cgroup.pressure, without which the kernel reports no pressure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.engine.cgroup.control_files import default_text, is_unknown_file, shows_default
from memqos.engine.plan import Reason
from memqos.model.knob import Knob
from memqos.model.path import CgroupPath
from memqos.model.reading import FileText

__all__ = ["UNNAMED", "Unnamed", "shown_of_asked", "unnamed_findings"]

UNNAMED = "unnamed settings"
"""The knob of the finding that stands for all that hold what they must."""

_KERNEL = "kernel, Documentation/admin-guide/cgroup-v2.rst"
_SCOPE = ".scope"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unnamed:
    """What is known of the settings of one cgroup.

    judged: the files that a plan is about, or of which nothing certain is expected. begun: how the names of such files
    begin. asked: what requests gave for files that no plan is about, by name, as the kernel shows it; None where that
    is not certain. tasks_max: systemd's DefaultTasksMax, "" if it is not known. baseline: the files of a container that
    was asked for nothing; none where there is no such container. unmodelled: why nothing is expected of a setting that
    no request gave, "" where its default is.
    """

    judged: Collection[str] = ()
    begun: tuple[str, ...] = ()
    asked: Mapping[str, str | None] = field(default_factory=dict)
    tasks_max: str = ""
    baseline: Mapping[str, FileText] = field(default_factory=dict)
    unmodelled: str = ""


def shown_of_asked(name: str, text: str, page_size: int) -> str | None:
    """What a file shows that a request gave this text for; None if that is not certain.

    Amounts of memory are rounded down to pages of this size in bytes. Source: kernel page_counter_memparse.
    """
    if text == "max" or not (text.isascii() and text.isdecimal()):
        return "max" if text == "max" else None
    if name.startswith("memory.") and default_text(name) == "max":
        return str(int(text) // page_size * page_size)
    return str(int(text)) if default_text(name) in {"0", "1", "max"} and not name.startswith("hugetlb.") else None


@dataclass(frozen=True, slots=True)
class _Expected:
    """What a file must show, and the rule. why_not: why that is not certain, "" if it is."""

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
    """One finding for each of these files that does not hold what it must, and one for all others together.

    files: the settings that were read of the cgroup at this path; one that is missing or not readable is not judged.
    An unknown file is compared with the baseline; without one, the finding for all others lists it as not judged.
    deviates, holds: the setter of what deviates, and of what holds.
    """
    held: list[str] = []
    uncompared: list[str] = []
    found: list[Finding] = []
    for name, read in files.items():
        if not isinstance(read, str) or name in unnamed.judged or name.startswith(unnamed.begun):
            continue
        text, expected = read.strip(), _expected(path, name, read, unnamed)
        if expected is None:
            uncompared.append(name)
            continue
        why_not = expected.why_not or ("" if name in unnamed.asked else unnamed.unmodelled)
        if text == expected.text:
            held.append(name)
        else:
            found.append(
                Finding(
                    verdict=Verdict.NOT_OBSERVABLE if why_not else Verdict.DEVIATES,
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
    asked = [name for name in held if name in unnamed.asked] if unnamed.unmodelled else held
    defaults = [name for name in held if name not in asked]
    if asked:
        found.append(_all_of_them(path, asked, uncompared, subject=subject, holds=holds))
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
        verdict=Verdict.NOT_OBSERVABLE if why_not else Verdict.CONFORMS,
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
    """What a file must show; None where nothing certain can be expected of it."""
    if name in unnamed.asked:
        asked, source = unnamed.asked[name], "OCI runtime specification, linux.resources.unified"
        return None if asked is None else _Expected(asked, f"a request names {name}", source)
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
    """pids.max of a scope without TasksMax, which some runtimes set to no limit."""
    return _Expected(
        "max" if tasks_max == "infinity" else tasks_max,
        "no request names pids.max: systemd's DefaultTasksMax applies, or no limit",
        "systemd-system.conf(5), DefaultTasksMax",
        "" if tasks_max else "systemd does not report its DefaultTasksMax",
    )
