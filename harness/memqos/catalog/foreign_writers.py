"""Programs other than kubelet and runtime that write cgroup files, or kill by them: which ones a recording shows.

The list is vm/foreign-writers.toml, each entry with its source. A program is named only if the recording shows it: by a
pod of its own, by an annotation of the pod in question, by a control file or a cgroup that only it has.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from memqos.catalog.data import data_root
from memqos.catalog.recorded_trees import RecordedTree
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.plan import Level, Remark
from memqos.model.pod import Pod
from memqos.model.reading import NoFile
from memqos.validation import CheckedFile

__all__ = ["FOREIGN_WRITER", "ForeignWriter", "foreign_writers", "killers", "with_writers"]

FOREIGN_WRITER = "not the kubelet's value"
"""The key in a finding's evidence for a program other than kubelet and runtime."""


_Text = Annotated[str, Meta(min_length=1, description="a string that is not empty")]


class WrittenFiles(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The control files that a program writes, by the level of their cgroup; qos: above pods."""

    qos: tuple[_Text, ...] = ()
    pod: tuple[_Text, ...] = ()
    container: tuple[_Text, ...] = ()

    def at(self, level: Level) -> tuple[str, ...]:
        """Those of a level."""
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
        """How the recording shows that the program is on the node; "" if it does not."""
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
        """The annotation of this pod that asks the program for something; "" if it has none."""
        name = next((name for name in sorted(pod.annotations) if _matches(name, self.marks)), "")
        return f"the pod has its annotation {name}" if name else ""


class _Writers(Struct, frozen=True, forbid_unknown_fields=True):
    writer: tuple[ForeignWriter, ...]


@cache
def foreign_writers(file: Path | None = None) -> tuple[ForeignWriter, ...]:
    """The programs of the list. file: None is the one that travels with memqos.

    Raises UsageError for a file that cannot be read, ManifestError for one that says something wrong.
    """
    path = file or data_root() / "vm" / "foreign-writers.toml"
    return CheckedFile.toml(path, what="the list of foreign writers").checked((), _Writers).writer


def with_writers(findings: Iterable[Finding], tree: RecordedTree, pods: Iterable[Pod]) -> Iterator[Finding]:
    """The findings; one that deviates names the programs that are known to write its file and are on the node.

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
    """What on this node kills processes besides the kernel."""
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
