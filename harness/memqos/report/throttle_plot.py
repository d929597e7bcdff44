"""A plot of an analysed series: memory in use over time, its thresholds, and the container's stretches."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from memqos.engine.cgroup.throttle_analysis import Analysis
from memqos.engine.cgroup.throttle_series import Course

__all__ = ["throttle_plot"]

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 400, 80, 740, 40, 320
_MOST_POINTS = 1500
_MIB = 1 << 20
_COLOURS = {
    Course.BELOW: "#e8e8e8",
    Course.IDLE: "#d5d5d5",
    Course.RECLAIMS: "#cfe8cf",
    Course.SLEEPS: "#cfe0f3",
    Course.THRASHES: "#f6d4c4",
    Course.UNKNOWN: "#efe3b8",
}


def throttle_plot(one: Analysis, title: str) -> str:
    """An SVG image: usage as a line, stretches as bands behind it, memory.high, the floor of sleep and memory.max."""
    seen = [sample for sample in one.samples if not sample.gone]
    begin, end = seen[0].at, seen[-1].at
    setup = one.setup
    lines = {
        "memory.high": None if setup.high is None else setup.high.count,
        "sleeps from": setup.floor,
        "memory.max": None if setup.limit is None else setup.limit.count,
    }
    amounts = [sample.usage for sample in seen] + [amount for amount in lines.values() if amount is not None]
    low, top = min(amounts), max(amounts)
    if setup.high is not None and max(sample.usage for sample in seen) > setup.high.count:
        # Usage below memory.high passes within seconds, so the plot shows what is above.
        low = max(low, setup.high.count - (top - setup.high.count) // 4)
    space = max(top - low, 1)

    def across(at: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (at - begin) / (end - begin)

    def up(amount: int) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * (max(amount, low) - low) / space

    parts = []
    for part in one.segments:
        x, width = across(part.start), across(part.end) - across(part.start)
        colour = _COLOURS[part.course]
        parts.append(
            f'<rect x="{x:.1f}" y="{_TOP}" width="{width:.1f}" height="{_BOTTOM - _TOP}" fill="{colour}">'
            f"<title>{escape(f'{part.course}: {part.why}')}</title></rect>"
        )
    for name, amount in lines.items():
        if amount is not None:
            parts += _level(up(amount), f"{name} {amount / _MIB:.1f} MiB")
    step = max(1, -(-len(seen) // _MOST_POINTS))
    kept = [*seen[:-1:step], seen[-1]]
    points = " ".join(f"{across(sample.at):.1f},{up(sample.usage):.1f}" for sample in kept)
    parts.append(f'<polyline fill="none" stroke="#0b4f7a" stroke-width="1.5" points="{points}"/>')
    for number in range(5):
        at = begin + (end - begin) * number / 4
        parts.append(f'<text x="{across(at):.0f}" y="{_BOTTOM + 16}" text-anchor="middle">{at:.0f} s</text>')
    parts += _legend({part.course for part in one.segments})
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 12}">{escape(one.end.ending.value)}</text>')
    return _svg(title, parts)


def _level(y: float, text: str) -> Iterator[str]:
    yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_RIGHT}" y2="{y:.1f}" stroke="#888" stroke-dasharray="4 3"/>'
    yield f'<text x="{_RIGHT}" y="{y - 4:.1f}" text-anchor="end" fill="#555">{escape(text)}</text>'


def _legend(courses: set[Course]) -> Iterator[str]:
    for number, course in enumerate(one for one in Course if one in courses):
        x, y = _LEFT + 130 * number, _HEIGHT - 48
        yield f'<rect x="{x}" y="{y}" width="12" height="12" fill="{_COLOURS[course]}" stroke="#999"/>'
        yield f'<text x="{x + 16}" y="{y + 10}">{escape(course.value)}</text>'


def _svg(title: str, parts: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="11">\n<title>{escape(title)}</title>\n<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>\n'
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>\n'
    )
    return head + "\n".join(parts) + "\n</svg>\n"
