"""Which traits of the engine's fit the runtimes that a machine holds, by their versions."""

from __future__ import annotations

from dataclasses import replace

from memqos.engine.translate import versions
from memqos.engine.translate.versions import Runtime
from memqos.model.traits import RuntimeTraits

__all__ = ["UNKNOWN", "traits_of"]

UNKNOWN = "of unknown version"

_OCI = (Runtime.RUNC, Runtime.CRUN)


def traits_of(*, cri: str, cri_version: str, oci: str, oci_version: str, hugetlb: bool) -> RuntimeTraits:
    """The traits of containerd or CRI-O over runc or crun, as the engine's one table of versions has them.

    hugetlb: whether the CRI runtime is configured to pass huge page limits on. What a version that is not understood
    leaves open stays open. So does all that versions of runc differ in, for an OCI runtime that the table does not
    know, and all that versions of containerd differ in, for such a CRI runtime.
    """
    found = versions.runtime_traits(
        versions.traits_of(cri, cri_version)
        if cri in {Runtime.CONTAINERD, Runtime.CRIO}
        else versions.traits_of(Runtime.CONTAINERD, ""),
        versions.traits_of(oci, oci_version) if oci in _OCI else versions.traits_of(Runtime.RUNC, ""),
        hugetlb=hugetlb,
    )
    return replace(found, name=f"{cri} {cri_version or UNKNOWN} with {oci} {oci_version or UNKNOWN}")
