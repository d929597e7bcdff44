"""Batches of examples, drawn from a seed: the same seed and versions of hypothesis and memqos repeat them."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir

from memqos.exploration import Document
from memqos.exploration.amounts import MIB
from memqos.exploration.cgroup_trees import Tolerances, cgroup_trees
from memqos.exploration.configurations import configurations
from memqos.exploration.examples import HEAD, ConfiguredKubelet, Example, Kind, shape_of_pod
from memqos.exploration.strategies import RUNNABLE, PodShape, lifecycles, manifests, resizes
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.ownership import temporary_folder

__all__ = ["Batches", "drawn", "leaving_no_folder"]

T = TypeVar("T")

SMALL = PodShape(
    containers=2,
    init=0,
    overhead=False,
    pod_level=False,
    huge_pages=False,
    memory=200 * MIB,
    cpu=600,
    least_limit=48 * MIB,
    least_quota=500,
)
"""Pods that fit a node of two CPUs and 2 GiB, even after a resize."""
MANY = replace(SMALL, init=1, overhead=True, pod_level=True)
"""Small pods of all kinds, of which many fit a node beside each other."""

_TIMES = 4
_PODS, _LIVES, _RESIZES, _RESTARTS, _TREES = 10, 16, 3, 6, 8
_PLAIN = ConfiguredKubelet(kubernetes="1.36", config={**HEAD, "failSwapOn": False})
_TURNS = (Kind.PODS, Kind.LIFECYCLE, Kind.PODS, Kind.RESIZE, Kind.PODS, Kind.LIFECYCLE, Kind.RESTART)
_RESIZABLE = ("1.33", "1.34", "1.35", "1.36", "1.37")


def drawn(strategy: st.SearchStrategy[T], count: int, *, by: str, key: Callable[[T], str] = repr) -> list[T]:
    """Up to `count` distinct examples of a strategy. by: the seed as a string."""
    found: dict[str, T] = {}

    # hypothesis starts with the smallest example and repeats parts of earlier ones.
    @seed(int(hashlib.sha256(by.encode()).hexdigest()[:12], 16))
    @settings(
        max_examples=2 * count + 8,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(one: T) -> None:
        found.setdefault(key(one), one)

    collect()
    return list(found.values())[-count:]


@contextlib.contextmanager
def leaving_no_folder() -> Iterator[None]:
    """Let hypothesis keep its files in a temporary folder instead of ./.hypothesis until the context ends."""
    with temporary_folder("memqos-hypothesis-") as folder:
        set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            set_hypothesis_home_dir(None)


def _text(document: object) -> str:
    return json.dumps(document, sort_keys=True, default=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """ExampleSource examples for a node, batch by batch.

    seed: the session's. releases: kubelet releases, () for any. config: the KubeletConfiguration of all kubelets, None
    for random ones. node, driver: the machine's. shape: limits of drawn pods. kinds: kinds of examples. many: draw more
    and smaller pods for each kubelet, whose start takes as long as that of many pods.
    """

    seed: int
    node: NodeFacts
    driver: CgroupDriver
    releases: Sequence[str] = ()
    config: Document | None = None
    shape: PodShape = RUNNABLE
    kinds: Sequence[Kind] = tuple(Kind)
    many: bool = False

    def batch(self, number: int) -> Sequence[Example]:
        """The examples of one round, which can all run at the same time on one node."""
        turns = [kind for kind in _TURNS if kind in self.kinds] or [Kind.KERNEL]
        kind, by = turns[number % len(turns)], f"{self.seed} {number}"
        match kind:
            case Kind.PODS:
                kubelet = self._kubelet(by)
                return [Example(kubelet=kubelet, pods=(one,)) for one in self._manifests(_PODS, by)]
            case Kind.KERNEL:
                trees = cgroup_trees(Tolerances(page_size=self.node.page_size, cpus=self.node.cpus))
                return [Example(kubelet=_PLAIN, tree=one) for one in drawn(trees, _TREES, by=by, key=_text)]
            case Kind.LIFECYCLE:
                several = drawn(lifecycles(), _LIVES, by=by, key=_text)
                return [Example(kubelet=_PLAIN, steps=tuple(steps)) for steps in several]
            case Kind.RESIZE:
                return self._resizes(by)
            case Kind.RESTART:
                first, then = self._kubelet(f"{by} first"), self._kubelet(f"{by} then")
                return [Example(kubelet=first, pods=(one,), then=(then,)) for one in self._manifests(_RESTARTS, by)]

    def _manifests(self, count: int, by: str) -> list[Document]:
        count *= _TIMES if self.many else 1
        several = drawn(manifests(MANY if self.many else self.shape), 2 * count, by=by, key=_text)
        # hypothesis repeats parts of earlier draws: one example of each shape comes first.
        shapes = {_text(shape_of_pod(one)): one for one in several}
        first = list(shapes.values())
        return [*first, *(one for one in several if one not in first)][:count]

    def _resizes(self, by: str) -> Sequence[Example]:
        strategy = manifests(SMALL).flatmap(lambda one: st.tuples(st.just(one), resizes(one, SMALL)))
        kubelet = self._kubelet(by, among=_RESIZABLE)
        # The kubelet does not resize containers that may swap.
        swapless = {**kubelet.config, "memorySwap": {"swapBehavior": "NoSwap"}}
        kubelet = ConfiguredKubelet(kubernetes=kubelet.kubernetes, config=swapless)
        return [
            Example(kubelet=kubelet, pods=(before,), to=after)
            for before, after in drawn(strategy, _RESIZES * (_TIMES if self.many else 1), by=by, key=_text)
        ]

    def _kubelet(self, by: str, among: Sequence[str] = ()) -> ConfiguredKubelet:
        releases = [one for one in self.releases if not among or one in among] or list(among or self.releases)
        digest = int(hashlib.sha256(f"{by} release".encode()).hexdigest()[:8], 16)
        release = releases[digest % len(releases)] if releases else None
        if self.config is not None:
            return ConfiguredKubelet(kubernetes=release or "1.36", config=self.config)
        strategy = configurations(kubernetes=release, node=self.node, driver=self.driver)
        return drawn(strategy, 6, by=by, key=lambda one: _text([one.kubernetes, one.config]))[-1]
