"""What an OCI runtime did with linux.resources: the values that `runc` and `crun` give and `runtime_rules` reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memqos.engine.translate.systemd import SYSTEMD
from memqos.model.node import CgroupDriver, CgroupVersion

__all__ = ["Refused", "RuntimeHost", "RuntimeWrites", "checked_unified"]


class Refused(Exception):  # noqa: N818 - it is an answer, and leaves this package as one
    """The runtime ends with this error; a value in the making, see `RuntimeWrites.refusal`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeHost:
    """What of the node decides.

    driver: who makes the container's cgroup. cgroup_version, page_size: the kernel's, in bytes. swap_file: whether
    memory.swap.max exists, or memory.memsw.limit_in_bytes on cgroup v1. hugetlb_reservations: whether
    hugetlb.<size>.rsvd.max exists (Linux 5.7). systemd: its version, 240 at least. subgroup: the annotation
    `run.oci.systemd.subgroup`, which crun alone reads; None is not given, "" is "none".
    """

    driver: CgroupDriver = CgroupDriver.SYSTEMD
    cgroup_version: CgroupVersion = CgroupVersion.V2
    page_size: int = 4096
    swap_file: bool = True
    hugetlb_reservations: bool = True
    systemd: int = SYSTEMD
    subgroup: str | None = None


@dataclass(slots=True, kw_only=True)
class RuntimeWrites:
    """One application of linux.resources.

    files: (control file, text) in the order of writing, in the cgroup that holds the processes; the last one of a
    name counts. scope: makes the properties, which plans do not ask for; None where there are none.
    subgroup: the cgroup below the scope in which `files` are, "" for the scope itself. refusal: the runtime's error, ""
    if it has none; nothing was written then.
    """

    files: tuple[tuple[str, str], ...] = ()
    scope: Callable[[], Mapping[str, int | str]] | None = None
    subgroup: str = ""
    refusal: str = ""

    @property
    def properties(self) -> Mapping[str, int | str] | None:
        """Of the systemd scope: numbers (amounts in bytes, INFINITY is max), lists of CPUs and nodes as text.

        None with the cgroupfs driver, which makes no scope, and on cgroup v1, where they are not modelled.
        """
        return None if self.scope is None else self.scope()

    @property
    def texts(self) -> dict[str, str]:
        """Control file to the last text written."""
        return {str(name): text for name, text in self.files}


def checked_unified(unified: Mapping[str, str]) -> None:
    """Raise Refused for a key that is no file name: both runtimes check it."""
    for name in unified:
        if "/" in name:
            raise Refused(f"unified resource '{name}' must be a file name (no slashes)")
