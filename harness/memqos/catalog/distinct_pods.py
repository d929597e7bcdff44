"""The pods of many manifests, each once: under a name and a uid of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

from memqos.catalog.manifests import Manifest
from memqos.catalog.object_names import Identity
from memqos.catalog.workloads import made_name
from memqos.errors import ManifestError
from memqos.model.pod import Pod

__all__ = ["distinct"]

_KEEPS_NAMES = (None, "StatefulSet")
"""What gives pods the names that they really have; None is a manifest of their own."""


def distinct(manifests: Iterable[Manifest]) -> tuple[Pod, ...]:
    """The pods of these manifests, in their order; ManifestError for an object, or a pod's name or uid, given twice.

    An object that controls another given one (metadata.ownerReferences) makes no further pods: an API server that
    lists a Deployment lists its ReplicaSets and pods too. Where a made-up name is taken, the kind becomes part of it.
    """
    given = tuple(manifests)
    controlling = {one.owner for one in given if one.owner is not None}
    seen: dict[Identity, Manifest] = {}
    for one in given:
        if one.identity.kind != "Pod" and one.identity in seen:
            raise _twice(str(one.identity), one.file, seen[one.identity].file)
        seen[one.identity] = one
    return tuple(_named([pod for one in given if one.identity not in controlling for pod in one.pods]))


def _named(pods: list[Pod]) -> Iterator[Pod]:
    taken: dict[tuple[str, str], Pod] = {}
    uids: dict[str, Pod] = {}
    for pod in filter(_has_its_name, pods):
        other = taken.get((pod.namespace, pod.name)) or uids.get(pod.uid)
        if other is not None:
            raise _twice(f"pod {pod.namespace}/{pod.name} (uid {pod.uid})", pod.file, other.file)
        taken[pod.namespace, pod.name] = uids[pod.uid] = pod
    for pod in pods:
        if not _has_its_name(pod):
            name = next(name for name in _names(pod) if (pod.namespace, name) not in taken)
            pod = taken[pod.namespace, name] = replace(pod, name=name)  # noqa: PLW2901 - the same pod, named
        yield pod


def _has_its_name(pod: Pod) -> bool:
    return (pod.controller and pod.controller.kind) in _KEEPS_NAMES


def _names(pod: Pod) -> Iterator[str]:
    """Names that a made pod may get."""
    yield pod.name
    name, _, number = pod.name.rpartition("-")
    kind = pod.controller.kind.lower() if pod.controller else "pod"
    yield made_name(name, f"-{kind}-{number}")
    for more in itertools.count(2):
        yield made_name(name, f"-{kind}-{number}-{more}")


def _twice(what: str, file: str, other: str) -> ManifestError:
    return ManifestError.at(
        f"the {what} is already defined in {other}.",
        file=file,
        field="metadata.name",
        next_step="Give every object a name of its own, and every pod a uid.",
    )
