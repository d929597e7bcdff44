#!/usr/bin/python3 -IS
"""An OCI runtime that is wrong in one way. It stands where another was, which is beside it as NAME.dist.

Python's own library alone: it runs in machines. The same ways are wrong in memory (in_memory.py).
"""

import os
import sys
import time

CHOSEN = ""
"""The way, where a file was made for it; else it is in /run/wrong, or right where that is not there."""

PAGE = 4096
LONG = 64
"""The length of a container's name."""
VERBS = ("create", "start", "update", "exec", "kill", "delete", "state", "events")


class Way:
    """How a runtime is wrong: what it changes in a request, and what it does afterwards.

    create, update: change linux.resources. process: changes what config.json says of the process. of_sandboxes:
    whether sandboxes are meant, and not containers. restores: config.json is put back. instead: verbs that it says it
    did. refuses: verbs that it calls failed when they are done. after: for a verb what it does to the cgroup then.
    spec: changes anything in config.json. says: changes what `state` says. tells: changes the memory of `events
    --stats`, and keeps other events to itself. ignores_options: says that it did an update that has no document.
    skips: the number of a container's update that it says it did, from 1; 0 for none.
    """

    def __init__(self, *, create=None, update=None, process=None, spec=None, says=None, after=None, **flags):
        self.create, self.update, self.process, self.spec, self.says = create, update, process, spec, says
        self.after = after or {}
        self.tells = flags.pop("tells", None)
        self.ignores_options = flags.pop("ignores_options", False)
        self.skips = flags.pop("skips", 0)
        self.of_sandboxes = flags.pop("of_sandboxes", False)
        self.restores = flags.pop("restores", False)
        self.instead = flags.pop("instead", ())
        self.refuses = flags.pop("refuses", ())
        assert not flags, flags


# ---- changes of requests


def drop(*path):
    """Leave out a field of linux.resources, such as ("memory", "limit")."""

    def change(resources):
        inner = resources
        for name in path[:-1]:
            inner = inner.get(name) or {}
        inner.pop(path[-1], None)

    return change


def set_to(*path, to):
    """Make another value of a field that is there."""

    def change(resources):
        inner = resources
        for name in path[:-1]:
            inner = inner.get(name) or {}
        if path[-1] in inner:
            inner[path[-1]] = to(inner[path[-1]])

    return change


def each(*changes):
    """All of these."""

    def change(resources):
        for one in changes:
            one(resources)

    return change


def a_page_more(value):
    """A page more of an amount, a number or a text."""
    more = int(value) + PAGE if str(value).isdecimal() else value
    return str(more) if isinstance(value, str) else more


def whole_swap(resources):
    """Memory and swap together taken for swap alone: runc takes the memory off again."""
    memory = resources.get("memory") or {}
    if memory.get("swap", 0) > 0:
        memory["swap"] += memory.get("limit") or 0


def in_megabytes(value):
    """An amount without what is no whole megabyte."""
    return value >> 20 << 20


def in_32_bits(resources):
    """Amounts without what is above 4 GiB."""
    memory, unified = resources.get("memory") or {}, resources.get("unified") or {}
    memory.update({name: value & 0xFFFFFFFF for name, value in memory.items() if name != "reservation" and value > 0})
    unified.update({key: str(int(text) & 0xFFFFFFFF) for key, text in unified.items() if text.isdecimal()})


def unified_in_megabytes(resources):
    """Amounts of unified without what is no whole megabyte."""
    unified = resources.get("unified") or {}
    unified.update({key: str(int(text) >> 20 << 20) for key, text in unified.items() if len(text) > 6})


def high_at_the_limit(resources):
    """A memory.high that nobody asked for."""
    limit = (resources.get("memory") or {}).get("limit", 0)
    if limit > 0:
        resources.setdefault("unified", {}).setdefault("memory.high", str(limit))


def little_dropped(resources):
    """A memory.min below 4 MiB left out."""
    unified = resources.get("unified") or {}
    if int(unified.get("memory.min", 4 << 20)) < 4 << 20:
        del unified["memory.min"]


def no_terabytes(resources):
    """Amounts above a tebibyte taken for a tebibyte."""
    memory, unified = resources.get("memory") or {}, resources.get("unified") or {}
    memory.update({name: min(value, 1 << 40) for name, value in memory.items()})
    unified.update({key: str(min(int(text), 1 << 40)) for key, text in unified.items() if text.isdecimal()})


def no_swap_for_unlimited(resources):
    """-1 taken for nothing."""
    memory = resources.get("memory") or {}
    if memory.get("swap", 0) < 0:
        memory["swap"] = memory["limit"]


def any_swap_for_none(resources):
    """A limit of memory and swap that is the memory limit taken for none."""
    memory = resources.get("memory") or {}
    if "swap" in memory and memory["swap"] == memory.get("limit"):
        memory["swap"] = -1


def limits_alone(resources):
    """A memory limit of -1 taken for none that was named."""
    memory = resources.get("memory") or {}
    if memory.get("limit", 0) < 0:
        memory.pop("limit")
        memory.pop("swap", None)


def no_swap_for_unsaid(resources):
    """A memory limit alone taken for one of memory and swap, as CRI runtimes take it."""
    memory = resources.get("memory") or {}
    if "limit" in memory:
        memory.setdefault("swap", memory["limit"])


def low_for_min(resources):
    """memory.low and memory.min the wrong way round."""
    unified = resources.get("unified") or {}
    given = {key: unified.pop(key, None) for key in ("memory.min", "memory.low")}
    swapped = zip(("memory.low", "memory.min"), given.values(), strict=True)
    unified.update({key: value for key, value in swapped if value is not None})


MEMORY_AS_IT_COMES = {"memory.min": "0", "memory.high": "max"}


def limit_over_unified(resources):
    """memory.max of unified left out where there is a limit."""
    if "limit" in (resources.get("memory") or {}):
        drop("unified", "memory.max")(resources)


MEMORY = ("memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max", "memory.oom.group")


def of_memory_alone(resources):
    """Keys of unified for other controllers left out."""
    unified = resources.get("unified") or {}
    for key in [key for key in unified if not key.startswith("memory.")]:
        del unified[key]


def what_it_knows(resources):
    """Keys of unified that it does not know left out, and values that are no numbers."""
    unified = resources.get("unified") or {}
    for key, text in list(unified.items()):
        if key not in MEMORY or not (text == "max" or text.isdecimal()):
            del unified[key]


def swap_that_is_possible(resources):
    """A limit of memory and swap below the memory limit raised to it."""
    memory = resources.get("memory") or {}
    if 0 < memory.get("swap", 0) < memory.get("limit", 0):
        memory["swap"] = memory["limit"]


def other_zone(mems):
    """Zone 1 for zone 0, and the other way round."""
    return {"0": "1", "1": "0"}.get(mems, mems)


def the_first_alone(resources):
    """Lists of CPUs and zones taken for their first ones."""
    cpu = resources.get("cpu") or {}
    cpu.update({name: cpu[name].partition("-")[0] for name in ("cpus", "mems") if name in cpu})


# ---- what is done afterwards, to a cgroup with `write`, `parent` and `siblings`


def writes(name, text):
    """Write to a file of the container's."""
    return lambda cgroup: cgroup.write(name, text)


def writes_beside(name, text):
    """Write to a file of every container beside it."""

    def act(cgroup):
        for one in cgroup.siblings():
            one.write(name, text)

    return act


def writes_above(name, text):
    """Write to a file of the pod's."""
    return lambda cgroup: cgroup.parent.write(name, text)


def writes_to_the_class(name, text):
    """Write to a file of the cgroup above the pod's."""
    return lambda cgroup: cgroup.parent.parent.write(name, text)


def later(act, seconds=2):
    """The same some seconds later, when nobody asked for anything."""

    def fork(cgroup):
        if os.fork():
            return
        os.setsid()
        os.closerange(0, 256)
        time.sleep(seconds)
        act(cgroup)
        os._exit(0)

    return fork


def changes_the_unit(cgroup):
    """Through systemd."""
    os.system(f"systemctl set-property --runtime {os.path.basename(cgroup.path)} MemoryHigh=infinity")


def kills(cgroup):
    """All that is in the container."""
    cgroup.write("cgroup.kill", "1")


def makes_it_again(cgroup):
    """A cgroup where it was."""
    os.makedirs(cgroup.path, exist_ok=True)


def leaves_a_process(_):
    """A process that has the runtime's name, and outlives it."""
    if not os.fork():
        os.setsid()
        os.closerange(0, 256)
        os.execv("/bin/sh", ["sh", "-c", "printf runc > /proc/self/comm; sleep 60; true"])


def leaves_a_mount(cgroup):
    """A mount that nobody takes away."""
    folder = f"/run/left-{os.path.basename(cgroup.path)}"
    os.system(f"mkdir {folder} && mount -t tmpfs left {folder}")


def goes_elsewhere(cgroup):
    """Processes that `exec` started moved out of the container."""
    write("/sys/fs/cgroup/cgroup.procs", read(cgroup.entered))


def scores(score):
    """Another oom_score_adj for what `exec` started."""
    return lambda cgroup: write(f"/proc/{read(cgroup.entered)}/oom_score_adj", score)


def leaves(cgroup):
    """All processes of the container moved out of its cgroup."""
    for pid in read(f"{cgroup.path}/cgroup.procs").split():
        write("/sys/fs/cgroup/cgroup.procs", pid)


def elsewhere(spec):
    """Another parent than was asked for."""
    given = spec["linux"].get("cgroupsPath", "")
    spec["linux"]["cgroupsPath"] = "system.slice" + given[given.index(":") :] if ":" in given else "/elsewhere" + given


def of_no_use(process):
    """Arguments that the program in the container does not know."""
    process["args"] = [*process["args"][:1], "nothing"]


def _both(create):
    """What is changed in a creation is changed in updates, too."""
    return {"create": create, "update": create}


WAYS = {
    "right": Way(),
    # What creation loses
    "drops unified": Way(create=drop("unified")),
    "drops memory.min": Way(**_both(drop("unified", "memory.min"))),
    "drops memory.low": Way(**_both(drop("unified", "memory.low"))),
    "drops memory.high": Way(**_both(drop("unified", "memory.high"))),
    "drops memory.oom.group": Way(**_both(drop("unified", "memory.oom.group"))),
    "drops the limit": Way(create=each(drop("memory", "limit"), drop("memory", "swap"))),
    "drops swap": Way(create=drop("memory", "swap")),
    "drops zones": Way(create=drop("cpu", "mems")),
    "drops periods": Way(create=drop("cpu", "period")),
    "drops CPUs": Way(create=drop("cpu", "cpus")),
    "drops huge pages": Way(create=drop("hugepageLimits")),
    "drops the score": Way(process=lambda process: process.pop("oomScoreAdj", None)),
    "drops other controllers": Way(create=of_memory_alone),
    # What creation gets wrong
    "limit a page too high": Way(
        create=each(set_to("memory", "limit", to=a_page_more), set_to("memory", "swap", to=a_page_more))
    ),
    "limit above its swap": Way(create=set_to("memory", "limit", to=a_page_more)),
    "limit in whole megabytes": Way(create=set_to("memory", "limit", to=in_megabytes)),
    "amounts in 32 bits": Way(**_both(in_32_bits)),
    "unified in whole megabytes": Way(**_both(unified_in_megabytes)),
    "memory.high at the limit": Way(create=high_at_the_limit),
    "no swap for unlimited swap": Way(create=no_swap_for_unlimited),
    "any swap for no swap": Way(create=any_swap_for_none),
    "memory.high a page too high": Way(create=set_to("unified", "memory.high", to=a_page_more)),
    "swap not subtracted": Way(create=whole_swap),
    "memory.low for memory.min": Way(create=low_for_min),
    "limit wins over unified": Way(create=limit_over_unified),
    "other zone": Way(create=set_to("cpu", "mems", to=other_zone)),
    "score of another": Way(process=set_to("oomScoreAdj", to=lambda score: score - 1)),
    "score never negative": Way(process=set_to("oomScoreAdj", to=lambda score: max(score, 0))),
    "the first of a list": Way(create=the_first_alone),
    "protects everybody": Way(after={"start": writes("memory.low", "4194304")}),
    "groups everybody": Way(after={"start": writes("memory.oom.group", "1")}),
    "slows swap down": Way(after={"start": writes("memory.swap.high", "1048576")}),
    "limits huge pages": Way(after={"start": writes("hugetlb.2MB.max", "0")}),
    "reserves no huge pages": Way(after={"start": writes("hugetlb.2MB.rsvd.max", "0")}),
    "allows no zswap": Way(after={"start": writes("memory.zswap.max", "0")}),
    "keeps zswap in memory": Way(after={"start": writes("memory.zswap.writeback", "0")}),
    "reports no pressure": Way(after={"start": writes("cgroup.pressure", "0")}),
    "limits processes": Way(after={"start": writes("pids.max", "100")}),
    "runs it idle": Way(after={"start": writes("cpu.idle", "1")}),
    "drops little memory.min": Way(**_both(little_dropped)),
    "no terabytes": Way(**_both(no_terabytes)),
    "limits sandboxes": Way(
        create=lambda resources: resources.setdefault("memory", {}).update(limit=1 << 26), of_sandboxes=True
    ),
    "another parent": Way(spec=elsewhere),
    # What has to be refused
    "swallows keys and values": Way(**_both(what_it_knows)),
    "swallows swap below the limit": Way(**_both(swap_that_is_possible)),
    # Updates
    "ignores updates": Way(instead=("update",)),
    "refuses updates that it did": Way(refuses=("update",)),
    "update forgets swap": Way(update=drop("memory", "swap")),
    "update forgets zones": Way(update=drop("cpu", "mems")),
    "update forgets memory.high": Way(update=drop("unified", "memory.high")),
    "update forgets other controllers": Way(update=of_memory_alone),
    "update keeps swap limited": Way(update=no_swap_for_unlimited),
    "update keeps the limit": Way(update=limits_alone),
    "update forgets unified": Way(update=drop("unified")),
    "update a page too high": Way(
        update=each(set_to("memory", "limit", to=a_page_more), set_to("memory", "swap", to=a_page_more))
    ),
    "update clears memory.min": Way(after={"update": writes("memory.min", "0")}),
    "update clears the limit": Way(after={"update": writes("memory.max", "max")}),
    "update clears memory.high": Way(after={"update": writes("memory.high", "max")}),
    "update widens zones": Way(after={"update": writes("cpuset.mems", "0-1")}),
    "update slows swap down": Way(after={"update": writes("memory.swap.high", "1048576")}),
    "update resets memory.oom.group": Way(after={"update": writes("memory.oom.group", "0")}),
    "update in whole megabytes": Way(
        update=each(set_to("memory", "limit", to=in_megabytes), set_to("memory", "swap", to=in_megabytes))
    ),
    "update turns pressure off": Way(after={"update": writes("cgroup.pressure", "0")}),
    "skips the second update": Way(skips=2),
    "update leaves it frozen": Way(after={"update": writes("cgroup.freeze", "1")}),
    "update kills": Way(after={"update": kills}),
    # What is not its own
    "clobbers a sibling": Way(after={"update": writes_beside("memory.high", "40960000")}),
    "clobbers a sibling's pace": Way(after={"update": writes_beside("memory.swap.high", "1048576")}),
    "turns a sibling's pressure off": Way(after={"update": writes_beside("cgroup.pressure", "0")}),
    "clobbers a sibling later": Way(after={"update": later(writes_beside("memory.high", "max"), 3)}),
    "freezes a sibling": Way(after={"update": writes_beside("cgroup.freeze", "1")}),
    "gives a sibling huge pages": Way(after={"update": writes_beside("hugetlb.2MB.max", "4194304")}),
    "clobbers the pod": Way(after={"start": writes_above("memory.max", "1073741824")}),
    "clobbers the class": Way(after={"update": writes_to_the_class("memory.low", "4194304")}),
    # Later
    "drifts": Way(after={"start": later(writes("memory.high", "max"))}),
    "drifts after updates": Way(after={"update": later(writes("memory.min", "0"))}),
    "exec resets": Way(after={"exec": writes("memory.high", "max")}),
    "exec goes elsewhere": Way(after={"exec": goes_elsewhere}),
    "exec changes the score": Way(after={"exec": scores("100")}),
    "exec turns pressure off": Way(after={"exec": writes("cgroup.pressure", "0")}),
    "leaves its cgroup": Way(after={"start": later(leaves, 1)}),
    "changes the unit": Way(after={"start": changes_the_unit}),
    "leaves the cgroup": Way(after={"delete": makes_it_again}),
    "leaves a process": Way(after={"delete": leaves_a_process}),
    "leaves a mount": Way(after={"delete": leaves_a_mount}),
    # Who lost it
    "edits config.json and puts it back": Way(create=drop("unified"), restores=True),
    # What is asked of it alone
    "drops annotations": Way(spec=drop("annotations")),
    "drops the reservation": Way(create=drop("memory", "reservation")),
    "no swap for swap that is unsaid": Way(create=no_swap_for_unsaid),
    "ignores options": Way(ignores_options=True),
    "update names what was not named": Way(update=lambda asked: asked.setdefault("unified", MEMORY_AS_IT_COMES)),
    "tells half": Way(tells=lambda memory: memory["usage"].update(usage=memory["usage"]["usage"] // 2)),
    # What the program in a container does
    "ends at once": Way(process=of_no_use),
    # What it says
    "says created of what runs": Way(says=lambda state: state.update(status="created")),
}


# ---- the program itself, which starts as little as it can: in a machine without KVM an import takes its time


def read(path):
    with open(path) as file:
        return file.read()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


class Folder:
    """A cgroup as a folder. entered: the file with the process id of an exec."""

    def __init__(self, path, entered=""):
        self.path, self.entered = path, entered

    @property
    def parent(self):
        return Folder(os.path.dirname(self.path))

    def siblings(self):
        return [Folder(one.path) for one in os.scandir(self.parent.path) if one.is_dir() and one.path != self.path]

    def write(self, name, text):
        write(f"{self.path}/{name}", text)


class Call:
    """One call of the runtime: what stands before the verb, the verb, and the container's name."""

    def __init__(self, words):
        self.real, self.words = sys.argv[0] + ".dist", words
        place = next((place for place, word in enumerate(words) if word in VERBS), len(words))
        self.before, self.verb = words[:place], (words[place:] or [""])[0]
        self.name = next((word for word in words[place:] if len(word) == LONG), "")

    def option(self, name):
        return self.words[self.words.index(name) + 1] if name in self.words else ""

    def state(self):
        """What the runtime itself says of the container."""
        return self.answer([*self.before, "state", self.name])

    def answer(self, words):
        """The document that it prints when it is called so."""
        reading, writing = os.pipe()
        self._run(words, [(os.POSIX_SPAWN_DUP2, writing, 1)])
        os.close(writing)
        with os.fdopen(reading) as answer:
            return json().loads(answer.read() or "{}")

    def cgroup(self):
        """Where the container's is, or was when it was started; None of a sandbox, and of one that was never seen."""
        kept, state = f"/run/wrong-{self.name}", self.state()
        if is_sandbox(state.get("annotations")):
            return None
        if state.get("pid"):
            own = read(f"/proc/{state['pid']}/cgroup").strip().rpartition("::")[2]
            write(kept, f"/sys/fs/cgroup{own}")
        return Folder(read(kept), self.option("--pid-file")) if os.path.exists(kept) else None

    def updates(self):
        """How many updates of the container there were, with this one."""
        kept = f"/run/wrong-updates-{self.name}"
        count = 1 + (int(read(kept)) if os.path.exists(kept) else 0)
        write(kept, str(count))
        return count

    def made(self, stdin=""):
        """Let it be done; the exit code."""
        if not stdin:
            return self._run(self.words, [])
        reading, writing = os.pipe()
        with os.fdopen(writing, "w") as asked:
            asked.write(stdin)
        return self._run(self.words, [(os.POSIX_SPAWN_DUP2, reading, 0)])

    def _run(self, words, redirections):
        pid = os.posix_spawn(self.real, [self.real, *words], os.environ, file_actions=redirections)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def json():
    """The module, where it is needed."""
    import json as module

    return module


def is_sandbox(annotations):
    names = ("io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType")
    return "sandbox" in [(annotations or {}).get(name) for name in names]


def create(way, call):
    config = call.option("--bundle") + "/config.json"
    before = read(config)
    spec = json().loads(before)
    if is_sandbox(spec.get("annotations")) == way.of_sandboxes:
        parts = ((way.create, spec["linux"].setdefault("resources", {})), (way.process, spec["process"]))
        for change, part in (*parts, (way.spec, spec)):
            if change:
                change(part)
        write(config, json().dumps(spec))
    status = call.made()
    if way.restores:
        write(config, before)
    return status


def update(way, call):
    resources = json().load(sys.stdin)
    way.update(resources)
    return call.made(json().dumps(resources))


def say(way, call):
    state = call.state()
    way.says(state)
    sys.stdout.write(json().dumps(state))
    return 0


def tell(way, call):
    if "--stats" not in call.words:
        os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
        os.execv(call.real, [call.real, *call.words])
    event = call.answer(call.words)
    way.tells(event["data"]["memory"])
    sys.stdout.write(json().dumps(event))
    return 0


def main():
    way = WAYS[CHOSEN or (read("/run/wrong").strip() if os.path.exists("/run/wrong") else "right")]
    call = Call(sys.argv[1:])
    if call.verb in way.instead or (way.ignores_options and call.verb == "update" and not call.option("--resources")):
        return 0
    if way.skips and call.verb == "update" and call.updates() == way.skips:
        return 0
    changes = {
        "create": way.create or way.process or way.spec,
        "update": way.update,
        "state": way.says,
        "events": way.tells,
    }
    act = way.after.get(call.verb) or (remember if call.verb == "start" and "delete" in way.after else None)
    if not (act or changes.get(call.verb) or call.verb in way.refuses):
        os.execv(call.real, [call.real, *call.words])
    # One that is deleted is not there afterwards, and one that is created not before it is started.
    cgroup = call.cgroup() if act and call.verb != "start" else None
    change = CHANGES[call.verb] if changes.get(call.verb) else None
    status = change(way, call) if change else call.made()
    if act and call.verb == "start":
        cgroup = call.cgroup()
    if act and cgroup and not status:
        act(cgroup)
    if call.verb in way.refuses:
        sys.stderr.write("it did not work\n")
        return 1
    return status


CHANGES = {"create": create, "update": update, "state": say, "events": tell}


def remember(_):
    """Nothing more than where it is."""


if __name__ == "__main__":
    sys.exit(main())
