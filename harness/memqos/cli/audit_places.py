"""Audits of the nodes on a command line, once or as a watch: recordings, folders of them, and live nodes."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from memqos.audits.answer import Audit
from memqos.audits.exported import junit_text, metrics_text, sarif_document
from memqos.audits.fleet import Fleet, NodeRow, row_of, row_of_error
from memqos.audits.live import WRITER, Course, Event
from memqos.audits.node_state import NodeState, node_state
from memqos.catalog.recorded_contents import FOREIGN_WRITER
from memqos.catalog.support_archives import is_archive
from memqos.cli.audit_order import AuditOrder, is_url
from memqos.cli.terminal import say
from memqos.clock import SYSTEM_CLOCK, Clock, utc_now
from memqos.errors import ExitCode, MachineryError, MemqosError, UsageError
from memqos.model.pod import Pod

__all__ = ["Judged", "drift_watched", "judged_places", "places_in", "write_exports"]

_RECORDINGS = (".json",)
_MOST_PLACES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The rows of all nodes. states: by place, if requested. audit: that of a single node."""

    fleet: Fleet
    states: dict[str, NodeState]
    audit: Audit | None = None


def places_in(given: Sequence[str]) -> list[str]:
    """The nodes that these words name: for a folder the recordings in it, by name. UsageError for missing ones."""
    found: list[str] = []
    for word in given:
        if is_url(word):
            from memqos.place.collecting import check_place

            check_place(word)
            found.append(word)
        elif is_archive(word) and Path(word).exists():
            found.append(word)
        elif Path(word).is_dir():
            found += _in_folder(Path(word))
        elif word == "-" or Path(word).exists():
            found.append(word)
        else:
            raise UsageError(
                f"there is no recording '{word}'.",
                where="memqos audit",
                next_step="Give a recording, a folder of recordings, or a node's URL, such as ssh://root@node7.",
            )
    if len(found) > _MOST_PLACES:
        raise UsageError(f"{len(found)} nodes are more than {_MOST_PLACES}.", where="memqos audit")
    return list(dict.fromkeys(found))


def _in_folder(folder: Path) -> list[str]:
    names = sorted(one for one in folder.iterdir() if one.name.endswith(_RECORDINGS) and not one.name.startswith("."))
    if not names:
        raise UsageError(
            f"the folder '{folder}' has no recording (*.json).", next_step="Collect nodes into it: memqos collect."
        )
    return [str(one) for one in names]


def judged_places(order: AuditOrder, places: Sequence[str], *, jobs: int, with_states: bool) -> Judged:
    """Judge all nodes; one that cannot be judged has its error in its row. jobs: processes, 0 for one per CPU."""
    pods = order.given_pods()
    if len(places) == 1:
        audit = order.audit_of(places[0], pods)
        state = {places[0]: node_state(audit)} if with_states else {}
        return Judged(fleet=Fleet(rows=(row_of(places[0], audit),)), states=state, audit=audit)
    one = partial(_row, order, pods=pods, with_state=with_states)
    rows: list[NodeRow] = []
    states: dict[str, NodeState] = {}
    for place, (row, its) in zip(places, _each(one, places, jobs or os.cpu_count() or 1), strict=True):
        rows.append(row)
        if its is not None:
            states[place] = its
    return Judged(fleet=Fleet(rows=tuple(rows)), states=states)


_Row = tuple[NodeRow, NodeState | None]
_ROWS, _ROWS_BETWEEN = itertools.count(1), 32


def _row(order: AuditOrder, place: str, *, pods: tuple[Pod, ...] | None, with_state: bool) -> _Row:
    if next(_ROWS) % _ROWS_BETWEEN == 0:
        # The garbage collector is off (cli.main), and a process judges hundreds of nodes.
        gc.collect()
    try:
        audit = order.audit_of(place, pods)
        return row_of(place, audit), node_state(audit) if with_state else None
    except MemqosError as error:
        return row_of_error(place, error), None
    except (RecursionError, MemoryError, ValueError, TypeError, KeyError, AttributeError) as error:
        # One bad recording of thousands must not end the others; its error is unexpected.
        what = f"an unexpected {type(error).__name__}: {error}"
        return row_of_error(place, MachineryError(what[:300], next_step="Audit it alone with --debug.")), None


def _each(one: Callable[[str], _Row], places: Sequence[str], jobs: int) -> Iterator[_Row]:
    """By place in their order, several at once."""
    if jobs == 1:
        yield from map(one, places)
        return
    with _pool(min(jobs, len(places))) as pool:
        try:
            yield from pool.map(one, places, chunksize=max(1, min(16, len(places) // (4 * jobs))))
        except BrokenProcessPool:
            raise MachineryError(
                "a process that judged recordings was killed.", next_step="Use fewer --jobs: memory may be exhausted."
            ) from None


def _leave_interrupts() -> None:
    """Leave Ctrl-C to the parent process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def _pool(jobs: int) -> Iterator[Executor]:
    """Processes with everything that this one has imported."""
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("fork"), initializer=_leave_interrupts)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def write_exports(
    judged: Judged, *, metrics: str | None, sarif: str | None, junit: str | None, html: str | None
) -> None:
    """Write the formats of other programs; each file is replaced atomically, so that readers see complete files."""
    if metrics is not None:
        _replace(metrics, metrics_text(judged.fleet, judged.states), "--metrics")
    if junit is not None:
        _replace(junit, junit_text(judged.fleet), "--junit")
    if sarif is not None:
        _replace(sarif, json.dumps(sarif_document(judged.fleet), indent=1) + "\n", "--sarif")
    if html is not None:
        from memqos.page.fleet import fleet_html

        _replace(html, fleet_html(judged.fleet.document(), when=utc_now()), "--html")


def _replace(path: str, text: str, option: str) -> None:
    file = Path(path)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        temporary.replace(file)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        what = f"the file '{path}' cannot be written: {(error.strerror or str(error)).lower()}."
        raise UsageError(what, where=option, next_step="Use a writable path.") from None


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
                    say(f"{_clock_time()} {_named_place(place, order)}: cannot be read: {error}", err=True)
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
                say(
                    _event_line(event, _named_place(place, order))
                    if as_json
                    else _event_text(event, _named_place(place, order))
                )
    if not reached:
        return ExitCode.MACHINERY
    return ExitCode.DEVIATES if drifted else ExitCode.CONFORMS


def _clock_time() -> str:
    return utc_now().strftime("%H:%M:%S")


def _named_place(place: str, order: AuditOrder) -> str:
    return place or order.target or str(order.tree)


def _event_text(event: Event, place: str) -> str:
    one = event.finding
    if event.kind == "back":
        return (
            f"{_clock_time()} {place}: back: {one.knob} of {one.subject} is {one.expected} again, or its cgroup is gone"
        )
    writer = one.evidence.get(WRITER) or one.evidence.get(FOREIGN_WRITER)
    by = f"; {writer}" if writer else ""
    return f"{_clock_time()} {place}: drift: {one.knob} of {one.subject} is {one.observed}, expected {one.expected}{by}"


def _event_line(event: Event, place: str) -> str:
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
