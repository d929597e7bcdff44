"""The Kubernetes release that a kubelet's binary reports."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from memqos.errors import UnfitFileError

__all__ = ["kubelet_version"]

_SECONDS = 60
_VERSION = re.compile(r"Kubernetes (v1\.[0-9]{1,3}\.\S+)", re.ASCII)


def kubelet_version(binary: Path) -> str:
    """The version in the output of `PATH --version` here, such as "v1.36.2". UnfitFileError for any other file."""
    try:
        ended = subprocess.run(
            [str(binary.absolute()), "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            env={},
            check=False,
        )
        said = ended.stdout.decode("utf-8", "backslashreplace")
        problem = f"'{binary} --version' prints {said.strip()[:80]!r}, which is not a Kubernetes version."
    except (OSError, subprocess.TimeoutExpired) as error:
        said, problem = "", f"'{binary} --version' cannot be run on this host: {error}"
    match = _VERSION.fullmatch(said.strip())
    if match is None:
        raise UnfitFileError(
            problem, where="--kubelet-binary", next_step="Give a kubelet that is built for this host's architecture."
        )
    return match[1]
