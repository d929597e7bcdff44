"""KubeletConfigurations from files, and the catalogue of kubelets that suites stand in for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from memqos.catalog.data import data_root
from memqos.catalog.kubelet_config import settings_of
from memqos.catalog.pods import read_text
from memqos.engine.release import Release, Variant
from memqos.errors import ManifestError
from memqos.model.node import KubeletSettings

__all__ = ["KubeletCase", "load_kubelets", "load_settings"]

_NAME = re.compile(r"v(?P<release>1\.[0-9]+)(?:-.+)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletCase:
    """A kubelet to stand in for. id: the file's name without suffix ("v1.36-tiered"); release: "1.36"."""

    id: str
    release: str
    settings: KubeletSettings
    variant: Variant = Variant.SHIPPED


def load_settings(path: str | Path) -> KubeletSettings:
    """The settings in a KubeletConfiguration file.

    Raises UsageError for a file that cannot be read, ManifestError for what a kubelet would refuse.
    """
    return settings_of(read_text(path), str(path))


def load_kubelets() -> tuple[KubeletCase, ...]:
    """The kubelets of fixtures/kubelet, by release and name; a file's name begins with the release: v1.36-tiered.yaml."""
    found = []
    for path in (data_root() / "fixtures" / "kubelet").glob("*.yaml"):
        match = _NAME.fullmatch(path.stem)
        if match is None:
            raise ManifestError.at("the file's name does not begin with a release, like v1.36-tiered.", file=str(path))
        release = Release.parse(match["release"])
        found.append((release, KubeletCase(id=path.stem, release=str(release), settings=load_settings(path))))
    return tuple(case for _, case in sorted(found, key=lambda one: (one[0], one[1].id)))
