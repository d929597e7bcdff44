"""From settings and markers to tests: parameters, and grouping for xdist.

The catalogue reads YAML and is imported only when a test or a setting needs it: every pytest run of an environment with
memqos installed loads this module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memqos import claims
from memqos.catalog.data import data_root
from memqos.claims import Claim
from memqos.config.settings import Settings
from memqos.config.systems import SystemKey, systems_of
from memqos.config.table import below_docker, is_direct
from memqos.errors import UnknownNameError, UsageError
from memqos.model.pod import QosClass
from memqos.plugin.collection.workers import pass_groups
from memqos.plugin.keys import ASKING, LEFT_OUT, SETTINGS_KEY, USAGE, cited_by, claims_below, is_ours, node_fixture
from memqos.report.bundle import LeftOut

if TYPE_CHECKING:
    from memqos.cases import Case
    from memqos.catalog.kubelets import KubeletCase

__all__ = ["check_settings", "kubelet_id", "shared_by", "system_of"]


def left_out(
    config: pytest.Config,
    settings: Settings,
    cited: Sequence[tuple[pytest.Item, Claim | None]],
    *,
    kubelets: Callable[[], Collection[str]],
    runtime_of: Callable[[pytest.Item], str],
) -> list[pytest.Item]:
    """The cases that this run does not have.

    cited: every case, with the claim that it cites. kubelets: the ids of the default kubelets, read only if needed.
    runtime_of: the runtime of a case. None are left out with --all or --last-failed, or after a selection by -k or -m.
    A case is left out by its marker or its claim, or because it needs another kind of runtime than its own. A case of
    memqos's own suites is also left out if its kubelet is not a default one, unless its release was requested; a test
    that names only such kubelets keeps them.
    """
    if settings.all or settings.last_failed or config.option.keyword or config.option.markexpr:
        return []
    brought = data_root() / "suites"
    places = [config.invocation_params.dir / word.partition("::")[0] for word in config.args]

    def is_named(item: pytest.Item) -> bool:
        return any(place.is_relative_to(item.path.parent) for place in places)

    def is_of_another(item: pytest.Item, claim: Claim) -> bool:
        by_docker = "docker" in claim.needs and not below_docker(runtime_of(item))
        return by_docker or ("oci" in claim.needs and not is_direct(runtime_of(item)))

    def is_more(item: pytest.Item, claim: Claim | None) -> bool:
        by_kubelet = (
            not settings.kubernetes and item.path.is_relative_to(brought) and _has_more_kubelets(item, kubelets)
        )
        return (
            _is_marked_more(item)
            or (claim is not None and (not claim.default or is_of_another(item, claim)))
            or by_kubelet
        )

    return [item for item, claim in cited if is_more(item, claim) and not is_named(item)]


def _is_marked_more(item: pytest.Item) -> bool:
    """Whether the marker excludes the test, or the kubelet of the case, from the default run."""
    marker = item.get_closest_marker("more")
    return marker is not None and (not marker.args or getattr(_kubelet_of(item), "entry", "") in marker.args)


def _kubelet_of(item: pytest.Item) -> object:
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("qos_kubelet") if callspec is not None else None


def _has_more_kubelets(item: pytest.Item, kubelets: Callable[[], Collection[str]]) -> bool:
    """Whether the kubelet of a case is not a default one."""
    marker = item.get_closest_marker("kubelet")
    named = set(marker.args) if marker is not None else set()
    return not getattr(_kubelet_of(item), "default", True) and (not named or not named.isdisjoint(kubelets()))


def left_out_of(cited: Sequence[tuple[pytest.Item, Claim | None]], left: Sequence[pytest.Item]) -> LeftOut:
    """How many cases are left out, and how many claims without any selected case."""
    out = set(left)
    of_cases = {claim.id for item, claim in cited if claim is not None and item in out}
    proved = {claim.id for item, claim in cited if claim is not None and item not in out}
    return LeftOut(claims=len(of_cases - proved), cases=len(left))


@lru_cache(maxsize=2)
def kubelet_ids(*, default: bool = False) -> tuple[str, ...]:
    """Every kubelet of the catalogue, or only the default ones."""
    from memqos.catalog.kubelets import load_kubelets

    return tuple(kubelet.id for kubelet in load_kubelets() if kubelet.default or not default)


def has_empty_parameters(item: pytest.Item) -> bool:
    """Whether narrowing left no kubelet for this test: pytest then keeps one item whose parameters are its NOTSET.

    The item's id shows that only from 8.4 on.
    """
    callspec = getattr(item, "callspec", None)
    return callspec is not None and any(type(value).__name__ == "NotSetType" for value in callspec.params.values())


def check_markers(item: pytest.Item) -> None:
    """Check that each marker is well-formed and names something that exists; UsageError if not."""
    where = item.nodeid
    names = getattr(item, "fixturenames", ())
    if ("qos_request" in names or "qos_case" in names) and has_empty_parameters(item):
        from memqos.cases import cases_of

        chapter = item.path.parent
        of_chapter = [claim for claim in claims_below(chapter.parent).values() if claim.chapter == chapter.name]
        cases_of(of_chapter)
        known = [claim.id for claim in of_chapter]
        wanted = "names a request" if "qos_request" in names else "names a case"
        raise UsageError(f"no claim of this chapter {wanted}: {', '.join(known)}.", where=where)
    for marker in item.iter_markers("claim"):
        _check_claim(item, marker, where)
    if len(list(item.iter_markers("claim"))) > 1:
        raise UsageError("a test must cite exactly one claim; this one cites several.", where=where)
    for marker in item.iter_markers("needs"):
        _check_names("needs(feature, ...)", marker, tuple(claims.NEEDS), where)
    for marker in item.iter_markers("behaviour"):
        if marker.args or marker.kwargs:
            raise UsageError("the marker 'behaviour' takes no arguments.", where=where)
    _check_kubelets(item, where)
    for marker in item.iter_markers("machine"):
        if marker.args or not marker.kwargs or set(marker.kwargs) - {"profile", "topology"}:
            raise UsageError("the marker 'machine' has the form machine(profile=..., topology=...).", where=where)


def _check_claim(item: pytest.Item, marker: pytest.Mark, where: str) -> None:
    if marker.kwargs or len(marker.args) != 1 or not isinstance(marker.args[0], str):
        raise UsageError("the marker 'claim' has the form claim(\"chapter/name\").", where=where)
    root = item.path.parent.parent
    known = claims_below(root)
    if marker.args[0] not in known:
        raise UnknownNameError.of("claim", marker.args[0], sorted(known), where=where)


def _check_kubelets(item: pytest.Item, where: str) -> None:
    for marker in item.iter_markers("kubelet"):
        signature = "kubelet(id, ..., instead=...)"
        if set(marker.kwargs) - {"instead"}:
            raise UsageError(f"the marker 'kubelet' has the form {signature}.", where=where)
        named = pytest.Mark("kubelet", (*marker.args, *_instead(marker)) if marker.args else (), {})
        _check_names(signature, named, kubelet_ids(), where)
    for marker in item.iter_markers("more"):
        if marker.args or marker.kwargs:
            _check_names("more(id, ...)", marker, kubelet_ids(), where)


def _check_names(signature: str, marker: pytest.Mark, known: Sequence[str], where: str) -> None:
    if marker.kwargs or not marker.args:
        raise UsageError(f"the marker '{marker.name}' has the form {signature}.", where=where)
    for name in marker.args:
        if name not in known:
            raise UnknownNameError.of(marker.name, str(name), list(known), where=where)


_OF_MACHINES = frozenset(
    {
        "target", "profile", "arch", "topology", "cgroup", "no_recursiveprot", "runtime", "no_userns", "cri_socket",
        "runtime_binary", "runtime_version",
        "runtime_deb", "containerd_binary", "containerd_config", "guest_file", "guest_unit", "guest_deb",
        "kernel_image", "initrd", "kernel_deb", "kubelet_binary", "kubelet_upgrade",
    }
)  # fmt: skip
"""The settings about profiles and about files for machines."""

QOS_CLASSES = (QosClass.BURSTABLE, QosClass.BEST_EFFORT)


def check_settings(settings: Settings) -> dict[str, str]:
    """Check that given names and files exist; UsageError if not.

    Returns the SHA-256 of each file that goes into machines, by its path. Defaults need no check, so a run without
    memqos options reads no catalogue.
    """
    builds: dict[str, str] = {}
    given = {one.setting.key for one in settings.entries() if one.is_given}
    if given & _OF_MACHINES:
        from memqos.place.opening import check_places

        builds = check_places(settings)
    if settings.kubernetes:
        _kubelets(settings)
    if settings.known:
        from memqos.known import known_deviations

        known_deviations(settings.known)
    if settings.baseline:
        from memqos.known import load_baseline

        load_baseline(settings.baseline)
    return builds


def _kubelets(settings: Settings) -> tuple[KubeletCase, ...]:
    """The catalogue's kubelets for the machines' cgroup version, narrowed to the requested releases."""
    from memqos.laboratory.kubelets_in_use import kubelets_in_use

    return kubelets_in_use(settings)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize tests by the kubelets, pods, QoS classes and machines that they request."""
    names = metafunc.fixturenames
    if "qos_kubelet" in names:
        chosen = _chosen_kubelets(metafunc)
        ids = [kubelet.id for kubelet in chosen]
        metafunc.parametrize("qos_kubelet", chosen, ids=ids, indirect=True, scope="module")
    if "qos_pod" in names:
        from memqos.catalog.pods import load_pod_catalog

        pods = load_pod_catalog()
        metafunc.parametrize("qos_pod", pods, ids=[pod.name for pod in pods])
    if "qos_class" in names:
        metafunc.parametrize("qos_class", QOS_CLASSES, ids=str.lower)
    if "qos_request" in names:
        requests = _cases_of(metafunc.definition.path.parent, "request")
        metafunc.parametrize("qos_request", [_parameter(case, case.name) for case in requests])
    if "qos_case" in names:
        kind = "kubelets" if "qos_kubelets_in_turn" in names else "verb"
        cases = _cases_of(metafunc.definition.path.parent, kind)
        metafunc.parametrize("qos_case", [_parameter(case, case) for case in cases])
    if "qos_numa_node" in names:
        numa_nodes = (pytest.param("first", marks=pytest.mark.more), "last")
        metafunc.parametrize("qos_numa_node", numa_nodes, indirect=True)
    settings = metafunc.config.stash[SETTINGS_KEY]
    if node := node_fixture(names):
        keys = _systems_of(metafunc.definition, settings)
        asks = metafunc.definition.get_closest_marker("machine") is not None and not settings.target
        if asks or len(keys) > 1:
            ids = [key.named(apart_from=keys, with_place=asks) for key in keys]
            metafunc.parametrize(
                node, keys, ids=ids, indirect=True, scope="module" if node == "qos_node" else "function"
            )


def _chosen_kubelets(metafunc: pytest.Metafunc) -> list[KubeletCase]:
    known = _kubelets(metafunc.config.stash[SETTINGS_KEY])
    marker = metafunc.definition.get_closest_marker("kubelet")
    if marker is not None:
        named = [kubelet for kubelet in known if kubelet.entry in marker.args]
        return named or [kubelet for kubelet in known if kubelet.entry in _instead(marker)]
    return [kubelet for kubelet in known if kubelet.chapter in {"", metafunc.definition.path.parent.name}]


def _instead(marker: pytest.Mark) -> tuple[str, ...]:
    """The kubelets of a run that has none of those that the marker names, such as one of another release."""
    instead = marker.kwargs.get("instead", ())
    return (instead,) if isinstance(instead, str) else tuple(instead)


def _cases_of(chapter: Path, kind: str) -> list[Case]:
    """The cases of one CaseKind in a chapter's claims."""
    from memqos.cases import cases_of

    try:
        cases = cases_of(claim for claim in claims_below(chapter.parent).values() if claim.chapter == chapter.name)
    except UsageError:
        return []  # named by the markers
    return [case for case in cases if case.kind == kind]


def _parameter(case: Case, value: object) -> object:
    """A case as the parameter of a test, which then cites its claim."""
    behaviour = [pytest.mark.behaviour] if case.claim.kind is claims.ClaimKind.BEHAVIOUR else []
    return pytest.param(value, id=case.name, marks=[pytest.mark.claim(case.claim.id), *behaviour])


def _systems_of(item: pytest.Item, settings: Settings) -> tuple[SystemKey, ...]:
    """Every system that a test runs on: all of the settings, or those on its marker's machine."""
    marker = item.get_closest_marker("machine")
    asked = marker.kwargs if marker else {}
    return systems_of(settings, profile=asked.get("profile", ""), topology=asked.get("topology", ""))


def system_of(item: pytest.Item, settings: Settings) -> SystemKey:
    """The system of this case."""
    callspec = getattr(item, "callspec", None)
    params: dict[str, SystemKey] = callspec.params if callspec is not None else {}
    return params.get(node_fixture(params)) or _systems_of(item, settings)[0]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Check markers, deselect tests without any kubelet left, and group the rest for xdist."""
    ours = [item for item in items if is_ours(item)]
    if not ours:
        return
    try:
        for item in ours:
            check_markers(item)
        if lists := config.stash[SETTINGS_KEY].known:
            from memqos.plugin.collection.known_deviations import check_claims_of_lists

            check_claims_of_lists(lists, ours[0].path.parent.parent)
    except UsageError as error:
        if not hasattr(config, "workerinput"):
            raise pytest.UsageError(str(error)) from None
        # An exception in a worker would look like a crash of xdist: the controller reports it instead.
        config.stash[USAGE] = error
        items.clear()
        return
    settings = config.stash[SETTINGS_KEY]
    empty = [item for item in ours if has_empty_parameters(item)]
    cited = [(item, cited_by(item)) for item in ours if item not in empty]
    left = left_out(
        config,
        settings,
        cited,
        kubelets=lambda: kubelet_ids(default=True),
        runtime_of=lambda item: system_of(item, settings).runtime,
    )
    config.stash[LEFT_OUT] = left_out_of(cited, left)
    if without := {*empty, *left}:
        config.hook.pytest_deselected(items=[item for item in items if item in without])
        items[:] = [item for item in items if item not in without]
    if hasattr(config, "workerinput"):
        chosen = [item for item in ours if item not in without]
        groups = _groups(chosen, settings, workers=config.workerinput["workercount"])
        pass_groups(config, groups, left_out=config.stash[LEFT_OUT], shares=shared_by(chosen, settings))


@pytest.hookimpl(trylast=True, specname="pytest_collection_modifyitems")
def pytest_collection_modifyitems_by_machine(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the cases by machine, then by system, so that a worker changes them seldom. Otherwise the order is kept.

    The cases of a file are sorted by kubelet in the catalogue's order, so that what several of them look at happens
    once. pytest groups parameters by their index in each test's own list.
    """
    settings = config.stash[SETTINGS_KEY]
    places = [place for place, item in enumerate(items) if is_ours(item)]
    systems = {place: system_of(items[place], settings) for place in places}
    machines = _ranks(system.place for system in systems.values())
    ranks = _ranks(systems.values())
    files = _ranks(items[place].path for place in places)
    kubelets = {one.id: rank for rank, one in enumerate(_kubelets(settings), start=1)} if places else {}

    def rank(place: int) -> tuple[int, ...]:
        item, system = items[place], systems[place]
        return machines[system.place], ranks[system], files[item.path], kubelets.get(kubelet_id(item), 0)

    ordered = sorted(places, key=rank)
    for place, item in zip(places, [items[place] for place in ordered], strict=True):
        items[place] = item


def _ranks(values: Iterable[Hashable]) -> dict[Hashable, int]:
    """Each value's index in the order of first occurrence."""
    return {value: rank for rank, value in enumerate(dict.fromkeys(values))}


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand a worker's usage error to the controller."""
    error = session.config.stash.get(USAGE, None)
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None and error is not None:
        output["memqos_usage"] = str(error)


def _groups(items: Sequence[pytest.Item], settings: Settings, *, workers: int) -> dict[str, str]:
    """The group of each test, by node id: the tests of one group stay on one worker, in order.

    Tests that share a machine and a population of pods form a group. Populations are also kept together while all
    workers have work: sandboxes stay from one kubelet to the next, and so do containers with equal requests. So the
    kubelets of a suite are cut into as many stretches as there are workers for its machine, and not dealt out singly.
    """
    kubelets: dict[tuple[SystemKey, Path], list[str]] = {}
    for item in items:
        if "qos_population" in getattr(item, "fixturenames", ()):
            known = kubelets.setdefault((system_of(item, settings), item.path), [])
            known += [one for one in [kubelet_id(item)] if one not in known]
    systems = len({system for system, _ in kubelets})
    stretches = -(-workers // systems) if systems else 1

    def group(item: pytest.Item) -> str:
        if (marker := item.get_closest_marker("xdist_group")) is not None:
            return str([*marker.args, *marker.kwargs.values()])
        system, kubelet = system_of(item, settings), kubelet_id(item)
        if "qos_population" in getattr(item, "fixturenames", ()):
            known = kubelets[system, item.path]
            number = [stretch_of(place, len(known), stretches) for place in range(len(known))]
            own = number[known.index(kubelet)]
            kubelet = known[number.index(own)]
        return " ".join(word for word in (*system, item.path.parent.name, kubelet) if word)

    return {item.nodeid: group(item) for item in items}


def shared_by(items: Sequence[pytest.Item], settings: Settings) -> dict[str, str]:
    """What each case shares with others, by its id; named by file, kubelet and system, unlike any case."""
    return {item.nodeid: name for item in items if is_ours(item) and (name := _shared(item, settings))}


def _shared(item: pytest.Item, settings: Settings) -> str:
    if not {"qos_population", *ASKING} & set(getattr(item, "fixturenames", ())):
        return ""
    systems = _systems_of(item, settings)
    system = system_of(item, settings).named(apart_from=systems) if len(systems) > 1 else ""
    return f"{item.nodeid.partition('::')[0]}[{'-'.join(filter(None, (kubelet_id(item), system)))}]"


def stretch_of(place: int, count: int, stretches: int) -> int:
    """The index of the stretch, out of this many of nearly equal length, that contains this position."""
    stretches = min(count, stretches)
    return (place * stretches + stretches - 1) // count


def kubelet_id(item: pytest.Item) -> str:
    """The id of the kubelet of fixtures/kubelets.toml that a test runs under, "" for none."""
    callspec = getattr(item, "callspec", None)
    kubelet = callspec.params.get("qos_kubelet") if callspec is not None else None
    return "" if kubelet is None else str(kubelet.id)
