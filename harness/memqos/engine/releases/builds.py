"""Kubelets that are builds before a release: alpha, beta and release candidates, with commits on top.

Between two builds rules change, and there is no table of them. What is known of one build says something about those
before and after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

__all__ = ["before_release"]

_FORM = re.compile(
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
"""By minor version: a build (stage, number, commits), what it had, and what came after it.

1.37.0-alpha.0.1256: github.com/QiWang19/kep-2570-memoryqos-benchmarks, README-rerun.md, whose tree has the one and not
the other.
"""


def before_release(kubelet: str) -> str:
    """What is to be said of a kubelet's version that is a build before a release, such as v1.37.0-alpha.0.1256+abc.

    "" for a release, a vendor's build of one (v1.34.1+k3s1, v1.30.4-eks-1) included, and for what is no version.
    """
    match = _FORM.fullmatch(kubelet.strip())
    if not match:
        return ""
    build = (_STAGES.index(match["stage"]), int(match["number"]), int(match["commits"] or 0))
    told = [
        f"it is a build before {match['release']} and judged as that release: it may lack what was merged after it",
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
