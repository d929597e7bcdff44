"""The page of a fleet's audit: one HTML file without scripts, which needs nothing else.

Causes come first, then a table of all nodes, and the deviations of each. Text from a node never becomes markup.
"""

from __future__ import annotations

import datetime
import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
from markupsafe import Markup

from memqos.page.building import page_source, style_policy, template_of
from memqos.report.words import how_many, plain

__all__ = ["fleet_html"]

FleetValues = Mapping[str, Any]

_DRIFTS_EACH = 40
"""Most deviations that are listed for a node; the count of the others is given."""

_STYLES = ("page.css", "fleet.css")
_TONES = {"FULFILLED": "good", "DRIFTED": "bad", "INSUFFICIENT_EVIDENCE": "unclear", "NOT_JUDGED": "broken"}
_ORDER = ("DRIFTED", "NOT_JUDGED", "INSUFFICIENT_EVIDENCE", "FULFILLED")
_REASONS = 20


def fleet_html(document: FleetValues, *, when: datetime.datetime) -> str:
    """The page of the document that `memqos audit PLACE PLACE… --json` prints. when: of the audit, in UTC."""
    styles = [page_source(name) for name in _STYLES]
    document = _plain(document)
    nodes = sorted(map(_node, document["nodes"]), key=lambda one: (_ORDER.index(one["state"]), one["node"]))
    nodes = [{**one, "number": number} for number, one in enumerate(nodes, 1)]
    counted = Counter(one["state"] for one in nodes)
    states = [(state, counted[state], _TONES[state]) for state in _ORDER if counted[state]]
    return _template().render(
        policy=style_policy(styles),
        styles=[Markup(one) for one in styles],  # noqa: S704 - files of this package, which do not close their element
        when=f"{when:%Y-%m-%d %H:%M} UTC",
        verdict=states[0][0].replace("_", " ") if states else "",
        tone=states[0][2] if states else "unclear",
        states=states,
        nodes=nodes,
        causes=document["causes"],
        unseen=_most_common(document["nodes"]),
        how_many=how_many,
        force=Counter((one.get("memory_qos") or {}).get("force", "") for one in document["nodes"] if not one["error"]),
    )


def _plain(value: Any) -> Any:
    """The value with control characters in all texts written out."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {plain(str(key)): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _node(row: FleetValues) -> dict[str, Any]:
    state = "NOT_JUDGED" if row["error"] else row["state"]
    drifts = row["drifts"]
    return {
        **row,
        "state": state,
        "tone": _TONES[state],
        "shown": drifts[:_DRIFTS_EACH],
        "more": max(0, len(drifts) - _DRIFTS_EACH),
    }


def _most_common(nodes: Sequence[FleetValues]) -> list[tuple[str, int, int]]:
    """The reasons for *not observable*: each with values and nodes, the most frequent ones first."""
    values: Counter[str] = Counter()
    places: Counter[str] = Counter()
    for one in nodes:
        values.update(one["not_observable"])
        places.update(dict.fromkeys(one["not_observable"], 1))
    return [(why, count, places[why]) for why, count in values.most_common(_REASONS)]


@functools.cache
def _template() -> jinja2.Template:
    return template_of("fleet.html.j2")
