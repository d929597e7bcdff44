"""The analysis of a series of samples above memory.high, as text for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from memqos.engine.cgroup.slowing import duration
from memqos.engine.cgroup.throttle_analysis import Analysis, End, Ending, Way
from memqos.engine.cgroup.throttle_samples import Setup
from memqos.engine.cgroup.throttle_segments import Course, Segment

__all__ = ["analysis_document", "analysis_text"]

_HEAD = ("", "from s", "to s", "over", "passes", "s/pass", "model", "ratio", "pages/pass", "majfault/s", "verdict")


def analysis_document(found: Sequence[Analysis], notes: Sequence[str] = ()) -> dict[str, Any]:
    """As JSON: memqos_format (1), notes, and runs, one for each cgroup that the series is of.

    Times are seconds, rounded to milliseconds; amounts bytes; null is what is not known or does not apply.
    """
    return {"memqos_format": 1, "notes": list(notes), "runs": [_run(one) for one in found]}


def _run(one: Analysis) -> dict[str, Any]:
    end = one.end
    return {
        "setup": _setup(one.setup),
        "samples": len(one.samples),
        "verdict": end.ending.value,
        "why": end.why,
        "end": {
            "at": round(end.at, 3),
            "usage": end.usage,
            "left": end.left,
            "leastMilliseconds": None if end.way is None else int(end.way.least * 1000),
            "mostMilliseconds": None if end.way is None else int(end.way.most * 1000),
            "likelyMilliseconds": None if end.likely is None else int(end.likely * 1000),
        },
        "secondsAboveHigh": round(one.above, 3),
        "leastMilliseconds": None if one.way is None else int(one.way.least * 1000),
        "mostMilliseconds": None if one.way is None else int(one.way.most * 1000),
        "watchedLongEnough": not one.is_too_short,
        "segments": [_segment(part) for part in one.segments],
    }


def _setup(setup: Setup) -> dict[str, Any]:
    return {
        "high": None if setup.high is None else setup.high.count,
        "max": None if setup.limit is None else setup.limit.count,
        "levels": setup.levels,
        "hz": setup.hz,
        "pageSize": setup.page_size,
    }


def _segment(part: Segment) -> dict[str, Any]:
    return {
        "verdict": part.course.value,
        "from": round(part.start, 3),
        "to": round(part.end, 3),
        "firstUsage": part.first,
        "lastUsage": part.last,
        "over": round(part.over, 6),
        "passes": round(part.passes, 2),
        "secondsAPass": _rounded(part.seconds_a_pass),
        "modelSecondsAPass": _rounded(part.model),
        "ratio": _rounded(part.ratio),
        "pagesAPass": _rounded(part.kept),
        "majfaultsASecond": _rounded(part.majfaults),
        "why": part.why,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def analysis_text(found: Sequence[Analysis], notes: Sequence[str] = ()) -> str:
    """For people: the setup, a table of stretches with what each rests on, the end, and what it was watched for."""
    if not found:
        return "There are fewer than two samples of a container: nothing can be said."
    parts = [*(f"note: {one}" for one in notes)]
    for number, one in enumerate(found, 1):
        title = f"cgroup {number} of {len(found)}: " if len(found) > 1 else ""
        parts += ["", *_told(one, title)] if parts else _told(one, title)
    return "\n".join(parts)


def _told(one: Analysis, title: str) -> Iterator[str]:
    setup = one.setup
    high = "max" if setup.high is None else setup.high.count
    limit = "max" if setup.limit is None else setup.limit.count
    levels = "1 level" if setup.levels == 1 else f"{setup.levels} levels"
    yield (
        f"{title}{len(one.samples)} samples; memory.high {high}, memory.max {limit}; "
        f"{levels}, HZ {setup.hz}, pages of {setup.page_size} bytes"
    )
    yield ""
    rows = [_HEAD, *(_row(number, part) for number, part in enumerate(one.segments, 1))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        *cells, verdict = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        yield f"{'  '.join(cells)}  {verdict.strip()}"
    reasons = [
        f"{number}: {part.why}" for number, part in enumerate(one.segments, 1) if part.course is not Course.BELOW
    ]
    yield from ["", *reasons] if reasons else []
    yield ""
    yield from _ended(one)


def _high(one: Analysis) -> int:
    return 0 if one.setup.high is None else one.setup.high.count


def _row(number: int, part: Segment) -> tuple[str, ...]:
    return (
        str(number),
        f"{part.start:.1f}",
        f"{part.end:.1f}",
        f"{100 * part.over:.2f} %" if part.over else "-",
        f"{part.passes:.0f}" if part.passes else "-",
        _shown(part.seconds_a_pass, 4),
        _shown(part.model, 4),
        _shown(part.ratio, 2),
        _shown(part.kept, 2),
        _shown(part.majfaults, 1),
        part.course.value,
    )


def _shown(value: float | None, places: int) -> str:
    return "-" if value is None else f"{value:.{places}f}"


def _ended(one: Analysis) -> Iterator[str]:
    end = one.end
    yield f"{end.ending.value}: {end.why}."
    if end.left is not None and end.way is not None:
        left = f"  At {end.at:.1f} s it used {end.usage} bytes, {end.left} below memory.max"
        yield f"{left}: {_slept(end.way)}{_likely(end)}." if end.way.least else f"{left}: no sleep is left up to there."
    if one.way is None or not one.above:
        return
    begin = one.samples[0].usage
    start = "memory.high" if _high(one) >= begin else f"{begin} bytes"
    watched = f"it was watched above memory.high for {one.above:.1f} s"
    yield f"  From {start} to memory.max it is {_slept(one.way)}; {watched}."
    if one.is_too_short:
        yield "  No kill at memory.max can be seen within that time: none was seen, and one may still come."
    elif end.ending is Ending.OTHERWISE and one.above < one.way.most:
        yield "  That is less than the longest way takes: none was seen, and one may still come."


def _slept(way: Way) -> str:
    return f"{duration(way.least)} to {duration(way.most)} of sleep"


def _likely(end: End) -> str:
    return "" if end.likely is None else f"; {duration(end.likely)} at the pages a pass that it kept last"
