"""KubeletConfigurations from files, and the catalogue of kubelets that suites imitate."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from msgspec import Struct, field

from memqos.catalog.data import data_root
from memqos.catalog.kubelet_config import load_settings
from memqos.engine.releases.release import Release, Variant
from memqos.engine.releases.table import Gate, Novelty
from memqos.errors import UnknownNameError
from memqos.model.node import CgroupVersion, KubeletSettings, SwapBehavior
from memqos.validation import CheckedFile

__all__ = ["KubeletCase", "load_kubelets"]


class _Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the catalogue; fields as of KubeletCase."""

    purpose: str
    kubernetes: str
    variant: Variant = field(name="as")
    config: str
    cgroup: CgroupVersion | None = None
    chapter: str = ""
    default: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletCase:
    """A kubelet to imitate: a release, a configuration, and the variant of the rules.

    id: as in test ids ("v1.27-documented"). purpose: its difference to the others. release: "1.27". cgroup: its only
    version of cgroups; None is both. chapter: the only chapter that uses it without naming it; "" is every one. entry:
    its id in the catalogue, which differs from `id` if it was requested for another release. default: whether the
    default run uses it for tests that name no kubelet.
    """

    id: str
    purpose: str
    release: str
    variant: Variant
    settings: KubeletSettings
    cgroup: CgroupVersion | None = None
    entry: str = ""
    chapter: str = ""
    default: bool = True

    def with_factor(self, factor: str) -> KubeletCase:
        """The same kubelet with this memoryThrottlingFactor, a decimal; ValueError for any other text."""
        return dataclasses.replace(
            self, settings=dataclasses.replace(self.settings, throttling_factor=Fraction(factor))
        )

    def without_swap(self) -> KubeletCase:
        """The same kubelet with swapBehavior NoSwap: kubelets resize no memory request of a container that may swap.

        Before NoSwap (1.30), with the gate NodeSwap off.
        """
        settings = dataclasses.replace(self.settings, swap_behavior=SwapBehavior.NO_SWAP)
        if not Release.parse(self.release).has(Novelty.NO_SWAP):
            gates = {**self.settings.feature_gates, Gate.NODE_SWAP.value: False}
            settings = dataclasses.replace(self.settings, swap_behavior=None, feature_gates=gates)
        return dataclasses.replace(self, settings=settings)

    def with_eviction(self, available: int) -> KubeletCase:
        """The same kubelet, which evicts pods while the node has fewer bytes of memory available (evictionHard)."""
        hard = {"memory.available": str(available)}
        return dataclasses.replace(self, settings=dataclasses.replace(self.settings, eviction_hard=hard))

    def with_enforced(self, *keys: str) -> KubeletCase:
        """The same kubelet with this enforceNodeAllocatable."""
        return dataclasses.replace(self, settings=dataclasses.replace(self.settings, enforce_node_allocatable=keys))


def load_kubelets(root: Path | None = None, *, on: CgroupVersion | None = None) -> tuple[KubeletCase, ...]:
    """Every kubelet of fixtures/kubelets.toml, in its order.

    root: the folder with `fixtures`; None is memqos's own. on: without kubelets that are only for the other version of
    cgroups; None for all. Raises ManifestError naming file and field.
    """
    file = (root or data_root()) / "fixtures" / "kubelets.toml"
    found = CheckedFile.toml(file, what="the catalogue of kubelets")
    cases = (_case(name, found, file.parent / "kubelet") for name in found.document)
    return tuple(case for case in cases if on is None or case.cgroup in {None, on})


def select_kubelets(
    kubelets: Sequence[KubeletCase], releases: Sequence[str], *, where: str = ""
) -> tuple[KubeletCase, ...]:
    """The kubelets of these releases ("1.27" or "v1.27"), in order; no release means every kubelet.

    The catalogue has a kubelet of each release in which memory QoS changed. A release between them gets the
    configurations of the last release before it, with its own rules; the same holds for kubelets of one chapter. Raises
    UnknownNameError for a release without rules, or before all of these.
    """
    if not releases:
        return tuple(kubelets)
    known = {Release.parse(kubelet.release) for kubelet in kubelets if not kubelet.chapter}
    chosen: dict[str, KubeletCase] = {}
    for text in releases:
        asked = _release(text, where)
        if not any(release <= asked for release in known):
            raise UnknownNameError.of("kubelet of the release", text, list(map(str, sorted(known))), where=where)
        for chapter in {kubelet.chapter for kubelet in kubelets}:
            chosen |= {one.id: one for one in _in_force([one for one in kubelets if one.chapter == chapter], asked)}
    order = [kubelet.id for kubelet in kubelets]
    return tuple(sorted(chosen.values(), key=lambda kubelet: order.index(kubelet.entry)))


def _in_force(kubelets: Sequence[KubeletCase], asked: Release) -> Iterator[KubeletCase]:
    """The kubelets of the last release up to the requested one, with that one's rules."""
    before = [release for kubelet in kubelets if (release := Release.parse(kubelet.release)) <= asked]
    for kubelet in kubelets:
        if before and Release.parse(kubelet.release) == max(before):
            yield _in_release(kubelet, asked)


def _release(text: str, where: str) -> Release:
    try:
        return Release.parse(text)
    except UnknownNameError as error:
        raise UnknownNameError(error.what, where=where, next_step=error.next_step, data=error.data) from None


def _in_release(kubelet: KubeletCase, release: Release) -> KubeletCase:
    """A kubelet with this configuration and another release."""
    name = f"v{release}{kubelet.id.removeprefix(f'v{kubelet.release}')}"
    return dataclasses.replace(kubelet, id=name, release=str(release))


def _case(name: str, file: CheckedFile, configurations: Path) -> KubeletCase:
    row = file.checked((name,), _Row)
    return KubeletCase(
        id=name,
        entry=name,
        purpose=row.purpose,
        release=str(_release(row.kubernetes, file.where((name, "kubernetes")))),
        variant=row.variant,
        settings=load_settings(configurations / row.config),
        cgroup=row.cgroup,
        chapter=row.chapter,
        default=row.default,
    )
