"""Programs beside kubelet and runtime that write cgroup files, or kill by them: which ones a recording shows.

The list is vm/foreign-writers.toml, each entry with its source. A program is named only if the recording shows it: by a
pod of its own, by an annotation of the pod in question, by a control file or a cgroup that only it has.
"""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from memqos.catalog.data import data_root
from memqos.catalog.recorded_trees import RecordedTree
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.plan import Level, Remark
from memqos.model.pod import Pod
from memqos.model.reading import NoFile

__all__ = ["FOREIGN_WRITER", "ForeignWriter", "foreign_writers", "killers", "with_writers"]

FOREIGN_WRITER = "not the kubelet's value"
"""What evidence of a program beside kubelet and runtime is called in a finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignWriter:
    """One program of the list; see the head of vm/foreign-writers.toml for its fields."""

    name: str
    source: str
    pods: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    cgroups: tuple[str, ...] = ()
    writes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
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


@cache
def foreign_writers() -> tuple[ForeignWriter, ...]:
    """The programs of the list."""
    document = tomllib.loads((data_root() / "vm" / "foreign-writers.toml").read_text(encoding="utf-8"))
    return tuple(
        ForeignWriter(
            name=one["name"],
            source=one["source"],
            writes={level: tuple(names) for level, names in one.get("writes", {}).items()},
            kills=one.get("kills", ""),
            **{name: tuple(one.get(name, ())) for name in ("pods", "marks", "files", "cgroups")},
        )
        for one in document["writer"]
    )


def with_writers(findings: Iterable[Finding], tree: RecordedTree, pods: Iterable[Pod]) -> Iterator[Finding]:
    """The findings; one that deviates names the programs that are known to write its file and are on the node.

    It still deviates: a recording does not contain the writer of a value.
    """
    given = tuple(pods)
    signs = {one.name: one.sign(tree, given) for one in foreign_writers() if one.writes}
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
    level = about.level.value if about.level in {Level.CONTAINER, Level.POD} else "qos"
    own = next((pod for pod in pods if about.pod == f"{pod.namespace}/{pod.name}"), None)
    for one in foreign_writers():
        if finding.knob in one.writes.get(level, ()):
            sign = signs.get(one.name, "") or ("" if own is None else one.mark(own))
            if sign:
                yield one.name, sign


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
