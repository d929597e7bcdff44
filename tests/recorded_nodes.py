"""Recordings of nodes that never were: pods drawn at random, and interface files as the plan of their kubelet has them.

For sizes that no machine of ours has: fleets of a thousand nodes, nodes of 250 pods and ten thousand cgroups. What the
engine says is true by construction here, so these recordings test everything but the engine.
"""

from __future__ import annotations

import io
import json
import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from memqos.catalog.kubelet_config import settings_of
from memqos.catalog.manifests import Manifest, manifests_in
from memqos.catalog.runtimes import runtimes_recorded
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import PlannedCgroup, PlannedPod
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.model.pod import Pod

__all__ = ["CONFIG", "MIB", "recorded_node", "write_fleet"]

MIB = 1 << 20
CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
featureGates: {MemoryQoS: true}
memoryThrottlingFactor: 0.9
memoryReservationPolicy: TieredReservation
kubeReserved: {memory: 1Gi, cpu: 500m}
"""
RUNTIMES = {"containerd": "containerd v2.1.4", "runc": "runc version 1.3.0", "systemd": "systemd 257 (257.13-1)"}
SPECS: tuple[Sequence[dict[str, Any]], ...] = (
    [{"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}}],
    [{"requests": {"cpu": "250m", "memory": "300Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}, {}],
    [{"requests": {"cpu": "200m", "memory": "200Mi"}, "limits": {"cpu": "200m", "memory": "200Mi"}}],
    [{}],
    [{"requests": {"cpu": "50m", "memory": "64Mi"}}, {"requests": {"memory": "32Mi"}, "limits": {"memory": "96Mi"}}],
)


def _manifest(number: int, node: str, draw: random.Random) -> dict[str, Any]:
    containers = [{"name": f"c{i}", "image": "app:1", "resources": one} for i, one in enumerate(draw.choice(SPECS))]
    uid = str(uuid.UUID(int=draw.getrandbits(128), version=4))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": "default", "uid": uid, "generation": 1},
        "spec": {"nodeName": node, "containers": containers},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": one["name"], "restartCount": 0, "state": {"running": {"startedAt": "2026-11-01T00:00:00Z"}}}
                for one in containers
            ],
        },
    }


@cache
def _kubelet(kubernetes: str, config: str, memory: int) -> Kubelet:
    return Kubelet.of(
        node=NodeFacts(memory=memory, swap=0, cpus=16),
        settings=settings_of(config.encode(), "config", (), ()),
        release=kubernetes,
        driver=CgroupDriver.SYSTEMD,
        runtimes=runtimes_recorded({"containerd": "2.1.4", "runc": "1.3.0", "systemd": "257"}),
    )


def recorded_node(
    name: str, *, pods: int = 60, seed: int = 0, kubernetes: str = "1.36", config: str = CONFIG, memory: int = 64 << 30
) -> dict[str, Any]:
    """A right node, as `memqos collect` has it. seed: draws the pods; bytes of memory."""
    draw = random.Random(seed)  # noqa: S311 - the same nodes each time
    manifests = [_manifest(number, name, draw) for number in range(pods)]
    plan = expect(_pods(manifests), _kubelet(kubernetes, config, memory))
    cgroups: dict[str, dict[str, str]] = {"/": {"memory.pressure": _PRESSURE}}
    containers: dict[str, list[str]] = {}
    for above in (plan.node, *plan.qos):
        cgroups[str(above.path)] = _files(above, 0)
    for pod in plan.pods:
        cgroups[str(pod.cgroup.path)] = _files(pod.cgroup, 0)
        for id_, own, files in _containers(pod, draw):
            containers[id_] = [pod.name, own, pod.uid]
            cgroups[str(plan.layout.container(pod.cgroup.path, id_))] = files
    _summed(cgroups)
    return {
        "memqos_collect": 1,
        "source": name,
        "collected_at": "2026-11-29T12:00:00Z",
        "root": True,
        "kubelet": f"v{kubernetes}.0",
        "config": config,
        "unread": [],
        "node": {"mem_total_kib": memory // 1024, "swap_total_kib": 0, "cpus": 16, "cgroup": "v2", "kernel": "6.12.9"}
        | RUNTIMES,
        "machine": {"cgroup_mount": {"path": "/sys/fs/cgroup", "options": "rw,nsdelegate,memory_recursiveprot"}},
        "pods": manifests,
        "containers": containers,
        "runtime_pods": [],
        "daemons": [{"name": "containerd", "cgroup": "/system.slice/containerd.service", "oom_score_adj": -999,
                     "bytes": 80 * MIB}],
        "cgroups": cgroups,
        "notes": {},
    }  # fmt: skip


_PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0"
_EVENTS = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0"


def _pods(manifests: Sequence[dict[str, Any]]) -> tuple[Pod, ...]:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}).encode()
    return tuple(
        replace(pod, submission=None)
        for one in manifests_in(io.BytesIO(text), "pods")
        if isinstance(one, Manifest)
        for pod in one.pods
    )


def _files(cgroup: PlannedCgroup, current: int) -> dict[str, str]:
    files = {str(knob): one.shown for knob, one in cgroup.knobs.items()}
    return {
        **files,
        "memory.current": str(current),
        "memory.events": _EVENTS,
        "memory.pressure": _PRESSURE,
        "memory.stat": f"anon {current}\nfile 0\npgmajfault 0",
        "memory.swap.current": "0",
        "processes": "0",
    }


def _containers(pod: PlannedPod, draw: random.Random) -> Iterator[tuple[str, str, dict[str, str]]]:
    yield f"{draw.getrandbits(256):064x}", "(sandbox)", _sandbox()
    for one in pod.containers:
        files = _files(one.cgroup, draw.randrange(8, 60) * MIB)
        files |= {"oom_score_adj": str(one.oom_score_adj), "comm": "app", "processes": "1"}
        files["cgroup.events"] = "populated 1\nfrozen 0"
        yield f"{draw.getrandbits(256):064x}", one.name, files


def _sandbox() -> dict[str, str]:
    return {"memory.min": "0", "memory.low": "0", "memory.high": "max", "memory.max": "max", "cpu.weight": "1",
            "memory.current": str(MIB // 4), "oom_score_adj": "-998", "comm": "pause", "processes": "1"}  # fmt: skip


def _summed(cgroups: dict[str, dict[str, str]]) -> None:
    """What a cgroup holds is what those below it hold."""
    for path in sorted(cgroups, key=lambda one: -one.count("/")):
        above = path.rpartition("/")[0]
        if above in cgroups:
            held = int(cgroups[above].get("memory.current", "0"))
            cgroups[above]["memory.current"] = str(held + int(cgroups[path]["memory.current"]))


def write_fleet(folder: Path, *, nodes: int, pods: int = 60, different: int = 20) -> None:
    """Recordings of so many nodes, of which so many are different; names and sources are all their own."""
    drawn = [recorded_node(f"node-{number}", pods=pods, seed=number) for number in range(min(nodes, different))]
    for number in range(nodes):
        document = {**drawn[number % len(drawn)], "source": f"node-{number}"}
        (folder / f"node-{number:04}.json").write_text(json.dumps(document))
