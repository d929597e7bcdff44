"""What a runtime says that a container or pod uses, held against the kernel's own files.

The files are read before and after the runtime is asked, so a right answer lies between the two readings, or beyond
them by no more than what a kernel keeps for its CPUs in stock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memqos.cgroupfs import parse
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.model.reading import FileText

__all__ = ["FIGURES", "FILES", "Figure", "figure_finding", "said", "stock_of"]

FILES = ("memory.current", "memory.stat", "memory.max", "memory.swap.current", "memory.pressure")

_STOCK_PAGES = 64
"""MEMCG_CHARGE_BATCH: what each CPU may have charged to a cgroup ahead of use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number of CRI's stats. field: where it is in the answer. kernel: what the files of that moment make of it.

    charged: whether it moves with memory.current, and so by what CPUs have in stock.
    """

    field: tuple[str, ...]
    kernel: Callable[[Mapping[str, str]], int]
    charged: bool = False


def _stat(key: str) -> Callable[[Mapping[str, str]], int]:
    return lambda files: parse.entry(parse.counters(files["memory.stat"], path="memory.stat"), key, path="memory.stat")


def _number(name: str) -> Callable[[Mapping[str, str]], int]:
    return lambda files: parse.number(files[name], path=name)


def _working_set(files: Mapping[str, str]) -> int:
    return max(0, _number("memory.current")(files) - _stat("inactive_file")(files))


def _available(files: Mapping[str, str]) -> int:
    return _number("memory.max")(files) - _working_set(files)


def _waited(files: Mapping[str, str]) -> int:
    return parse.pressure(files["memory.pressure"], path="memory.pressure").some.total


FIGURES: Mapping[str, Figure] = {
    "usage": Figure(field=("memory", "usage_bytes", "value"), kernel=_number("memory.current"), charged=True),
    "working set": Figure(field=("memory", "working_set_bytes", "value"), kernel=_working_set, charged=True),
    "available": Figure(field=("memory", "available_bytes", "value"), kernel=_available, charged=True),
    "rss": Figure(field=("memory", "rss_bytes", "value"), kernel=_stat("anon"), charged=True),
    "page faults": Figure(field=("memory", "page_faults", "value"), kernel=_stat("pgfault")),
    "major page faults": Figure(field=("memory", "major_page_faults", "value"), kernel=_stat("pgmajfault")),
    "swap": Figure(field=("swap", "swap_usage_bytes", "value"), kernel=_number("memory.swap.current")),
    "pressure": Figure(field=("memory", "psi", "Some", "Total"), kernel=_waited),
}
"""By the names that suites use. Sources: CRI MemoryUsage and SwapUsage; containerd metrics.go; kernel cgroup-v2.rst."""


def said(answer: object, field: tuple[str, ...]) -> int | None:
    """The number in an answer; None for one that is left out, which is not zero."""
    for name in field:
        answer = answer.get(name) if isinstance(answer, Mapping) else None
    return int(answer) if isinstance(answer, str | int) else None


def figure_finding(
    name: str,
    answer: Mapping[str, object],
    before: Mapping[str, FileText],
    after: Mapping[str, FileText],
    *,
    subject: str,
    cgroup: str,
    stock: int,
) -> Finding:
    """Whether the answer is between what the files said before and after. stock: bytes that CPUs may have charged."""
    figure = FIGURES[name]
    seen = said(answer, figure.field)
    texts = [{file: text for file, text in files.items() if isinstance(text, str)} for files in (before, after)]
    why_not = f"the runtime's answer has no {'.'.join(figure.field[:2])}" if seen is None else ""
    try:
        bounds = sorted(figure.kernel(files) for files in texts)
    except KeyError as missing:
        bounds, why_not = [], why_not or f"the kernel has no {missing.args[0]} there"
    slack = stock if figure.charged else 0
    least, most = (max(0, bounds[0] - slack), bounds[-1] + slack) if bounds else (0, 0)
    right = seen is not None and least <= seen <= most
    return Finding(
        verdict=Verdict.NOT_OBSERVABLE if why_not else Verdict.CONFORMS if right else Verdict.DEVIATES,
        subject=subject,
        cgroup=cgroup,
        knob=name,
        set_by=Setter.RUNTIME,
        expected=f"{least} to {most}" if bounds else "",
        observed="" if seen is None else str(seen),
        why_not=why_not,
        measured=True,
    )


def stock_of(cpus: int, page_size: int) -> int:
    """Bytes that all CPUs together may have charged ahead."""
    return _STOCK_PAGES * cpus * page_size
