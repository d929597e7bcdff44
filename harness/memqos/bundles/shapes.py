"""Values of a bundle made of JSON that may hold anything: what has another shape than it should is left out, or empty.

A bundle that was cut, edited or written by something else is still worth reading; what a place holds that nobody could
have meant says nothing.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memqos.engine.answer.finding import Finding, Hop, HopHeld, Loss, Setter, Verdict
from memqos.engine.plan import Input, Reason
from memqos.report.bundle import Merged, Part
from memqos.report.outcome import Attempt

__all__ = [
    "attempts_of",
    "claims_of",
    "count_of",
    "finding_of",
    "given_settings",
    "machine_of",
    "merged_of",
    "moment_of",
    "object_of",
    "reason_of",
    "said_text",
    "seconds_of",
    "shard_asked",
    "shard_of",
    "texts_of",
]  # fmt: skip

_NO_NUMBERS = "no finite number of seconds"


def object_of(value: object) -> dict[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def said_text(value: object) -> str:
    """A text; "" for null, and what Python says of anything else."""
    return "" if value is None else str(value)


def texts_of(value: object) -> tuple[str, ...]:
    """A list of texts; none for anything else."""
    return tuple(map(said_text, value)) if isinstance(value, list) else ()


def count_of(value: object) -> int:
    """A number of things; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def moment_of(value: object) -> str:
    """A time as it was written; "" for what is none."""
    try:
        datetime.datetime.fromisoformat(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    return said_text(value)


def seconds_of(value: object) -> float:
    """A duration; raises ValueError for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(_NO_NUMBERS)
    return float(value)


def attempts_of(value: object) -> tuple[Attempt, ...]:
    """The attempts at a case that do not count; raises TypeError or ValueError for what is none."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise TypeError(value)
    return tuple(
        Attempt(
            reason=said_text(one["reason"]),
            again=said_text(one["again"]),
            machine=said_text(one.get("machine")),
            seconds=seconds_of(one["seconds"]),
        )
        for one in value
    )


def given_settings(value: object) -> dict[str, dict[str, Any]]:
    """Each setting that has a value and an origin; one of several values has a list."""
    found = {
        name: {"value": one["value"], "origin": said_text(one["origin"])}
        for name, one in object_of(value).items()
        if {"value", "origin"} <= set(object_of(one))
    }
    if "kubernetes" in found:
        found["kubernetes"]["value"] = list(texts_of(found["kubernetes"]["value"]))
    return found


def machine_of(value: Mapping[str, Any]) -> dict[str, Any]:
    """What a machine says of itself; of what reports read the fields that are as they should be."""
    found = {name: one for name, one in value.items() if name not in {"runtimes", "timing", "kept"}}
    found["id"] = said_text(value.get("id"))
    if isinstance(value.get("runtimes"), list):
        found["runtimes"] = list(texts_of(value["runtimes"]))
    timing = {step: one for step, one in object_of(value.get("timing")).items() if _is_timed(one)}
    if timing:
        found["timing"] = timing
    if isinstance(object_of(value.get("kept")).get("name"), str):
        found["kept"] = value["kept"]
    return found


def _is_timed(value: object) -> bool:
    numbers = [object_of(value).get(name) for name in ("count", "median", "longest")]
    return all(isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one) for one in numbers)


def claims_of(value: object) -> dict[str, dict[str, str]]:
    """The claims that have all that a claim has."""
    names = ("sentence", "source", "kind", "about")
    return {
        claim: {name: said_text(said[name]) for name in names}
        for claim, said in object_of(value).items()
        if set(names) <= set(object_of(said))
    }


def shard_of(value: object) -> dict[str, Any]:
    """Which part of several a run had; empty for what does not say all of it."""
    said = object_of(value)
    return said if {"number", "of", "cases", "division"} <= set(said) else {}


def shard_asked(settings: object) -> dict[str, Any]:
    """Which part of several was asked for, of a run that did not come to divide its cases; empty for none."""
    number, of = (part.isdecimal() and int(part) for part in _asked(settings).partition("/")[::2])
    return {"number": number, "of": of, "cases": 0, "division": ""} if number and of else {}


def _asked(settings: object) -> str:
    return said_text(object_of(object_of(settings).get("shard")).get("value"))


def merged_of(value: object) -> Merged | None:
    """What a bundle was merged of; None if it was not, or says so of no part."""
    said = object_of(value)
    parts = said.get("parts")
    found = tuple(_part(one) for one in parts if isinstance(one, dict)) if isinstance(parts, list) else ()
    if not found:
        return None
    return Merged(
        parts=found, doubles=texts_of(said.get("doubles")), contradictions=texts_of(said.get("contradictions"))
    )


def _part(said: Mapping[str, Any]) -> Part:
    return Part(
        name=said_text(said.get("name")),
        started=moment_of(said.get("started")),
        ended=moment_of(said.get("ended")),
        exit_code=count_of(said.get("exit_code")),
        cases=count_of(said.get("cases")),
        versions={name: said_text(one) for name, one in object_of(said.get("versions")).items()},
        host=object_of(said.get("host")),
        settings=given_settings(said.get("settings")),
        verified=said_text(said.get("verified")),
        faults=texts_of(said.get("faults")),
    )


def finding_of(said: Mapping[str, Any], reason: Reason | None) -> Finding:
    """A finding with this reason. Raises KeyError, TypeError or ValueError for what is no finding."""
    return Finding(
        verdict=Verdict(said["verdict"]),
        set_by=Setter(said["set_by"]),
        reason=reason,
        evidence={name: said_text(one) for name, one in object_of(said.get("evidence")).items()},
        lost=_lost(said.get("lost")),
        measured=said.get("measured") is True,
        **{name: said_text(said[name]) for name in ("subject", "cgroup", "knob", "expected", "observed", "why_not")},
    )


def _lost(said: object) -> Loss | None:
    """Who lost a value; None for what does not say that. Hops that nobody knows are left out."""
    if not isinstance(said, dict):
        return None
    hops = said.get("hops")
    found = tuple(_hops(hops if isinstance(hops, list) else []))
    return Loss(by=said_text(said.get("by")), told=said_text(said.get("told")), hops=found)


def _hops(said: Iterable[object]) -> Iterator[HopHeld]:
    for one in map(object_of, said):
        if one.get("hop") in list(Hop):
            held, why_not = said_text(one.get("held")), said_text(one.get("why_not"))
            yield HopHeld(hop=Hop(one["hop"]), asked=texts_of(one.get("asked")), held=held, why_not=why_not)


def reason_of(said: Mapping[str, Any]) -> Reason:
    """A chain of reasons; raises AttributeError or TypeError for what is none."""
    names = ("rule", "revision", "source", "arithmetic", "rounding")
    return Reason(
        **{name: said_text(said.get(name)) for name in names},
        inputs=tuple(_inputs(said.get("inputs", ()))),
        because=tuple(reason_of(one) for one in said.get("because", ())),
    )


def _inputs(said: object) -> Iterator[Input]:
    for one in said if isinstance(said, list) else ():
        name, value, origin = (said_text(object_of(one).get(field)) for field in ("name", "value", "origin"))
        yield Input(name, value, origin)
