"""PURE: control files that no rule of a kubelet is about: nobody asks for them, and nobody may write them.

A runtime that writes one changes what its containers may use as much as one that writes memory.high; one that leaves a
container frozen has it hold its memory, and not run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.answer.setter import Setter
from memqos.engine.plan import Reason
from memqos.model.path import CgroupPath
from memqos.model.reading import FileText

__all__ = ["UNNAMED", "unnamed_findings"]

UNNAMED: Mapping[str, str] = {
    "memory.swap.high": "max", "memory.zswap.max": "max", "memory.zswap.writeback": "1",
    "hugetlb.2MB.max": "max", "hugetlb.2MB.rsvd.max": "max", "hugetlb.1GB.max": "max", "hugetlb.1GB.rsvd.max": "max",
    "cgroup.freeze": "0",
}  # fmt: skip
"""What they show until somebody writes them; a kernel has all of them, or some. Source: kernel cgroup-v2.rst."""


def unnamed_findings(
    path: CgroupPath, files: Mapping[str, FileText], *, subject: str, asked: tuple[str, ...]
) -> Iterator[Finding]:
    """One finding for each of these files that the kernel has. asked: how those begin that a request did name."""
    for name, default in UNNAMED.items():
        text = files.get(name)
        if isinstance(text, str) and not name.startswith(asked):
            yield Finding(
                verdict=Verdict.CONFORMS if text.strip() == default else Verdict.DEVIATES,
                subject=subject,
                cgroup=str(path),
                knob=name,
                set_by=Setter.RUNTIME,
                expected=default,
                observed=text.strip(),
                reason=Reason(
                    rule=f"no request named {name}: the kernel's default shows",
                    revision="",
                    source="kernel, Documentation/admin-guide/cgroup-v2.rst",
                ),
            )
