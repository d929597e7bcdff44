"""Pods from files, and the catalogue of pods that suites use."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from memqos.catalog.data import data_root
from memqos.catalog.manifests import pods_of
from memqos.catalog.yaml_nodes import MAX_BYTES
from memqos.errors import ManifestError, UsageError
from memqos.model.pod import Pod

__all__ = ["load_pod_catalog", "load_pods", "read_text"]

STDIN = "-"


def read_text(path: str | Path, what: str = "a manifest") -> bytes:
    """A file's bytes, standard input's for "-"; a bit more than MAX_BYTES at most, which is then refused.

    what: what the file should be, for the error. Raises UsageError for a file that cannot be read.
    """
    if str(path) == STDIN:
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"the file '{path}' cannot be read: {(error.strerror or str(error)).lower()}.",
            next_step=f"Give the path of {what}, or - for standard input.",
        ) from None


def load_pods(paths: Iterable[str | Path]) -> tuple[Pod, ...]:
    """The pods of several files, in the order given.

    Raises UsageError for a file that cannot be read, ManifestError for what Kubernetes would refuse, also when the same
    pod is given twice.
    """
    pods: list[Pod] = []
    for path in paths:
        name = "standard input" if str(path) == STDIN else str(path)
        pods += _new(pods_of(read_text(path), name), pods, name)
    return tuple(pods)


def _new(found: Iterable[Pod], known: list[Pod], file: str) -> Iterator[Pod]:
    taken = {(pod.namespace, pod.name): pod for pod in known}
    uids = {pod.uid: pod for pod in known}
    for pod in found:
        other = taken.get((pod.namespace, pod.name)) or uids.get(pod.uid)
        if other is not None:
            raise ManifestError.at(
                f"the pod {pod.namespace}/{pod.name} (uid {pod.uid}) is already there, from {other.file}.",
                file=file,
                field="metadata.name",
                next_step="Give every pod a name and a uid of its own.",
            )
        taken[pod.namespace, pod.name] = uids[pod.uid] = pod
        yield pod


def load_pod_catalog() -> tuple[Pod, ...]:
    """The pods of fixtures/pods, by file name."""
    return load_pods(sorted((data_root() / "fixtures" / "pods").glob("*.yaml")))
