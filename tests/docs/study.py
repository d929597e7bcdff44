"""Draw the plots of docs/explanation/pressure.md from results of runs: `python -m tests.docs.study RESULTS...`.

What is drawn is what the product keeps of a case (series.jsonl, by `memqos.bundles.evidence`), and nothing besides.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memqos.bundles.evidence import CaseEvidence, charts_of

IMAGES = Path(__file__).parents[2] / "docs" / "images"
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 380, 60, 30, 330
COLOURS = ("#0b6e99", "#b5541c", "#3a7d34", "#8c3a8c", "#777777", "#b08800")
MIB = 1 << 20

_FACTORS = "throttling_test_throttling.py-v1.27"
GROWTH = {
    "factor 0.4": (_FACTORS, "stalls-0.4"),
    "factor 0.6": (_FACTORS, "stalls-0.6"),
    "factor 0.8": (_FACTORS, "stalls-0.8"),
    "factor 1": (_FACTORS, "stalls-1"),
    "page cache": ("unprotected_page_cache_is_reclaimed_at_the_limit_v1.36-none", "fills-guaranteed"),
}
"""A program that is the same but for its memory.high or its kind of memory: a part of its case's folder, its pod."""

SHORTAGE = {
    "whole_node.py-v1.36-none": "None",
    "whole_node.py-v1.36-tiered": "Tiered, 1.36",
    "whole_node.py-v1.37-tiered": "Tiered, 1.37",
    "classic_lru.py-v1.37-tiered": "Tiered, 1.37, classic LRU",
}
PODS = {"kept-guaranteed": "Guaranteed", "kept-burstable": "Burstable", "unguarded": "BestEffort"}

Line = Sequence[tuple[float, float]]


def usage(folder: Path) -> Iterator[tuple[str, Line]]:
    """The name of each pod of a case, and what its first container used over time: seconds and MiB."""
    evidence = CaseEvidence(folder)
    plan = next(evidence.lines("plan.json"))
    charts = charts_of(evidence.lines("series.jsonl"))
    for pod in plan["pods"]:
        below = [one for one in charts if str(one["cgroup"]).startswith(f"{pod['cgroup']}/")]
        yield pod["name"], max((_line(one) for one in below), key=lambda line: max((y for _, y in line), default=0.0))


def _line(chart: Mapping[str, Any]) -> Line:
    column = chart["columns"].get("memory.current", [])
    return [(at, used / MIB) for at, used in zip(chart["times"], column, strict=False) if used is not None]


def found(results: Sequence[Path], part: str) -> Path:
    """The folder of a case in one of the results."""
    [folder] = [case for root in results for case in root.glob("tests/*") if part in case.name][-1:]
    return folder


def growth(results: Sequence[Path]) -> str:
    """Lines: memory in use, from the moment at which the program has most of what its request covers."""
    parts, seconds, most = [], 20.0, 26.0
    for number, (name, (part, pod)) in enumerate(GROWTH.items()):
        line = dict(usage(found(results, part)))[pod]
        began = next(at for at, used in line if used > 14)
        points = [(at - began, used) for at, used in line if 0 <= at - began <= seconds]
        path = " ".join(f"{LEFT + 660 * x / seconds:.1f},{BOTTOM - 300 * y / most:.1f}" for x, y in points)
        colour, legend = COLOURS[number], TOP + 190 + 18 * number
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        parts.append(f'<text x="560" y="{legend}" fill="{colour}">{name}</text>')
    for used in (0, 8, 16, 24):
        parts += _level(BOTTOM - 300 * used / most, f"{used} Mi")
    for at in range(0, 21, 5):
        parts.append(f'<text x="{LEFT + 33 * at}" y="350" text-anchor="middle">{at} s</text>')
    return _svg("Memory in use of one program that grows; request 16 Mi, limit 24 Mi", parts)


def shortage(results: Sequence[Path]) -> str:
    """Bars: what each class had left of its page cache when the machine had run short."""
    parts = []
    for group, (part, name) in enumerate(SHORTAGE.items()):
        kept = dict(usage(found(results, part)))
        for number, (pod, label) in enumerate(PODS.items()):
            most = max(used for _, used in kept[pod])
            after = [used for _, used in kept[pod][kept[pod].index(max(kept[pod], key=lambda one: one[1])) :]]
            # The last looks are of a container that is being removed.
            left = min((used for used in after if used > 4), default=most)
            height, x = 280 * left / most, LEFT + 20 + 170 * group + 44 * number
            parts.append(
                f'<rect x="{x}" y="{BOTTOM - height:.0f}" width="38" height="{height:.0f}" fill="{COLOURS[number]}">'
                f"<title>{label}: {left:.0f} of {most:.0f} Mi</title></rect>"
                f'<text x="{x + 19}" y="{BOTTOM - height - 5:.0f}" text-anchor="middle">{100 * left / most:.0f}</text>'
            )
        parts.append(f'<text x="{LEFT + 84 + 170 * group}" y="350" text-anchor="middle">{name}</text>')
    for number, label in enumerate(PODS.values()):
        parts.append(f'<text x="{LEFT + 20 + 120 * number}" y="370" fill="{COLOURS[number]}">{label}</text>')
    for percent in (0, 50, 100):
        parts += _level(BOTTOM - 2.8 * percent, f"{percent} %")
    return _svg("Page cache that is left when the whole machine has run short, by class and policy", parts)


def _level(y: float, text: str) -> list[str]:
    return [
        f'<line x1="{LEFT}" y1="{y:.0f}" x2="740" y2="{y:.0f}" stroke="#ddd"/>',
        f'<text x="{LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{text}</text>',
    ]


def _svg(title: str, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12">\n<title>{title}</title>\n<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n'
        f'<text x="{LEFT}" y="18" font-size="14">{title}</text>\n'
    )
    return head + "\n".join(parts) + "\n</svg>\n"


if __name__ == "__main__":
    given = [Path(word) for word in sys.argv[1:]]
    (IMAGES / "study-throttling.svg").write_text(growth(given), encoding="utf-8")
    (IMAGES / "study-reservation.svg").write_text(shortage(given), encoding="utf-8")
