"""Runs `memqos explore` from options to report: on one machine, on two that are compared, or with the engine alone."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from memqos.catalog.profiles import profile_names
from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.config.settings import Settings
from memqos.config.systems import systems_of, with_another_runtime
from memqos.config.table import SETTINGS
from memqos.engine.answer.finding import Finding, Setter
from memqos.engine.releases.release import Release
from memqos.errors import ExitCode, UsageError
from memqos.exploration import Document
from memqos.exploration.batches import Batches, leaving_no_folder
from memqos.exploration.engine_alone import EngineAlone
from memqos.exploration.examples import Example, Kind, settings_in
from memqos.exploration.judge import ExampleResult, Judge
from memqos.exploration.session import Database, ExampleRunner, Found, Known, Session, load_found
from memqos.known import known_fault_or_not
from memqos.laboratory.bench import Disposal
from memqos.laboratory.kubelets_in_use import releases_in_use
from memqos.laboratory.station import Notices, Station, Stations
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.node.requests.differential import differences
from memqos.ownership import temporary_folder
from memqos.place.opening import check_host, check_places, prepare_places
from memqos.plain_file import read_plain
from memqos.threads import repeatedly

__all__ = ["Comparison", "Order", "Progress", "explored", "explored_engine"]


class Comparison:
    """Runs examples on two systems and reports their differences as findings.

    names: the two systems' names in findings.
    """

    def __init__(self, one: ExampleRunner, other: ExampleRunner, names: tuple[str, str]) -> None:
        self._one = one
        self._other = other
        self._names = names

    def try_all(self, examples: Sequence[Example], *, alone: bool = False) -> Sequence[ExampleResult]:
        """The differences of each example."""
        mine = self._one.try_all(examples, alone=alone)
        others = self._other.try_all(examples, alone=alone)
        return [self._compared(one, other) for one, other in zip(mine, others, strict=True)]

    def _compared(self, one: ExampleResult, other: ExampleResult) -> ExampleResult:
        """The comparison of one example; empty if a system skipped it or could not start its pods."""
        if one.skipped or other.skipped or one.trouble or other.trouble:
            return dataclasses.replace(
                one, findings=(), above=(), skipped=one.skipped or other.skipped, trouble=one.trouble or other.trouble
            )
        kind = str(one.example.kind)
        found = list(differences(kind, _of_runtimes(one.findings), _of_runtimes(other.findings), self._names))
        return dataclasses.replace(one, findings=found, above=(), containers=one.containers + other.containers)


def _of_runtimes(findings: Sequence[Finding]) -> Sequence[Finding]:
    """The findings about containers: memqos itself wrote the files above them on both systems."""
    return [one for one in findings if one.set_by is not Setter.MEMQOS]


_CHAPTERS = {
    Kind.PODS: ("values", "requests", "refusal", "swap"),
    Kind.RESIZE: ("resize", "values", "requests"),
    Kind.RESTART: ("lifecycle", "values", "succession"),
    Kind.KERNEL: ("protection", "throttling", "limits", "swap"),
    Kind.LIFECYCLE: ("requests", "lifecycle", "refusal", "oci", "cri", "values"),
}
"""By kind of example, the chapters whose listed deviations it may show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSystem:
    """The opened machines of a session.

    system: the machine and its runtimes as text. node, driver: of the first station.
    """

    tries: ExampleRunner
    known: Known
    system: Sequence[str]
    node: NodeFacts
    driver: CgroupDriver


@contextlib.contextmanager
def opened_system(settings: Settings, *, enactor: str, against: str = "", notices: Notices) -> Iterator[OpenedSystem]:
    """Open the machine of these settings until the context ends.

    enactor: the name of the program that carries out plans. against: a runtime or a profile to compare with, "" for
    none. Raises UsageError if the settings name several systems; otherwise as `Stations.opened`.
    """
    mine, other = _systems(settings, against)
    [key], [other_key] = systems_of(mine), systems_of(other)
    if other.runtime_binary != mine.runtime_binary:
        # One machine has the files of both.
        mine = other = dataclasses.replace(other, runtime=(*mine.runtime, *other.runtime))
    builds = check_places(mine)
    check_host(mine)
    prepare_places(mine, progress=notices)
    if against:
        prepare_places(other, progress=notices)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(temporary_folder("memqos-explore-"))
        owner = Disposal()
        stations = Stations(mine, results=folder, notices=notices, owner=owner, builds=builds, enactor=enactor)
        station = stack.enter_context(stations.opened(key))
        ground = _opened(station, mine)
        if against:
            if stations.are_of_one_machine(key, other_key):
                second = stack.enter_context(stations.turned(station, other_key))
            else:
                second = stack.enter_context(stations.opened(other_key))
            names = (key.runtime, other_key.runtime) if key.runtime != other_key.runtime else (key.profile, against)
            tries = Comparison(Judge(station.node), Judge(second.node), names)
            system = [*ground.system, *(one for one in _system(second) if one not in ground.system)]
            ground = dataclasses.replace(ground, tries=tries, known=_unlisted, system=system)
        try:
            yield ground
        finally:
            owner.ends = True


def _opened(station: Station, settings: Settings) -> OpenedSystem:
    def known(finding: Finding, kind: Kind) -> Finding:
        return known_fault_or_not(finding, _CHAPTERS[kind], station, settings.known)

    return OpenedSystem(
        tries=Judge(station.node),
        known=known,
        system=_system(station),
        node=station.node.facts,
        driver=station.key.driver,
    )


def _system(station: Station) -> list[str]:
    return [str(station.key), *station.runtimes, f"linux {station.node.facts.kernel}"]


def _unlisted(finding: Finding, _: Kind) -> Finding:
    """The finding itself: lists have no entries for differences between two runtimes; their models' traits do."""
    return finding


def _systems(settings: Settings, against: str) -> tuple[Settings, Settings]:
    """The settings of the one system, and those of the other."""
    if len(systems_of(settings)) > 1:
        raise UsageError(
            "memqos explore runs on one system: one profile, one runtime and one driver.",
            next_step="Run it once for each system, or compare two: --against RUNTIME.",
        )
    if not against:
        return settings, settings
    if against in profile_names() and not settings.target:
        return settings, dataclasses.replace(settings, image=None, profile=(against,))
    return with_another_runtime(settings, against, option="--against")


FORMAT = 1
RESIZES_SINCE = Release(33)
_EVERY = 10.0
"""Seconds between progress lines."""
_BEAT = 30.0
"""Seconds after which a batch that goes on is reported."""
_MOST_LISTED = 10
_MIB = 1 << 20

Say = Callable[..., None]
"""Prints a line: `say(text, err=True)` to standard error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The options of a session.

    minutes: the duration. seed: of the draws. database: None keeps nothing. replay: a file with one example to run
    alone. against: a runtime or profile to compare with, "" for none. kubelet_config: None for random ones. kinds:
    kinds of examples, () for all.
    """

    settings: Settings
    minutes: float
    seed: int
    database: Path | None = None
    replay: Path | None = None
    against: str = ""
    enactor: str = "memqos"
    kubelet_config: Path | None = None
    kinds: Sequence[str] = ()

    @property
    def releases(self) -> Sequence[str]:
        """The Kubernetes releases, () for any: for a kubelet under test its own.

        Raises UsageError for a kubelet of another release than --kubernetes, UnknownNameError for a release without
        rules, UnfitFileError for a file that is not a kubelet.
        """
        return [str(Release.parse(text)) for text in releases_in_use(self.settings)]

    @property
    def drawn_kinds(self) -> tuple[Kind, ...]:
        """The kinds that are drawn: by default all, of a kubelet under test those that it carries out.

        Raises UsageError for any other.
        """
        kinds = tuple(map(Kind, self.kinds)) or tuple(Kind)
        if self.settings.kubelet_binary is None:
            return kinds
        resizes = all(Release.parse(one) >= RESIZES_SINCE for one in self.releases)
        able = {Kind.PODS, Kind.RESTART, *((Kind.RESIZE,) if resizes else ())}
        if unable := [str(one) for one in kinds if one not in able and self.kinds]:
            raise UsageError(
                f"a kubelet of {self.releases[0]} carries out no examples of the kind '{unable[0]}'.",
                where="--kind",
                next_step=f"Choose among {', '.join(sorted(able))}, or leave out --kubelet-binary.",
            )
        return tuple(one for one in kinds if one in able)

    @property
    def config(self) -> Document | None:
        """The one KubeletConfiguration; None for random ones. UsageError or ManifestError for a wrong file."""
        if self.kubelet_config is None:
            return None
        try:
            data = read_plain(self.kubelet_config, most=_MIB)
        except OSError as error:
            raise UsageError(f"{error.strerror}.", where=str(self.kubelet_config)) from None
        try:
            found = yaml.safe_load(data)
        except yaml.YAMLError:
            found = None
        if not isinstance(found, dict):
            raise UsageError("it is not a KubeletConfiguration.", where=str(self.kubelet_config))
        settings_in(found, file=str(self.kubelet_config))
        return found


class _Notices:
    """Prints the steps of opening a machine."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def start(self, name: str) -> None:
        """A step begins."""
        self._say(f"memqos: {name} …", err=True)

    def done(self, name: str) -> None:
        """Steps end silently."""

    def note(self, text: str) -> None:
        """A sentence that the reader should know."""
        self._say(f"memqos: note: {text}", err=True)

    def line(self, text: str) -> None:
        """Print a line."""
        self._say(f"memqos: {text}", err=True)


class Progress:
    """Prints a progress line at intervals, and each finding at once. beat: seconds; see `beating`."""

    def __init__(self, say: Say, *, beat: float = _BEAT) -> None:
        self._say = say
        self._beat = beat
        self._begun = self._last = SYSTEM_CLOCK.now()
        self._shown: set[str] = set()

    def __call__(self, session: Session) -> None:
        """After a batch or a finding."""
        for name, found in session.found.items():
            if name not in self._shown:
                self._shown.add(name)
                self._say(f"memqos: found: {found.finding}", err=True)
        if SYSTEM_CLOCK.now() - self._last >= _EVERY:
            self._last = SYSTEM_CLOCK.now()
            self._say(f"memqos: {progress_line(session)}; {session.doing}", err=True)

    def beating(self, session: Session) -> contextlib.AbstractContextManager[None]:
        """Until the context ends, a batch that takes long is reported meanwhile."""

        def beat() -> None:
            now = SYSTEM_CLOCK.now()
            if now - self._last >= self._beat:
                minutes, tried = (now - self._begun) / 60, session.counts.pods
                self._say(f"memqos: {minutes:.1f} min: {session.doing or 'starting'}; {tried} pods before", err=True)

        return repeatedly(beat, every=self._beat, name="memqos heartbeat")


def progress_line(session: Session) -> str:
    """The session's progress: "3.2 min: 120 examples (95 shapes), …"."""
    counts = session.counts
    parts = [
        f"{_number(sum(counts.examples.values()), 'example')} ({_number(len(counts.shapes), 'shape')})",
        _number(counts.pods, "pod"),
        f"{_number(counts.containers, 'container')} ({counts.rate:.0f} a minute)",
        _number(counts.files, "file"),
        _number(len(session.found), "finding"),
        _number(len(counts.known), "known fault"),
    ]
    return f"{counts.seconds / 60:.1f} min: {', '.join(parts)}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def explored(order: Order, say: Say, keep: Callable[[Document], None]) -> ExitCode:
    """Explore a machine; say the report, and keep its document. An interrupt ends the session with a report.

    An error does so too, and is raised afterwards.
    """
    releases, config = order.releases, order.config
    order.drawn_kinds  # noqa: B018 - a kind that cannot be drawn is a usage error before a machine is booted
    kept = load_found(order.replay) if order.replay else None
    session: Session | None = None
    system: Sequence[str] = ()

    def report(session: Session, *, interrupted: bool) -> ExitCode:
        for line in report_lines(session, order, interrupted=interrupted):
            say(line)
        keep(_document(session, order, system, interrupted=interrupted))
        return _code(session, interrupted=interrupted)

    try:
        with (
            leaving_no_folder(),
            opened_system(
                order.settings, enactor=order.enactor, against=order.against, notices=_Notices(say)
            ) as ground,
        ):
            system = ground.system
            progress = Progress(say)
            session = _session(order, ground, releases, config, say, told=progress)
            with progress.beating(session):
                if kept is None:
                    session.run()
                else:
                    session.replay(kept)
    except KeyboardInterrupt:
        if session is None:
            raise
        return report(session, interrupted=True)
    except Exception:
        if session is not None:
            report(session, interrupted=True)
        raise
    return report(session, interrupted=False)


def _session(
    order: Order,
    ground: OpenedSystem,
    releases: Sequence[str],
    config: Document | None,
    say: Say,
    *,
    told: Callable[[Session], None],
) -> Session:
    say(f"memqos: exploring {', '.join(ground.system)}; seed {order.seed}", err=True)
    batches = Batches(
        seed=order.seed,
        node=ground.node,
        driver=ground.driver,
        releases=releases,
        config=config,
        kinds=order.drawn_kinds,
        many=order.settings.kubelet_binary is not None,
    )
    return Session(
        batches,
        ground.tries,
        until=Deadline.after(order.minutes * 60),
        database=Database(order.database if order.replay is None else None),
        known=ground.known,
        system=ground.system,
        told=told,
    )


def explored_engine(order: Order, say: Say, keep: Callable[[Document], None]) -> ExitCode:
    """Explore without a machine, by audits of planned trees; say the report, and keep its document."""
    releases = order.releases
    alone = EngineAlone(seed=order.seed, releases=releases, until=Deadline.after(order.minutes * 60))
    interrupted = False
    try:
        with leaving_no_folder():
            alone.run(told=lambda text: say(f"memqos: {text}", err=True))
    except KeyboardInterrupt:
        interrupted = True
    for line in alone.lines():
        say(line)
    keep({"memqos_format": FORMAT, "seed": order.seed, "interrupted": interrupted, **alone.document()})
    return alone.code(interrupted=interrupted)


def _code(session: Session, *, interrupted: bool) -> ExitCode:
    if session.found:
        return ExitCode.DEVIATES
    if interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.CONFORMS if session.counts.files else ExitCode.NOTHING_OBSERVED


def _document(session: Session, order: Order, system: Sequence[str], *, interrupted: bool) -> Document:
    counts = session.counts
    return {
        "memqos_format": FORMAT,
        "seed": order.seed,
        "interrupted": interrupted,
        "system": list(system),
        "against": order.against,
        "seconds": round(counts.seconds, 1),
        "containers_per_minute": round(counts.rate, 1),
        "counts": {
            "examples": dict(counts.examples),
            "shapes": len(counts.shapes),
            "pods": counts.pods,
            "containers": counts.containers,
            "files": counts.files,
            "skipped": sum(counts.skipped.values()),
        },
        "skipped": dict(counts.skipped),
        "troubles": dict(counts.troubles),
        "known": dict(counts.known),
        "gone": list(session.gone),
        "findings": [one.reported() for one in session.found.values()],
    }


def report_lines(session: Session, order: Order, *, interrupted: bool = False) -> Iterator[str]:
    """The report of a session as text."""
    yield f"{'interrupted after ' if interrupted else ''}{progress_line(session)} (seed {order.seed})"
    for text, count in session.counts.known.items():
        yield f"known ({count} times): {text}"
    for name in session.gone:
        yield f"no longer deviates: {name}, from the database"
    for text, count in session.counts.troubles.most_common(_MOST_LISTED):
        yield f"not done ({count} times): {text}"
    for one in session.found.values():
        yield from _finding_lines(one, order)
    if not session.found:
        yield "nothing deviates." if session.counts.files else "nothing was observed."


def _finding_lines(found: Found, order: Order) -> Iterator[str]:
    yield ""
    yield f"{found.name}: {found.finding}"
    if found.lost:
        yield f"  {found.lost}"
    if not found.again:
        yield "  seen once, but not when the same example ran again"
    size = "smallest example" if found.shrunk else "example"
    yield f"  found after {found.found_after:.0f} s, seen in {found.seen} examples; {size} ({found.tries} tries):"
    text = yaml.safe_dump(shown_example(found.example), sort_keys=False, default_flow_style=None, width=110)
    yield from (f"    {line}" for line in text.rstrip().splitlines())
    if order.database is not None and order.replay is None:
        file = order.database / f"{found.name}.json"
        yield f"  repeat it: {shlex.join(['memqos', 'explore', *_options(order), '--replay', str(file)])}"


def shown_example(example: Example) -> Document:
    """An example without the fields that every manifest or configuration has."""
    found = example.document()
    if not example.pods:
        del found["config"]
        del found["kubernetes"]
    return found


def _options(order: Order) -> Iterator[str]:
    """The given options that choose the machine."""
    for setting in SETTINGS:
        if order.settings.origins.get(setting.key, "").startswith("--") and setting.name != "kubernetes":
            value: Any = getattr(order.settings, setting.key)
            values = value if isinstance(value, tuple) and setting.kind.is_repeated else (value,)
            for one in values:
                yield f"--{setting.name}"
                if one is not True:
                    yield ",".join(map(str, one)) if isinstance(one, tuple) else str(one)
    if order.against:
        yield from ("--against", order.against)
