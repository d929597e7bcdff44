"""The node and the kubelet's settings, from options and files."""

import json

from tests.unit.cli.expect.asking import BURSTABLE, QOS_ON, kubepods_max


def test_fields_on_top_of_the_configuration(told):
    _, out, _ = told(BURSTABLE, "--kubernetes", "1.36", *QOS_ON, "--set", "memoryThrottlingFactor=0.8", "--why",
                     "memory.high")  # fmt: skip
    assert "67108864 + (209715200 - 67108864) * 0.8 = 181193932.8" in out
    assert "[--set memoryThrottlingFactor]" in out
    code, _, err = told(BURSTABLE, "--kubernetes", "1.36", "--set", "memoryThrottlingFactor=1.5")
    assert (code, "--set memoryThrottlingFactor: memoryThrottlingFactor: the factor 1.5" in err) == (4, True)


def test_facts_of_a_node_from_a_file(told, tmp_path):
    (tmp_path / "node.yaml").write_text("memory: 3Gi\nswap: 2Gi\nnumaNodes: [{memory: 1Gi}, {memory: 2Gi}]\n")
    common = (BURSTABLE, "--kubernetes", "1.36", "--json", "--node", str(tmp_path / "node.yaml"))
    assert kubepods_max(told(*common)[1]) == 3 << 30
    # An option overrides the file.
    assert kubepods_max(told(*common, "--capacity-memory", "4Gi")[1]) == 4 << 30
    code, _, err = told(*common, "--capacity-memory", "2Gi")
    assert (code, "the NUMA nodes together have 3221225472 bytes" in err) == (4, True)


def test_numa_nodes_make_the_nodes_memory(told):
    assert kubepods_max(told(BURSTABLE, "--kubernetes", "1.36", "--json", "--numa-nodes", "1Gi,2Gi")[1]) == 3 << 30
    assert kubepods_max(told(BURSTABLE, "--kubernetes", "1.36", "--json")[1]) == 8 << 30
    code, _, err = told(BURSTABLE, "--kubernetes", "1.36", "--numa-nodes", "0,0")
    assert (code, "at least one byte" in err) == (4, True)


def test_cgroup_version(told):
    ready = ("--set", "failCgroupV1=false", "--cgroup", "v1")
    _, out, _ = told(BURSTABLE, "--kubernetes", "1.36", *QOS_ON, *ready, "--json")
    [container] = json.loads(out)["pods"][0]["containers"]
    assert "unified" not in container["cri"]
    assert container["cri"]["memory_swap_limit_in_bytes"] == 209715200


def test_fields_unknown_to_the_release_are_noted(told, tmp_path):
    """A kubelet starts despite them, so the plan does too, but a note says that they have no effect."""
    config = str(tmp_path / "kubelet.yaml")
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    (tmp_path / "kubelet.yaml").write_text(f"{head}memoryReservationPolicy: TieredReservation\n")
    code, out, err = told(BURSTABLE, "--kubernetes", "1.27", "--kubelet-config", config)
    assert (code, out.startswith("Kubernetes 1.27")) == (0, True)
    assert err == (
        f"memqos: note: {config}:3: memoryReservationPolicy: the kubelet of 1.27 does not know this field, which came "
        'with 1.36: it logs "Using lenient decoding as strict decoding failed" and ignores it.\n'
    )
    code, out, err = told(BURSTABLE, "--diff", "1.27", "1.28", "--kubelet-config", config, "--json")
    assert [line.partition(": the kubelet of ")[2][:4] for line in err.splitlines()] == ["1.27", "1.28"]
    code, out, _ = told(BURSTABLE, "--kubernetes", "1.27", "--kubelet-config", config, "--json")
    assert [one["field"] for one in json.loads(out)["ignored"]] == ["memoryReservationPolicy"]
