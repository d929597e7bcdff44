"""What the kubelet of a release refuses in its configuration, as far as the rules read it."""

from __future__ import annotations

from memqos.engine.kubelet import Kubelet

__all__ = ["check_settings"]


def check_settings(kubelet: Kubelet) -> None:
    """Raise ManifestError for the first field that this release's kubelet refuses."""
    del kubelet
