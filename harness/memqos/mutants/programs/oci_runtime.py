#!/usr/bin/python3 -IS
"""A wrong OCI runtime: applies a fault from a document and calls the real runtime, NAME.dist in the same folder.

It runs in machines as a single file with the standard library alone, so its two subjects, faults and command line, stay
in one module of over 500 lines. memqos.mutants.fakes applies the same faults to the fake runtime.
docs/reference/mutants.md describes the fields of a fault.

ALWAYS is the fault of a copy with a fixed fault. Otherwise FOLDER/pods/NAME has the fault for containers in the pod
cgroup NAME, and FOLDER/pods/any the fault for all others. Without either file the real runtime runs at once.
FOLDER/containers/ID keeps the state of a wrong container between calls.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

FOLDER = "/run/memqos-mutants"
VERBS = ("create", "start", "update", "exec", "kill", "delete", "state", "events")
ID_LENGTH = 64
LOOP_SECONDS = 0.2
AMOUNTS = ("limit", "swap", "reservation")
KNOWN_KEYS = ("memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max", "memory.oom.group")

Fault = dict[str, Any]
Document = dict[str, Any]

ALWAYS: Fault = {}

# ---- changes of documents


def changed(document: Document, changes: list[Document]) -> None:
    """Apply these changes to a document in place."""
    for change in changes:
        creates = change["do"] in {"give", "copy"}
        for section, key in places(document, change["field"], create=creates):
            value = section.get(key)
            if value is None and not creates:
                continue
            if meets(document, value, change.get("when", "")):
                CHANGES[change["do"]](document, section, key, change.get("to"))


def places(document: Document, field: str, *, create: bool = False) -> list[tuple[Document, str]]:
    """Each (section, key) that a field matches: "memory/limit", "unified/cpu.*", "*" for all amounts of memory.

    create: whether missing sections are created; else a field in a missing section matches nothing.
    """
    if field == "*":
        return [(inner, key) for name in ("memory", "unified") for inner, key in _amounts(document.get(name) or {})]
    head, _, last = field.rpartition("/")
    sections = [document]
    for name in head.split("/") if head else []:
        inner = [one.setdefault(name, {}) if create else one.get(name) for one in sections]
        lists = [one if isinstance(one, list) else [one] for one in inner]
        sections = [one for several in lists for one in several if isinstance(one, dict)]
    return [(section, key) for section in sections for key in _keys(section, last)]


def _keys(section: Document, last: str) -> list[str]:
    """The keys of a section that the last part of a field names."""
    if last.startswith("!"):
        return [key for key in section if not key.startswith(last[1:])]
    return [key for key in section if key.startswith(last[:-1])] if last.endswith("*") else [last]


def value_of(document: Document, field: str) -> object:
    """The value of one field; None for a missing one."""
    return next((section.get(key) for section, key in places(document, field)), None)


def _amounts(section: Document) -> Iterator[tuple[Document, str]]:
    for key, value in list(section.items()):
        if key in AMOUNTS or (isinstance(value, str) and value.isdecimal() and key.startswith("memory.")):
            yield section, key


def meets(document: Document, value: object, condition: str) -> bool:
    """Whether a value meets a condition: "< 4194304", "= -1", "!= @memory/limit", "odd"; every value meets ""."""
    number = as_number(value)
    if condition in WORDS:
        return number is not None and number > 0 and WORDS[condition](number)
    operator, _, text = condition.partition(" ")
    if text.startswith("@"):
        other = as_number(value_of(document, text[1:]))
        if other is not None and other < 0 and operator not in {"=", "!="}:
            other = None  # -1 means no limit and cannot be compared
    else:
        other = as_number(text)
        if other is None:
            same = str(value) == text
            return not condition or (operator == "=" and same) or (operator == "!=" and not same)
    if number is None or other is None:
        return False
    return {
        "<": number < other,
        ">": number > other,
        "<=": number <= other,
        ">=": number >= other,
        "=": number == other,
        "!=": number != other,
    }[operator]


WORDS: dict[str, Callable[[int], bool]] = {
    "odd": lambda number: number % (1 << 20) != 0,
    "odd pages": lambda number: number // 4096 % 2 == 1,
    "unknown": lambda _: False,
}
"""Conditions that are words, for amounts above zero."""


def as_number(value: object) -> int | None:
    """The number in a number or string; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    text = str(value)
    return int(text) if text.lstrip("-").isdecimal() else None


def _computed(compute: Callable[[int, int], int]) -> Callable[[Document, Document, str, Any], None]:
    """A change for amounts >= 0; a string stays a string."""

    def change(_: Document, section: Document, key: str, to: Any) -> None:
        number = as_number(section[key])
        if number is not None and number >= 0:
            result = compute(number, int(to))
            section[key] = str(result) if isinstance(section[key], str) else result

    return change


def _drop(_: Document, section: Document, key: str, __: Any) -> None:
    section.pop(key, None)


def _set(document: Document, section: Document, key: str, to: Any) -> None:
    if isinstance(to, str) and to.startswith("@"):
        to = value_of(document, to[1:])
    if to is not None:
        # The values of unified, whose keys are file names, are strings.
        section[key] = str(to) if isinstance(section.get(key), str) or "." in key else to


def _give(document: Document, section: Document, key: str, to: Any) -> None:
    if section.get(key) is None:
        _set(document, section, key, to)


def _copy(document: Document, section: Document, key: str, to: Any) -> None:
    """Give a field the value of another one, as a text."""
    number = as_number(value_of(document, to))
    if number is not None and number > 0:
        section.setdefault(key, str(number))


def _exchange(document: Document, section: Document, key: str, to: Any) -> None:
    [(inner, name)] = places(document, to, create=True)
    mine, other = section.pop(key, None), inner.pop(name, None)
    if mine is not None:
        inner[name] = mine
    if other is not None:
        section[key] = other


def _first(_: Document, section: Document, key: str, __: Any) -> None:
    """The first of a list of CPUs or NUMA nodes: "0" of "0-1" and of "0,1"."""
    section[key] = str(section[key]).partition(",")[0].partition("-")[0]


def _last(_: Document, section: Document, key: str, __: Any) -> None:
    section[key] = str(section[key]).rpartition(",")[2].rpartition("-")[2]


def _other(_: Document, section: Document, key: str, __: Any) -> None:
    """CPU or NUMA node 1 for 0, and 0 for 1."""
    section[key] = {"0": "1", "1": "0"}.get(section[key], section[key])


def _tolerate(_: Document, section: Document, key: str, __: Any) -> None:
    """Drop unknown keys, and values that are not amounts."""
    if key not in KNOWN_KEYS or not (section[key] == "max" or section[key].isdecimal()):
        del section[key]


CHANGES: dict[str, Callable[[Document, Document, str, Any], None]] = {
    "drop": _drop,
    "set": _set,
    "give": _give,
    "copy": _copy,
    "exchange": _exchange,
    "first": _first,
    "last": _last,
    "other": _other,
    "tolerate": _tolerate,
    "add": _computed(lambda number, to: max(0, number + to)),
    "round": _computed(lambda number, to: number // to * to),
    "cap": _computed(min),
    "floor": _computed(max),
    "bits": _computed(lambda number, to: number & ((1 << to) - 1)),
    "percent": _computed(lambda number, to: number * to // 100 // 4096 * 4096),
}
"""The operations of a change."""


class Counts:
    """The history of a container.

    number: in its pod, from 1. updates: including the current one. again: whether another container of its pod was
    deleted before its creation. entered: whether it had an exec.
    """

    def __init__(self, *, number: int = 1, updates: int = 0, again: bool = False, entered: bool = False) -> None:
        self.number, self.updates, self.again, self.entered = number, updates, again, entered


def applies(fault: Fault, verb: str, counts: Counts, document: Document) -> bool:
    """Whether a fault takes effect in this call. document: linux.resources of a create or update, else empty."""
    if verb not in fault.get("on", ()):
        return False
    only = fault.get("only", {})
    if "container" in only and counts.number != only["container"]:
        return False
    if "update" in only and verb == "update" and counts.updates != only["update"]:
        return False
    if (only.get("again") and not counts.again) or (only.get("entered") and not counts.entered):
        return False
    return all(_has(document, field) for field in only.get("requires", ()))


def _has(document: Document, field: str) -> bool:
    return any(section.get(key) is not None for section, key in places(document, field))


# ---- faults in cgroups; memqos.mutants.fakes has the same methods


class Folder:
    """A cgroup as a folder. entered: the file with the process id of an exec."""

    def __init__(self, path: str, entered: str = "") -> None:
        self.path, self.entered = path, entered

    @property
    def scope(self) -> Folder:
        """The cgroup below the pod's: the container's own, or the scope around it."""
        parent, name = os.path.split(self.path)
        return Folder(parent) if name == "container" else self

    def at(self, level: str) -> Iterator[Folder]:
        """The cgroups of a level, relative to this container."""
        pod = Folder(os.path.dirname(self.scope.path))
        if level == "container":
            yield self
        elif level == "scope":
            yield self.scope
        elif level == "siblings":
            for one in os.scandir(pod.path):
                if one.is_dir() and one.path != self.scope.path:
                    own = f"{one.path}/container"
                    yield Folder(own if os.path.isdir(own) else one.path)
        else:
            above = {"pod": 0, "class": 1, "node": 2}[level]
            path = pod.path
            for _ in range(above):
                path = os.path.dirname(path)
            yield Folder(path)

    def write(self, name: str, text: str) -> None:
        """Write an interface file; text that begins with + is added to the current amount."""
        file = f"{self.path}/{name}"
        if text.startswith(("+", "-")):
            held = read(file).strip()
            if not held.isdecimal():
                return
            text = str(int(held) + int(text))
        put(file, text)


def write_all(fault: Fault, cgroup: Any) -> None:
    """Do the fault's writes."""
    for one in fault.get("write", ()):
        for place in cgroup.at(one.get("at", "container")):
            place.write(one["file"], str(one["text"]))


def act(fault: Fault, cgroup: Folder) -> None:
    """Apply the fault to a cgroup, now or after its delay."""
    write_all(fault, cgroup)
    for name in fault.get("acts", ()):
        ACTS[name](cgroup)
    for assignment in fault.get("unit", ()):
        _set_property(cgroup.scope, assignment, quietly=bool(fault.get("quietly")))


def later(fault: Fault, cgroup: Folder) -> None:
    """Apply the fault in a process that outlives the call: once after a delay, or repeatedly for some seconds."""
    if os.fork():
        return
    os.setsid()
    os.closerange(0, 256)
    try:
        time.sleep(float(fault.get("late", 0)))
        end = time.monotonic() + float(fault.get("loop", 0))
        while True:
            act(fault, cgroup)
            if time.monotonic() >= end:
                break
            time.sleep(LOOP_SECONDS)
    except OSError:
        pass
    os._exit(0)


def _set_property(scope: Folder, assignment: str, *, quietly: bool) -> None:
    """Set a property of the scope's unit; quietly: then restore the old values of its files."""
    files = (
        "memory.min",
        "memory.low",
        "memory.high",
        "memory.max",
        "memory.swap.max",
        "cpu.weight",
        "memory.oom.group",
    )
    held = {name: read(f"{scope.path}/{name}") for name in files} if quietly else {}
    os.system(f"systemctl set-property --runtime {os.path.basename(scope.path)} {assignment}")
    for name, text in held.items():
        put(f"{scope.path}/{name}", text)


def _kill(cgroup: Folder) -> None:
    put(f"{cgroup.path}/cgroup.kill", "1")


def _kill_later(cgroup: Folder) -> None:
    """Kill every process but the container's first."""
    for pid in sorted(map(int, read(f"{cgroup.path}/cgroup.procs").split()))[1:]:
        os.kill(pid, 9)


def _make_again(cgroup: Folder) -> None:
    os.makedirs(cgroup.path, exist_ok=True)


def _leave_process(_: Folder) -> None:
    """Start a process with the runtime's name that outlives it."""
    if not os.fork():
        os.setsid()
        os.closerange(0, 256)
        os.execv("/bin/sh", ["sh", "-c", "printf runc > /proc/self/comm; sleep 60; true"])


def _leave_mount(cgroup: Folder) -> None:
    folder = f"/run/left-{os.path.basename(cgroup.scope.path)}"
    os.system(f"mkdir {folder} && mount -t tmpfs left {folder}")


def _move_out(cgroup: Folder) -> None:
    for pid in read(f"{cgroup.path}/cgroup.procs").split():
        put("/sys/fs/cgroup/cgroup.procs", pid)


def _move_entered_out(cgroup: Folder) -> None:
    put("/sys/fs/cgroup/cgroup.procs", read(cgroup.entered))


def _move_entered_up(cgroup: Folder) -> None:
    """Move the exec to a new child cgroup of the pod's, outside the container's limits."""
    folder = f"{os.path.dirname(cgroup.scope.path)}/entered"
    os.makedirs(folder, exist_ok=True)
    put(f"{folder}/cgroup.procs", read(cgroup.entered))


def _drop_page_cache(cgroup: Folder) -> None:
    """Reclaim page cache alone; the kernel reports an error once it finds no more."""
    try:  # noqa: SIM105 - contextlib takes time to import
        put(f"{cgroup.path}/memory.reclaim", "16M swappiness=0")
    except OSError:
        pass


def _score_entered(by: int | None) -> Callable[[Folder], None]:
    """Change the oom_score_adj of an exec by this much, or set it to 100."""

    def score(cgroup: Folder) -> None:
        file = f"/proc/{read(cgroup.entered).strip()}/oom_score_adj"
        put(file, str(100 if by is None else int(read(file)) + by))

    return score


def _score_first(cgroup: Folder) -> None:
    """Raise the oom_score_adj of the container's processes by one."""
    for pid in read(f"{cgroup.path}/cgroup.procs").split():
        file = f"/proc/{pid}/oom_score_adj"
        put(file, str(int(read(file)) + 1))


ACTS: dict[str, Callable[[Folder], None]] = {
    "kill": _kill,
    "kill all but the first process": _kill_later,
    "drop the page cache": _drop_page_cache,
    "leave the cgroup": _make_again,
    "leave a process": _leave_process,
    "leave a mount": _leave_mount,
    "move processes out": _move_out,
    "move the exec out": _move_entered_out,
    "move the exec up": _move_entered_up,
    "score the exec": _score_entered(None),
    "score the exec one higher": _score_entered(1),
    "score the container one higher": _score_first,
}
"""The further actions of a fault (`acts`)."""

# ---- the program; it imports little, since imports take noticeable time under emulation


def read(path: str) -> str:
    """A file's text."""
    with open(path) as file:
        return file.read()


def put(path: str, text: str) -> None:
    """Write a file."""
    with open(path, "w") as file:
        file.write(text)


def json() -> Any:
    """The module, imported on first use."""
    import json as module

    return module


class Call:
    """One call of the runtime: the words before the verb, the verb, and the container's id."""

    def __init__(self, words: list[str]) -> None:
        self.real, self.words = sys.argv[0] + ".dist", words
        place = next((place for place, word in enumerate(words) if word in VERBS), len(words))
        self.before, self.verb = words[:place], (words[place:] or [""])[0]
        self.name = next((word for word in words[place:] if len(word) == ID_LENGTH), "")

    def option(self, name: str) -> str:
        """The value of an option, "" for none."""
        return self.words[self.words.index(name) + 1] if name in self.words else ""

    def hand_over(self) -> int:
        """Replace this process by the real runtime."""
        os.execv(self.real, [self.real, *self.words])

    def replaced(self, program: str) -> int:
        """Replace this process by another program, with the real runtime's path in MEMQOS_RUNTIME."""
        os.execve(program, [program, *self.words], {**os.environ, "MEMQOS_RUNTIME": self.real})

    def done(self, stdin: str | None = None) -> int:
        """Run the real runtime; its exit code."""
        if stdin is None:
            return self._run(self.words, [])
        reading, writing = os.pipe()
        with os.fdopen(writing, "w") as asked:
            asked.write(stdin)
        return self._run(self.words, [(os.POSIX_SPAWN_DUP2, reading, 0)])

    def answer(self, words: list[str]) -> Any:
        """The document that the real runtime prints for these words."""
        reading, writing = os.pipe()
        self._run(words, [(os.POSIX_SPAWN_DUP2, writing, 1)])
        os.close(writing)
        with os.fdopen(reading) as answer:
            return json().loads(answer.read() or "{}")

    def _run(self, words: list[str], redirections: list[tuple[Any, ...]]) -> int:
        pid = os.posix_spawn(self.real, [self.real, *words], os.environ, file_actions=redirections)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Known:
    """The state of a wrong container, kept between calls."""

    def __init__(self, name: str) -> None:
        self.file = f"{FOLDER}/containers/{name}"
        self.facts: Document = json().loads(read(self.file)) if os.path.exists(self.file) else {}

    @property
    def fault(self) -> Fault:
        """Its fault; empty for a right container."""
        return self.facts.get("fault") or {}

    @property
    def counts(self) -> Counts:
        """Its history."""
        facts = self.facts
        entered = facts.get("entered", False)
        return Counts(number=facts["number"], updates=facts["updates"], again=facts["again"], entered=entered)

    def keep(self, **facts: Any) -> None:
        """Keep these facts too."""
        self.facts.update(facts)
        os.makedirs(os.path.dirname(self.file), exist_ok=True)
        put(self.file, json().dumps(self.facts))


def pod_of(cgroups_path: str) -> str:
    """The name of the cgroup in which a container is made: "kubepods-pod1.slice" of "kubepods-pod1.slice:runc:ID"."""
    return cgroups_path.partition(":")[0] if ":" in cgroups_path else os.path.basename(os.path.dirname(cgroups_path))


def is_sandbox(spec: Document) -> bool:
    """Whether this specification is of a sandbox, by its annotations."""
    annotations = spec.get("annotations") or {}
    names = ("io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType")
    return "sandbox" in [annotations.get(name) for name in names]


def counted(pod: str, what: str, more: int = 1) -> int:
    """Count an event of a pod; the count including this event."""
    os.makedirs(FOLDER, exist_ok=True)
    file = f"{FOLDER}/{what}-{pod}"
    count = more + (int(read(file)) if os.path.exists(file) else 0)
    put(file, str(count))
    return count


def create(call: Call) -> int:
    """`create`: the container gets the pod's current fault and keeps it."""
    config = call.option("--bundle") + "/config.json"
    before = read(config)
    spec = json().loads(before)
    pod = pod_of(spec["linux"].get("cgroupsPath", ""))
    files = [file for file in (f"{FOLDER}/pods/{pod}", f"{FOLDER}/pods/any") if os.path.exists(file)]
    if not (files or ALWAYS):
        call.hand_over()
    fault = json().loads(read(files[0])) if files else ALWAYS
    if is_sandbox(spec) != bool(fault.get("sandbox")):
        call.hand_over()
    known = Known(call.name)
    known.keep(fault=fault, pod=pod, number=counted(pod, "containers"), updates=0, again=counted(pod, "deletes", 0) > 0)
    known.keep(at=time.monotonic())
    put(f"{FOLDER}/last-{pod}", call.name)
    if fault.get("program"):
        return call.replaced(fault["program"])
    resources = spec["linux"].setdefault("resources", {})
    if not applies(fault, "create", known.counts, resources):
        return call.done()
    if fault.get("fail") == "before":
        return failed(fault)
    changed(resources, fault.get("change", []))
    changed(spec["process"], fault.get("process", []))
    changed(spec, fault.get("spec", []))
    if fault.get("parent"):
        given = spec["linux"].get("cgroupsPath", "")
        spec["linux"]["cgroupsPath"] = (
            "system.slice" + given[given.index(":") :] if ":" in given else "/elsewhere" + given
        )
    put(config, json().dumps(spec))
    status = call.done()
    if fault.get("restores"):
        put(config, before)
    return failed(fault) if not status and fault.get("fail") == "after" else status


def failed(fault: Fault) -> int:
    """Print the fault's error."""
    sys.stderr.write(f"{fault.get('words', 'it did not work')}\n")
    return 1


def update(call: Call, known: Known) -> int:
    """`update`, from a document on standard input or from options."""
    known.keep(updates=known.facts["updates"] + 1)
    source = call.option("--resources")
    text = "" if not source else sys.stdin.read() if source == "-" else read(source)
    resources = json().loads(text) if text else {}
    fault = known.fault
    right = (fault.get("options") and source) or not meets_state(call, known)
    if right or not applies(fault, "update", known.counts, resources):
        return call.done(text if source == "-" else None)
    if fault.get("of"):
        last = read(f"{FOLDER}/last-{known.facts['pod']}")
        call.words = [last if word == call.name else word for word in call.words]
    if fault.get("skip"):
        return 0
    if fault.get("fail") == "before":
        return failed(fault)
    if source:
        changed(resources, fault.get("change", []))
        call.words[call.words.index("--resources") + 1] = "-"
        text = json().dumps(resources)
    status = call.done(text if source else None)
    return after(call, known, status)


def meets_state(call: Call, known: Known) -> bool:
    """Whether a container has run for as long, and uses as much memory, as the fault requires."""
    only = known.fault.get("only", {})
    if time.monotonic() - known.facts["at"] < float(only.get("age", 0)):
        return False
    cgroup = cgroup_of(call, known) if "uses" in only else None
    return cgroup is None or int(read(f"{cgroup.path}/memory.current")) > int(only["uses"])


def cgroup_of(call: Call, known: Known) -> Folder | None:
    """The container's cgroup, from its state or from the last known path."""
    state = call.answer([*call.before, "state", call.name]) if call.verb != "delete" else {}
    if state.get("pid"):
        own = read(f"/proc/{state['pid']}/cgroup").strip().rpartition("::")[2]
        known.keep(path=f"/sys/fs/cgroup{own}")
    path = known.facts.get("path")
    return Folder(path, call.option("--pid-file")) if path else None


def after(call: Call, known: Known, status: int) -> int:
    """Apply the fault after the real runtime."""
    fault = known.fault
    if status:
        return status
    if any(fault.get(name) for name in ("write", "acts", "unit")):
        cgroup = cgroup_of(call, known)
        if cgroup is not None:
            (later if fault.get("late") or fault.get("loop") else act)(fault, cgroup)
    return failed(fault) if fault.get("fail") == "after" else 0


def answered(call: Call, fault: Fault) -> int:
    """`state` or `events` with another answer."""
    if call.verb == "events" and "--stats" not in call.words:
        os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
        call.hand_over()
    document = call.answer(call.words)
    changed(document, fault.get("answer", []))
    sys.stdout.write(json().dumps(document))
    return 0


def delete(call: Call, known: Known) -> int:
    """`delete`; also removes the container's kept state."""
    status = call.done()
    if applies(known.fault, "delete", known.counts, {}):
        status = after(call, known, status)
    if os.path.exists(known.file):
        os.unlink(known.file)
        counted(known.facts["pod"], "deletes")
    return status


def others(call: Call, known: Known) -> int:
    """Any other verb."""
    fault = known.fault
    if call.verb == "exec":
        known.keep(entered=True)
    if not applies(fault, call.verb, known.counts, {}):
        if call.verb != "start" or not {"delete", "kill"} & set(fault.get("on", ())):
            return call.hand_over()
        # A stopped or deleted container no longer reports its cgroup.
        status = call.done()
        cgroup_of(call, known)
        return status
    if fault.get("skip") or fault.get("fail") == "before":
        return 0 if fault.get("skip") else failed(fault)
    if call.verb == "events" or fault.get("answer"):
        return answered(call, fault)
    return after(call, known, call.done())


def main() -> int:
    """One call."""
    call = Call(sys.argv[1:])
    if call.verb == "create" and (ALWAYS or os.path.isdir(f"{FOLDER}/pods")):
        return create(call)
    if not call.name or not os.path.exists(f"{FOLDER}/containers/{call.name}"):
        return call.hand_over()
    known = Known(call.name)
    if known.fault.get("program"):
        return call.replaced(known.fault["program"])
    return {"update": update, "delete": delete}.get(call.verb, others)(call, known)


def alone(fault: Fault) -> str:
    """The source of this program with a fixed fault."""
    return read(__file__).replace("ALWAYS: Fault = {}", f"ALWAYS: Fault = {fault!r}", 1)


if __name__ == "__main__":
    sys.exit(main())
