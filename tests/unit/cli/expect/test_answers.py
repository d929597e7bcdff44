"""The answers of `memqos expect`: trees, JSON, and reasons."""

import json
import subprocess
import sys

from tests.unit.cli.expect.asking import BURSTABLE, FIXTURES, STATIC, TIERED


def test_tree(told):
    code, out, err = told(BURSTABLE, "--kubernetes", "1.36", "--kubelet-config", TIERED, "--swap", "1Gi")
    assert code == 0
    notes = err.splitlines()
    assert len(notes) == 2
    assert all("it must exist beforehand" in note for note in notes)
    assert "pod default/burstable (Burstable)" in out
    assert "    memory.high       195452928  186.4 MiB" in out
    assert "    memory.swap.max   8388608    8 MiB" in out
    assert "\x1b" not in out


def test_json(told):
    code, out, err = told(
        BURSTABLE,
        "--kubernetes",
        "1.36",
        "--kubelet-config",
        TIERED,
        "--json",
        "--capacity-memory",
        "16Gi",
        "--driver",
        "cgroupfs",
        "--cpus",
        "2",
        "--page-size",
        "16384",
        "--weight",
        "quadratic",
    )
    assert code == 0
    assert err.count("it must exist beforehand") == len(err.splitlines()) == 2
    document = json.loads(out)
    assert (document["release"], document["driver"]) == ("1.36", "cgroupfs")
    own = document["cgroups"][-1]
    assert own["path"].startswith("/kubepods/burstable/pod")
    assert own["knobs"]["memory.high"]["written"] == "195444736"
    assert own["knobs"]["cpu.weight"]["written"] == "4"
    # Capacity less the reservations of the configuration.
    node = next(one for one in document["cgroups"] if one["level"] == "node")
    assert node["knobs"]["memory.max"]["written"] == str((16 << 30) - (160 << 20))


def test_why(told):
    code, out, _ = told(
        BURSTABLE,
        "--kubernetes",
        "v1.27.7",
        "--kubelet-config",
        str(FIXTURES / "kubelet" / "v1.27.yaml"),
        "--why",
        "memory.high",
    )
    assert code == 0
    assert "67108864 + (209715200 - 67108864) * 0.9 = 195454566.4" in out
    assert "burstable.yaml:" in out
    assert "memory-qos v1.27 shipped" in out


def test_why_as_json(told):
    _, out, _ = told(BURSTABLE, "--kubernetes", "1.27", "--why", "memory.max", "--json")
    assert {tuple(cgroup["knobs"]) for cgroup in json.loads(out)["cgroups"]} == {("memory.max",)}


def test_documented(told):
    best_effort = str(FIXTURES / "pods" / "best-effort.yaml")
    config = ("--kubelet-config", str(FIXTURES / "kubelet" / "v1.27.yaml"), "--json")
    for variant, written in (("shipped", None), ("documented", "7579942912")):
        _, out, _ = told(best_effort, "--kubernetes", "1.27", *config, "--as", variant)
        assert json.loads(out)["cgroups"][-1]["knobs"]["memory.high"]["written"] == written
    assert int((8589934592 - (160 << 20)) * 0.9) // 4096 * 4096 == 7579942912


def test_drafted(told):
    """A pod of the draft's own chapter, on two NUMA nodes of 1 GiB: its app container goes to the other one."""
    pod = str(FIXTURES / "pods" / "behaviour" / "init-then-app.yaml")
    config = ("--kubelet-config", str(FIXTURES / "kubelet" / "v1.36-static.yaml"), "--numa-nodes", "1Gi,1Gi")
    for variant, zone in (("shipped", "0"), ("draft", "1")):
        code, out, _ = told(pod, "--kubernetes", "1.36", *config, "--as", variant, "--why", "cpuset.mems")
        assert code == 0
        assert "cpuset.mems of container init of pod default/init-then-app: 0" in out
        assert f"cpuset.mems of container app of pod default/init-then-app: {zone}" in out
        assert ("memory-manager draft 2020" in out, "memory-manager v1.36" in out) == (zone == "1", zone == "0")


def test_standard_input():
    text = (FIXTURES / "pods" / "burstable.yaml").read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "memqos", "expect", "-", "--kubernetes", "1.36"],
        input=text,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"pod default/burstable" in done.stdout


def test_static_pods_never_swap(told):
    arguments = (BURSTABLE, "--kubernetes", "1.36", "--kubelet-config", TIERED, "--swap", "1Gi", "--json")
    for more, written in (((), "8388608"), (("--static",), "0")):
        _, out, _ = told(*arguments, *more)
        assert json.loads(out)["cgroups"][-1]["knobs"]["memory.swap.max"]["written"] == written


def test_several_files(told):
    code, out, _ = told(BURSTABLE, str(FIXTURES / "pods" / "guaranteed-one.yaml"), "--kubernetes", "1.27")
    assert code == 0
    assert "pod default/guaranteed-one (Guaranteed)" in out


def test_no_runner_and_no_runtime_is_imported():
    code = (
        "import sys, memqos.cli.expect; print([m for m in ('pytest', 'grpc', 'testinfra', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"


def test_errata_need_no_pod(told):
    code, out, err = told("--errata")
    assert (code, err) == (0, "")
    assert "best-effort-high (1.27 to 1.36)" in out
    assert len(json.loads(told("--errata", "--json")[1])["errata"]) == 16


def test_numa_nodes_of_containers_and_refusals(told):
    pod = str(FIXTURES / "pods" / "guaranteed-one.yaml")
    _, out, _ = told(pod, "--kubernetes", "1.36", *STATIC, "--numa-nodes", "1Gi,1Gi")
    assert "    cpuset.mems       0\n" in out
    code, out, _ = told(pod, "--kubernetes", "1.36", *STATIC, "--numa-nodes", "101Mi,8Mi")
    assert code == 0
    assert "pod default/guaranteed-one is refused: UnexpectedAdmissionError: Allocate failed due to " in out
    code, _, err = told(pod, "--kubernetes", "1.36", *STATIC, "--set", "evictionHard=null", "--numa-nodes", "1Gi,1Gi")
    assert (code, "the NUMA nodes reserve 100Mi of memory together" in err, "node reserves 200Mi" in err) == (
        4,
        True,
        True,
    )


def test_why_explains_a_missing_file(told):
    code, out, _ = told(BURSTABLE, "--kubernetes", "1.34", "--cgroup", "v1", "--why", "memory.high")
    assert code == 0
    assert out.startswith("memory.high does not exist on cgroup v1: cgroup v1 does not throttle")


def test_json_is_written_a_piece_at_a_time_and_reads_as_ever(told):
    """The same text as of the whole document at once, also if a list is empty."""
    for more in ((), ("--set", "cgroupsPerQOS=false", "--set", "enforceNodeAllocatable=[none]")):
        code, out, _ = told(BURSTABLE, "--kubernetes", "1.36", "--json", *more)
        assert (code, out) == (0, json.dumps(json.loads(out), indent=1) + "\n")
