"""The compatibility matrix for autoscalers and operators: runtimes and Kubernetes releases by topic.

The matrix requested by AEP-9926: units of counters, resize and swap, and the values themselves, from results.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from memqos.report.bundle import Bundle, Json
from memqos.report.markdown import inline, table
from memqos.report.matrix import worst_of
from memqos.report.outcome import Outcome
from memqos.report.summary import programs_of

__all__ = ["TOPICS", "Compatibility", "compatibility_markdown", "compatibility_of"]

_OBSERVED = (Outcome.CONFORMS, Outcome.KNOWN, Outcome.DEVIATES)

TOPICS: Mapping[str, re.Pattern[str]] = {
    "counter units": re.compile(r"\w+/(pod-)?stats.*|kubelet/.*(stats|pressure|metrics).*"),
    "memory QoS values": re.compile(r"values/.*"),
    "throttling": re.compile(r"throttling/.*"),
    "protection": re.compile(r"protection/.*"),
    "resize": re.compile(r"resize/.*|requests/update-.*|kubelet/.*resiz.*"),
    "swap": re.compile(r"swap/.*|[\w-]+/.*\bswap\b.*"),
}
"""Topics with their claims; a claim may have several topics."""
_RELEASE = re.compile(r"\bv?(1\.\d{2})(?:\.\d+)?(?=\W|$)")
_ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """By runtimes and Kubernetes release, and by topic, the claims by outcome, each by its worst case.

    The release "any" has the cases without a kubelet, such as requests to a runtime.
    """

    rows: Mapping[tuple[str, str], Mapping[str, Mapping[str, Outcome]]]

    def to_json(self) -> dict[str, Json]:
        """The document that `memqos report support --compatibility --json` prints."""
        return {
            "memqos_format": 1,
            "topics": list(TOPICS),
            "rows": [
                {
                    "runtimes": runtimes,
                    "kubernetes": release,
                    "topics": {
                        topic: {
                            "claims": dict(Counter(outcome.value for outcome in claims.values())),
                            "deviates": sorted(name for name, one in claims.items() if one is Outcome.DEVIATES),
                            "known": sorted(name for name, one in claims.items() if one is Outcome.KNOWN),
                        }
                        for topic, claims in topics.items()
                    },
                }
                for (runtimes, release), topics in self.rows.items()
            ],
        }


def compatibility_of(bundles: Iterable[Bundle]) -> Compatibility:
    """The matrix of these runs: outcomes by topic, runtimes and the kubelet's release."""
    cells: dict[tuple[str, str], dict[str, dict[str, Counter[str]]]] = {}
    for bundle in bundles:
        names = {str(machine.get("id")): " + ".join(programs_of(machine)) for machine in bundle.machines}
        for result in bundle.results:
            runtimes = names.get(result.machine) or result.runtime
            found = _RELEASE.search(result.id.partition("[")[2])
            topics = [topic for topic, pattern in TOPICS.items() if pattern.fullmatch(result.claim)]
            for topic in topics if runtimes else ():
                row = cells.setdefault((runtimes, found[1] if found else _ANY), {})
                row.setdefault(topic, {}).setdefault(result.claim, Counter())[result.outcome.value] += 1
    return Compatibility(
        rows={
            key: {topic: _worst(row.get(topic, {})) for topic in TOPICS}
            for key, row in sorted(cells.items(), key=lambda one: (one[0][0], _order(one[0][1])))
        }
    )


def _order(release: str) -> tuple[int, ...]:
    return () if release == _ANY else tuple(map(int, release.split(".")))


def _worst(claims: Mapping[str, Counter[str]]) -> dict[str, Outcome]:
    found = {name: worst_of(counts) for name, counts in claims.items()}
    return {name: outcome for name, outcome in found.items() if outcome is not None}


def compatibility_markdown(found: Compatibility) -> str:
    """The matrix as Markdown; a topic without observations is empty."""
    lines = [
        [inline(runtimes), release, *(_topic_cell(topics[topic]) for topic in TOPICS)]
        for (runtimes, release), topics in found.rows.items()
    ]
    return "\n".join(table(["runtimes", "Kubernetes", *TOPICS], lines)) + "\n"


def _topic_cell(claims: Mapping[str, Outcome]) -> str:
    observed = {name: one for name, one in claims.items() if one in _OBSERVED}
    wrong = sorted(name for name, one in observed.items() if one is Outcome.DEVIATES)
    known = sorted(name for name, one in observed.items() if one is Outcome.KNOWN)
    parts = [f"{len(observed) - len(wrong) - len(known)} of {len(observed)} claims conform"] if observed else []
    parts += [f"deviates: {inline(', '.join(wrong))}"] if wrong else []
    parts += [f"known: {inline(', '.join(known))}"] if known else []
    return "; ".join(parts)
