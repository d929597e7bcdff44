"""KubeletConfigurations from files, and the catalogue of kubelets that suites stand in for."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from memqos.catalog.data import data_root
from memqos.catalog.kubelet_config import load_settings
from memqos.engine.releases.release import Release, Variant
from memqos.errors import ManifestError, UnknownNameError
from memqos.model.node import CgroupVersion, KubeletSettings

__all__ = ["KubeletCase", "load_kubelets"]

_FIELDS = frozenset({"purpose", "kubernetes", "as", "config"})
_CGROUP = "cgroup"
_CHAPTER = "chapter"
_DEFAULT = "default"


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
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ManifestError.at(f"the file is not TOML: {error}.", file=str(file)) from None
    cases = (_case(name, fields, file) for name, fields in document.items())
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


def _case(name: str, fields: object, file: Path) -> KubeletCase:
    if (
        not isinstance(fields, dict)
        or set(fields) - {_CGROUP, _CHAPTER, _DEFAULT} != _FIELDS
        or not all(isinstance(value, bool if name == _DEFAULT else str) for name, value in fields.items())
    ):
        raise ManifestError.at(
            f"a kubelet has exactly the texts {', '.join(sorted(_FIELDS))}, and may have '{_CGROUP}', '{_CHAPTER}' and "
            f"'{_DEFAULT}', which is true or false.",
            file=str(file),
            field=name,
            got=fields,
        )
    if fields.get(_CGROUP) not in {None, *CgroupVersion}:
        raise ManifestError.at(
            f"'{_CGROUP}' is v1 or v2 (got '{fields[_CGROUP]}').", file=str(file), field=name, got=fields[_CGROUP]
        )
    variants = [variant.value for variant in Variant]
    if fields["as"] not in variants:
        raise ManifestError.at(
            f"'as' is one of {', '.join(variants)} (got '{fields['as']}').", file=str(file), field=name
        )
    return KubeletCase(
        id=name,
        entry=name,
        purpose=fields["purpose"],
        release=str(Release.parse(fields["kubernetes"])),
        variant=Variant(fields["as"]),
        settings=load_settings(file.parent / "kubelet" / fields["config"]),
        cgroup=CgroupVersion(fields[_CGROUP]) if _CGROUP in fields else None,
        chapter=fields.get(_CHAPTER, ""),
        default=fields.get(_DEFAULT, True),
    )
