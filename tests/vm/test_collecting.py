"""The collecting program on a real machine: as root, and as the pods of ci/kubernetes run it."""

import json
from pathlib import Path

import pytest

import memqos
from memqos.audits.entry import audit
from memqos.catalog.data import data_root
from memqos.catalog.recorded_trees import tree_of
from memqos.clock import Deadline
from memqos.place.collecting import collected, program

pytestmark = pytest.mark.vm

FIXTURES = data_root() / "fixtures"
PODS = [FIXTURES / "pods" / f"{name}.yaml" for name in ("burstable", "best-effort", "guaranteed-two")]
CONFIG = FIXTURES / "kubelet" / "v1.36-tiered.yaml"
AS_IN_A_POD = """\
mkdir -p /run/host/proc /run/host/sys
exec unshare --mount --pid --fork --cgroup sh -c '
  mount --rbind /proc /run/host/proc && mount --rbind /sys /run/host/sys && mount -t proc proc /proc
  exec setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --bounding-set=-all \\
    python3 - --root /run/host --no-api
'
"""
"""A process of the user nobody in namespaces of its own, without capabilities: it sees the node below a folder."""


def counts(document: dict, *, runtime: str | None = None) -> dict[str, int]:
    found = audit(tree_of(document, "node"), pods=PODS, kubelet_config=CONFIG, kubernetes="1.36", runtime=runtime)
    return {verdict.value: count for verdict, count in found.counts.items()}


def test_a_node_is_read_by_root_and_by_a_pod_without_rights(tmp_path: Path) -> None:
    with memqos.lab(profile="trixie") as bench:
        bench.admit(PODS, kubernetes="1.36", kubelet_config=CONFIG)
        target = bench.node.target
        by_root = dict(collected(target))
        done = target.run(["sh", "-c", AS_IN_A_POD], deadline=Deadline.after(120), stdin=program().encode())
        assert done.status == 0, done.error_text
        by_pod = json.loads(done.stdout)
    assert by_root["notes"].keys() == {"configz", "pods"}
    assert by_root["node"]["systemd"].startswith("systemd ")
    told = counts(by_root)
    assert (told["deviates"], told["not observable"]) == (0, 0)
    assert told["conforms"] > 100
    assert by_pod["cgroups"].keys() >= {path for path in by_root["cgroups"] if "kubepods" in path}
    for path, files in by_root["cgroups"].items():
        if "comm" in files:
            own = by_pod["cgroups"][path]
            assert {name: own.get(name) for name in ("comm", "oom_score_adj", "processes", "memory.max")} == {
                name: files[name] for name in ("comm", "oom_score_adj", "processes", "memory.max")
            }
    assert {one["name"] for one in by_pod["daemons"]} >= {"systemd", "containerd"}
    assert not any("memload" in one["name"] for one in by_pod["daemons"])
    # Without a socket or pods it is not known which container is which.
    assert by_pod["notes"]["containers"].endswith("Permission denied") or "no socket" in by_pod["notes"]["containers"]
    assert counts({**by_pod, "containers": by_root["containers"]}, runtime="containerd@1.7+runc@1.1")["deviates"] == 0
