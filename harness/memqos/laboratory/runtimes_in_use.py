"""The runtimes of a machine by name and version, as they report it or as the user states it."""

from __future__ import annotations

from dataclasses import dataclass

from memqos.config.runtimes import oci_runtime
from memqos.config.settings import Settings
from memqos.engine.translate.specification import judged_by
from memqos.engine.translate.versions import (
    BUNDLES,
    CRI_RUNTIMES,
    DRIVEN_DIRECTLY,
    UNKNOWN,
    Feature,
    Runtimes,
    traits_of_program,
)
from memqos.place.base import OfferedRuntime
from memqos.runtime.base import RuntimeVersion

__all__ = ["RuntimesInUse", "runtimes_in_use", "runtimes_of"]


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


# Every plan of containers depends on these; the other features affect only messages and rare nodes.
_PLANNED = {Feature.QUADRATIC_WEIGHT, Feature.SWAP_FOLLOWS_MEMORY, Feature.ROUNDED_QUOTA_IN_FILE}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimesInUse:
    """The CRI runtime, None without one, and the OCI runtime below it.

    oci_version: "" if unknown. remark: a note on the origin of name and version, "" for those of the machine's image.
    hugetlb: whether huge page limits reach containers.
    """

    cri: RuntimeVersion | None
    oci: str
    oci_version: str
    remark: str
    hugetlb: bool

    @property
    def runtimes(self) -> Runtimes:
        """Their traits for the engine."""
        return runtimes_of(
            cri="" if self.cri is None else self.cri.name,
            cri_version="" if self.cri is None else self.cri.version,
            oci=self.oci,
            oci_version=self.oci_version,
            hugetlb=self.hugetlb,
        )

    @property
    def doubt(self) -> str:
        """What is unknown and therefore not expected, as a note with its remedy; "" if everything is known."""
        runtimes = self.runtimes
        unmodelled = [] if runtimes.cri.modelled else [f"{self.shown[0]}: {judged_by(runtimes.cri)}"]
        if not runtimes.oci.modelled:
            stated = "--runtime-version states it, if this is a build of runc or crun"
            unmodelled.append(f"{self.shown[-1]}: {judged_by(runtimes.oci)}; {stated}")
        if unmodelled:
            return "; ".join(unmodelled)
        if not _PLANNED & (runtimes.cri.in_doubt | runtimes.oci.in_doubt):
            return ""
        return (
            f"it is unknown which version's rules apply to {' and '.join(self.shown)}: what differs between versions "
            "is not observable; --runtime-version states the OCI runtime's version"
        )

    @property
    def shown(self) -> list[str]:
        """Both as text: "containerd 1.7.24", "runc of unknown version (a given file)"."""
        remark = f" ({self.remark})" if self.remark else ""
        cri = [] if self.cri is None else [f"{self.cri.name} {self.cri.version}"]
        return [*cri, f"{self.oci} {self.oci_version or UNKNOWN}{remark}"]


def runtimes_in_use(said: RuntimeVersion, offer: OfferedRuntime, settings: Settings) -> RuntimesInUse:
    """A place's report about one of its runtimes, which the user may override.

    For a file that replaces the OCI runtime, the version that the file reports counts, never that of the replaced one.
    """
    asked, oci = oci_runtime(offer.name), offer.oci
    name, version = oci.name, oci.version
    remarks = ["a given file" if name == asked else f"a given file in {asked}'s place"] if oci.is_brought else []
    if settings.runtime_version is not None:
        stated_name, stated = settings.runtime_version.name, settings.runtime_version.version
        remarks.append(f"by {settings.origins['runtime_version']}")
        if version and (version != stated or name != (stated_name or name)):
            remarks.append(f"it reports {name} {version}")
        name, version = stated_name or (name if name in DRIVEN_DIRECTLY else asked), stated
    above = None if offer.is_direct else said
    return RuntimesInUse(cri=above, oci=name, oci_version=version, remark=", ".join(remarks), hugetlb=offer.hugetlb)
