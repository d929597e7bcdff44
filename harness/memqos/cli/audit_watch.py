"""`memqos audit --watch`: drift as it happens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from memqos.audits.live import WRITER, Course, Event
from memqos.catalog.recorded_contents import FOREIGN_WRITER
from memqos.cli.audit_order import AuditOrder
from memqos.cli.audit_places import places_in
from memqos.cli.terminal import say
from memqos.clock import SYSTEM_CLOCK, Clock, utc_now
from memqos.errors import ExitCode, MachineryError, UsageError

__all__ = ["drift_watched"]


def drift_watched(
    order: AuditOrder,
    words: Sequence[str],
    *,
    every: float,
    looks: int | None,
    as_json: bool,
    clock: Clock = SYSTEM_CLOCK,
) -> int:
    """Check the nodes again and again; 1 if anything drifted, else 0. looks: how often, None for no end.

    A node that cannot be reached is reported, and tried again at the next look. as_json: a line for each event.
    """
    places = places_in(words) if words else [""]
    courses = {place: Course(clock) for place in places}
    pods = order.given_pods()
    # Each look is confirmed by a second one. For a sum above pods the next looks do that: a look that waited for the
    # kubelet's period would see nothing else meanwhile.
    order = replace(order, settle=min(order.settle, every), waits=False)
    drifted, reached, lost = False, False, set[str]()
    number = 0
    while looks is None or number < looks:
        clock.sleep(every if number else 0.0)
        number += 1
        for place in places:
            try:
                audit = order.audit_of(place, pods) if place else order.audit(pods)
            except MachineryError as error:
                if place not in lost:
                    say(f"{_now()} {_name(place, order)}: cannot be read: {error}", err=True)
                lost.add(place)
                continue
            except UsageError:
                if not reached:
                    raise
                continue
            lost.discard(place)
            reached = True
            for event in courses[place].step(audit):
                drifted = drifted or event.kind == "drift"
                say(_json(event, _name(place, order)) if as_json else _text(event, _name(place, order)))
    if not reached:
        return ExitCode.MACHINERY
    return ExitCode.DEVIATES if drifted else ExitCode.CONFORMS


def _now() -> str:
    return utc_now().strftime("%H:%M:%S")


def _name(place: str, order: AuditOrder) -> str:
    return place or order.target or str(order.tree)


def _text(event: Event, place: str) -> str:
    one = event.finding
    if event.kind == "back":
        return f"{_now()} {place}: back: {one.knob} of {one.subject} is {one.expected} again, or its cgroup is gone"
    writer = one.evidence.get(WRITER) or one.evidence.get(FOREIGN_WRITER)
    by = f"; {writer}" if writer else ""
    return f"{_now()} {place}: drift: {one.knob} of {one.subject} is {one.observed}, expected {one.expected}{by}"


def _json(event: Event, place: str) -> str:
    one = event.finding
    return json.dumps(
        {
            "memqos_format": 1,
            "place": place,
            "event": event.kind,
            "after_seconds": round(event.after, 3),
            "subject": str(one.subject),
            "cgroup": one.cgroup,
            "knob": one.knob,
            "expected": one.expected,
            "observed": one.observed,
            "writer": one.evidence.get(WRITER) or one.evidence.get(FOREIGN_WRITER) or "",
        }
    )
