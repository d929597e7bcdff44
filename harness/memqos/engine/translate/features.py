"""The features that an OCI runtime reports: the document of its command `features`.

The document describes the build, not the machine. A missing field means unknown, not false. Source:
opencontainers/runtime-spec features.md and features-linux.md (1.1; memoryPolicy 1.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memqos.model.node import CgroupDriver, CgroupVersion

__all__ = ["NO_FEATURES", "OciFeatures", "features_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OciFeatures:
    """The features of a runtime; None where the document lacks a field.

    reported: whether it has the command. v1, v2, systemd, systemd_user, rdma: linux.cgroup. modes, flags:
    linux.memoryPolicy, by the kernel's names (MPOL_BIND); None if the field is missing.
    """

    reported: bool = False
    v1: bool | None = None
    v2: bool | None = None
    systemd: bool | None = None
    systemd_user: bool | None = None
    rdma: bool | None = None
    modes: frozenset[str] | None = None
    flags: frozenset[str] | None = None

    def lacks_driver(self, driver: CgroupDriver) -> str:
        """Why it has no such cgroup driver, as a clause; "" if it has it or does not report it."""
        lacks = driver is CgroupDriver.SYSTEMD and self.systemd is False
        return "its features have linux.cgroup.systemd false" if lacks else ""

    def lacks_hierarchy(self, version: CgroupVersion) -> str:
        """Why it does not run on this version of cgroups, as a clause; "" if it does or does not report it."""
        said = self.v2 if version is CgroupVersion.V2 else self.v1
        return f"its features have linux.cgroup.{version} false" if said is False else ""


NO_FEATURES = OciFeatures()
"""The features of a runtime without the command."""


def features_of(document: object) -> OciFeatures:
    """The features in the document; malformed fields count as missing. `NO_FEATURES` for any other document."""
    if not isinstance(document, Mapping):
        return NO_FEATURES
    linux = _table(document, "linux")
    cgroup, policy = _table(linux, "cgroup"), _table(linux, "memoryPolicy")
    return OciFeatures(
        reported=True,
        v1=_flag(cgroup, "v1"),
        v2=_flag(cgroup, "v2"),
        systemd=_flag(cgroup, "systemd"),
        systemd_user=_flag(cgroup, "systemdUser"),
        rdma=_flag(cgroup, "rdma"),
        modes=_names(policy, "modes"),
        flags=_names(policy, "flags"),
    )


def _table(document: Mapping[str, object], key: str) -> Mapping[str, object]:
    found = document.get(key)
    return found if isinstance(found, Mapping) else {}


def _flag(document: Mapping[str, object], key: str) -> bool | None:
    found = document.get(key)
    return found if isinstance(found, bool) else None


def _names(document: Mapping[str, object], key: str) -> frozenset[str] | None:
    found = document.get(key)
    return frozenset(map(str, found)) if isinstance(found, list) else None
