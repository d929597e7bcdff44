"""Containers that a recording caught while their runtime made them: their files hold nothing yet.

runc makes the cgroup, puts its own `runc init` into it, and only then writes the files and becomes the container's
process. What is read in between says nothing about any of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.answer.verdict import OOM_SCORE_ADJ
from memqos.model.knob import Knob
from memqos.model.reading import FileText, Reading

__all__ = ["unmade_unseen"]

_KNOBS = frozenset(knob.value for knob in Knob)
_INIT = re.compile(r"\b(?:runc|crun)[\s\0]+(?:init|create)\b|\brunc:\[")
"""A command line, and what the kernel calls the process meanwhile: runc:[2:INIT]."""


def unmade_unseen(findings: Iterable[Finding], reading: Reading) -> Iterator[Finding]:
    """The findings; those about a container that was being made are not observable."""
    files = {str(path): cgroup.files for path, cgroup in reading.cgroups.items()}
    given = tuple(findings)
    by_cgroup: dict[str, list[Finding]] = {}
    for finding in given:
        by_cgroup.setdefault(finding.cgroup, []).append(finding)
    why = {cgroup: _why(own, files.get(cgroup, {})) for cgroup, own in by_cgroup.items()}
    for finding in given:
        if why[finding.cgroup] and finding.verdict is not Verdict.NOT_OBSERVABLE:
            yield replace(finding, verdict=Verdict.NOT_OBSERVABLE, why_not=why[finding.cgroup])
        else:
            yield finding


def _why(findings: Iterable[Finding], files: Mapping[str, FileText]) -> str:
    """Why nothing of a cgroup is to be judged; "" where it is."""
    for name, text in files.items():
        if name not in _KNOBS and isinstance(text, str) and _INIT.search(text):
            return "the container was being made: its first process was still the runtime's"
    own = tuple(findings)
    deviating = {finding.knob for finding in own if finding.verdict is Verdict.DEVIATES}
    if OOM_SCORE_ADJ in deviating and len(deviating) > 1 and all(map(_is_untouched, own)):
        return (
            "the container was being made, or nobody ever wrote its files: all of them hold the kernel's defaults, and "
            "its first process does not have its oom_score_adj"
        )
    return ""


def _is_untouched(finding: Finding) -> bool:
    """Whether the file, if it was read at all, shows what the kernel puts there."""
    if finding.knob not in _KNOBS or finding.verdict is Verdict.NOT_OBSERVABLE:
        return True
    knob = Knob(finding.knob)
    return knob.is_default(knob.parse(finding.observed))
