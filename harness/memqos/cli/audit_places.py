"""Audits of the nodes on a command line, once or as a watch: recordings, folders of them, and live nodes.

The order of an audit is a value that can be sent to other processes.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from memqos.audits.answer import Audit
from memqos.audits.entry import known_of_kubelets
from memqos.audits.exported import junit_text, metrics_text, sarif_document
from memqos.audits.fleet import Fleet, NodeRow, row_of, row_of_error
from memqos.audits.judgement import judged
from memqos.audits.live import WRITER, Course, Event, looked_at, with_systemd
from memqos.audits.node_state import NodeState, node_state
from memqos.audits.question import AuditOptions, Question, Required
from memqos.catalog.kubelet_config import load_settings
from memqos.catalog.recorded_contents import FOREIGN_WRITER
from memqos.catalog.recorded_trees import RecordedTree, load_tree, tree_of
from memqos.catalog.support_archives import archives_in, is_archive
from memqos.cli.manifest_options import ManifestOptions
from memqos.cli.node_options import KubeletOptions, NodeOptions, RuntimeOptions
from memqos.cli.terminal import say
from memqos.clock import SYSTEM_CLOCK, Clock, utc_now
from memqos.engine.kubelet import Kubelet
from memqos.errors import ExitCode, MachineryError, MemqosError, UsageError
from memqos.model.pod import Pod

__all__ = ["AuditOrder", "Judged", "drift_watched", "judged_places", "places_in", "write_exports"]


_PODS = (
    "Give their manifests: kubectl get pods -A -o json --field-selector spec.nodeName=NAME | memqos audit … --pods -"
)
_STEPS = {
    Required.PODS: "Give the pods' manifests with --pods.",
    Required.RELEASE: "Give the release with --kubernetes.",
    Required.NODE: "Give the facts of the node with --node, or at least --capacity-memory.",
}


def is_url(place: str) -> bool:
    """Whether a place is a live node, and not a file."""
    return "://" in place


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOrder:
    """The command line of an audit. supposing: whether release and configuration are those of --what-if.

    waits: whether a look at a live node waits for a kubelet's period, see `looked_at`.
    """

    target: str | None = None
    cri_socket: str = ""
    timeout: float | None = None
    tree: str | None = None
    kubernetes: str | None = None
    pods: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    kubelet_config: tuple[str, ...] = ()
    was_config: tuple[str, ...] = ()
    was_pods: tuple[str, ...] = ()
    static: bool = False
    supposing: bool = False
    settle: float = 5.0
    waits: bool = True
    runtime: RuntimeOptions
    kubelet: KubeletOptions
    manifests: ManifestOptions
    node: NodeOptions

    def audit(self, pods: tuple[Pod, ...] | None = None) -> Audit:
        """The audit of the single node of --target or --tree. Errors as for `question`."""
        return self._audited(self._look(self._given_tree, pods), self.target or "")

    def audit_of(self, place: str, pods: tuple[Pod, ...] | None = None) -> Audit:
        """The audit of a node, by the name of its recording or its URL. pods: those of --pods."""
        return self._audited(self._look(lambda: self._tree_at(place), pods), place if is_url(place) else "")

    def given_pods(self) -> tuple[Pod, ...] | None:
        """The pods of --pods and further files; None for those of the recordings."""
        paths = (*self.pods, *self.files)
        return self.manifests.load(paths).pods if paths else None

    def check_standard_input(self) -> None:
        """UsageError if several options read it."""
        configs = (*self.kubelet_config, *self.kubelet.flags, *self.was_config)
        read = [self.tree, *self.pods, *self.files, *configs, *self.was_pods, self.node.node_file]
        if read.count("-") > 1:
            raise UsageError("standard input (-) can be read once only.", where="memqos audit")

    def supposed(self, audit: Audit) -> Kubelet:
        """The kubelet of --what-if: that of the audit with the given release, configuration and fields."""
        question = audit.question
        settings = question.kubelet.settings
        if self.kubelet_config:
            settings = self.kubelet.settings(self.kubelet_config)
        elif self.kubelet.overrides or self.kubelet.flags:
            place = self.tree or question.tree.source
            again = load_tree(place, self.kubelet.overrides, self.kubelet.flags) if not is_url(place) else None
            if again is None or again.settings is None:
                raise UsageError(
                    "--what-if cannot add fields to a live node's configuration.",
                    where="--what-if",
                    next_step="Collect the node into a file first, or give the whole configuration.",
                )
            settings = again.settings
        return Kubelet.of(
            node=question.kubelet.node,
            settings=settings,
            release=self.kubernetes or question.version,
            driver=question.kubelet.driver,
            variant=question.kubelet.variant,
            runtimes=question.kubelet.runtimes,
        )

    def _audited(self, look: Callable[[], Audit], url: str) -> Audit:
        if not url:
            return look()
        found = looked_at(look, settle=self.settle, waits=self.waits)
        if url.startswith("kubectl://"):
            return found
        from memqos.place.collecting import unit_properties

        return with_systemd(found, lambda units: unit_properties(url, units))

    def _look(self, tree: Callable[[], RecordedTree], pods: tuple[Pod, ...] | None) -> Callable[[], Audit]:
        return lambda: judged(self.question(tree(), pods))

    def question(self, tree: RecordedTree, pods: tuple[Pod, ...] | None) -> Question:
        """What to judge. Raises UsageError if the command line and the recording together lack something."""
        if pods is None and tree.pods is None and (self.target or is_url(tree.source)):
            raise UsageError("a node does not record its pods' requests.", where=tree.source, next_step=_PODS)
        said = self.node.capacity_memory is not None or self.node.node_file is not None
        configs = () if self.supposing else self.kubelet_config
        own = configs or tree.settings is None
        kubelet = replace(self.kubelet, overrides=(), flags=()) if self.supposing else self.kubelet
        return AuditOptions(
            runtimes=self.runtime.runtimes(tree.runtimes, hugetlb=tree.hugetlb),
            pods=pods,
            settings=kubelet.settings(configs or None) if own else None,
            config=", ".join(configs),
            argument="--kubelet-config",
            node=self.node.facts(tree.node) if said or tree.node is not None else None,
            release=None if self.supposing else self.kubernetes,
            driver=self.kubelet.cgroup_driver,
            variant=self.kubelet.followed,
            static=self.static,
            known=known_of_kubelets(),
            was_settings=load_settings(self.was_config) if self.was_config else None,
            was_pods=self.manifests.load(self.was_pods).pods if self.was_pods else None,
            was_config=", ".join(self.was_config),
            was_manifests=", ".join(self.was_pods),
        ).about(tree, steps=_STEPS)

    def _fields(self) -> Mapping[str, Any]:
        """Fields and flags on top of a recording's own configuration."""
        if self.kubelet_config or self.supposing:
            return {"overrides": (), "flags": ()}
        return {"overrides": self.kubelet.overrides, "flags": self.kubelet.flags}

    def _tree_at(self, place: str) -> RecordedTree:
        if not is_url(place):
            from memqos.catalog.support_archives import archived

            if is_archive(place):
                return tree_of(archived(place), place, **self._fields())
            return load_tree(place, **self._fields())
        from memqos.place.collecting import collected_at

        return tree_of(collected_at(place, cri_socket=self.cri_socket, timeout=self.timeout), place, **self._fields())

    def _given_tree(self) -> RecordedTree:
        """The node of --target, read now, or the recording of --tree."""
        if (self.target is None) is (self.tree is None):
            raise UsageError(
                "no node is given." if self.tree is None else "--target and --tree name two nodes.",
                where="memqos audit",
                next_step="Give a recording or a node, such as node7.json or ssh://root@node7.",
            )
        if self.target is None:
            if self.cri_socket:
                raise UsageError("a recording has no socket.", where="--cri-socket", next_step="Give it with --target.")
            return load_tree(str(self.tree), **self._fields())
        from memqos.place.collecting import collected_through
        from memqos.target.opening import check_url

        check_url(self.target, where="--target")
        document = collected_through(self.target, cri_socket=self.cri_socket, timeout=self.timeout)
        return tree_of(document, self.target, **self._fields())


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
    names = [one for one in folder.iterdir() if one.name.endswith(_RECORDINGS) and not one.name.startswith(".")]
    names += archives_in(folder)
    if not names:
        raise UsageError(
            f"the folder '{folder}' has no recording (*.json) and no sosreport.",
            next_step="Collect nodes into it: memqos collect.",
        )
    return [str(one) for one in sorted(names)]


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
