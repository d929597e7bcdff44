"""What an OCI runtime reports about its own abilities: by its command `features`, and by its help.

The specification's command line has create, start, state, kill and delete with --bundle and --pid-file; memqos also
uses options and commands of runc. An unknown runtime may lack them; its help shows which it has. A runtime without
`features` and without help is assumed to have runc's. Source: opencontainers/runtime-spec features.md;
opencontainers/runtime-tools docs/command-line-interface.md.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from memqos.clock import Deadline
from memqos.engine.translate.features import NO_FEATURES, OciFeatures, features_of
from memqos.errors import UsageError
from memqos.model.node import CgroupDriver, CgroupVersion
from memqos.target.base import Target

__all__ = ["UNASKED", "Learned", "learn", "need_driver", "need_hierarchy"]

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
