"""The given pods in a recorded tree, and the other pods there.

Also the programs other than kubelet and runtime that write cgroup files, or kill by them, as far as a recording shows
them.

The list is vm/foreign-writers.toml, each entry with its source. A program is named only if the recording shows it: by
its pod, by an annotation of the pod in question, or by an interface file or a cgroup that only it has.
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from memqos.catalog.data import data_root
from memqos.catalog.recorded_trees import RecordedContainer, RecordedTree
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.plan import Level, Remark
from memqos.errors import ManifestError
from memqos.model.pod import ContainerState, Pod
from memqos.model.reading import NoFile
from memqos.validation import CheckedFile

__all__ = ["Recognised", "foreign_writers", "killers", "named_by_status", "recognise", "with_writers"]

_CONFIG_HASH = 32
_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]{5}"
_LONGEST_PREFIX = 58
_ENDINGS = {
    "Deployment": f"[a-z0-9]{{1,10}}-{_RANDOM}",
    "ReplicaSet": _RANDOM,
    "ReplicationController": _RANDOM,
    "DaemonSet": _RANDOM,
    "Job": f"(?:[0-9]+-)?{_RANDOM}",
    "CronJob": f"[0-9]+-(?:[0-9]+-)?{_RANDOM}",
}
"""The suffix that controllers append to names, after a hyphen. Source: `SimpleNameGenerator` of the API server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """Pods with their names and uids in the tree.

    present: pods with a container or sandbox in the tree; absent: the others. ids: for the verdict.
    strangers: names of running pods in the tree that were not given. ambiguous: names of several pods in the tree, none
    of which is a given one by its uid.
    """

    present: tuple[Pod, ...]
    absent: tuple[Pod, ...]
    ids: Mapping[tuple[str, str], str]
    strangers: tuple[str, ...]
    ambiguous: frozenset[str] = frozenset()


def named_by_status(tree: RecordedTree, pods: Iterable[Pod], here: Container[str]) -> RecordedTree:
    """The tree; if it names no container, with those that the status of these pods names and that have a cgroup.

    A sosreport without `crictl inspect` has only their cgroups, which are named by uids and ids. here: the uids of all
    pods with a cgroup in the tree.
    """
    if tree.containers:
        return tree
    ids = {part.removesuffix(".scope").rpartition("-")[2] for path in tree.reading.cgroups for part in path.parts}
    own = [pod for pod in pods if pod.uid in here]
    containers = [
        RecordedContainer(id=one.id, pod=pod.name, name=one.name, uid=pod.uid)
        for pod in own
        for one in (pod.status.containers.values() if pod.status is not None else ())
        if one.id and one.id in ids and one.state is ContainerState.RUNNING
    ]
    sandboxes = {**{pod.uid: pod.name for pod in own}, **tree.sandboxes}
    return replace(tree, containers=tuple(containers), sandboxes=sandboxes)


def recognise(pods: Iterable[Pod], tree: RecordedTree, *, static: bool = False) -> Recognised:
    """Find the pods in the tree: by uid, else by name, else by the kubelet's form of the name.

    A pod that a kubelet reads from a file has the name `<name>-<node name>`, with a hash of its configuration as uid:
    such a pod is static, whatever its manifest says. A pod from a controller's template has a name that the controller
    could have made. static: whether all pods are static. Pods of the same name in two namespaces are distinguished only
    by uid. Raises ManifestError for a container that the tree has twice.
    """
    given = tuple(pods)
    uids = _uids_by_name(tree, {pod.uid for pod in given})
    suffix = _suffix(given, uids)
    taken = {pod.uid: pod.uid if pod.uid in tree.sandboxes else _taken(pod, suffix, uids) for pod in given}
    # Real names first: the remaining ones were made by controllers.
    taken |= {pod.uid: _made(pod, uids) for pod in given if _is_made(pod)}
    present, absent = [], []
    for pod in given:
        uid = taken[pod.uid]
        if uid is None:
            absent.append(replace(pod, static=static or pod.static))
            continue
        name = tree.sandboxes[uid]
        from_file = name != pod.name and len(uid) == _CONFIG_HASH and pod.controller is None
        present.append(replace(pod, name=name, uid=uid, static=static or pod.static or from_file))
    known = {pod.uid for pod in present}
    return Recognised(
        present=tuple(present),
        absent=tuple(absent),
        ids=_ids(tree),
        strangers=tuple(sorted(name for uid, name in tree.sandboxes.items() if uid not in known)),
        ambiguous=frozenset(name for name, several in uids.items() if len(several) > 1),
    )


def _uids_by_name(tree: RecordedTree, given: Container[str]) -> dict[str, list[str]]:
    """The uids without a given pod. For a name of several pods, those that still have a cgroup, if any."""
    found: dict[str, list[str]] = {}
    for uid, name in tree.sandboxes.items():
        if uid not in given:
            found.setdefault(name, []).append(uid)
    for name, uids in found.items():
        if len(uids) > 1:
            found[name] = [uid for uid in uids if _has_cgroup(tree, uid, uid.replace("-", "_"))] or uids
    return found


def _has_cgroup(tree: RecordedTree, *ids: str) -> bool:
    return any(one in part for path in tree.reading.cgroups for part in path.parts for one in ids)


def _taken(pod: Pod, suffix: str, uids: dict[str, list[str]]) -> str | None:
    """Take the uid of the only pod with this name in the tree; None for no pod or several."""
    for name in () if _is_made(pod) else (pod.name, pod.name + suffix):
        if len(uids.get(name, ())) == 1:
            return uids.pop(name)[0]
    return None


def _is_made(pod: Pod) -> bool:
    """Whether only the pod's controller decides its real name."""
    return pod.controller is not None and pod.controller.kind in _ENDINGS


def _made(pod: Pod, uids: dict[str, list[str]]) -> str | None:
    """Take the uid of the next pod whose name this pod's controller would have made; None if none is left."""
    if pod.controller is None:
        return None
    prefix = re.escape(f"{pod.controller.name}-"[:_LONGEST_PREFIX])
    form = re.compile(prefix + _ENDINGS[pod.controller.kind])
    name = min((name for name, own in uids.items() if len(own) == 1 and form.fullmatch(name)), default=None)
    return None if name is None else uids.pop(name)[0]


def _ids(tree: RecordedTree) -> dict[tuple[str, str], str]:
    """The ids of containers; for a restarted container the id with a cgroup, if several that with processes."""
    found: dict[tuple[str, str], str] = {}
    for one in tree.containers:
        other = found.get((one.uid, one.name))
        if other is not None and (not _has_cgroup(tree, one.id) or _is_empty(tree, one.id)):
            continue
        if other is not None and _has_cgroup(tree, other) and not _is_empty(tree, other):
            what = f"container {one.name} of pod {one.pod} has a cgroup as {other[:80]} already."
            step = "A container runs once: leave out the one that has ended."
            raise ManifestError.at(what, file=tree.source, field=f"containers.{one.id[:80]}", next_step=step)
        found[one.uid, one.name] = one.id
    return found


def _is_empty(tree: RecordedTree, one: str) -> bool:
    """Whether the recording shows that a container's cgroup has no processes: the container has ended."""
    own = [found.files for path, found in tree.reading.cgroups.items() if any(one in part for part in path.parts)]
    return bool(own) and all(
        files.get("cgroup.procs") == "" or str(files.get("cgroup.events")).startswith("populated 0") for files in own
    )


def _suffix(pods: Iterable[Pod], names: Iterable[str]) -> str:
    """The kubelet's suffix of static pods' names ("-n1"): the one that fits most of them; "" for none."""
    fits = Counter(name.removeprefix(pod.name) for pod in pods for name in names if name.startswith(f"{pod.name}-"))
    return min(fits, key=lambda ending: (-fits[ending], len(ending), ending), default="")


FOREIGN_WRITER = "not the kubelet's value"
"""The key in a finding's evidence for a program other than kubelet and runtime."""


_Text = Annotated[str, Meta(min_length=1, description="a string that is not empty")]


class WrittenFiles(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The interface files that a program writes, by the level of their cgroup; qos: above pods."""

    qos: tuple[_Text, ...] = ()
    pod: tuple[_Text, ...] = ()
    container: tuple[_Text, ...] = ()

    def at(self, level: Level) -> tuple[str, ...]:
        """The files of a level."""
        return {Level.CONTAINER: self.container, Level.POD: self.pod}.get(level, self.qos)


class ForeignWriter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One program of the list; see the head of vm/foreign-writers.toml for its fields."""

    name: _Text
    source: _Text
    pods: tuple[_Text, ...] = ()
    marks: tuple[_Text, ...] = ()
    files: tuple[_Text, ...] = ()
    cgroups: tuple[_Text, ...] = ()
    writes: WrittenFiles = WrittenFiles()
    kills: str = ""

    def sign(self, tree: RecordedTree, pods: Iterable[Pod]) -> str:
        """The evidence in the recording that the program is on the node; "" for none."""
        names = {*tree.sandboxes.values(), *(pod.name for pod in pods)}
        pod = next((name for name in sorted(names) if _matches(name, self.pods)), "")
        if pod:
            return f"its pod {pod} is on this node"
        for path, cgroup in tree.reading.cgroups.items():
            if not set(self.cgroups).isdisjoint(path.parts):
                return f"the cgroup {path} is its own"
            own = [name for name in self.files if cgroup.files.get(name, NoFile.NO_FILE) is not NoFile.NO_FILE]
            if own:
                return f"{path} has its file {own[0]}"
        return ""

    def mark(self, pod: Pod) -> str:
        """The annotation of this pod for the program; "" if it has none."""
        name = next((name for name in sorted(pod.annotations) if _matches(name, self.marks)), "")
        return f"the pod has its annotation {name}" if name else ""


class _Writers(Struct, frozen=True, forbid_unknown_fields=True):
    writer: tuple[ForeignWriter, ...]


@cache
def foreign_writers(file: Path | None = None) -> tuple[ForeignWriter, ...]:
    """The programs of the list. file: None is the one shipped with memqos.

    Raises UsageError for an unreadable file, ManifestError for an invalid one.
    """
    path = file or data_root() / "vm" / "foreign-writers.toml"
    return CheckedFile.toml(path, what="the list of foreign writers").checked((), _Writers).writer


def with_writers(findings: Iterable[Finding], tree: RecordedTree, pods: Iterable[Pod]) -> Iterator[Finding]:
    """The findings; a deviation names the programs on the node that are known to write its file.

    It still deviates: a recording does not contain the writer of a value.
    """
    given = tuple(pods)
    signs = {one.name: one.sign(tree, given) for one in foreign_writers()}
    for finding in findings:
        known = dict(_known(finding, signs, given)) if finding.verdict is Verdict.DEVIATES else {}
        if known:
            told = "; ".join(f"{name} is known to write this file: {sign}" for name, sign in known.items())
            finding = replace(  # noqa: PLW2901 - the same finding, with more in it
                finding, set_by=Setter.OTHER, evidence={**finding.evidence, FOREIGN_WRITER: told}
            )
        yield finding


def killers(tree: RecordedTree) -> Iterator[Remark]:
    """The programs on this node that kill processes besides the kernel."""
    for one in foreign_writers():
        sign = one.sign(tree, ()) if one.kills else ""
        if sign:
            yield Remark(one.name, "", f"{one.kills} ({sign})")


def _known(finding: Finding, signs: Mapping[str, str], pods: Iterable[Pod]) -> Iterator[tuple[str, str]]:
    about = finding.subject
    own = next((pod for pod in pods if about.pod == f"{pod.namespace}/{pod.name}"), None)
    for one in foreign_writers():
        if finding.knob in one.writes.at(about.level):
            sign = signs.get(one.name, "") or ("" if own is None else one.mark(own))
            if sign:
                yield one.name, sign


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
