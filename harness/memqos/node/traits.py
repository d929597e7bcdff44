"""Which runtimes of the engine's table a machine holds, by the names and versions that it reports."""

from __future__ import annotations

from memqos.engine.translate.versions import BUNDLES, CRI_RUNTIMES, DRIVEN_DIRECTLY, Runtimes, traits_of_program

__all__ = ["runtimes_of"]


def runtimes_of(*, cri: str, cri_version: str, oci: str, oci_version: str, hugetlb: bool) -> Runtimes:
    """The runtimes, containerd or CRI-O over runc or crun, as the engine's one table of versions has them.

    hugetlb: whether the CRI runtime is configured to pass huge page limits on. What a version that is not understood
    leaves open stays open. A CRI server or an OCI runtime that the table does not have is not modelled. cri: "" for an
    OCI runtime that is driven directly.
    """
    return Runtimes(
        cri=traits_of_program(cri, cri_version, CRI_RUNTIMES) if cri else BUNDLES,
        oci=traits_of_program(oci, oci_version, DRIVEN_DIRECTLY),
        hugetlb=hugetlb,
    )
