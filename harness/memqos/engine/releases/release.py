"""Kubernetes releases, their builds, and the revision of each rule family.

Kubelets that are builds before a release: alpha, beta and release candidates, with commits on top.

Rules change between two builds, and there is no table of them. Facts about one build bound those before and after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import TypeVar

from memqos.engine.releases.table import DRAFTS, FIXES, PREVIEW, RELEASES, TWO_VARIANTS, Family, Novelty, revised_in
from memqos.errors import UnknownNameError

__all__ = ["Release", "Variant", "before_release", "revisions", "titled"]

_Rules = TypeVar("_Rules")
_FORM = re.compile(r"v?1\.(?P<minor>0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,5}))?(?:[-+][0-9A-Za-z.+-]*)?", re.ASCII)


_PREVIEW = re.compile(rf"v?1\.{PREVIEW}-preview", re.ASCII)


class Variant(StrEnum):
    """The source of rules: the kubelet's code, the enhancement's text, or a draft of it.

    MENDED: the code with later fixes, for the families in FIXES. DRAFT: a proposal that never shipped, for the families
    in DRAFTS. Both are the release's own code for all other families.
    """

    DOCUMENTED = "documented"
    SHIPPED = "shipped"
    MENDED = "mended"
    DRAFT = "draft"


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """A Kubernetes minor version; `parse` accepts those of RELEASES, and the preview of PREVIEW."""

    minor: int

    @classmethod
    def parse(cls, text: str) -> Release:
        """From "1.27", "v1.27" or "v1.27.7"; UnknownNameError for a release without rules.

        An unreleased version has only its own name: "1.38-preview".
        """
        if _PREVIEW.fullmatch(text.strip()):
            return cls(PREVIEW)
        match = _FORM.fullmatch(text.strip())
        if match and int(match["minor"]) == PREVIEW:
            raise UnknownNameError(
                f"there is no Kubernetes release '{text[:80]}' yet.",
                next_step=f"{cls(PREVIEW)} plans by its public texts.",
                data={"name": text, "known": [f"1.{minor}" for minor in RELEASES]},
            )
        if not match or int(match["minor"]) not in RELEASES:
            known = [f"1.{minor}" for minor in RELEASES]
            raise UnknownNameError.of("Kubernetes release", text, known)
        return cls(int(match["minor"]))

    @classmethod
    def of(cls, given: Release | str) -> Release:
        """The given release, or the one that a text names."""
        return given if isinstance(given, Release) else cls.parse(given)

    @classmethod
    def of_kubelet(cls, version: str) -> Release:
        """The release whose rules a kubelet of this version follows; the preview for builds of the next release.

        UnknownNameError as for `parse`.
        """
        match = _FORM.fullmatch(version)
        return cls(PREVIEW) if match and int(match["minor"]) == PREVIEW else cls.parse(version)

    def has(self, novelty: Novelty) -> bool:
        """Whether this release or an earlier one introduced it."""
        return self.minor >= novelty.since

    def newest(self, first: _Rules, later: Mapping[Novelty, _Rules]) -> _Rules:
        """The value of the latest novelty that this release has; `first` if it has none of them."""
        held = {novelty.since: rules for novelty, rules in later.items() if self.has(novelty)}
        return held[max(held)] if held else first

    @property
    def is_preview(self) -> bool:
        """Whether it is not released yet."""
        return self.minor == PREVIEW

    def __str__(self) -> str:
        return f"1.{self.minor}{'-preview' if self.is_preview else ''}"


def titled(release: str) -> str:
    """A release for headings: "1.38-preview (not released)"."""
    return f"{release} (not released)" if _PREVIEW.fullmatch(release) else release


@cache
def revisions(release: Release, variant: Variant) -> Mapping[Family, str]:
    """The revision of every family in a release, as in reasons: "memory-qos v1.27 shipped"."""
    named: dict[Family, str] = {}
    code_or_text = Variant.DOCUMENTED if variant is Variant.DOCUMENTED else Variant.SHIPPED
    for family in Family:
        newest = max(minor for minor in revised_in(family) if minor <= release.minor)
        first, last = TWO_VARIANTS.get(family, (1, 0))
        suffix = f" {code_or_text}" if first <= release.minor <= last else ""
        fixed_from, fixed_to = FIXES.get(family, (1, 0))
        if variant is Variant.MENDED and fixed_from <= release.minor <= fixed_to:
            suffix = f" {variant}"
        named[family] = f"{family} v{Release(newest)}{suffix}"
    if variant is Variant.DRAFT:
        named |= DRAFTS
    return MappingProxyType(named)


_BUILD = re.compile(
    r"v?(?P<release>1\.(?P<minor>[0-9]{1,3})\.[0-9]+)-(?P<stage>alpha|beta|rc)\.(?P<number>[0-9]{1,4})"
    r"(?:[.-](?P<commits>[0-9]{1,6}))?(?:[-+.].*)?",
    re.ASCII | re.DOTALL,
)
_STAGES = ("alpha", "beta", "rc")

_Build = tuple[int, int, int]

_KNOWN: Mapping[int, tuple[_Build, str, str]] = {
    37: (
        (0, 0, 1256),
        "pull request 138139 (memory.high of containers without a limit)",
        "pull request 140267 (memory.low of kubepods)",
    ),
}
"""By minor version: a build (stage, number, commits), the changes that it has, and later ones.

1.37.0-alpha.0.1256: github.com/QiWang19/kep-2570-memoryqos-benchmarks, README-rerun.md, whose tree has one change and
not the other.
"""


def before_release(kubelet: str) -> str:
    """A note about a kubelet's version if it is a build before a release, such as v1.37.0-alpha.0.1256+abc.

    "" for a release, also a vendor's build of one (v1.34.1+k3s1, v1.30.4-eks-1), and for any other text.
    """
    match = _BUILD.fullmatch(kubelet.strip())
    if not match:
        return ""
    build = (_STAGES.index(match["stage"]), int(match["number"]), int(match["commits"] or 0))
    told = [
        f"it is a build before {match['release']} and judged as that release: it may lack later changes",
        *_known(int(match["minor"]), build),
    ]
    return "; ".join(told)


def _known(minor: int, build: _Build) -> Iterator[str]:
    if minor not in _KNOWN:
        return
    known, had, lacked = _KNOWN[minor]
    if build >= known:
        yield f"it has {had}"
    if build <= known:
        yield f"it does not have {lacked}"
