"""Kernels that are wrong on purpose, on a machine: a script changes preconditions of a behaviour during the run.

Each makes one claim deviate, and the deviation names the changed file, or the kernel's behaviour.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from memqos.clock import Deadline
from memqos.engine.answer.finding import Verdict
from memqos.errors import NonconformanceError
from memqos.model.node import CgroupDriver
from memqos.node.node_under_test import NodeUnderTest
from memqos.place.base import Place
from memqos.place.vm import opened_vm
from memqos.vm.host.progress import SILENT
from memqos.vm.options import BootOptions
from tests.unit.node.chapters import CATALOGUE, KUBELETS, called, chapter, evidence_in, given_to, scene_for, scenes_of
from tests.vm.test_place import node_of

pytestmark = [pytest.mark.vm, pytest.mark.wrappers]

UNIT = "meddler.service"
CONTAINERS = "/sys/fs/cgroup/kubepods.slice/kubepods*.slice/cri-*/{0} /sys/fs/cgroup/kubepods.slice/*/*/cri-*/{0}"
MOUNT = "mount -t cgroup2 -o remount,nosuid,nodev,noexec,relatime,nsdelegate{0} cgroup2 /sys/fs/cgroup"


def resets(file: str, text: str, where: str = CONTAINERS) -> str:
    """A loop that writes this text to the file of every cgroup there, again and again."""
    return f'while :; do for one in {where.format(file)}; do echo {text} >"$one"; done 2>/dev/null; sleep 0.1; done'


SWAPS_ZONES = f"""\
while :; do
  for one in {CONTAINERS.format("cpuset.mems")}; do
    [ "$(cat "$one")" != 1 ] || echo 0 >"$one"
  done 2>/dev/null
  sleep 0.1
done"""


TAKES_FROM_GUARANTEED = """\
while :; do
  if [ "$(cat /sys/fs/cgroup/kubepods.slice/memory.current)" -gt 188743680 ]; then
    for one in /sys/fs/cgroup/kubepods.slice/kubepods-pod*/cri-*/memory.reclaim; do echo 48M >"$one"; done
  fi 2>/dev/null
  sleep 0.05
done"""
"""Whenever kubepods has more than three victims use together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meddling:
    """A fault. does: a script that runs during the test; undoes: restores the machine.

    test: of the suite, with the kubelet. finds: the deviation, in the report's words. perhaps: further possible
    deviations, such as refaults, which are counted only if pages return on their previous NUMA node.
    """

    way: str
    does: str
    chapter: str
    test: str
    kubelet: str
    finds: set[tuple[str, str]]
    undoes: str = "true"
    perhaps: set[tuple[str, str]] = field(default_factory=set)


BEST_EFFORT = "/sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/{0}"
PODS_OF_BEST_EFFORT = "/sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/*/{0}"

WAYS = (
    Meddling(
        way="memory_recursiveprot is off while told on",
        does=MOUNT.format(""),
        undoes=MOUNT.format(",memory_recursiveprot"),
        chapter="protection",
        test="test_both_tiers_are_kept_while_unprotected_memory_is_left",
        kubelet="v1.36-tiered",
        finds={("memory_recursiveprot", "the cgroup file system")},
    ),
    Meddling(
        way="memory.min is reset",
        does=resets("memory.min", "0"),
        chapter="protection",
        test="test_memory_min_protects_every_request",
        kubelet="v1.27",
        finds={
            ("memory.min", "container app of pod default/kept-guaranteed"),
            ("memory.min", "container app of pod default/kept-burstable"),
        },
    ),
    Meddling(
        way="protected page cache is taken",
        does=resets("memory.reclaim", "512K", "/sys/fs/cgroup/kubepods.slice/kubepods-pod*/cri-*/{0}"),
        chapter="protection",
        test="test_memory_min_protects_every_request",
        kubelet="v1.27",
        finds={("memory.current", "container app of pod default/kept-guaranteed")},
        perhaps={("memory.stat", "container app of pod default/kept-guaranteed")},
    ),
    Meddling(
        way="protected page cache is taken in the place of others'",
        does=TAKES_FROM_GUARANTEED,
        chapter="isolation",
        test="test_a_guaranteed_program_keeps_more_of_its_speed",
        kubelet="v1.36-tiered",
        finds={("pace", "container app of pod default/kept-guaranteed")},
    ),
    Meddling(
        way="a neighbour is protected by mistake",
        does=resets("memory.min", "33554432", PODS_OF_BEST_EFFORT),
        chapter="protection",
        test="test_both_tiers_are_kept_while_unprotected_memory_is_left",
        kubelet="v1.36-tiered",
        finds={("memory.min", "pod default/unguarded")},
    ),
    Meddling(
        way="all of BestEffort is protected by mistake",
        does=resets("memory.min", "33554432", BEST_EFFORT),
        chapter="protection",
        test="test_both_tiers_are_kept_while_unprotected_memory_is_left",
        kubelet="v1.36-tiered",
        finds={("memory.min", "kubepods-besteffort.slice")},
    ),
    Meddling(
        way="memory.high is reset",
        does=resets("memory.high", "max"),
        chapter="throttling",
        test="test_the_1_27_formula_lets_a_program_reach_memory_max",
        kubelet="v1.27",
        finds={("memory.high", "container app of pod default/stalls-0.9")},
    ),
    Meddling(
        way="memory.swap.max is reset",
        does=resets("memory.swap.max", "max"),
        chapter="swap",
        test="test_a_request_equal_to_the_limit_allows_no_swap",
        kubelet="v1.37-default",
        finds={("memory.swap.max", "container app of pod default/wants-swap-equal")},
    ),
    Meddling(
        way="swappiness is 0",
        does="echo 0 >/proc/sys/vm/swappiness",
        undoes="echo 60 >/proc/sys/vm/swappiness",
        chapter="swap",
        test="test_freeing_memory_frees_its_swap",
        kubelet="v1.37-default",
        finds={
            ("memory.swap.current", "container app of pod default/swaps-some"),
            ("state", "container app of pod default/swaps-some"),
        },
    ),
    Meddling(
        way="zones are swapped",
        does=SWAPS_ZONES,
        chapter="numa",
        test="test_anonymous_memory_is_on_the_numa_node_of_cpuset_mems",
        kubelet="v1.37-tiered",
        finds={("cpuset.mems", "container app of pod default/one-numa-node")},
    ),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("log")
    with opened_vm(("trixie", "two-numa-nodes"), BootOptions(), folder=folder, progress=SILENT) as place:
        yield place


@pytest.fixture(scope="module")
def node(place: Place) -> Iterator[NodeUnderTest]:
    with node_of(place, CgroupDriver.SYSTEMD) as node:
        yield node


@contextlib.contextmanager
def meddled(place: Place, way: Meddling) -> Iterator[None]:
    """A machine on which the script runs, until the context ends."""

    def run(*argv: str) -> None:
        result = place.target.run(list(argv), deadline=Deadline.after(60))
        assert result.status == 0, result

    run("systemd-run", "--quiet", "--collect", f"--unit={UNIT}", "sh", "-c", way.does)
    try:
        yield
    finally:
        place.target.run(["systemctl", "stop", UNIT], deadline=Deadline.after(60))
        run("sh", "-ec", way.undoes)


def plugin_values(node: object, kubelet: object, evidence: object, scene: object) -> dict[str, object]:
    """The values of the plugin's fixtures for a test, by name."""
    return {
        "qos_node": node,
        "qos_kubelet": kubelet,
        "qos_catalog": CATALOGUE,
        "qos_scene": scene,
        "qos_numa_node": 1,
        "qos_evidence": evidence,
    }


@contextlib.contextmanager
def given(node: NodeUnderTest, way: Meddling, folder: Path) -> Iterator[tuple[dict[str, object], list[object]]]:
    """The values of the suite's fixtures for its test, and the findings that it settles."""
    function = getattr(chapter(way.chapter), way.test)
    evidence, notes = evidence_in(folder)
    values = plugin_values(node, KUBELETS[way.kubelet], evidence, scene_for(function))
    with contextlib.ExitStack() as stack:
        for name, fixture in scenes_of(function).items():
            if inspect.isgeneratorfunction(fixture):
                asked = {one: values[one] for one in given_to(fixture)}
                values[name] = stack.enter_context(contextlib.contextmanager(fixture)(**asked))
        yield values, notes.findings


def deviating(node: NodeUnderTest, place: Place, way: Meddling, folder: Path) -> set[tuple[str, str]]:
    """The deviations in the suite's test while the script runs, once its pods run."""
    function = getattr(chapter(way.chapter), way.test)
    with meddled(place, way), given(node, way, folder) as (values, findings):
        with contextlib.suppress(NonconformanceError, pytest.skip.Exception):
            called(function, values)
        return {(one.knob, str(one.subject)) for one in findings if one.verdict is Verdict.DEVIATES}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.way)
def test_a_wrong_kernel_turns_a_claim_red_that_names_it(
    node: NodeUnderTest, place: Place, way: Meddling, tmp_path: Path
) -> None:
    assert deviating(node, place, way, tmp_path) - way.perhaps == way.finds
