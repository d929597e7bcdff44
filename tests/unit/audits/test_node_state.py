"""The effect of memory QoS on a node: literal numbers of a small node, by the kernel's arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memqos.audits.entry import audit
from memqos.audits.node_answers import state_text
from memqos.audits.node_state import NodeState, node_state
from memqos.catalog.recorded_trees import tree_of
from tests.recorded_nodes import CONFIG, MIB, recorded_node

Change = Callable[[dict[str, Any]], None]


def collected(**given: Any) -> dict[str, Any]:
    return recorded_node("n1", pods=12, seed=5, **given)


def state(document: dict[str, Any], **given: Any) -> NodeState:
    return node_state(audit(tree_of(document, "n1"), **given))


def container(document: dict[str, Any], *, high: bool = True) -> str:
    """The path of the first container with a memory.high."""
    return next(
        path
        for path, files in document["cgroups"].items()
        if "comm" in files and files["comm"] == "app" and (files["memory.high"] != "max") is high
    )


def test_memory_qos_is_in_force_if_all_of_its_files_conform() -> None:
    found = state(collected()).in_force
    assert (found.on, found.force.value, found.policy, found.factor) == (True, "in force", "TieredReservation", "0.9")


def test_memory_qos_is_partly_in_force_if_one_file_deviates() -> None:
    document = collected()
    document["cgroups"][container(document)]["memory.high"] = "max"
    found = state(document).in_force
    assert (found.force.value, found.lacks) == ("partly in force", 1)


@pytest.mark.parametrize(("config", "kubernetes", "force", "why"), [
    ("featureGates: {MemoryQoS: false}", "1.36", "off", "the feature gate MemoryQoS is off"),
    ("maxPods: 110", "1.37", "on, but inert", "neither memoryThrottlingFactor nor memoryReservationPolicy is set"),
])  # fmt: skip
def test_memory_qos_has_no_effect(config: str, kubernetes: str, force: str, why: str) -> None:
    text = f"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: systemd\n{config}\n"
    found = state(collected(config=text, kubernetes=kubernetes)).in_force
    assert (found.force.value, found.why) == (force, why)


def test_without_the_kubelets_configuration_the_state_of_memory_qos_is_unknown() -> None:
    document = collected()
    del document["config"]
    document["config_unread"] = "no process of a kubelet was seen"
    found = state(document).in_force
    assert (found.force.value, "no process of a kubelet was seen" in found.why) == ("unknown", True)


def flat(document: dict[str, Any], *, low: str, parent: str, usage: int) -> NodeState:
    """One Burstable pod, alone on its node, with this protection of its parent."""
    cgroups = document["cgroups"]
    burstable = "/kubepods.slice/kubepods-burstable.slice"
    for path, files in cgroups.items():
        if path.startswith("/kubepods.slice"):
            files |= {"memory.min": "0", "memory.low": "0", "memory.current": "0"}
    path = next(path for path in cgroups if path.startswith(f"{burstable}/") and path.count("/") == 4)
    for one in ("/kubepods.slice", burstable, path.rpartition("/")[0], path):
        cgroups[one] |= {"memory.current": str(usage), "memory.low": low}
    cgroups[burstable]["memory.low"] = cgroups["/kubepods.slice"]["memory.low"] = parent
    return state(document)


def test_protection_is_limited_by_the_parent() -> None:
    """kubepods and its slice claim 50 MiB: of the 100 MiB of the pod, 50 count (mm/page_counter.c)."""
    found = flat(collected(), low=str(100 * MIB), parent=str(50 * MIB), usage=100 * MIB)
    pods = {str(one.subject): one for one in found.worth if one.configured.usage}
    name = next(name for name in pods if name.startswith("pod "))
    assert (pods[name].counts.soft, pods[name].counts.exposed) == (50 * MIB, 50 * MIB)
    assert "requests 100 MiB, uses 100 MiB, 50 MiB is protected" in state_text(found)


def test_unread_mount_options_are_marked_as_assumed() -> None:
    document = collected()
    document["machine"] = {}
    found = state(document)
    assert found.recursive is None
    assert "as if with (its mount options were not read)" in state_text(found)


def test_the_effective_memory_high_is_the_least_of_a_container_and_its_ancestors() -> None:
    document = collected()
    path = container(document)
    above = path.rpartition("/")[0]
    document["cgroups"][above]["memory.high"] = str(10 * MIB)
    found = next(one for one in state(document).thresholds if one.cgroup == path)
    assert (found.high, found.by) == (10 * MIB, above)
    assert found.own == int(document["cgroups"][path]["memory.high"])
    # 64 x^2 s of sleep are 3 jiffies at 1.369 %, and 2 s at 17.678 %, each in whole pages.
    assert (found.sleeps, found.stalls) == (2596 * 4096, 3013 * 4096)


def test_a_container_above_its_threshold_is_throttled() -> None:
    document = collected()
    path = container(document)
    high = int(document["cgroups"][path]["memory.high"])
    document["cgroups"][path]["memory.current"] = str(high + MIB)
    document["second_look"] = {
        "counters": {path: {"memory.events": "low 0\nhigh 7\nmax 0\noom 0\noom_kill 0"}}, "after_seconds": 0.5,
    }  # fmt: skip
    [found] = [one for one in state(document).stalls if one.cgroup == path]
    assert found.kind == "is throttled"
    assert found.evidence == f"it uses {high + MIB} bytes, {MIB} above its memory.high; 7 more events `high` in 0.5 s"


@pytest.mark.parametrize(
    ("anon", "faults", "kinds"), [(50 * MIB, 100, ["thrashes"]), (90 * MIB, 100, []), (50 * MIB, 2, [])]
)
def test_a_container_that_reads_its_text_again_and_again_thrashes(anon: int, faults: int, kinds: list[str]) -> None:
    document = collected()
    path = container(document)
    document["cgroups"][path]["memory.stat"] = f"anon {50 * MIB}\nfile 0\npgmajfault 1000\nworkingset_refault_file 5"
    later = f"anon {anon}\nfile 0\npgmajfault {1000 + faults}\nworkingset_refault_file 505"
    document["second_look"] = {"counters": {path: {"memory.stat": later}}, "after_seconds": 1.0}
    found = [one for one in state(document).stalls if one.cgroup == path]
    assert [one.kind for one in found] == kinds
    if found:
        assert found[0].evidence == "100 major faults and 500 refaults a second, while anon is constant"


@pytest.mark.parametrize(("average", "words"), [("4.99", None), ("7.50", "7.50 %"), ("12.00", "a livelock")])
def test_a_container_whose_tasks_all_wait_stalls(average: str, words: str | None) -> None:
    document = collected()
    path = container(document)
    document["cgroups"][path]["memory.pressure"] = (
        f"some avg10=50.00 avg60=0.00 avg300=0.00 total=1\nfull avg10={average} avg60=0.00 avg300=0.00 total=1"
    )
    found = [one for one in state(document).stalls if one.cgroup == path]
    assert [words in one.evidence for one in found] == ([True] if words else [])


def test_the_order_of_kills_has_the_daemons_of_the_host() -> None:
    """4 GiB at score 0 weigh 1048576 pages; 64 GiB * 1000 / 1000 are 16777000 pages more for a BestEffort container."""
    document = collected()
    document["daemons"] = [
        {"name": "leaky", "cgroup": "/system.slice/leaky.service", "oom_score_adj": 0, "bytes": 4 << 30},
        {"name": "sshd", "cgroup": "/system.slice/ssh.service", "oom_score_adj": -1000, "bytes": MIB},
        {"name": "earlyoom", "cgroup": "/system.slice/earlyoom.service", "oom_score_adj": 0, "bytes": MIB},
    ]
    found = state(document)
    weights = {one.name: one.badness for one in found.kills}
    assert weights["leaky (/system.slice/leaky.service)"] == 1048576
    assert not any(name.startswith("sshd") for name in weights)
    best = max(one.badness for one in found.kills if not one.daemon)
    assert best > 16777000
    assert found.killers == ("earlyoom runs in /system.slice/earlyoom.service",)
    assert "host: leaky" in state_text(found, kills=True) or len(found.kills) > 8


def test_swap_by_the_files() -> None:
    document = collected()
    path = container(document)
    document["cgroups"][path] |= {"memory.swap.max": str(64 * MIB), "memory.swap.current": str(3 * MIB)}
    [found] = state(document).swap
    assert (found.limit, found.used) == (64 * MIB, 3 * MIB)


def test_a_recording_without_usage_has_no_answers(tmp_path: Path) -> None:
    document = collected()
    for files in document["cgroups"].values():
        for name in ("memory.current", "memory.stat", "memory.pressure", "memory.events"):
            files.pop(name, None)
    found = state(document)
    assert (found.worth, found.stalls, found.kills[0].daemon) == ((), (), True)
    assert found.left_out > 12
    assert all(one.usage is None for one in found.thresholds)
    assert CONFIG
