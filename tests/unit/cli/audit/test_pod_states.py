"""Pods that begin, end, are evicted or deleted, and mirrors of static pods: each by its status."""

import json

import pytest

from memqos.catalog.data import data_root

CASE = data_root() / "tests" / "cases" / "deferred-resize"
BURSTABLE = "/kubepods.slice/kubepods-burstable.slice"
WEB = f"{BURSTABLE}/kubepods-burstable-podaaaaaaaa_0000_0000_0000_000000000001.slice"
UID = "bbbbbbbb-0000-0000-0000-000000000002"
OTHER = f"{BURSTABLE}/kubepods-burstable-podbbbbbbbb_0000_0000_0000_000000000002.slice"
COUNTS = "it is computed from what all pods request, and the kubelet may count one or not"
SUMS = f"cpu.weight of kubepods-burstable.slice: {COUNTS}"


@pytest.fixture
def audited(told, tmp_path):
    """Audit the case after a change to its tree and its pods."""

    def audit(do, *more):
        tree = json.loads((CASE / "tree.json").read_text())
        pods = json.loads((CASE / "pods.json").read_text())
        do(tree, pods["items"])
        (tmp_path / "tree.json").write_text(json.dumps(tree))
        (tmp_path / "pods.json").write_text(json.dumps(pods))
        return told("--tree", tmp_path / "tree.json", "--pods", tmp_path / "pods.json", *more)

    return audit


def other(phase, reason="", **meta):
    """Another Burstable pod of this node, of 1Gi."""
    amounts = {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other", "namespace": "default", "uid": UID, **meta},
        "spec": {"nodeName": "node-a", "containers": [{"name": "app", "image": "x", "resources": amounts}]},
        "status": {"phase": phase, "reason": reason},
    }  # fmt: skip


def test_an_evicted_pod_with_a_remaining_cgroup(audited):
    def do(tree, pods):
        pods.append(other("Failed", "Evicted"))
        tree["cgroups"][OTHER] = {**tree["cgroups"][WEB], "cpu.weight": "1", "memory.max": "77"}

    code, out, _ = audited(do)
    assert code == 0
    why = "admission of pod default/other: it has ended (Evicted), and the kubelet has not removed its cgroup yet"
    assert f"not observable: {why}" in out
    assert f"{SUMS}: pod default/other has ended (Evicted), and its cgroup still exists" in out
    assert "not given" not in out


def test_an_evicted_pod_without_a_cgroup(audited):
    code, out, _ = audited(lambda _, pods: pods.append(other("Failed", "Evicted")))
    assert (code, "1 pod was given whose phase is Succeeded or Failed: not looked for" in out) == (0, True)
    assert out.endswith("52 conform, 0 deviate, 0 not observable\n")


@pytest.mark.parametrize(("one", "why"), [
    (other("Pending"), "it is Pending"),
    (other("Running", deletionTimestamp="2026-06-01T00:00:00Z"), "it is being deleted"),
])  # fmt: skip
def test_a_pod_that_has_not_begun_or_is_nearly_gone(audited, one, why):
    code, out, _ = audited(lambda _, pods: pods.append(one))
    said = f"not observable: admission of pod default/other: the tree has no container of this pod: {why}"
    assert (code, said in out, SUMS in out) == (0, True, True)


def test_a_pod_that_has_a_cgroup_and_no_container_yet(audited):
    """The kubelet creates the pod's cgroup before the sandbox: it is judged, and not a stranger's."""

    def do(tree, pods):
        one = other("Pending")
        one["status"]["containerStatuses"] = [{"name": "app", "state": {"waiting": {"reason": "ContainerCreating"}}}]
        pods.append(one)
        tree["cgroups"][OTHER] = tree["cgroups"][WEB]
        tree["cgroups"][BURSTABLE]["cpu.weight"] = "8"

    code, out, _ = audited(do)
    assert (code, "not given" in out) == (0, False)
    assert (
        "container app of pod default/other: no container of this name was started: it waits (ContainerCreating)" in out
    )
    wrong = audited(lambda tree, pods: (do(tree, pods), tree["cgroups"].update({OTHER: {"memory.max": "4096"}})))
    assert (wrong[0], "memory.max of pod default/other is 4096, expected 1073741824" in wrong[1]) == (1, True)


def test_the_kubelet_lowers_the_shares_of_a_deleted_pod(audited):
    def do(tree, pods):
        pods[0]["metadata"]["deletionTimestamp"] = "2026-06-01T00:00:00Z"
        tree["cgroups"][WEB]["cpu.weight"] = "1"

    code, out, _ = audited(do)
    assert code == 0
    assert "not observable: cpu.weight of pod default/web: the pod is being deleted, and the kubelet lowers" in out
    kept = audited(lambda tree, _: tree["cgroups"][WEB].update({"cpu.weight": "1"}))
    assert kept[0] == 1


def test_a_sidecar_between_two_restarts(audited):
    def do(tree, pods):
        del tree
        amounts = {"requests": {"memory": "1Mi"}}
        sidecar = {"name": "side", "image": "x", "restartPolicy": "Always", "resources": amounts}
        pods[0]["spec"]["initContainers"] = [sidecar]
        pods[0]["status"]["initContainerStatuses"] = [
            {
                "name": "side", "restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "allocatedResources": amounts["requests"], "resources": amounts,
            },
        ]  # fmt: skip

    _, out, _ = audited(do)
    assert (
        "container side of pod default/web: no container of this name was started: it waits (CrashLoopBackOff)" in out
    )


def test_a_container_that_has_terminated_without_a_reason(audited):
    def do(tree, pods):
        pods[0]["status"]["containerStatuses"][0]["state"] = {"terminated": {}}
        del tree["cgroups"][next(path for path in tree["cgroups"] if path.endswith(".scope"))]

    _, out, _ = audited(do)
    assert (
        "container app of pod default/web: the reading has no such cgroup: it has terminated (no reason given)" in out
    )


def test_the_mirror_of_a_static_pod(audited):
    """The API server has a uid of its own for it, and the tree has that of the kubelet's file."""
    digest = "0123456789abcdef0123456789abcdef"

    def do(tree, pods):
        meta = pods[0]["metadata"]
        meta["annotations"] = {"kubernetes.io/config.mirror": digest, "kubernetes.io/config.source": "file"}
        pods[0]["status"].pop("conditions")
        for amounts in pods[0]["spec"]["containers"][0]["resources"].values():
            amounts["memory"] = "1Gi"
        tree["containers"] = {name: ["web", "app", digest] for name in tree["containers"]}
        tree["cgroups"] = {
            path.replace("aaaaaaaa_0000_0000_0000_000000000001", digest): files
            for path, files in tree["cgroups"].items()
        }

    code, out, _ = audited(do)
    assert (code, out.splitlines()[-1].endswith("52 conform, 0 deviate, 0 not observable")) == (0, True)
