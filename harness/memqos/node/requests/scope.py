"""PURE: the systemd scope above a container's own cgroup, which may allow it less than it asked for.

crun keeps a container's processes in a cgroup below the scope on cgroup v2. The container holds what was asked, and the
kernel obeys whatever above it is narrower.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.answer.setter import Setter
from memqos.engine.plan import PlannedCgroup, Reason
from memqos.model.knob import MAX, Bytes, Knob, KnobValue
from memqos.model.path import CgroupPath
from memqos.model.reading import FileText

__all__ = ["SCOPE_LIMITS", "scope_findings"]

SCOPE_LIMITS = (Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX)
"""What a cgroup allows all below it together, in bytes or max. Of protection a scope may have none: see `traits`."""

_WIDE_ENOUGH = Reason(
    rule="what a cgroup allows, those above it have to allow as well",
    revision="kernel cgroup v2",
    source="kernel cgroup-v2.rst, top-down constraint",
)


def scope_findings(
    container: PlannedCgroup, scope: CgroupPath, files: Mapping[str, FileText], *, subject: str
) -> Iterator[Finding]:
    """One finding for each limit of the scope; none for one that the container's own finding says nothing of.

    container: what its own cgroup must hold. files: the scope's, by name; one that is not there limits nothing.
    """
    for knob in SCOPE_LIMITS:
        expected, text = container.knobs.get(knob), files.get(knob)
        if expected is None or expected.unasked or expected.undecided or not isinstance(text, str):
            continue
        wide = _covers(knob.parse(text), expected.value)
        yield Finding(
            verdict=Verdict.CONFORMS if wide else Verdict.DEVIATES,
            subject=f"scope of {subject}",
            cgroup=str(scope),
            knob=f"{knob} of the scope",
            set_by=Setter.RUNTIME,
            expected=f"at least {expected.value}",
            observed=text.strip(),
            reason=_WIDE_ENOUGH,
        )


def _covers(limit: KnobValue, asked: KnobValue) -> bool:
    if limit is MAX:
        return True
    return isinstance(limit, Bytes) and isinstance(asked, Bytes) and limit >= asked
