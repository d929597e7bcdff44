"""The pod in a manifest that is a document."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace

from memqos.catalog.manifests import Manifest, manifests_in
from memqos.exploration.documents import Document
from memqos.model.pod import Pod

__all__ = ["containers_in", "pod_of", "shape_of_pod"]


def pod_of(manifest: Document, *, uid: str = "") -> Pod:
    """The pod of a manifest as the API server stores it. uid: "" derives it from the name.

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


def shape_of_pod(manifest: Document) -> list[object]:
    """The shape of a pod: its fields without their amounts. Pods of different shapes count as different cases."""
    return [
        sorted(manifest["spec"].keys() & {"overhead", "resources"}),
        [
            [one.get("restartPolicy", ""), len(one.get("args", ())), _amounts(one.get("resources", {}))]
            for one in containers_in(manifest)
        ],
    ]


def _amounts(resources: Document) -> list[str]:
    """The amounts that a container has, and the requests that equal their limits."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    equal = [name for name in requests if str(requests[name]) == str(limits.get(name))]
    return [*(f"l-{name}" for name in sorted(limits)), *(f"r-{name}" for name in sorted(requests)), *sorted(equal)]
