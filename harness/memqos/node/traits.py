"""Which runtimes of the engine's table a machine holds, by the names and versions that it reports."""

from __future__ import annotations

from dataclasses import replace

from memqos.engine.translate.versions import (
    BUNDLES,
    CRI_RUNTIMES,
    DRIVEN_DIRECTLY,
    RuntimeName,
    Runtimes,
    Traits,
    traits_of,
)

__all__ = ["UNKNOWN", "runtimes_of"]

UNKNOWN = "of unknown version"


def runtimes_of(*, cri: str, cri_version: str, oci: str, oci_version: str, hugetlb: bool) -> Runtimes:
    """The runtimes, containerd or CRI-O over runc or crun, as the engine's one table of versions has them.

    hugetlb: whether the CRI runtime is configured to pass huge page limits on. What a version that is not understood
    leaves open stays open. So does all that versions of runc differ in, for an OCI runtime that the table does not
    know, and all that versions of containerd differ in, for such a CRI runtime. cri: "" for an OCI runtime that is
    driven directly.
    """
    return Runtimes(
        cri=_known(cri, cri_version, CRI_RUNTIMES) if cri else BUNDLES,
        oci=_known(oci, oci_version, DRIVEN_DIRECTLY),
        hugetlb=hugetlb,
    )


def _known(name: str, version: str, known: tuple[RuntimeName, ...]) -> Traits:
    """The traits of this version, or those of the first of the known with a version that is not."""
    if name in known:
        return traits_of(name, version)
    return replace(traits_of(known[0], ""), called=f"{name} {version or UNKNOWN}")
