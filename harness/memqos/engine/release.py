"""Kubernetes releases, and which revision of each rule family a release has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from memqos.errors import UnknownNameError

__all__ = ["FIRST_MINOR", "LAST_MINOR", "Family", "Release", "Variant", "revisions"]

FIRST_MINOR = 22
LAST_MINOR = 37
_FORM = re.compile(r"v?1\.(?P<minor>[0-9]{1,3})(?:\.[0-9]+)?(?:[-+][0-9A-Za-z.+-]*)?", re.ASCII)


class Variant(StrEnum):
    """Which of two behaviours to follow where the text of an enhancement and the kubelet's code differ."""

    DOCUMENTED = "documented"
    SHIPPED = "shipped"


class Family(StrEnum):
    """A family of rules that changed together; reasons name its revision."""

    MEMORY_QOS = "memory-qos"
    SWAP = "swap"
    SUMS = "pod sums"
    LIMITS_DECLARED = "limits declared"
    CONTAINER = "container resources"
    QOS_CLASS = "qos class"
    OOM_SCORE = "oom_score_adj"
    NODE = "node allocatable"
    LAYOUT = "cgroup names"
    CPU = "cpu conversions"


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """A Kubernetes minor version, 1.22 to 1.37."""

    minor: int

    @classmethod
    def parse(cls, text: str) -> Release:
        """From "1.27", "v1.27" or "v1.27.7"; UnknownNameError for a release that the engine has no rules for."""
        match = _FORM.fullmatch(text.strip())
        if not match or not FIRST_MINOR <= int(match["minor"]) <= LAST_MINOR:
            known = [f"1.{minor}" for minor in range(FIRST_MINOR, LAST_MINOR + 1)]
            raise UnknownNameError.of("Kubernetes release", text, known)
        return cls(int(match["minor"]))

    @classmethod
    def of(cls, given: Release | str) -> Release:
        """The release itself, or the one that a text names."""
        return given if isinstance(given, Release) else cls.parse(given)

    def since(self, minor: int) -> bool:
        """Whether this is 1.`minor` or a later one."""
        return self.minor >= minor

    def __str__(self) -> str:
        return f"1.{self.minor}"


# Family to the minor versions in which its rules changed.
_CHANGES: Mapping[Family, tuple[int, ...]] = {
    Family.MEMORY_QOS: (22, 27, 36, 37),
    Family.SWAP: (22, 28, 30, 31),
    Family.SUMS: (22, 28, 32),
    Family.LIMITS_DECLARED: (22, 23, 27, 28, 32),
    Family.CONTAINER: (22, 26, 28, 32, 34),
    Family.QOS_CLASS: (22, 32),
    Family.OOM_SCORE: (22, 32, 33),
    Family.NODE: (22, 32),
    Family.LAYOUT: (22,),
    Family.CPU: (22, 34),
}

# Releases in which what is documented differs from what was shipped, first and last minor.
_TWO_VARIANTS: Mapping[Family, tuple[int, int]] = {Family.MEMORY_QOS: (27, 36), Family.SWAP: (28, 29)}


def revisions(release: Release, variant: Variant) -> dict[Family, str]:
    """The revision of every family in a release, in the words that reasons use: "memory-qos v1.27 shipped"."""
    named = {}
    for family, changes in _CHANGES.items():
        newest = max(minor for minor in changes if minor <= release.minor)
        first, last = _TWO_VARIANTS.get(family, (1, 0))
        suffix = f" {variant}" if first <= release.minor <= last else ""
        named[family] = f"{family} v1.{newest}{suffix}"
    return named
