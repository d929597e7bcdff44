"""Pods from files and folders, each once, and the catalogue of pods that suites use."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from memqos.catalog.cluster_objects import ClusterObject, gathered
from memqos.catalog.data import data_root
from memqos.catalog.manifest_objects import OtherKind, other_kinds
from memqos.catalog.manifests import Manifest, PassedOver, manifests_in
from memqos.catalog.workloads import KINDS, Identity, Replicas, made_name
from memqos.catalog.yaml_nodes import MAX_BYTES
from memqos.errors import ManifestError, UnknownNameError, UsageError
from memqos.model.cluster import NO_OBJECTS, ClusterObjects
from memqos.model.pod import Pod

__all__ = ["Manifests", "distinct", "load_manifests", "load_pod_catalog", "load_pods", "load_stored_pods", "read_text"]

_KEEPS_NAMES = (None, "StatefulSet")
"""The controller that names the pods; None for pods with their own manifest."""


def distinct(manifests: Iterable[Manifest]) -> tuple[Pod, ...]:
    """The pods of these manifests, in their order; ManifestError for an object, or a pod's name or uid, given twice.

    The owner of another given object (metadata.ownerReferences) makes no further pods: an API server lists a Deployment
    together with its ReplicaSets and pods. If an invented name is taken, the kind becomes part of it.
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
    """Possible names of an invented pod."""
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


STDIN = "-"
_SUFFIXES = (".json", ".yaml", ".yml")
_MOST_NAMED = 12
_AS_WRITTEN = Replicas()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """The content of files: the pods, and the workloads without pods.

    cluster: the objects for admission; pods that the API server has not stored yet have them in their `submission`.
    others: the skipped kinds of objects that make no pods, with their effect. skipped: files in folders with a
    manifest's suffix that are not readable files, each with the reason, such as a dangling link.
    """

    pods: tuple[Pod, ...]
    idle: tuple[Identity, ...]
    cluster: ClusterObjects = NO_OBJECTS
    others: tuple[OtherKind, ...] = field(default=())
    skipped: tuple[str, ...] = ()


def read_text(path: str | Path, what: str = "a manifest", most: int = MAX_BYTES) -> bytes:
    """A file's bytes, standard input's for "-"; at most one more than `most`, which the caller then refuses.

    what: what the file should be, for the error. Raises UsageError for a file that cannot be read, and for a device.
    """
    with _opened(path, what) as file:
        if str(path) != STDIN and _is_device(file):
            step = f"Give the path of {what}, or - for standard input."
            raise UsageError(f"the file '{path}' is a device.", next_step=step)
        return file.read(most + 1)


def _is_device(file: BinaryIO) -> bool:
    """Whether an open file is a device other than a terminal: /dev/zero has no end and no text."""
    mode = os.fstat(file.fileno()).st_mode
    return (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)) and not file.isatty()


@contextlib.contextmanager
def _opened(path: str | Path, what: str) -> Iterator[BinaryIO]:
    try:
        if str(path) == STDIN:
            yield sys.stdin.buffer
            return
        with Path(path).open("rb") as file:
            yield file
    except OSError as error:
        raise _unreadable(path, error, what) from None


def _unreadable(path: str | Path, error: OSError, what: str) -> UsageError:
    return UsageError(
        f"the file '{path}' cannot be read: {(error.strerror or str(error)).lower()}.",
        next_step=f"Give the path of {what}, or - for standard input.",
    )


def load_pods(paths: str | Path | Iterable[str | Path]) -> tuple[Pod, ...]:
    """The pods of one or several files, as in `load_manifests`."""
    return load_manifests(paths).pods


def load_stored_pods(paths: Iterable[str | Path]) -> tuple[Pod, ...]:
    """The same pods as stored by an API server, with the priority and overhead in their manifests."""
    return tuple(replace(pod, submission=None) for pod in load_pods(paths))


def load_manifests(
    paths: str | Path | Iterable[str | Path],
    *,
    replicas: Replicas = _AS_WRITTEN,
    recursive: bool = False,
    namespace: str = "",
    recommendations: bool = False,
    cluster: ClusterObjects = NO_OBJECTS,
) -> Manifests:
    """The pods of one or several files and folders, in the order given; a file may hold all objects of a cluster.

    In a folder, the files that kubectl reads (.json, .yaml, .yml) are read by name; recursive: those in folders below
    it too. replicas: the planned pods of a workload, if not the number in its manifest. namespace: for objects without
    one, as kubectl's --namespace. recommendations: whether to apply a VerticalPodAutoscaler's recommendation to new
    pods. cluster: objects for admission from other files, for files without any.

    Raises UsageError for an unreadable file, a folder without such a file, and input without pods; UnknownNameError for
    replicas of an unknown workload; ManifestError for objects that Kubernetes would refuse, and for an object given
    twice.
    """
    found: list[Manifest] = []
    objects: list[ClusterObject] = []
    passed_over: Counter[tuple[str, str]] = Counter()
    skipped: list[str] = []
    given = [paths] if isinstance(paths, str | Path) else paths
    for one in _read_all(_files(given, skipped, recursive=recursive), replicas, namespace=namespace):
        if isinstance(one, PassedOver):
            passed_over[one.kind, one.version] += 1
        elif isinstance(one, ClusterObject):
            objects.append(one)
        else:
            found.append(one)
    if not found:
        named = {kind for kind, _ in passed_over} | {one.identity.kind for one in objects}
        kinds = ", ".join(sorted(filter(None, named))[:_MOST_NAMED])
        raise UsageError(
            "the input has no pod and no object that makes pods" + (f": {kinds}." if kinds else "."),
            next_step=f"Give a Pod, {', '.join(KINDS)}, or a List of them.",
        )
    _check_named(replicas, found)
    idle = tuple(one.identity for one in found if not one.pods)
    cluster = gathered(objects, recommendations=recommendations) if objects else cluster
    return Manifests(
        pods=_submitted(distinct(found), cluster),
        idle=idle,
        cluster=cluster,
        others=tuple(other_kinds(passed_over)),
        skipped=tuple(skipped),
    )


def _submitted(pods: tuple[Pod, ...], cluster: ClusterObjects) -> tuple[Pod, ...]:
    """The pods, new ones with the objects for their admission."""
    if cluster == NO_OBJECTS:
        return pods
    return tuple(
        pod if pod.submission is None else replace(pod, submission=replace(pod.submission, cluster=cluster))
        for pod in pods
    )


def _of_all(refused: Sequence[ManifestError]) -> ManifestError:
    """The first error about files in folders, which names the others too."""
    first, *others = refused
    if others:
        more = ", ".join(error.where.partition(": ")[0] for error in others[:_MOST_NAMED])
        rest = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        first.next_step = f"{first.next_step} Refused too: {more}{rest}.".lstrip()
    return first


def _files(paths: Iterable[str | Path], skipped: list[str], *, recursive: bool) -> Iterator[tuple[str | Path, bool]]:
    """Files, and whether they were named, which must be manifests. Adds unreadable ones of folders to `skipped`."""
    for path in paths:
        # pathlib's is_dir raises for a folder without permission; opening reports that better.
        if str(path) == STDIN or not os.path.isdir(path):  # noqa: PTH112
            yield path, True
        else:
            yield from ((file, False) for file in _in_folder(Path(path), skipped, recursive=recursive))


def _in_folder(folder: Path, skipped: list[str], *, recursive: bool) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise _unreadable(error.filename, error, "a folder of manifests") from None

    empty = True
    for place, below, names in os.walk(folder, onerror=refuse):
        if recursive:
            links = [name for name in sorted(below) if Path(place, name).is_symlink()]
            skipped += [f"{Path(place, name)} (a link to a folder)" for name in links]
        below[:] = sorted(below) if recursive else ()
        for name in sorted(names):
            path = Path(place, name)
            if path.suffix not in _SUFFIXES:
                continue
            if why := _no_file(path):
                skipped.append(f"{path} ({why})")
            else:
                empty = False
                yield path
    if empty:
        more = f"; skipped: {', '.join(skipped[:_MOST_NAMED])}" if skipped else ""
        suffixes = f"{', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}"
        raise UsageError(
            f"the folder '{folder}' has no file whose name ends in {suffixes}{more}.",
            next_step="" if recursive else "-R reads the folders below it too.",
        )


def _no_file(path: Path) -> str:
    """Why a path in a folder is not read: a dangling link, a pipe; "" for a plain file."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return f"a dangling link: {why}" if path.is_symlink() else why
    return "" if stat.S_ISREG(mode) else "a pipe" if stat.S_ISFIFO(mode) else "not a regular file"


def _read_all(
    files: Iterable[tuple[str | Path, bool]], replicas: Replicas, *, namespace: str
) -> Iterator[Manifest | ClusterObject | PassedOver]:
    """The objects of all files, each with whether it is strict; then one ManifestError for the refused of folders."""
    refused: list[ManifestError] = []
    for path, strict in files:
        try:
            yield from _read(path, replicas, strict=strict, namespace=namespace)
        except ManifestError as error:
            if strict:
                raise
            refused.append(error)
    if refused:
        raise _of_all(refused)


def _read(
    path: str | Path, replicas: Replicas, *, strict: bool, namespace: str
) -> Iterator[Manifest | ClusterObject | PassedOver]:
    name = "standard input" if str(path) == STDIN else str(path)
    empty = strict
    with _opened(path, "a manifest") as file:
        for one in manifests_in(file, name, replicas, strict=strict, namespace=namespace):
            empty = False
            yield one
    if empty:
        raise ManifestError.at("it contains no object.", file=name, next_step="Give a v1 Pod manifest.")


def _check_named(replicas: Replicas, found: Iterable[Manifest]) -> None:
    known = {(one.identity.namespace, one.identity.name) for one in found if _scales(one)}
    for namespace, name in replicas.named:
        if (namespace, name) not in known:
            listed = sorted("/".join(one) for one in known)
            raise UnknownNameError.of("workload with replicas", f"{namespace}/{name}", listed, where="--replicas")


def _scales(one: Manifest) -> bool:
    return one.identity.kind in KINDS and KINDS[one.identity.kind].scales


def load_pod_catalog() -> tuple[Pod, ...]:
    """The pods of fixtures/pods, by file name."""
    return load_stored_pods(sorted((data_root() / "fixtures" / "pods").glob("*.yaml")))
