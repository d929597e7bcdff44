"""The kubelets of a run: those of the catalog, or the user's configurations, in the requested releases.

The release of a kubelet under test is the one that its binary reports.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path

from memqos.catalog.kubelet_config import load_settings
from memqos.catalog.kubelets import KubeletCase, load_kubelets, select_kubelets
from memqos.config.settings import Settings
from memqos.engine.releases.release import Release, Variant
from memqos.errors import UnfitFileError, UsageError

__all__ = ["kubelet_version", "kubelets_in_use", "releases_in_use"]


def kubelets_in_use(settings: Settings) -> tuple[KubeletCase, ...]:
    """The kubelets of the run's cases, in the catalog's order.

    A real kubelet under test has one release and the shipped rules, so cases of the documented and draft variants are
    left out. A configuration of the user's makes one case for each requested release.

    Raises UsageError if the binary's release was not requested, or if a configuration comes without a release;
    UnfitFileError for a binary that is not a kubelet.
    """
    releases = releases_in_use(settings)
    where = settings.origins["kubernetes" if settings.kubelet_binary is None else "kubelet_binary"]
    if settings.kubelet_upgrade is not None:
        _check_upgrade(settings, settings.kubelet_upgrade)
    if settings.kubelet_config and not releases:
        raise UsageError(
            "a kubelet configuration needs a Kubernetes release, and none is given.",
            where=settings.origins["kubelet_config"],
            next_step="Give --kubernetes X.Y or --kubelet-binary PATH.",
        )
    chosen = select_kubelets(load_kubelets(on=settings.cgroup), releases, where=where)
    if settings.kubelet_config:
        chosen = tuple(_own_cases(settings, releases))
    if settings.kubelet_binary is not None:
        chosen = tuple(dataclasses.replace(one, default=True) for one in chosen if one.variant is Variant.SHIPPED)
    return chosen


def releases_in_use(settings: Settings) -> tuple[str, ...]:
    """The releases whose rules a run is about: a kubelet's own, else the requested ones, () for any.

    Raises UsageError if the binary's release was not requested, UnfitFileError for a binary that is not a kubelet.
    """
    asked = settings.kubernetes
    if settings.kubelet_binary is None:
        return asked
    own = str(Release.of_kubelet(kubelet_version(settings.kubelet_binary)))
    if asked and own not in {str(Release.of(one)) for one in asked}:
        raise UsageError(
            f"the kubelet's release is {own}, not {', '.join(asked)}.",
            where=settings.origins["kubernetes"],
            next_step=f"Leave out --kubernetes, or give {own}.",
        )
    return (own,)


def _check_upgrade(settings: Settings, upgrade: Path) -> None:
    """UsageError for an upgrade without a kubelet under test, or to the same release."""
    where = settings.origins["kubelet_upgrade"]
    if settings.kubelet_binary is None:
        raise UsageError(
            "an upgrade needs a kubelet under test.",
            where=where,
            next_step="Add --kubelet-binary PATH.",
        )
    own = str(Release.of_kubelet(kubelet_version(settings.kubelet_binary)))
    other = str(Release.of_kubelet(kubelet_version(upgrade, option="--kubelet-upgrade")))
    if own == other:
        raise UsageError(
            f"both kubelets are of {own}; an upgrade needs another release.",
            where=where,
            next_step="Give a kubelet of another release.",
        )


def _own_cases(settings: Settings, releases: tuple[str, ...]) -> list[KubeletCase]:
    """A case for each of the user's configurations in each release, named after the file."""
    return [
        KubeletCase(
            id=f"v{Release.of(release)}-{file.stem}",
            entry=f"v{Release.of(release)}-{file.stem}",
            purpose=f"the configuration {file.name}",
            release=str(Release.of(release)),
            variant=Variant.SHIPPED,
            settings=load_settings(file),
        )
        for release in releases
        for file in settings.kubelet_config
    ]


_SECONDS = 60
_MOST_SHOWN = 160
_VERSION = re.compile(r"Kubernetes (v1\.[0-9]{1,3}\.\S+)", re.ASCII)
_NO_VERSION = "Kubernetes v0.0.0-"
"""How the version of a build without one begins (component-base version/base.go)."""


def kubelet_version(binary: Path, *, option: str = "--kubelet-binary") -> str:
    """The version in the output of `PATH --version` here, such as "v1.36.2".

    UnfitFileError, which names the option, for any other file.
    """
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
        shown = (said.strip() or ended.stderr.decode("utf-8", "backslashreplace").strip())[:_MOST_SHOWN]
        problem = f"'{binary} --version' prints {shown!r}, which is not a Kubernetes version."
    except (OSError, subprocess.TimeoutExpired) as error:
        said, problem = "", f"'{binary} --version' cannot be run on this host: {error}"
    match = _VERSION.fullmatch(said.strip())
    if match is None:
        step = "Give a kubelet that is built for this host's architecture; a script must answer --version here as well."
        if said.startswith(_NO_VERSION):
            step = "It was built without its version: build it with `make WHAT=cmd/kubelet`."
        raise UnfitFileError(problem, where=option, next_step=step)
    return match[1]
