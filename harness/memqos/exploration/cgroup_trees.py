"""Trees of cgroups without pods and a runtime, to compare the kernel with the models of protection and throttling.

A tree is a document: nested cgroups with amounts in bytes for memory.min, low, high, max and swap.max (`FILES`), and
leaves that use page cache (`file`) or anonymous memory (`anon`). With a `limit`, the tree's own memory.max is set to it
after all leaves use their memory: reclaim then begins at the tree's root.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from hypothesis import strategies as st

from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.engine.cgroup.effective_protection import Protected, ProtectionKind, effective, settled
from memqos.engine.cgroup.throttle import CHARGE_BATCH, fastest_growth
from memqos.errors import UsageError
from memqos.exploration import Document
from memqos.exploration.amounts import MIB, PAGE, chosen, drawn_bytes, once_in
from memqos.model.knob import Bytes
from memqos.model.path import CgroupPath

__all__ = [
    "FILES",
    "Cgroup",
    "Tolerances",
    "cgroup_trees",
    "cgroups_of",
    "check_tree",
    "tree_findings",
    "why_not_tried",
]

FILES: Mapping[str, str] = {
    "min": "memory.min",
    "low": "memory.low",
    "high": "memory.high",
    "max": "memory.max",
    "swap": "memory.swap.max",
}
"""The interface file of each field."""
_USES = ("file", "anon")
ROOT = CgroupPath.parse("/tree")
_MOST_USE, _MOST_CGROUPS, _MOST_DEPTH = 256 * MIB, 24, 4
_MOST_AMOUNT = 1 << 40
_RATES = (100, 250, 300, 1000)
"""Jiffies a second of kernels: throttling must meet the weakest bound of them."""

_PART = 8
"""Reclaim works in batches, so it may go below the protection by this part of the usage."""
_OWN = 16 * MIB
"""Further bytes that the program in an anonymous leaf may use, besides what CPUs charge ahead."""
_LARGEST_SCALE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerances:
    """What a machine's counts may differ by. page_size: bytes. cpus: those that may charge memory ahead."""

    page_size: int
    cpus: int

    @property
    def stock(self) -> int:
        """Bytes that all CPUs together may have charged ahead."""
        return CHARGE_BATCH * self.page_size * self.cpus

    @property
    def slack(self) -> int:
        """Bytes by which memory.current may differ from the models: the stock, and slabs and page tables."""
        return max(MIB, 2 * self.stock)

    @property
    def scale(self) -> int:
        """The factor of drawn amounts: with larger pages small ones disappear in the slack."""
        return min(self.page_size // PAGE, _LARGEST_SCALE)

    def lost(self, use: int) -> int:
        """Bytes that a cgroup with this usage may lose although the models keep them."""
        return self.slack + use // _PART


@dataclass(frozen=True, slots=True, kw_only=True)
class Cgroup:
    """A cgroup of a tree. files: amounts by field (`FILES`). file, anon: bytes that a leaf uses; 0 for others."""

    path: CgroupPath
    files: Mapping[str, int] = field(default_factory=dict)
    file: int = 0
    anon: int = 0

    @property
    def is_leaf(self) -> bool:
        """Whether a program runs in it."""
        return bool(self.file or self.anon)

    @property
    def use(self) -> int:
        """Bytes that it can use: page cache is reclaimed at memory.high and memory.max."""
        return min([self.file + self.anon, *(self.files[name] for name in ("high", "max") if name in self.files)])

    def document(self) -> Document:
        """The document for the program in the machine."""
        written = {FILES[name]: count for name, count in self.files.items()}
        return {"path": "/".join(self.path.parts[1:]), "files": written, "file": self.file, "anon": self.anon}


def cgroups_of(tree: Document) -> Sequence[Cgroup]:
    """The cgroups of a tree, parents before their children."""
    return list(_below(tree["children"], ROOT))


def _below(children: Sequence[Document], parent: CgroupPath) -> Iterator[Cgroup]:
    for number, one in enumerate(children):
        path = parent.child(f"c{number}")
        files = {name: one[name] for name in FILES if name in one}
        yield Cgroup(path=path, files=files, file=one.get("file", 0), anon=one.get("anon", 0))
        yield from _below(one.get("children", ()), path)


def check_tree(tree: Document) -> None:
    """Raise UsageError for an invalid document."""
    _check(tree, 0)
    found = cgroups_of(tree)
    if len(found) > _MOST_CGROUPS or any(one.file + one.anon > _MOST_USE for one in found):
        raise UsageError(f"a tree has at most {_MOST_CGROUPS} cgroups, with at most {_MOST_USE} bytes each.")


def _check(one: Document, depth: int) -> None:
    uses = [name for name in _USES if name in one]
    amounts = [name for name in one if name in (*FILES, *_USES, "limit")]
    children = one.get("children", [])
    is_root = depth == 0
    if one.keys() - {*amounts, "children"} or ("limit" in one and not is_root):
        raise UsageError("a cgroup of a tree has an unknown field.")
    if any(not isinstance(one[name], int) or not 0 <= one[name] <= _MOST_AMOUNT for name in amounts):
        raise UsageError("an amount of a tree is a number of bytes.")
    if (len(uses) == 1) == bool(children) or depth > _MOST_DEPTH or any(one[name] == 0 for name in uses):
        raise UsageError("a cgroup of a tree has either children or one use.")
    if is_root and (uses or one.keys() & FILES.keys()):
        raise UsageError("the root of a tree has only a limit and children.")
    if children and one.keys() & {"high", "max", "swap"}:
        raise UsageError("only leaves of a tree have memory.high, memory.max and memory.swap.max.")
    for inner in children:
        _check(inner, depth + 1)


def why_not_tried(tree: Document, tolerances: Tolerances) -> str:
    """Why the models do not apply to this tree on this machine; "" if they do.

    With a limit below the protected bytes the kernel breaks protection, or kills; if some memory cannot be reclaimed,
    all other memory is taken first. Amounts within the slack cannot be told apart from none.
    """
    found = cgroups_of(tree)
    if "limit" not in tree:
        return ""
    if any(one.anon for one in found):
        return "anonymous memory below a limit is not modelled"
    if all(one.use <= tolerances.slack for one in found if one.is_leaf):
        return (
            f"its programs use at most {tolerances.slack} bytes each, by which memory.current may be off with pages of "
            f"{tolerances.page_size >> 10} KiB"
        )
    left = settled(_protected(found), root=ROOT, page_size=tolerances.page_size)
    room = sum(left.get(one.path, 0) + tolerances.lost(one.use) for one in found if one.is_leaf)
    return "" if tree["limit"] >= room else "its limit is below the protected bytes"


def _protected(found: Sequence[Cgroup], seen: Mapping[CgroupPath, int] | None = None) -> dict[CgroupPath, Protected]:
    """The cgroups for the model. seen: memory.current of each; None: the bytes that they can use."""
    own = {one.path: one.use for one in found if one.is_leaf}
    return {
        one.path: Protected(
            usage=seen[one.path]
            if seen is not None
            else sum(use for path, use in own.items() if path == one.path or path.below(one.path)),
            min=Bytes(one.files.get("min", 0)),
            low=Bytes(one.files.get("low", 0)),
        )
        for one in found
    }


# ---- observations


def tree_findings(
    tree: Document, said: Mapping[str, Any], *, recursive: bool, tolerances: Tolerances
) -> Sequence[Finding]:
    """The findings about a tree's behaviour that the models cover.

    said: the output of the program in the machine: `before` and `after` the limit was set, memory.current,
    memory.events and memory.swap.current of each cgroup by its path, and `seconds` until then.
    """
    found = cgroups_of(tree)
    judge = _Judgement(said, tolerances)
    for one in found:
        if one.is_leaf:
            _leaf_findings(one, judge)
    if "limit" in tree:
        _pressure_findings(tree, found, judge, recursive=recursive)
    return judge.findings


class _Judgement:
    """Collects findings about a tree."""

    def __init__(self, said: Mapping[str, Any], tolerances: Tolerances) -> None:
        self.seconds = float(said["seconds"])
        self.tolerances = tolerances
        self._said = said
        self.findings: list[Finding] = []

    def number(self, when: str, path: CgroupPath, name: str) -> int:
        """A number in a cgroup's file ("memory.current"), or a counter of its memory.events ("oom_kill")."""
        return int(self._said[when]["/".join(path.parts[1:])].get(name, 0))

    def at_most(self, path: CgroupPath, knob: str, observed: int, most: int) -> None:
        """The observed amount is no more than this."""
        self._add(path, knob, observed, f"at most {most}", holds=observed <= most)

    def at_least(self, path: CgroupPath, knob: str, observed: int, least: int) -> None:
        """The observed amount is no less than this."""
        self._add(path, knob, observed, f"at least {least}", holds=observed >= least)

    def _add(self, path: CgroupPath, knob: str, observed: int, expected: str, *, holds: bool) -> None:
        self.findings.append(
            Finding(
                verdict=Verdict.of(holds),
                subject=Subject.of_machine(f"cgroup {'/'.join(path.parts[1:]) or 'root'} of the tree"),
                cgroup=str(path),
                knob=knob,
                set_by=Setter.KERNEL,
                expected=expected,
                observed=str(observed),
            )
        )


def _leaf_findings(one: Cgroup, judge: _Judgement) -> None:
    """The effect of a leaf's own files on its usage."""
    tolerances, own = judge.tolerances, _OWN + judge.tolerances.stock
    current = judge.number("after", one.path, "memory.current")
    kills = judge.number("after", one.path, "oom_kill")
    high, most, swap = (one.files.get(name) for name in ("high", "max", "swap"))
    if most is not None:
        judge.at_most(one.path, "memory.current above memory.max", current, most)
    if swap is not None:
        judge.at_most(one.path, "memory.swap.current", judge.number("after", one.path, "memory.swap.current"), swap)
    if one.file:
        judge.at_most(one.path, "oom_kill", kills, 0)
        if high is not None:
            allowed = high + tolerances.slack + tolerances.stock
            judge.at_most(one.path, "memory.current above memory.high", current, allowed)
        return
    if high is not None and swap == 0:
        bounds = (
            fastest_growth(0, Bytes(high), seconds=ceil(judge.seconds), hz=hz, page_size=tolerances.page_size).usage
            for hz in _RATES
        )
        judge.at_most(one.path, "growth above memory.high", current, max(bounds) + tolerances.stock)
    elif most is not None and swap is not None and one.anon > most + swap + own:
        judge.at_least(one.path, "oom_kill", kills, 1)
    if most is None or one.anon + own <= most:
        judge.at_most(one.path, "oom_kill", kills, 0)


def _pressure_findings(tree: Document, found: Sequence[Cgroup], judge: _Judgement, *, recursive: bool) -> None:
    """The memory of each leaf after reclaim at the root's limit."""
    tolerances, page_size = judge.tolerances, judge.tolerances.page_size
    before = {one.path: judge.number("before", one.path, "memory.current") for one in found}
    asked = _protected(found, before)
    shelters = effective(asked, root=ROOT, recursive=recursive, page_size=page_size)
    left = settled(asked, root=ROOT, recursive=recursive, page_size=page_size)
    judge.at_most(ROOT, "memory.current above the limit", judge.number("after", ROOT, "memory.current"), tree["limit"])
    judge.at_most(ROOT, "oom_kill", judge.number("after", ROOT, "oom_kill"), 0)
    judge.at_most(ROOT, "low", judge.number("after", ROOT, "low"), 0)
    for one in (one for one in found if one.is_leaf):
        whole = shelters[one.path].protection in {ProtectionKind.HARD, ProtectionKind.SOFT}
        least = before[one.path] - tolerances.slack if whole else left[one.path] - tolerances.lost(before[one.path])
        current = judge.number("after", one.path, "memory.current")
        judge.at_least(one.path, "memory.current under pressure", current, max(least, 0))


# ---- random trees


@st.composite
def cgroup_trees(draw: st.DrawFn, tolerances: Tolerances) -> Document:
    """Trees of up to six leaves at up to three levels: page cache under a limit, or growth at memory.high and max."""
    if once_in(draw, 4):
        return {"children": [_growing(draw) for _ in range(chosen(draw, (1, 2)))]}
    tree: Document = {"children": [_branch(draw, 1, tolerances) for _ in range(chosen(draw, (2, 1, 3)))]}
    found = cgroups_of(tree)
    leaves = [one for one in found if one.is_leaf]
    kept = settled(_protected(found), root=ROOT, page_size=tolerances.page_size)
    least = sum(kept[one.path] + tolerances.lost(one.use) for one in leaves)
    tree["limit"] = least + chosen(draw, (0, 1, 2, 4)) * MIB
    return tree


def _branch(draw: st.DrawFn, depth: int, tolerances: Tolerances) -> Document:
    unit = MIB * tolerances.scale
    count = 0 if depth == 3 or draw(st.booleans()) else chosen(draw, (2, 1))  # noqa: PLR2004 - levels
    if not count:
        use = drawn_bytes(draw, 8 * unit, 32 * unit)
        leaf: Document = {"file": use, **_asked(draw, use, tolerances)}
        if once_in(draw, 5):
            leaf[chosen(draw, ("high", "max"))] = drawn_bytes(draw, 8 * unit, 48 * unit)
        return leaf
    children = [_branch(draw, depth + 1, tolerances) for _ in range(count)]
    return {"children": children, **_asked(draw, 32 * unit, tolerances)}


def _asked(draw: st.DrawFn, use: int, tolerances: Tolerances) -> Document:
    """Protection of a cgroup: none, some quarters of this usage or more than all of it, with small differences."""
    amounts = {}
    for name in ("min", "low"):
        if draw(st.booleans()):
            quarters = draw(st.integers(0, 6))
            page = tolerances.page_size
            amounts[name] = max(0, use * quarters // 4 + chosen(draw, (0, page, -page, 1)))
    return amounts


def _growing(draw: st.DrawFn) -> Document:
    leaf: Document = {"anon": drawn_bytes(draw, 24 * MIB, 48 * MIB), "swap": 0}
    if draw(st.booleans()):
        leaf["high"] = drawn_bytes(draw, 16 * MIB, 40 * MIB)
        return leaf
    leaf["max"] = drawn_bytes(draw, 20 * MIB, 64 * MIB)
    leaf["swap"] = chosen(draw, (0, 4 * MIB, 9 * MIB + PAGE, 64 * MIB))
    return leaf
