"""Mutants as rows of TOML files: those in vm/mutants, and files of a vendor's own.

docs/reference/mutants.md describes the fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, to_builtins

from memqos.catalog.data import data_root
from memqos.errors import ManifestError, UnknownNameError, UsageError
from memqos.model.quantity import Quantity
from memqos.mutants.programs.oci_runtime import ACTS, CHANGES
from memqos.validation import CheckedFile, Parsed

__all__ = [
    "Change",
    "CriFault",
    "Kind",
    "Level",
    "MachineFault",
    "Mutant",
    "OciFault",
    "PlanChange",
    "PlanFault",
    "Write",
    "load_mutants",
    "select_mutants",
]


class Kind(StrEnum):
    """What is wrong: the program, or the condition of the machine."""

    OCI = "OCI runtime"
    CRI = "CRI server"
    ENFORCEMENT = "enforcement"
    SYSTEMD = "systemd"
    FOREIGN = "foreign writer"
    KERNEL = "kernel"


class Level(StrEnum):
    """Where a finding has to be, seen from the container that a claim asks for.

    SIBLING: another container of the pod. REQUEST: the runtime's answer. MACHINE: what pods left behind, and devices.
    """

    CONTAINER = "container"
    SCOPE = "scope"
    SIBLING = "sibling"
    POD = "pod"
    CLASS = "class"
    NODE = "node"
    SANDBOX = "sandbox"
    REQUEST = "request"
    MACHINE = "machine"


_Text = Annotated[str, Meta(min_length=1, description="a string that is not empty")]
_Seconds = Annotated[float, Meta(ge=0, le=60, description="0 to 60 seconds")]


class _Amount(str, Parsed):
    """A number, a quantity or a text, as the text that a control file takes."""

    words = 'a whole number, an amount such as "4Mi" or a text such as "max"'

    @classmethod
    def parse(cls, value: object) -> _Amount:
        """Quantities become bytes; TypeError for what is neither text nor a whole number."""
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise TypeError(value)
        text = str(value)
        sign, digits = (text[0], text[1:]) if text[:1] in {"+", "-"} else ("", text)
        if digits[:1].isdigit() and digits[-1:].isalpha():
            return cls(f"{sign}{Quantity.parse(digits).value}")
        return cls(text)


class Change(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change of a document.

    field: the path of what is changed, such as "memory/limit" or "unified/memory.min"; "unified/cpu.*" is all that
    begins so, "unified/!memory." all that does not, "*" all amounts of memory. to: what `do` takes: a value, bytes,
    bits, percent, or another field ("@memory/limit"). when: only for such a value: "< 4Mi", "= -1", "= @memory/limit",
    "odd" (not a whole MiB), "odd pages" (an odd number of pages of 4 KiB).
    """

    do: str
    field: _Text
    to: _Amount | None = None
    when: str = ""

    def __post_init__(self) -> None:
        if self.do not in CHANGES:
            raise ValueError(f"'do' must be one of {', '.join(CHANGES)}, not '{self.do[:40]}'.")

    def document(self) -> dict[str, Any]:
        """As the programs read it."""
        operator, _, value = self.when.partition(" ") if self.when != "odd pages" else ("", "", "")
        when = f"{operator} {_Amount.parse(value)}" if value else self.when
        to: object = self.to if self.to is None else str(self.to)
        if isinstance(to, str) and to.lstrip("-").isdecimal():
            to = int(to)
        return {"do": self.do, "field": self.field, **({} if to is None else {"to": to}), "when": when}


class Write(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A control file that is written. text: with a sign it is added to the amount that is there."""

    file: _Text
    text: _Amount
    at: Literal["container", "scope", "siblings", "pod", "class", "node"] = "container"


class Only(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a fault takes effect. container, update: the number of the container in its pod, of the update, from 1.

    again: only after another container of the pod was deleted. entered: only after an exec in the container. requires:
    only where a request has these fields.
    """

    container: int | None = None
    update: int | None = None
    again: bool = False
    entered: bool = False
    requires: tuple[str, ...] = ()


_Verb = Literal["create", "start", "update", "exec", "kill", "delete", "state", "events"]


class OciFault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an OCI runtime does wrong; see `memqos.mutants.programs.oci_runtime`, which does it.

    on: in which verbs. change: of linux.resources. process, spec: of config.json's process, and of all of it. answer:
    of what `state` and `events --stats` print. write, acts, unit: done to the cgroup afterwards; unit properties, with
    `quietly` so that the files do not show it yet. late: seconds until that. loop: for how many seconds it is repeated.
    skip: succeeds without doing anything. fail: fails before or after it. restores: puts config.json back. parent: in
    another parent cgroup. options: only updates without a document. sandbox: those of sandboxes, not containers.
    program: another program that stands in the runtime's place; its MEMQOS_RUNTIME is the real one.
    """

    on: Annotated[tuple[_Verb, ...], Meta(min_length=1, description="a list of verbs that is not empty")]
    only: Only = Only()
    change: tuple[Change, ...] = ()
    process: tuple[Change, ...] = ()
    spec: tuple[Change, ...] = ()
    answer: tuple[Change, ...] = ()
    write: tuple[Write, ...] = ()
    acts: tuple[str, ...] = ()
    unit: tuple[_Text, ...] = ()
    quietly: bool = False
    late: _Seconds = 0
    loop: _Seconds = 0
    skip: bool = False
    fail: Literal["", "before", "after"] = ""
    restores: bool = False
    parent: bool = False
    options: bool = False
    sandbox: bool = False
    program: str = ""

    def __post_init__(self) -> None:
        for act in self.acts:
            if act not in ACTS:
                raise ValueError(f"'acts' must be of {', '.join(ACTS)}, not '{act[:40]}'.")

    def document(self) -> dict[str, Any]:
        """As the program in the machine reads it."""
        written: dict[str, Any] = to_builtins(self, enc_hook=str)
        for name in ("change", "process", "spec", "answer"):
            written[name] = [one.document() for one in getattr(self, name)]
        written["only"] = {name: value for name, value in written["only"].items() if value}
        return {name: value for name, value in written.items() if value}


class CriFault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a CRI server does wrong with one method, by its name in CRI's RuntimeService.

    request, reply: changes of the message, as JSON with CRI's own field names. skip: answers without passing it on.
    fail: with an error, before or after it did it. of: answers for another container, or as at its first answer.
    number: only the call of this number, from 1, 0 for all.
    """

    method: _Text
    request: tuple[Change, ...] = ()
    reply: tuple[Change, ...] = ()
    skip: bool = False
    fail: Literal["", "before", "after"] = ""
    of: Literal["", "another container", "its first answer"] = ""
    number: int = 0


class PlanChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A planned value that is written otherwise. to: as of `do`; `do` = "move" writes it at that level instead."""

    level: Literal["node", "class", "pod", "container"]
    file: _Text
    do: Literal["drop", "set", "add", "percent", "move"]
    to: _Amount = _Amount()


class PlanFault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is wrong with what carries out a plan.

    kubelet: by the rules of another kubelet of the catalogue. factor: with this memoryThrottlingFactor. without: sums
    above containers without these. change: of planned values. stale: what the kubelet before it wrote stays.
    renamed: cgroups of QoS classes have other names. pods: of the catalogue, on which it shows. kubelets:
    under which it is tried; of several each takes over from the one before.
    """

    kubelet: str = ""
    factor: str = ""
    without: tuple[Literal["init containers", "sidecars", "overhead", "second containers", "last pods"], ...] = ()
    change: tuple[PlanChange, ...] = ()
    stale: bool = False
    renamed: bool = False
    pods: tuple[_Text, ...] = ("guaranteed-one", "burstable", "best-effort")
    kubelets: Annotated[tuple[_Text, ...], Meta(min_length=1, description="a list of kubelets")] = ("v1.36-tiered",)


class MachineFault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is done to the machine while the cases run. $POD, $CLASS, $NODE and $ROOT are folders of cgroups there.

    before, after: shell commands at the beginning and the end. loop: one that is repeated five times a second between.
    """

    before: str = ""
    loop: str = ""
    after: str = ""


class Mutant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One system that is wrong on purpose.

    name: that of its table; file: where it was read. wrong: the sentence that says how. knobs: what findings may name:
    files, or what a claim calls its other knobs. level: where these are, one or several. claims: those that are tried,
    in this order; empty for all that can notice it. runtimes: patterns of runtimes' names on which it can be tried,
    empty for all of its kind. driver: "" for both. fake: whether the fakes have what it needs. own_pod: whether it
    needs a pod that it starts itself. equivalent: why nothing can notice it; "" if something can.
    """

    name: str
    file: str
    kind: Kind
    wrong: _Text
    level: Level | tuple[Level, ...] = Level.CONTAINER
    knobs: tuple[_Text, ...] = ()
    claims: tuple[_Text, ...] = ()
    runtimes: tuple[_Text, ...] = ()
    driver: Literal["", "systemd", "cgroupfs"] = ""
    fake: bool = True
    own_pod: bool = False
    equivalent: str = ""
    oci: OciFault | None = None
    cri: CriFault | None = None
    plan: PlanFault | None = None
    machine: MachineFault | None = None

    @property
    def levels(self) -> tuple[Level, ...]:
        """Where findings have to be."""
        return (self.level,) if isinstance(self.level, Level) else self.level


_FAULT_OF = {
    Kind.OCI: ("oci",),
    Kind.CRI: ("cri",),
    Kind.ENFORCEMENT: ("plan",),
    Kind.SYSTEMD: ("oci", "machine"),
    Kind.FOREIGN: ("oci", "machine"),
    Kind.KERNEL: ("machine",),
}
"""The tables that say what a mutant of a kind does: one of them."""


def load_mutants(given: Sequence[Path] = (), *, shipped: bool = True) -> list[Mutant]:
    """The mutants of these files and folders after memqos's own. shipped: whether those are wanted.

    Raises UsageError for what cannot be read and for a folder without TOML files, ManifestError with file and line for
    a row that does not fit, and for two of the same name.
    """
    own = [data_root() / "vm" / "mutants"] if shipped else []
    mutants: dict[str, Mutant] = {}
    for file in _files([*own, *given]):
        for one in _of_file(file):
            if one.name in mutants:
                raise ManifestError.at(
                    f"there is another mutant '{one.name}' in {mutants[one.name].file}.", file=str(file), field=one.name
                )
            mutants[one.name] = one
    return list(mutants.values())


def _files(given: Iterable[Path]) -> Iterator[Path]:
    for one in given:
        if not one.is_dir():
            yield one
            continue
        files = sorted(one.glob("*.toml"))
        if not files:
            raise UsageError(f"'{one}' has no TOML files.", where="--mutants", next_step="Name a file or a folder.")
        yield from files


def _of_file(path: Path) -> Iterator[Mutant]:
    file = CheckedFile.toml(path, what="the list of mutants")
    for name in file.document:
        more = {"name": name, "file": str(path)}
        mutant = file.checked((name,), Mutant, field=name, more=more)
        tables = [table for table in ("oci", "cri", "plan", "machine") if getattr(mutant, table) is not None]
        if not mutant.equivalent or tables:
            wanted = _FAULT_OF[mutant.kind]
            if len(tables) != 1 or tables[0] not in wanted:
                what = f"a mutant of kind '{mutant.kind}' has exactly one table: {' or '.join(wanted)}."
                raise file.error(what, (name,), field=name)
        if not (mutant.knobs or mutant.equivalent):
            raise file.error("missing required field 'knobs': what a claim has to name.", (name,), field=name)
        if mutant.oci is not None and mutant.oci.program and not (path.parent / mutant.oci.program).is_file():
            raise file.error(f"there is no file '{mutant.oci.program}' beside it.", (name, "oci"), field=name)
        yield mutant


def select_mutants(mutants: Sequence[Mutant], expression: str) -> list[Mutant]:
    """Those whose name contains the words of an expression; "" selects all. UnknownNameError if it selects none."""
    words = expression.split(" or ")
    found = [one for one in mutants if any(word.strip() in one.name for word in words)]
    if not found:
        raise UnknownNameError.of("mutant", expression, [one.name for one in mutants], where="-k")
    return found
