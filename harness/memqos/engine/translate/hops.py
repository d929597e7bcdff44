"""The expected content of each hop between a request and an interface file, and the content of a hop's document.

The documents are config.json of the OCI runtime specification (the daemon's stored spec has the same form), runc's
state.json (libcontainer, configs.Cgroup and configs.Resources), and a scope's properties as `systemctl show` prints
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from memqos.engine.answer.finding import Hop, HopHeld
from memqos.engine.translate.explain import flat_document, oci_names, property_text
from memqos.engine.translate.requested import RequestedContainer, oom_score_adj_of
from memqos.engine.translate.resources import OciResources
from memqos.engine.translate.systemd import LEGACY_PROPERTY_OF, OOM_POLICY, PROPERTY_OF, property_of
from memqos.engine.translate.versions import RuntimeName
from memqos.model.knob import Knob

__all__ = ["UNIT_PROPERTIES", "ShownHops", "held_at"]

UNIT_PROPERTIES = tuple(dict.fromkeys([*PROPERTY_OF.values(), *LEGACY_PROPERTY_OF.values(), OOM_POLICY]))
"""The properties to request from `systemctl show`."""

_SCORE = "oom_score_adj"
_SCORE_FIELD = "process.oomScoreAdj"
_HUGETLB = frozenset({Knob.HUGETLB_2MB_MAX, Knob.HUGETLB_1GB_MAX})
_SECTIONS = ("memory", "cpu", "hugepageLimits", "unified")

_STATE_FIELDS = {
    "memory": "memory.limit", "memory_reservation": "memory.reservation", "memory_swap": "memory.swap",
    "cpu_shares": "cpu.shares", "cpu_quota": "cpu.quota", "cpu_period": "cpu.period", "cpuset_cpus": "cpu.cpus",
    "cpuset_mems": "cpu.mems",
}  # fmt: skip
"""libcontainer's names for fields of config.json; the values are the same."""

_UNITS_OF_TIME = {"us": 1, "ms": 1000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownHops:
    """The documents of one container by hop, or why there is none.

    Documents are JSON values; for the unit its properties by name, as systemctl prints them. gone: the hops whose
    document no longer exists.
    """

    documents: Mapping[Hop, Any] = field(default_factory=dict)
    missing: Mapping[Hop, str] = field(default_factory=dict)
    gone: frozenset[Hop] = frozenset()


def held_at(container: RequestedContainer, knob: str, shown: ShownHops) -> tuple[HopHeld, ...]:
    """Every hop before the file, in order, with the expected and the observed text for the knob (or oom_score_adj).

    A malformed document has no text for a knob.
    """
    return tuple(_held(hop, container, knob, shown) for hop in Hop if hop is not Hop.FILE)


def _held(hop: Hop, container: RequestedContainer, knob: str, shown: ShownHops) -> HopHeld:
    asked = _asked(hop, container, knob)
    left_out = _left_out(hop, container, knob, asked)
    if left_out or hop not in shown.documents:
        why_not = left_out or shown.missing.get(hop, "not read")
        return HopHeld(hop=hop, asked=asked, why_not=why_not, is_gone=not left_out and hop in shown.gone)
    document = shown.documents[hop]
    if hop is Hop.UNIT:
        held = _unit_text(knob, document)
    else:
        held = _said(knob, _state(document) if hop is Hop.STATE else _spec(document))
    return HopHeld(hop=hop, asked=asked, held=held)


def _asked(hop: Hop, container: RequestedContainer, knob: str) -> tuple[str, ...]:
    """The text that each possible version of the runtimes puts there."""
    if hop is Hop.UNIT:
        name = property_of(knob)
        return tuple(
            dict.fromkeys(f"{name}={property_text(one.properties[name])}" if name in one.properties else ""
                          for one in container.held)
        )  # fmt: skip
    score = {_SCORE_FIELD: str(oom_score_adj_of(container.requests[0]))}
    return tuple(
        dict.fromkeys(
            _said(knob, {**_flat(one.created if hop is Hop.CONFIG else one.stored), **score}) for one in container.held
        )
    )


def _left_out(hop: Hop, container: RequestedContainer, knob: str, asked: tuple[str, ...]) -> str:
    """Why a hop never has the knob, whatever its document."""
    if not container.held:
        return "the runtime must refuse the request"
    if hop is Hop.UNIT:
        return _no_property(container, asked)
    if hop is Hop.CONFIG and asked != _asked(Hop.SPEC, container, knob):
        return "it was written when the container was created, before an update set the value"
    if len(container.requests) > 1:
        return _not_updated(hop, container, knob)
    return ""


def _no_property(container: RequestedContainer, asked: tuple[str, ...]) -> str:
    if not any(one.properties for one in container.held):
        return "the container has no systemd unit with properties of its own"
    return "" if all(asked) else "the runtime sets no unit property for it"


def _not_updated(hop: Hop, container: RequestedContainer, knob: str) -> str:
    if hop in {Hop.SPEC, Hop.STATE} and container.runtimes.cri.runtime is RuntimeName.CRIO:
        return "which part of an update CRI-O stores is not modelled"
    return "no update changes limits of huge pages" if hop is Hop.STATE and knob in _HUGETLB else ""


def _said(knob: str, fields: Mapping[str, str]) -> str:
    """The fields about a knob in one order: "memory.limit = 67108864; unified memory.max = 4096"."""
    names = {_SCORE_FIELD} if knob == _SCORE else oci_names(knob)
    return "; ".join(f"{name} = {fields[name]}" for name in sorted(fields) if name in names)


def _flat(resources: OciResources) -> dict[str, str]:
    return _without_unset(flat_document(resources.document()))


def _without_unset(fields: Mapping[str, str]) -> dict[str, str]:
    """Runtimes treat a zero for memory and CPU as a missing field."""
    return {
        name: value
        for name, value in fields.items()
        if value not in {"0", "", "None"} or not name.startswith(("memory.", "cpu."))
    }


def _spec(document: object) -> dict[str, str]:
    """The fields of an OCI specification."""
    resources = _part(_part(document, "linux"), "resources")
    fields = _fields({name: resources[name] for name in _SECTIONS if name in resources})
    process = _part(document, "process")
    return {**fields, **({_SCORE_FIELD: str(process["oomScoreAdj"])} if "oomScoreAdj" in process else {})}


def _state(document: object) -> dict[str, str]:
    """The fields of runc's state, by their names in config.json."""
    config = _part(document, "config")
    cgroups = _part(config, "cgroups")
    fields = _without_unset({name: str(cgroups[key]) for key, name in _STATE_FIELDS.items() if key in cgroups})
    fields |= _fields({"hugepageLimits": cgroups.get("hugetlb_limit"), "unified": cgroups.get("unified")})
    return {**fields, **({_SCORE_FIELD: str(config["oom_score_adj"])} if "oom_score_adj" in config else {})}


def _part(document: object, name: str) -> Mapping[str, Any]:
    found = document.get(name) if isinstance(document, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _fields(sections: Mapping[str, Any]) -> dict[str, str]:
    """The well-formed sections of linux.resources."""
    sound = {name: section for name, section in sections.items() if isinstance(section, Mapping)}
    limits = sections.get("hugepageLimits")
    sizes = dict(_sizes(limits)) if isinstance(limits, list) else {}
    return _without_unset({**flat_document(sound), **{f"hugepageLimits {size}": text for size, text in sizes.items()}})


def _sizes(limits: list[Any]) -> Iterator[tuple[str, str]]:
    for one in limits:
        if isinstance(one, Mapping):
            yield str(one.get("pageSize", one.get("page_size"))), str(one.get("limit"))


def _unit_text(knob: str, properties: object) -> str:
    """A property in the engine's spelling: "MemoryHigh=50343936", "CPUQuotaPerSecUSec=500000", "AllowedCPUs=0-1,3"."""
    name = property_of(knob)
    text = str(properties.get(name, "")) if isinstance(properties, Mapping) else ""
    if name == PROPERTY_OF[Knob.CPU_MAX]:
        text = _microseconds(text)
    return f"{name}={text.replace(' ', ',')}"


def _microseconds(text: str) -> str:
    """A systemd time span, "1.5s" or "1min 30s", in µs; any other text unchanged."""
    parts = [re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(us|ms|s|min|h)", word) for word in text.split()]
    if not parts or not all(parts):
        return text
    return str(int(sum(Fraction(part[1]) * _UNITS_OF_TIME[part[2]] for part in parts if part)))
