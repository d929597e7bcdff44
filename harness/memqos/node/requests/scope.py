"""PURE: the systemd scope above a container's own cgroup, which may allow it less than it asked for.

crun keeps a container's processes in a cgroup below the scope on cgroup v2. The container holds what was asked, and the
kernel obeys whatever above it is narrower. It is protected by no more than the scope is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.plan import PlannedCgroup, Reason
from memqos.engine.subject import Subject
from memqos.engine.translate.requested_files import PROTECTION
from memqos.model.knob import MAX, Bytes, Knob, KnobValue
from memqos.model.path import CgroupPath
from memqos.model.reading import FileText

__all__ = ["SCOPE_FILES", "scope_findings"]

_LIMITS = (Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX)
"""What a cgroup allows all below it together, in bytes or max."""

SCOPE_FILES = (*PROTECTION, *_LIMITS)

_WIDE_ENOUGH = Reason(
    rule="what a cgroup allows, those above it have to allow as well",
    revision="kernel cgroup v2",
    source="kernel cgroup-v2.rst, top-down constraint",
)


def scope_findings(
    container: PlannedCgroup, own: PlannedCgroup, path: CgroupPath, files: Mapping[str, FileText], *, subject: Subject
) -> Iterator[Finding]:
    """One finding for each of these files that the scope has; none for one of which nothing certain is expected.

    container: what the container's own cgroup must hold, which the limits of the scope have to allow. own: what the
    scope must show itself. files: what it shows, by name; one that is not there limits nothing.
    """
    for knob in dict.fromkeys((*own.knobs, *_LIMITS)):
        exact = own.knobs.get(knob)
        expected, text = exact or container.knobs.get(knob), files.get(knob)
        if (
            expected is None
            or expected.unasked
            or expected.unmodelled
            or expected.undecided
            or not isinstance(text, str)
        ):
            continue
        observed = knob.parse(text)
        right = observed == expected.value if exact else _covers(observed, expected.value)
        yield Finding(
            verdict=Verdict.CONFORMS if right else Verdict.DEVIATES,
            subject=subject.scope(),
            cgroup=str(path),
            knob=f"{knob} of the scope",
            set_by=Setter.RUNTIME,
            expected=str(expected.value) if exact else f"at least {expected.value}",
            observed=text.strip(),
            reason=expected.reason if exact else _WIDE_ENOUGH,
        )


def _covers(limit: KnobValue, asked: KnobValue) -> bool:
    if limit is MAX:
        return True
    return isinstance(limit, Bytes) and isinstance(asked, Bytes) and limit >= asked
