"""Runtimes that are wrong on purpose, and which claims have to find each, by which knobs and no other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from tests.wrong_runtimes.program import WAYS


class Where(Enum):
    """Where a way is wrong: the fake in memory is like a machine in most of them."""

    EVERYWHERE = "in memory and on a machine"
    MACHINE = "on a machine: memory has no such thing"
    MEMORY = "in memory: the machine's kernel has no such file"


@dataclass(frozen=True, slots=True)
class Wrong:
    """One wrong runtime.

    way: of program.WAYS. found: by claim the knobs that deviate there, all of them. needs_own_pod: whether it is seen
    at a pod that it started itself, or leaves one that says nothing more: what pods that come and go leave is looked at
    once in each.
    """

    way: str
    found: Mapping[str, frozenset[str]]
    where: Where = Where.EVERYWHERE
    needs_own_pod: bool = False


UNIFIED = "memory.min memory.low memory.high memory.oom.group"


def _knobs(text: str) -> frozenset[str]:
    return frozenset([text] if text.endswith(" of exec") else text.split(" "))


def _wrongs() -> Iterator[Wrong]:
    for way, told in _TABLE.items():
        where = Where.MACHINE if way in _MACHINE else Where.MEMORY if way in _MEMORY else Where.EVERYWHERE
        found = {claim: _knobs(text) for claim, text in told.items()}
        yield Wrong(way, found, where, needs_own_pod=way in _OWN_POD)


_MACHINE = {
    "drops huge pages", "drifts", "drifts after updates", "exec resets", "exec goes elsewhere", "changes the unit",
    "leaves the cgroup", "leaves a process", "leaves a mount", "edits config.json and puts it back", "another parent",
    "swallows keys and values", "update forgets unified", "update kills", "clobbers a sibling later",
    "exec turns pressure off", "runs it idle", "exec changes the score",
}  # fmt: skip

_MEMORY = {"allows no zswap", "keeps zswap in memory"}

_OWN_POD = {"clobbers the pod", "limits sandboxes", "leaves the cgroup", "leaves a process", "leaves a mount"}

_TABLE: Mapping[str, Mapping[str, str]] = {
    "drops unified": {"requests/unified-min": "memory.min", "requests/everything": UNIFIED},
    "drops memory.min": {"requests/unified-min": "memory.min", "requests/everything": "memory.min"},
    "drops memory.low": {"requests/unified-low": "memory.low", "requests/everything": "memory.low"},
    "drops memory.high": {"requests/unified-high": "memory.high", "requests/update-unified-high": "memory.high"},
    "drops memory.oom.group": {"requests/unified-oom-group": "memory.oom.group"},
    "drops the limit": {"requests/limit": "memory.max memory.swap.max"},
    "drops swap": {"requests/no-swap": "memory.swap.max"},
    "drops zones": {"requests/mems": "cpuset.mems"},
    "drops periods": {"requests/quota": "cpu.max"},
    "drops CPUs": {"requests/everything": "cpuset.cpus"},
    "drops huge pages": {"requests/huge-pages": "hugetlb.2MB.max"},
    "drops the score": {"requests/oom-score": "oom_score_adj"},
    "drops other controllers": {"requests/unified-other-controller": "cpu.weight"},
    "limit a page too high": {"requests/limit": "memory.max", "requests/limit-and-swap": "memory.max"},
    "limit above its swap": {"requests/no-swap": "create"},
    "limit in whole megabytes": {"requests/limit-in-odd-bytes": "memory.max memory.swap.max"},
    "amounts in 32 bits": {
        "requests/gigabytes": "memory.min memory.low memory.high memory.max memory.swap.max",
        "requests/update-gigabytes": "memory.min memory.low memory.high memory.max memory.swap.max",
    },
    "unified in whole megabytes": {
        "requests/in-odd-pages": "memory.min memory.low memory.high",
        "requests/update-in-odd-pages": "memory.min memory.low memory.high",
    },
    "memory.high at the limit": {"requests/limit": "memory.high"},
    "no swap for unlimited swap": {"requests/unlimited-swap": "memory.swap.max"},
    "any swap for no swap": {"requests/no-swap": "memory.swap.max"},
    "memory.high a page too high": {"requests/unified-high": "memory.high"},
    "swap not subtracted": {"requests/limit-and-swap": "memory.swap.max"},
    "memory.low for memory.min": {"requests/unified-min": "memory.min memory.low"},
    "limit wins over unified": {"requests/unified-over-limit": "memory.max"},
    "other zone": {"requests/mems": "cpuset.mems"},
    "score of another": {"requests/oom-score": "oom_score_adj"},
    "score never negative": {"requests/everything": "oom_score_adj"},
    "the first of a list": {"requests/ranges": "cpuset.cpus cpuset.mems"},
    "protects everybody": {"requests/nothing": "memory.low"},
    "groups everybody": {"requests/nothing": "memory.oom.group"},
    "slows swap down": {"requests/nothing": "memory.swap.high"},
    "limits huge pages": {"requests/nothing": "hugetlb.2MB.max"},
    "reserves no huge pages": {"requests/nothing": "hugetlb.2MB.rsvd.max"},
    "allows no zswap": {"requests/nothing": "memory.zswap.max"},
    "keeps zswap in memory": {"requests/nothing": "memory.zswap.writeback"},
    "reports no pressure": {"requests/nothing": "cgroup.pressure"},
    "limits processes": {"requests/nothing": "pids.max"},
    # The weight of an idle cgroup reads 0.
    "runs it idle": {"requests/nothing": "cpu.idle cpu.weight"},
    "drops little memory.min": {"requests/amounts": "memory.min", "requests/update-later": "memory.min"},
    "no terabytes": {"requests/amounts": "memory.max memory.swap.max memory.high"},
    "limits sandboxes": {"cri/sandbox-has-no-limits": "memory.max"},
    "swallows keys and values": {
        "refusal/refuses-unknown-key": "create",
        "refusal/update-refuses-unknown-key": "update",
        "refusal/update-refuses-no-number": "update",
    },
    "swallows swap below the limit": {
        "refusal/refuses-swap-below-limit": "create",
        "refusal/update-refuses-swap-below-limit": "update",
    },
    "ignores updates": {
        "requests/update-limit": "memory.max",
        "requests/update-unified-high": "memory.high",
        "refusal/update-refuses-no-number": "update",
        "lifecycle/drift": "memory.high",
    },
    "refuses updates that it did": {"requests/update-limit": "update memory.max"},
    "update forgets swap": {"requests/update-everything": "memory.swap.max"},
    "update forgets zones": {"requests/update-mems": "cpuset.mems"},
    "update forgets memory.high": {"requests/update-unified-high": "memory.high"},
    "update forgets other controllers": {"requests/update-unified-other-controller": "cpu.weight"},
    "update keeps swap limited": {"requests/update-unlimited-swap": "memory.swap.max"},
    "update keeps the limit": {"requests/update-unlimited-memory": "memory.max memory.swap.max"},
    # systemd resets memory.oom.group of a scope of which a property is set; runc writes it again from unified.
    "update forgets unified": {"requests/update-unified-high": "memory.high memory.oom.group"},
    "update a page too high": {"requests/update-limit": "memory.max"},
    "update clears memory.min": {"requests/update-limit": "memory.min"},
    "update clears the limit": {"requests/update-limit": "memory.max"},
    "update clears memory.high": {"requests/update-limit": "memory.high"},
    "update widens zones": {"requests/update-limit": "cpuset.mems"},
    "update slows swap down": {"requests/update-limit": "memory.swap.high"},
    "update resets memory.oom.group": {"requests/update-limit": "memory.oom.group"},
    "update in whole megabytes": {"requests/update-in-odd-pages": "memory.max memory.swap.max"},
    "update turns pressure off": {"requests/update-limit": "cgroup.pressure"},
    "skips the second update": {"requests/amounts": "memory.min memory.low memory.high memory.max memory.swap.max"},
    "turns a sibling's pressure off": {"requests/update-limit": "cgroup.pressure"},
    "clobbers a sibling later": {"requests/update-later": "memory.high"},
    "update leaves it frozen": {"requests/update-limit": "cgroup.freeze"},
    "update kills": {"requests/update-nothing": "cgroup"},
    "freezes a sibling": {"requests/update-limit": "cgroup.freeze"},
    "gives a sibling huge pages": {"requests/update-limit": "hugetlb.2MB.max"},
    "clobbers a sibling": {"requests/update-limit": "memory.high"},
    "clobbers a sibling's pace": {"requests/update-limit": "memory.swap.high"},
    "clobbers the class": {"requests/update-limit": "memory.low"},
    "clobbers the pod": {"requests/limit": "memory.max"},
    "drifts": {"lifecycle/stays": "memory.high"},
    "drifts after updates": {"lifecycle/stays": "memory.min"},
    "exec resets": {"lifecycle/exec": "memory.high"},
    "exec turns pressure off": {"lifecycle/exec": "cgroup.pressure"},
    "exec changes the score": {
        "lifecycle/exec": "oom_score_adj of exec",
        "cri/exec-is-alike": "oom_score_adj of exec",
    },
    "exec goes elsewhere": {
        "cri/exec-is-charged": "memory.peak",
        "cri/exec-is-alike": "cgroup.procs of exec",
        "lifecycle/exec": "cgroup.procs of exec",
    },
    "changes the unit": {"requests/unified-high": "memory.high"},
    "leaves the cgroup": {"lifecycle/leaves-no-cgroups": "cgroups"},
    "leaves a process": {"lifecycle/leaves-no-processes": "processes"},
    "leaves a mount": {"lifecycle/leaves-no-mounts": "mounts"},
    "another parent": {"requests/limit": "cgroup"},
    "edits config.json and puts it back": {"requests/unified-high": "memory.high"},
}

DIRECT: Mapping[str, Mapping[str, frozenset[str]]] = {
    "drops annotations": {
        "oci/property-high": frozenset({"memory.high"}),
        "oci/property-min": frozenset({"memory.min"}),
    },
    "drops the reservation": {"oci/bundle-reservation": frozenset({"memory.low"})},
    "no swap for swap that is unsaid": {"oci/bundle-swap-unsaid": frozenset({"memory.swap.max"})},
    "ignores options": {
        "oci/options-limit-and-swap": frozenset({"memory.max", "memory.swap.max"}),
        "oci/part-limit-and-swap": frozenset(),
    },
    "update names what was not named": {"oci/part-limit-and-swap": frozenset({"memory.min", "memory.high"})},
    "tells half": {"oci/stats-agree": frozenset({"stats usage"}), "oci/oom-event": frozenset({"events"})},
}
"""Those that are seen by what is asked of an OCI runtime in its own words, on a machine, where no daemon is between."""

WRONG = tuple(_wrongs())
IN_MEMORY = tuple(one for one in WRONG if one.where is not Where.MACHINE)
ON_A_MACHINE = tuple(one for one in WRONG if one.where is not Where.MEMORY)

assert {*DIRECT, *(one.way for one in WRONG)} <= set(WAYS)
