"""The Python way in: one machine with one runtime, pods admitted on it, and findings about them."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from memqos.catalog.kubelet_config import load_settings
from memqos.catalog.kubelets import KubeletCase
from memqos.catalog.pods import load_pods
from memqos.config.settings import Settings, resolve
from memqos.config.systems import systems_of
from memqos.config.table import SETTINGS
from memqos.enactor.registry import MEMQOS, require_enactor
from memqos.engine.answer.finding import Finding
from memqos.engine.releases.release import Release, Variant
from memqos.errors import UnknownNameError, UsageError
from memqos.known import known_or_not
from memqos.laboratory.evidence import Folder, Sink
from memqos.laboratory.station import Notices, Station, Stations
from memqos.model.pod import Pod
from memqos.node.node_under_test import NodeUnderTest
from memqos.node.pods.population import Population
from memqos.ownership import temporary_folder
from memqos.place.base import Place
from memqos.place.opening import check_host, check_places, prepare_places
from memqos.report.words import slug

__all__ = ["Bench", "Disposal", "lab"]

_OF_RUNS = frozenset(
    {"all", "baseline", "keep_vm", "kubernetes", "last_failed", "results", "shard", "strict_known", "time_budget"}
)
"""Settings that select cases or apply to a whole run of suites; a bench has neither."""


class Bench:
    """A machine with one runtime, open until the context of `lab` ends.

    results: the folder of the evidence: machines/ for the machine, populations/ for each admission.
    """

    def __init__(self, station: Station, settings: Settings, *, results: Path) -> None:
        self._station = station
        self._settings = settings
        self._pods = contextlib.ExitStack()
        self._admissions = 0
        self.results = results

    @property
    def node(self) -> NodeUnderTest:
        """The node, for everything else that tests do: watch pods, resize them, restart the kubelet."""
        return self._station.node

    def admit(
        self,
        pods: str | Path | Pod | Iterable[str | Path | Pod],
        *,
        kubernetes: str,
        kubelet_config: str | Path | None = None,
        overrides: Sequence[str] = (),
        variant: str = Variant.SHIPPED.value,
    ) -> Population:
        """Remove an earlier call's pods, admit these as a kubelet of this release does, and read their cgroups.

        pods: a manifest's path, a `Pod`, or several of them. kubernetes: "1.36". kubelet_config: the path of a
        KubeletConfiguration; None is an empty one. overrides: fields on top of it, as "featureGates.MemoryQoS=true".
        variant: "shipped", "documented" or "draft".
        Raises UsageError for a wrong manifest, configuration or name, MachineryError if the node's cgroups cannot be
        made. A pod that does not come up is among the population's `failures`.
        """
        wanted = _pods_in(pods)
        kubelet = _kubelet(kubernetes, kubelet_config, overrides, variant)
        self.node.plan(wanted, kubelet)  # Raises if this kubelet rejects a pod, while the earlier pods still run.
        self.clear()
        self._admissions += 1
        folder = Folder(self.results / "populations" / slug(f"{self._admissions}-{kubelet.id}"), shared=True)
        sink = Sink(folder)
        with self._station.log.to(sink), contextlib.ExitStack() as stack:
            stack.enter_context(self._station.log.lent(sink))
            population = stack.enter_context(self.node.admitted(wanted, kubelet))
            self._pods = stack.pop_all()
        return population

    def judge(self, population: Population) -> Sequence[Finding]:
        """Read all cgroups again, and give a finding for every interface file of node, classes, pods and containers.

        A deviation that is listed for these runtime versions is *known*. Raises MachineryError for a pod that did not
        start, unless the runtime refused a valid request, which is a finding.
        """
        reading = self.node.read(population)
        self._station.log.reading(reading)
        population = dataclasses.replace(population, reading=reading)
        found = [("values/node", one) for one in population.judge_node()]
        classes = [cgroup.qos for cgroup in population.plan.qos if cgroup.qos is not None]
        found += [("values/qos-class", one) for qos in classes for one in population.judge_class(qos)]
        found += [("values/pod", one) for pod in population.pods.values() for one in population.judge_pod(pod.pod)]
        return tuple(known_or_not(one, claim, self._station, self._settings.known) for claim, one in found)

    def capture(self, folder: str | Path) -> None:
        """Copy the evidence of a failure into this folder: kernel log, serial console, requests and readings."""
        self._station.capture(Path(folder))

    def clear(self) -> None:
        """Remove the pods of the last admission, if any."""
        self._pods.close()


@contextlib.contextmanager
def lab(
    *,
    profile: str = "trixie",
    runtime: str = "containerd+runc",
    enactor: str = MEMQOS,
    results: str | Path | None = None,
    notices: Notices | None = None,
    **settings: object,
) -> Iterator[Bench]:
    """Boot a machine of this profile with this runtime as a bench, and delete it when the context ends.

    enactor: what carries out plans; "memqos" writes a kubelet's values itself. results: a folder for the evidence;
    None discards it at the end. notices: receives progress; None prints to standard error. settings: the options of
    `memqos run` that describe the machine, with Python's spelling, such as `driver="cgroupfs"`,
    `topology="big"`, `runtime_binary="./my-runc"` or `target="ssh://root@node7"`. Environment variables and settings
    files are not read.

    Raises UsageError for a wrong setting, EnvironmentNotAbleError for something that this host lacks, MachineryError
    for a failure of the machine. An interrupt ends the context like any exception.
    """
    require_enactor(enactor)
    chosen = _settings({**settings, "profile": profile, "runtime": runtime})
    shown = notices or _Printed()
    builds = check_places(chosen)
    check_host(chosen)
    system, *more = systems_of(chosen)
    if more:
        raise UsageError(
            "a bench has one profile, one runtime and one driver.",
            next_step="Open one bench after another, or use `memqos run` for a matrix.",
        )
    prepare_places(chosen, progress=shown)
    with contextlib.ExitStack() as stack:
        folder = Path(results) if results is not None else stack.enter_context(temporary_folder("memqos-lab-"))
        owner = Disposal()
        stations = Stations(chosen, results=folder, notices=shown, owner=owner, builds=builds, enactor=enactor)
        bench = Bench(stack.enter_context(stations.opened(system)), chosen, results=folder)
        stack.callback(bench.clear)
        try:
            yield bench
        finally:
            owner.ends = True


class Disposal:
    """Removes pods at the end from a machine that stays; a deleted machine takes its pods along."""

    def __init__(self) -> None:
        self.ends = False

    def leaves(self, place: Place) -> bool:
        """Whether pods stay, because the machine is about to be deleted or does not answer."""
        return (self.ends and place.is_disposable) or not place.condition.is_usable

    def lingers(self) -> bool:
        """Whether pods stay until the next ones are admitted."""
        return False

    def closes(self, place: Place, folder: Folder) -> None:
        """No machine is kept."""


class _Printed:
    """Prints long steps and notes to standard error."""

    def start(self, name: str) -> None:
        """A step begins."""
        print(f"memqos: {name} …", file=sys.stderr)  # noqa: T201 - a program without its own face

    def done(self, name: str) -> None:
        """Steps end silently: the next line says what follows."""

    def note(self, text: str) -> None:
        """A sentence for the reader."""
        print(f"memqos: note: {text}", file=sys.stderr)  # noqa: T201

    def line(self, text: str) -> None:
        """Print a line."""
        print(f"memqos: {text}", file=sys.stderr)  # noqa: T201


def _settings(given: dict[str, object]) -> Settings:
    kinds = {setting.key: setting.kind for setting in SETTINGS if setting.key not in _OF_RUNS}
    words: dict[str, object] = {}
    for name, value in given.items():
        if name not in kinds:
            raise UnknownNameError.of("setting of a bench", name, sorted(kinds), where="memqos.lab")
        one_text = kinds[name].is_list and not kinds[name].is_repeated and not isinstance(value, str)
        words[name] = ",".join(map(str, value)) if one_text and isinstance(value, Iterable) else value
    return resolve(words, {}, option_prefix="")


def _pods_in(pods: str | Path | Pod | Iterable[str | Path | Pod]) -> Sequence[Pod]:
    several = [pods] if isinstance(pods, str | Path | Pod) else [*pods]
    return [pod for one in several for pod in ([one] if isinstance(one, Pod) else load_pods([one]))]


def _kubelet(kubernetes: str, config: str | Path | None, overrides: Sequence[str], variant: str) -> KubeletCase:
    release = Release.parse(kubernetes)
    if variant not in {one.value for one in Variant}:
        raise UnknownNameError.of("variant", variant, [one.value for one in Variant], where="variant")
    return KubeletCase(
        id=f"v{release}",
        purpose="",
        release=str(release),
        variant=Variant(variant),
        settings=load_settings(None if config is None else str(config), overrides),
    )
