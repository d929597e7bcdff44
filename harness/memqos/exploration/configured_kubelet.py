"""A kubelet as data: its release and its KubeletConfiguration."""

from __future__ import annotations

import json
from dataclasses import dataclass

from memqos.catalog.kubelet_config import settings_of
from memqos.exploration.documents import Document
from memqos.model.node import KubeletSettings

__all__ = ["HEAD", "ConfiguredKubelet", "settings_in"]

HEAD = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredKubelet:
    """A kubelet: its release ("1.36") and its KubeletConfiguration as a document."""

    kubernetes: str
    config: Document

    @property
    def settings(self) -> KubeletSettings:
        """The configuration as engine settings; ManifestError for one that no kubelet accepts."""
        return settings_in(self.config)


def settings_in(config: Document, *, file: str = "kubelet.json") -> KubeletSettings:
    """The settings of a KubeletConfiguration; ManifestError, naming the file, for one that no kubelet accepts."""
    return settings_of(json.dumps(config).encode(), file)
