"""Recordings of nodes with cgroup v1."""

import json


def legacy_tree(**files):
    """One Guaranteed pod on a node with cgroup v1 and kubelet 1.24, from its own files, with these changed."""
    pod = "/kubepods/podu-1"
    unlimited, shares = "9223372036854771712", {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}
    nobodys = {
        "memory.soft_limit_in_bytes": unlimited,
        "memory.swappiness": "60",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3",
    }
    none = {"memory.limit_in_bytes": unlimited, "memory.memsw.limit_in_bytes": unlimited, **nobodys, **shares}
    limited = {**none, "memory.limit_in_bytes": "67108864", "cpu.shares": "1024", "cpu.cfs_quota_us": "100000"}
    container = {**limited, "memory.memsw.limit_in_bytes": "67108864", "oom_score_adj": "-997", **files}
    amounts = {"cpu": "1", "memory": "64Mi"}
    spec = {"containers": [{"name": "a", "image": "x", "resources": {"requests": amounts, "limits": amounts}}]}
    return {
        "kubelet": "v1.24.17",
        "node": {
            "mem_total_kib": 2097152, "swap_total_kib": 0, "cpus": 2, "cgroup": "v1",
            "containerd": "containerd github.com/containerd/containerd 1.6.20", "runc": "runc version 1.1.5",
        },
        "containers": {"c1": ["web", "a", "u-1"], "c0": ["web", "(sandbox)", "u-1"]},
        "cgroups": {
            "/kubepods": {**none, "memory.limit_in_bytes": "2147483648", "cpu.shares": "2048"},
            "/kubepods/burstable": {**none, "cpu.shares": "2"},
            "/kubepods/besteffort": {**none, "cpu.shares": "2"},
            pod: limited,
            f"{pod}/c1": container,
        },
        "pods": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "uid": "u-1"}, "spec": spec}],
    }  # fmt: skip


def test_a_tree_of_cgroup_v1(told, tmp_path):
    tree = tmp_path / "tree.json"
    tree.write_text(json.dumps(legacy_tree()))
    code, out, err = told("--tree", tree, "--set", "cgroupDriver=cgroupfs")
    assert (code, " 0 deviate, " in out.splitlines()[-1]) == (0, True)
    note = "restartPolicy of container s of pod default/burst-sidecar-n1: Kubernetes 1.27 does not know this field"
    assert (err == "") is ("v1.27" not in tree.name) is (note not in err)

    tree.write_text(json.dumps(legacy_tree(**{"memory.memsw.limit_in_bytes": "134217728", "cpu.shares": "39"})))
    code, out, _ = told("--tree", tree, "--set", "cgroupDriver=cgroupfs")
    assert code == 1
    assert "memory.memsw.limit_in_bytes of container a of pod default/web is 134217728, expected 67108864" in out
    assert "cpu.shares of container a of pod default/web is 39, expected 1024" in out
    assert ", 2 deviate, " in out.splitlines()[-1]


def test_a_kernel_of_cgroup_v1_that_counts_no_swap(told, tmp_path):
    data = legacy_tree()
    for files in data["cgroups"].values():
        del files["memory.memsw.limit_in_bytes"]
    tree = tmp_path / "tree.json"
    tree.write_text(json.dumps(data))
    code, out, _ = told("--tree", tree, "--json")
    assert code == 0
    assert "memory.memsw.limit_in_bytes" not in {one["knob"] for one in json.loads(out)["findings"]}
