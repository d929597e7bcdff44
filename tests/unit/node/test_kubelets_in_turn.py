"""Several kubelets in turn over the same pods: what each release resets, and what it leaves, at every level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from memqos.clock import Deadline
from memqos.engine.answer.finding import Finding, Verdict
from memqos.errors import UsageError
from memqos.node.fake import fake_node
from memqos.plugin.collection.catalogue import Catalogue

CATALOGUE = Catalogue()
PODS = [CATALOGUE.pod(name) for name in ("guaranteed-one", "burstable", "best-effort")]


def in_turn(first: str, *others: str) -> Mapping[tuple[str, str], Finding]:
    """The findings after the last of these kubelets, by the end of the cgroup's path and by knob."""
    node = fake_node()
    with node.admitted(PODS, CATALOGUE.kubelet(first)) as admitted:
        population = admitted
        for name in others:
            population = node.restart_kubelet(population, CATALOGUE.kubelet(name))
        found = population.judge_all()
    assert [one for one in found if one.verdict is Verdict.DEVIATES] == []
    return {(one.cgroup.rpartition("/")[2], one.knob): one for one in found}


ROOT, BURSTABLE = "kubepods.slice", "kubepods-burstable.slice"


@pytest.mark.parametrize(
    ("kubelets", "node_min", "burstable_low"),
    [
        (("v1.36-tiered", "v1.36-off"), True, True),
        (("v1.37-tiered", "v1.37-off"), False, False),
        (("v1.37-tiered", "v1.37-off", "v1.37-tiered"), True, True),
        (("v1.36-none", "v1.36-tiered"), True, True),
        (("v1.36-tiered", "v1.36-none"), False, False),
        (("v1.37-tiered", "v1.37-default"), False, False),
    ],
)
def test_what_a_kubelet_resets_above_pods(kubelets: tuple[str, ...], node_min: bool, burstable_low: bool) -> None:
    found = in_turn(*kubelets)
    assert (found[ROOT, "memory.min"].observed != "0") is node_min
    assert (found[BURSTABLE, "memory.low"].observed != "0") is burstable_low


@pytest.mark.parametrize(
    "kubelets",
    [("v1.36-tiered", "v1.36-off"), ("v1.37-tiered", "v1.37-off"), ("v1.37-tiered", "v1.37-default")],
)
def test_containers_that_run_on_keep_their_memory_high(kubelets: tuple[str, ...]) -> None:
    node = fake_node()
    with node.admitted(PODS, CATALOGUE.kubelet(kubelets[0])) as population:
        before = {one.cgroup: one.observed for one in population.judge_all() if one.knob == "memory.high"}
        after = node.restart_kubelet(population, CATALOGUE.kubelet(kubelets[1])).judge_all()
    assert {one.cgroup: one.observed for one in after if one.knob == "memory.high"} == before
    assert set(before.values()) != {"max"}


TURNS = [
    ("v1.36-tiered", "v1.36-off"),
    ("v1.37-tiered", "v1.37-off"),
    ("v1.37-tiered", "v1.37-off", "v1.37-tiered"),
    ("v1.36-none", "v1.36-tiered"),
    ("v1.36-tiered", "v1.36-none"),
    ("v1.37-tiered", "v1.37-default"),
    ("v1.27", "v1.36-tiered"),
]


def observed(found: Sequence[Finding]) -> Mapping[tuple[str, str], str]:
    return {(str(one.subject), one.knob): one.observed for one in found}


def test_turns_over_kept_pods_give_the_same_findings_as_fresh_ones() -> None:
    node = fake_node()
    with node.keeping_pods():
        for first, *others in [*TURNS, *reversed(TURNS)]:
            with node.admitted(PODS, CATALOGUE.kubelet(first)) as admitted:
                population = admitted
                for name in others:
                    population = node.restart_kubelet(population, CATALOGUE.kubelet(name))
                found = population.judge_all()
            assert [one for one in found if one.verdict is Verdict.DEVIATES] == []
            assert observed(found) == observed(tuple(in_turn(first, *others).values()))


def test_a_container_that_lost_its_value_deviates() -> None:
    node = fake_node()
    with node.admitted(PODS, CATALOGUE.kubelet("v1.36-tiered")) as population:
        path = population.path_of(PODS[1], PODS[1].containers[0].name)
        node.tree.write(path, "memory.high", "max", deadline=_soon())
        found = node.restart_kubelet(population, CATALOGUE.kubelet("v1.36-none")).judge_all()
    assert [(one.cgroup, one.knob) for one in found if one.verdict is Verdict.DEVIATES] == [(str(path), "memory.high")]


def test_a_kubelet_over_no_pods_is_a_usage_error() -> None:
    node = fake_node()
    with node.admitted(PODS, CATALOGUE.kubelet("v1.36-tiered")) as population:
        pass
    with pytest.raises(UsageError, match="the node has no pods"):
        fake_node().restart_kubelet(population, CATALOGUE.kubelet("v1.36-none"))


def _soon() -> Deadline:
    return Deadline.after(10)
