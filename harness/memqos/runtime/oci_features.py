"""What an OCI runtime reports about itself: by its command `features`, and by its help.

The document of `features` describes the build, not the machine; a missing field means unknown, not false. The
specification's command line has create, start, state, kill and delete with --bundle and --pid-file; memqos also uses
options and commands of runc. An unknown runtime may lack them; its help shows which it has. A runtime without
`features` and without help is assumed to have runc's.
Source: opencontainers/runtime-spec features.md and features-linux.md (1.1; memoryPolicy 1.3);
opencontainers/runtime-tools docs/command-line-interface.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from memqos.clock import Deadline
from memqos.errors import UsageError
from memqos.model.node import CgroupDriver, CgroupVersion
from memqos.target.base import Target

__all__ = ["NO_FEATURES", "UNASKED", "Learned", "OciFeatures", "features_of", "learn", "need_driver", "need_hierarchy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OciFeatures:
    """The features of a runtime; None where the document lacks a field.

    reported: whether it has the command. v1, v2, systemd: linux.cgroup. modes, flags:
    linux.memoryPolicy, by the kernel's names (MPOL_BIND); None if the field is missing.
    """

    reported: bool = False
    v1: bool | None = None
    v2: bool | None = None
    systemd: bool | None = None
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


_SYSTEMD = "--systemd-cgroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """A runtime's report about itself. usage: its help, "" for none."""

    features: OciFeatures = NO_FEATURES
    usage: str = ""

    def lacks(self, word: str) -> bool:
        """Whether it has a help that does not name this command or option."""
        return bool(self.usage) and re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", self.usage) is None

    def lacks_driver(self, driver: CgroupDriver) -> str:
        """Why it does not run under this cgroup driver, as a clause; "" if it does, or does not report it."""
        if self.features.systemd is not None:
            return self.features.lacks_driver(driver)
        return f"its help does not list {_SYSTEMD}" if driver is CgroupDriver.SYSTEMD and self.lacks(_SYSTEMD) else ""


UNASKED = Learned()


def learn(target: Target, program: str, *, deadline: Deadline) -> Learned:
    """Query the program; unusable output counts as no report."""
    told = target.run([program, "features"], deadline=deadline)
    try:
        features = features_of(json.loads(told.text)) if told.status == 0 else NO_FEATURES
    except ValueError:
        features = NO_FEATURES
    shown = target.run([program, "--help"], deadline=deadline)
    usage = f"{shown.text}\n{shown.error_text}".strip() if shown.status == 0 else ""
    return Learned(features=features, usage=usage)


def need_driver(learned: Learned, driver: CgroupDriver, *, runtime: str) -> None:
    """Raise UsageError for a runtime without this cgroup driver."""
    if why := learned.lacks_driver(driver):
        raise UsageError(
            f"{runtime} does not run under the {driver} driver: {why}.",
            where="--driver",
            next_step=f"Use --driver {CgroupDriver.CGROUPFS}.",
        )


def need_hierarchy(learned: Learned, version: CgroupVersion, *, runtime: str) -> None:
    """Raise UsageError for a runtime that does not support this cgroup version."""
    if why := learned.features.lacks_hierarchy(version):
        other = CgroupVersion.V1 if version is CgroupVersion.V2 else CgroupVersion.V2
        raise UsageError(
            f"{runtime} does not run on cgroup {version}: {why}.", where="--cgroup", next_step=f"Use --cgroup {other}."
        )
