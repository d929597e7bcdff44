"""The pod of a manifest that is a document."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace

from memqos.catalog.manifests import Manifest, manifests_in
from memqos.exploration.documents import Document
from memqos.model.pod import Pod

__all__ = ["containers_in", "pod_of"]


def pod_of(manifest: Document, *, uid: str = "") -> Pod:
    """The pod of a manifest as the API server stores it. uid: "" for one that its name decides.

    Raises ManifestError, as `load_pods` does.
    """
    [pod] = [
        pod
        for one in manifests_in(io.BytesIO(json.dumps(manifest).encode()), "pod.json")
        if isinstance(one, Manifest)
        for pod in one.pods
    ]
    return replace(pod, submission=None, uid=uid or pod.uid)


def containers_in(manifest: Document) -> Sequence[Document]:
    """All containers of a manifest, init containers first."""
    spec = manifest["spec"]
    return [*spec.get("initContainers", []), *spec.get("containers", [])]
