"""Mutants as rows of TOML files: those in vm/mutants and a vendor's own.

docs/reference/mutants.md describes the fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, to_builtins

from memqos.catalog.data import data_root
from memqos.errors import ManifestError, UnknownNameError, UsageError
from memqos.model.knob import Knob
from memqos.model.quantity import Quantity, QuantityError
from memqos.mutants.programs.oci_runtime import ACTS, CHANGES, WORDS
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
    """The kind of fault: a program, the plan, or the condition of the machine."""

    OCI = "OCI runtime"
    CRI = "CRI server"
    ENFORCEMENT = "enforcement"
    SYSTEMD = "systemd"
    FOREIGN = "foreign writer"
    KERNEL = "kernel"


class Level(StrEnum):
    """The place of a finding, relative to the claim's container.

    SIBLING: another container of the pod. REQUEST: the runtime's answer. MACHINE: leftovers of pods, and devices.
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
    """A number, a quantity or a string, as the text for an interface file."""

    words = 'a whole number, an amount such as "4Mi" or a text such as "max"'

    @classmethod
    def parse(cls, value: object) -> _Amount:
        """Convert quantities to bytes; TypeError for anything but a string or a whole number."""
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise TypeError(value)
        text = str(value)
        sign, digits = (text[0], text[1:]) if text[:1] in {"+", "-"} else ("", text)
        if digits[:1].isdigit() and digits[-1:].isalpha():
            return cls(f"{sign}{Quantity.parse(digits).value}")
        return cls(text)


_OF_NUMBERS = frozenset({"add", "round", "cap", "floor", "bits", "percent"})
_WITH_VALUES = frozenset({"set", "give", "copy", "exchange", "move"})


def _check_argument(do: str, to: _Amount | None) -> None:
    """Raises ValueError if a change lacks its `to`, or has one that it cannot compute with."""
    text = "" if to is None else str(to)
    if do in _OF_NUMBERS and not text.removeprefix("-").isdecimal():
        raise ValueError(f"'to' of '{do}' must be a whole number or an amount, not '{text[:40]}'.")
    if do == "round" and int(text) <= 0:
        raise ValueError("'to' of 'round' must be above 0.")
    if do in _WITH_VALUES and to is None:
        raise ValueError(f"'{do}' needs 'to'.")


_ORDERS = ("<", ">", "<=", ">=")
_EQUALITIES = ("=", "!=")


def _check_condition(when: str) -> None:
    """Raises ValueError for a condition that no value can meet because of its form."""
    operator, _, value = when.partition(" ")
    if not when or when in WORDS or (operator in _EQUALITIES and value.strip()):
        return
    if operator in _ORDERS:
        try:
            text = str(_Amount.parse(value)) if value else ""
        except QuantityError as error:
            raise ValueError(f"'when': {error}.") from None
        if text.startswith("@") or text.removeprefix("-").isdecimal():
            return
    known = ", ".join(f"'{word}'" for word in WORDS)
    forms = f"{', '.join((*_ORDERS, *_EQUALITIES))}, a space and an amount or @field, or {known}"
    raise ValueError(f"'when' must be one of {forms}, not '{when[:40]}'.")


class Change(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change of a document.

    field: the changed path, such as "memory/limit" or "unified/memory.min"; "unified/cpu.*" means all names with this
    prefix, "unified/!memory." all names without it, "*" all amounts of memory. to: the argument of `do`: a value,
    bytes, bits, percent, or another field ("@memory/limit"). when: only for such a value: "< 4Mi", "= -1", "=
    @memory/limit", "odd" (not a whole MiB), "odd pages" (an odd number of pages of 4 KiB).
    """

    do: str
    field: _Text
    to: _Amount | None = None
    when: str = ""

    def __post_init__(self) -> None:
        if self.do not in CHANGES:
            raise ValueError(f"'do' must be one of {', '.join(CHANGES)}, not '{self.do[:40]}'.")
        _check_argument(self.do, self.to)
        _check_condition(self.when)

    def document(self) -> dict[str, Any]:
        """As JSON for the programs."""
        operator, _, value = self.when.partition(" ") if self.when != "odd pages" else ("", "", "")
        when = f"{operator} {_Amount.parse(value)}" if value else self.when
        to: object = self.to if self.to is None else str(self.to)
        if isinstance(to, str) and to.lstrip("-").isdecimal():
            to = int(to)
        return {"do": self.do, "field": self.field, **({} if to is None else {"to": to}), "when": when}


class Write(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A write to an interface file. text: with a sign it is added to the current amount."""

    file: _Text
    text: _Amount
    at: Literal["container", "scope", "siblings", "pod", "class", "node"] = "container"


class Only(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The condition of a fault. container, update: only this container of a pod, only this update, counted from 1.

    again: only after another container of the pod was deleted. entered: only after an exec in the container. uses, age:
    only an update of a container that uses more than these bytes, or was created so many seconds ago. requires: only if
    a request has these fields.
    """

    container: Annotated[int, Meta(ge=1, description="a number from 1")] | None = None
    update: Annotated[int, Meta(ge=1, description="a number from 1")] | None = None
    again: bool = False
    entered: bool = False
    uses: _Amount | None = None
    age: _Seconds = 0
    requires: tuple[str, ...] = ()


_Verb = Literal["create", "start", "update", "exec", "kill", "delete", "state", "events"]


class OciFault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault of an OCI runtime, which `memqos.mutants.programs.oci_runtime` applies.

    on: the verbs. change: changes of linux.resources. process, spec: changes of config.json's process, and of the whole
    file. answer: changes of the output of `state` and `events --stats`. write, acts, unit: applied to the cgroup
    afterwards; `unit` sets unit properties, with `quietly` without a visible change of files. late: seconds of delay.
    loop: seconds during which it repeats. skip: succeed without any effect. fail: fail before or after the call.
    restores: restore config.json. parent: use another parent cgroup. options: only updates without a document. sandbox:
    sandboxes instead of containers. of: an update reaches the container that was created last in the pod. program: a
    program that replaces the runtime; MEMQOS_RUNTIME is the real one's path.
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
    of: Literal["", "the last container"] = ""
    program: str = ""

    def __post_init__(self) -> None:
        for act in self.acts:
            if act not in ACTS:
                raise ValueError(f"'acts' must be of {', '.join(ACTS)}, not '{act[:40]}'.")

    def document(self) -> dict[str, Any]:
        """As JSON for the program in the machine."""
        written: dict[str, Any] = to_builtins(self, enc_hook=str)
        for name in ("change", "process", "spec", "answer"):
            written[name] = [one.document() for one in getattr(self, name)]
        written["only"] = {name: value for name, value in written["only"].items() if value}
        return {name: value for name, value in written.items() if value}

    @property
    def is_wrong(self) -> bool:
        """Whether it has a fault at all; a wrong `events` reports no events."""
        changes = self.change or self.process or self.spec or self.answer or self.write
        done = (
            self.acts or self.unit or self.skip or self.fail or self.restores or self.parent or self.program or self.of
        )
        return bool(changes or done) or "events" in self.on


_METHODS = (
    "RunPodSandbox",
    "UpdatePodSandboxResources",
    "PodSandboxStatus",
    "PodSandboxStats",
    "ListPodSandboxStats",
    "StopPodSandbox",
    "RemovePodSandbox",
    "CreateContainer",
    "StartContainer",
    "UpdateContainerResources",
    "ContainerStatus",
    "ContainerStats",
    "ListContainerStats",
    "ListContainers",
    "ListPodSandbox",
    "ExecSync",
    "StopContainer",
    "RemoveContainer",
    "RuntimeConfig",
    "Status",
    "Version",
)
"""The methods of CRI's RuntimeService that memqos calls."""


class CriFault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault of a CRI server in one method of CRI's RuntimeService.

    request, reply: changes of the message, as JSON with CRI's own field names. skip: answer without calling the server.
    fail: answer with an error, before or after the call. of: answer for another container, or repeat the first answer.
    number: only this call, counted from 1; 0 for all.
    """

    method: _Text
    request: tuple[Change, ...] = ()
    reply: tuple[Change, ...] = ()
    skip: bool = False
    fail: Literal["", "before", "after"] = ""
    of: Literal["", "another container", "its first answer"] = ""
    number: int = 0

    def __post_init__(self) -> None:
        if self.method not in _METHODS:
            raise ValueError(f"'method' must be one of {', '.join(_METHODS)}, not '{self.method[:40]}'.")

    @property
    def is_wrong(self) -> bool:
        """Whether it has a fault at all."""
        return bool(self.request or self.reply or self.skip or self.fail or self.of)


_MOST_WEIGHT = 10000
_LEVELS = ("node", "class", "pod", "container")


class PlanChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of a planned value. to: the argument of `do`; `do` = "move" writes the value at that level instead."""

    level: Literal["node", "class", "pod", "container"]
    file: _Text
    do: Literal["drop", "set", "add", "percent", "move"]
    to: _Amount | None = None

    def __post_init__(self) -> None:
        if self.file not in list(Knob):
            raise ValueError(f"'file' must be an interface file that a kubelet writes, not '{self.file[:40]}'.")
        _check_argument(self.do, self.to)
        if self.do == "move" and self.to not in _LEVELS:
            raise ValueError(f"'to' of 'move' must be one of {', '.join(_LEVELS)}, not '{str(self.to)[:40]}'.")
        if self.do == "set":
            Knob(self.file).parse(str(self.to))
        if self.do == "set" and self.file == Knob.CPU_WEIGHT and not 1 <= int(str(self.to)) <= _MOST_WEIGHT:
            raise ValueError(f"'to' of cpu.weight must be 1 to {_MOST_WEIGHT}, not '{str(self.to)[:40]}'.")


class PlanFault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault of the kubelet or its stand-in.

    kubelet: use the rules of another kubelet of the catalogue. factor: use this memoryThrottlingFactor. without: leave
    these out of the sums above containers. change: change planned values. stale: keep the previous kubelet's values.
    renamed: rename the cgroups of QoS classes. pods: the catalogue's pods on which it shows. kubelets: the kubelets to
    try, each taking over from the one before.
    """

    kubelet: str = ""
    factor: str = ""
    without: tuple[Literal["init containers", "sidecars", "overhead", "second containers", "last pods"], ...] = ()
    change: tuple[PlanChange, ...] = ()
    stale: bool = False
    renamed: bool = False
    pods: tuple[_Text, ...] = ("guaranteed-one", "burstable", "best-effort")
    kubelets: Annotated[tuple[_Text, ...], Meta(min_length=1, description="a list of kubelets")] = ("v1.36-tiered",)

    @property
    def is_wrong(self) -> bool:
        """Whether it has a fault at all."""
        return bool(self.kubelet or self.factor or self.without or self.change or self.stale or self.renamed)

    def __post_init__(self) -> None:
        try:
            wrong = bool(self.factor) and not 0 < Fraction(self.factor) <= 1
        except (ValueError, ZeroDivisionError):
            wrong = True
        if wrong:
            raise ValueError(f"'factor' must be a number above 0 and at most 1, not '{self.factor[:40]}'.")


class MachineFault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault of the machine while the cases run. $POD, $CLASS, $NODE and $ROOT are cgroup folders.

    before, after: shell commands at the start and the end. loop: a command that repeats five times a second in between.
    """

    before: str = ""
    loop: str = ""
    after: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether it has a fault at all."""
        return bool(self.before or self.loop)


class Mutant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One system with a deliberate fault.

    name: the name of its table; file: the file that contains it. wrong: a sentence that describes the fault. knobs: the
    files or other knobs that findings may name. level: their levels. claims: the claims to try, in this order; empty
    for all that can notice it. runtimes: patterns of runtime names, empty for all of its kind. driver: "" for both.
    fake: whether the fakes can imitate it. own_pod: whether the row asks for a new pod. equivalent: why no claim can
    notice it; "" for a mutant that must be noticed.
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
        """The required levels of findings."""
        return (self.level,) if isinstance(self.level, Level) else self.level

    @property
    def needs_new_pod(self) -> bool:
        """Whether it shows only in a pod made under it: so the row says, or it changes a sandbox's request."""
        return self.own_pod or (self.cri is not None and self.cri.method == "RunPodSandbox" and bool(self.cri.request))


_FAULT_OF = {
    Kind.OCI: ("oci",),
    Kind.CRI: ("cri",),
    Kind.ENFORCEMENT: ("plan",),
    Kind.SYSTEMD: ("oci", "machine"),
    Kind.FOREIGN: ("oci", "machine"),
    Kind.KERNEL: ("machine",),
}
"""By kind, the tables of which a mutant has exactly one."""


def load_mutants(given: Sequence[Path] = (), *, shipped: bool = True) -> list[Mutant]:
    """The mutants of memqos itself, then those of these files and folders. shipped: whether to include the former.

    Raises UsageError for an unreadable file and for a folder without TOML files, ManifestError with file and line for
    an invalid row and for a duplicate name.
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
        for table in tables:
            if not getattr(mutant, table).is_wrong:
                raise file.error(f"'{table}' has no fault: nothing is done otherwise.", (name, table), field=name)
        if not (mutant.knobs or mutant.equivalent):
            raise file.error("missing required field 'knobs': the files that a claim must name.", (name,), field=name)
        if mutant.oci is not None and mutant.oci.program and not (path.parent / mutant.oci.program).is_file():
            raise file.error(f"there is no file '{mutant.oci.program}' in its folder.", (name, "oci"), field=name)
        yield mutant


def select_mutants(mutants: Sequence[Mutant], expression: str) -> list[Mutant]:
    """The mutants whose names match an expression; "" selects all. UnknownNameError if none matches."""
    words = expression.split(" or ")
    found = [one for one in mutants if any(word.strip() in one.name for word in words)]
    if not found:
        raise UnknownNameError.of("mutant", expression, [one.name for one in mutants], where="-k")
    return found
