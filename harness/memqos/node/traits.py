"""Which traits of the engine's fit the runtimes that a machine holds, by their versions."""

from __future__ import annotations

import re

from memqos.model.node import RuntimeFlavour
from memqos.model.traits import RuntimeTraits, WeightConversion

__all__ = ["traits_of"]

# The first versions that convert cpu.shares to cpu.weight with the quadratic formula.
_QUADRATIC_SINCE = {"runc": (1, 3, 2), "crun": (1, 23)}

# containerd passes a memory limit on as "no swap" from this version on.
_SWAP_FOLLOWS_SINCE = (1, 6, 13)


def traits_of(*, cri: str, cri_version: str, oci: str, oci_version: str, hugetlb: bool) -> RuntimeTraits:
    """The traits of containerd or CRI-O over runc or crun.

    hugetlb: whether the CRI runtime is configured to pass huge page limits on. A version that is not understood
    counts as the oldest.
    """
    quadratic = _version(oci_version) >= _QUADRATIC_SINCE.get(oci, (1 << 30,))
    is_crio = cri == "cri-o"
    return RuntimeTraits(
        name=f"{cri} {cri_version} with {oci} {oci_version}",
        flavour=RuntimeFlavour.CRIO if is_crio else RuntimeFlavour.CONTAINERD,
        weight=WeightConversion.QUADRATIC if quadratic else WeightConversion.LINEAR,
        hugetlb=hugetlb,
        swap_follows_memory=is_crio or _version(cri_version) >= _SWAP_FOLLOWS_SINCE,
    )


def _version(text: str) -> tuple[int, ...]:
    """The leading numbers of a version, Debian's included: "1.1.15+ds1-2+b4" is (1, 1, 15)."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else ()
