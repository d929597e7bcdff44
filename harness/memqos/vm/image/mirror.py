"""Where this host takes Debian packages from: read from apt, so that a local mirror is used without being told."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from memqos.errors import EnvironmentNotAbleError
from memqos.vm.image.recipe import Mirror
from memqos.vm.profile import Profile

__all__ = ["find_mirror", "need_mirror", "parse_targets"]

KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
)
"""Where the package debian-archive-keyring puts Debian's keys."""

FIELDS = "$(ORIGIN)|$(LABEL)|$(SUITE)|$(COMPONENT)|$(REPO_URI)"


def parse_targets(text: str) -> str:
    """The address of Debian's main archive in lines of FIELDS; empty if apt has none.

    The security archive and other origins are passed over, and so are the suites that are laid beside the main one.
    """
    for line in text.splitlines():
        origin, label, suite, component, uri = (*line.split("|"), "", "", "", "", "")[:5]
        beside = suite.endswith(("-updates", "-backports", "-proposed-updates", "-security"))
        if (origin, label, component) == ("Debian", "Debian", "main") and not beside:
            return uri.rstrip("/")
    return ""


def find_mirror(environment: Mapping[str, str]) -> Mirror:
    """MEMQOS_DEBIAN_MIRROR if it is set, else what apt uses for Debian, else mmdebstrap's own default."""
    keyring = next((str(path) for path in KEYRINGS if path.exists()), "")
    if chosen := environment.get("MEMQOS_DEBIAN_MIRROR"):
        return Mirror(uri=chosen, keyring=keyring)
    if shutil.which("apt-get") is None:
        return Mirror(keyring=keyring)
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", FIELDS, "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    )
    return Mirror(uri=parse_targets(told.stdout), keyring=keyring)


def need_mirror(mirror: Mirror, profile: Profile) -> None:
    """Raise EnvironmentNotAbleError if the profile mixes suites and no mirror is known.

    mmdebstrap has a mirror of its own for a single suite only.
    """
    if profile.kernel_suite and not mirror.uri:
        raise EnvironmentNotAbleError(
            f"the profile '{profile.name}' takes packages of {profile.suite} and {profile.kernel_suite}, "
            "and this host's apt names no Debian mirror to take them from.",
            next_step="Name one in MEMQOS_DEBIAN_MIRROR.",
            data={"profile": profile.name, "suites": [profile.suite, profile.kernel_suite]},
        )
