"""KubeletConfigurations from files, and the catalogue of kubelets whose part suites play."""

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
from memqos.errors import UnknownNameError
from memqos.model.node import CgroupVersion, KubeletSettings
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
    """A kubelet to stand in for: a release, a configuration, and which variant of the rules.

    id: as in test ids ("v1.27-documented"). purpose: what it adds to the others. release: "1.27".
    cgroup: the only version of cgroups that it is about; None is both. chapter: the only chapter of suites that runs
    under it without naming it; "" is every one.
    entry: its id in the catalogue, which differs from `id` where its rules were asked for in another release.
    default: whether a run of whole suites has it without being asked for everything, where no test names it.
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
        """The same kubelet with this memoryThrottlingFactor, a decimal; ValueError for what is none."""
        return dataclasses.replace(
            self, settings=dataclasses.replace(self.settings, throttling_factor=Fraction(factor))
        )

    def with_enforced(self, *keys: str) -> KubeletCase:
        """The same kubelet with these as its enforceNodeAllocatable."""
        return dataclasses.replace(self, settings=dataclasses.replace(self.settings, enforce_node_allocatable=keys))


def load_kubelets(root: Path | None = None, *, on: CgroupVersion | None = None) -> tuple[KubeletCase, ...]:
    """Every kubelet of fixtures/kubelets.toml, in its order.

    root: the folder that holds `fixtures`; None is memqos's own. on: without those that are about the other version of
    cgroups alone; None leaves none out. Raises ManifestError naming file and field.
    """
    file = (root or data_root()) / "fixtures" / "kubelets.toml"
    found = CheckedFile.toml(file, what="the catalogue of kubelets")
    cases = (_case(name, found, file.parent / "kubelet") for name in found.document)
    return tuple(case for case in cases if on is None or case.cgroup in {None, on})


def select_kubelets(
    kubelets: Sequence[KubeletCase], releases: Sequence[str], *, where: str = ""
) -> tuple[KubeletCase, ...]:
    """The kubelets of these releases ("1.27" or "v1.27"), in their order; no release is every kubelet.

    The catalogue has a kubelet of each release in which memory QoS changed. One of a release between them has the
    configuration of the last before it, and its own release's rules. So have those that are for one chapter alone, of
    the last before it that are for this chapter.
    Raises UnknownNameError for a release that the engine has no rules for, or before any kubelet of these.
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
    """Those of the last release up to the one that is asked for, in that one."""
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
    """A kubelet with the configuration of this one, of another release."""
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
