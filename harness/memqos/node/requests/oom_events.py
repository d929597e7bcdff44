"""What the events of an OCI runtime tell of a container that the kernel kills for its memory."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from memqos.clock import Deadline, wait
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.errors import DeadlineError
from memqos.node.pods.refusing import SUBJECT
from memqos.node.requests.in_words import over_bundles
from memqos.runtime.base import ContainerHandle, ContainerState, Runtime

__all__ = ["oom_event_findings"]

_KILLED = 137
TOLD_SECONDS = 10.0
"""Within which the end of a container, and a kill in it, are told."""


def oom_event_findings(runtime: Runtime, handle: ContainerHandle, *, deadline: Deadline) -> Sequence[Finding]:
    """One for how the container ended, and one for whether an event of the type "oom" was told of it.

    handle: of a container that `events` follow, whose program uses more than its limit. DeadlineError if it does not
    end.
    """
    status = wait(
        "the container has ended",
        lambda: runtime.status(handle, deadline=deadline),
        until=lambda status: status.state is ContainerState.EXITED,
        deadline=deadline,
    )
    told: Sequence[str] = ()

    def look() -> Sequence[str]:
        nonlocal told
        told = over_bundles(runtime).followed(handle, deadline=deadline)
        return told

    # What was told until then is judged.
    with contextlib.suppress(DeadlineError):
        wait("an event is told", look, until=lambda types: "oom" in types, deadline=Deadline.after(TOLD_SECONDS))
    code = "" if status.exit_code is None else str(status.exit_code)
    return [
        _finding("exit code", str(_KILLED), code, Setter.KERNEL),
        _finding("events", "oom", "oom" if "oom" in told else ", ".join(told) or "none", Setter.RUNTIME),
    ]


def _finding(knob: str, expected: str, observed: str, set_by: Setter) -> Finding:
    return Finding(
        verdict=Verdict.CONFORMS if observed == expected else Verdict.DEVIATES,
        subject=SUBJECT,
        cgroup="",
        knob=knob,
        set_by=set_by,
        expected=expected,
        observed=observed,
    )
