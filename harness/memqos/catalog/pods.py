"""Pods from files, and the catalogue of pods that suites use."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from memqos.catalog.data import data_root
from memqos.catalog.manifests import pods_in
from memqos.catalog.yaml_nodes import MAX_BYTES
from memqos.errors import ManifestError, UsageError
from memqos.model.pod import Pod

__all__ = ["distinct", "load_pod_catalog", "load_pods", "read_text"]

STDIN = "-"


def read_text(path: str | Path, what: str = "a manifest", most: int = MAX_BYTES) -> bytes:
    """A file's bytes, standard input's for "-"; one more than `most` at most, which is then refused.

    what: what the file should be, for the error. Raises UsageError for a file that cannot be read.
    """
    with _opened(path, what) as file:
        return file.read(most + 1)


@contextlib.contextmanager
def _opened(path: str | Path, what: str) -> Iterator[BinaryIO]:
    try:
        if str(path) == STDIN:
            yield sys.stdin.buffer
            return
        with Path(path).open("rb") as file:
            yield file
    except OSError as error:
        raise UsageError(
            f"the file '{path}' cannot be read: {(error.strerror or str(error)).lower()}.",
            next_step=f"Give the path of {what}, or - for standard input.",
        ) from None


def load_pods(paths: Iterable[str | Path]) -> tuple[Pod, ...]:
    """The pods of several files, in the order given; a file may hold all the pods of a cluster.

    Raises UsageError for a file that cannot be read, ManifestError for what Kubernetes would refuse, also when the same
    pod is given twice.
    """
    return tuple(distinct(pod for path in paths for pod in _read(path)))


def _read(path: str | Path) -> Iterator[Pod]:
    with _opened(path, "a manifest") as file:
        yield from pods_in(file, "standard input" if str(path) == STDIN else str(path))


def distinct(pods: Iterable[Pod]) -> Iterator[Pod]:
    """These pods; ManifestError for one whose name, or uid, another one has already."""
    taken: dict[tuple[str, str], Pod] = {}
    uids: dict[str, Pod] = {}
    for pod in pods:
        other = taken.get((pod.namespace, pod.name)) or uids.get(pod.uid)
        if other is not None:
            raise ManifestError.at(
                f"the pod {pod.namespace}/{pod.name} (uid {pod.uid}) is already there, from {other.file}.",
                file=pod.file,
                field="metadata.name",
                next_step="Give every pod a name and a uid of its own.",
            )
        taken[pod.namespace, pod.name] = uids[pod.uid] = pod
        yield pod


def load_pod_catalog() -> tuple[Pod, ...]:
    """The pods of fixtures/pods, by file name."""
    return load_pods(sorted((data_root() / "fixtures" / "pods").glob("*.yaml")))
