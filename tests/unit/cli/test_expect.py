import json
import os
import subprocess
import sys

import pytest

from memqos.catalog.data import data_root
from memqos.cli.main import run

FIXTURES = data_root() / "fixtures"
BURSTABLE = str(FIXTURES / "pods" / "burstable.yaml")
TIERED = str(FIXTURES / "kubelet" / "v1.36-tiered.yaml")


@pytest.fixture
def told(capsys):
    """Run `memqos expect` with these arguments: the exit code, and what was written where."""

    def tell(*arguments):
        code = run(["expect", *arguments])
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return tell


def test_tree(told):
    code, out, err = told(BURSTABLE, "--kubernetes", "1.36", "--kubelet-config", TIERED, "--swap", "1Gi")
    assert (code, err) == (0, "")
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
    assert (code, err) == (0, "")
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
    """A pod of the draft's own chapter, on two zones of 1 GiB: its app container goes elsewhere."""
    pod = str(FIXTURES / "pods" / "behaviour" / "init-then-app.yaml")
    config = ("--kubelet-config", str(FIXTURES / "kubelet" / "v1.36-static.yaml"), "--zones", "1Gi,1Gi")
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


BAD_CONFIG = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


@pytest.mark.parametrize(
    "case",
    [
        (
            "resources: {requests: {memory: 12q}}",
            "",
            (),
            ["pod.yaml:7", "spec.containers[0].resources.requests.memory"],
        ),
        ("resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}", "", (), ["above the limit 1Gi"]),
        ("resourcs: {}", "", (), ["unknown field 'resourcs'", "Did you mean 'resources'"]),
        ("resources: {requests: {memory: -1}}", "", (), ["must not be negative"]),
        ("", "memoryThrottlingFactor: 1.5", (), ["kubelet.yaml:3", "memoryThrottlingFactor", "1.5", "at most 1"]),
        ("", "memoryThrottlngFactor: 0.5", (), ["kubelet.yaml:3", "Did you mean 'memoryThrottlingFactor'"]),
        ("", "", ("--kubernetes", "1.99"), ["there is no Kubernetes release '1.99'", "1.37"]),
        ("", "", ("--kubernetes", "1.36", "--why", "memory.maxx"), ["there is no control file 'memory.maxx'"]),
        ("", "", ("--kubernetes", "1.36", "--capacity-memory", "much"), ["--capacity-memory", "is not a quantity"]),
        ("", "", ("--kubernetes", "1.36", "--capacity-memory", "0"), ["--capacity-memory", "less than 1"]),
        ("", "", ("--kubernetes", "1.36", "--swap", "-1"), ["--swap"]),
        ("", "", ("--kubernetes", "1.36", "--kubelet-config", "missing.yaml"), ["missing.yaml", "no such file"]),
        ("", "", ("--kubernetes", "1.36", "missing.yaml"), ["missing.yaml", "no such file"]),
        ("", "", ("--kubernetes", "1.36", "-", "--kubelet-config", "-"), ["can be read once only"]),
    ],
)
def test_bad_input(told, tmp_path, monkeypatch, case):
    pod, config, arguments, says = case
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pod.yaml").write_text(
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n  - name: c\n    {pod}\n"
    )
    (tmp_path / "kubelet.yaml").write_text(BAD_CONFIG + config)
    arguments = arguments or ("--kubernetes", "1.36", "--kubelet-config", "kubelet.yaml")
    code, out, err = told("pod.yaml", *arguments)
    assert (code, out) == (4, "")
    assert "Traceback" not in err
    for words in says:
        assert words in err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("pod.yaml",),
        ("pod.yaml", "--kubernetes", "1.36", "--page-size", "5000"),
        ("--kubernetes",),
        ("pod.yaml", "--kubernetes", "1.36", "--as", "wished"),
    ],
)
def test_wrong_usage(told, arguments):
    code, _, err = told(*arguments)
    assert code == 4
    assert "memqos: error: " in err


def test_hostile_files_are_refused_at_once(told, tmp_path):
    for name, data in (("deep", b"[" * 10_000_000), ("deep2", b"[" * 1_000_000), ("noise", os.urandom(100_000))):
        path = tmp_path / f"{name}.yaml"
        path.write_bytes(data)
        code, _, err = told(str(path), "--kubernetes", "1.36")
        assert code == 4
        assert f"{name}.yaml" in err


def test_no_runner_and_no_runtime_is_imported():
    code = (
        "import sys, memqos.cli.expect; print([m for m in ('pytest', 'grpc', 'testinfra', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"


QOS_ON = ("--set", "featureGates.MemoryQoS=true")


def test_fields_on_top_of_the_configuration(told):
    _, out, _ = told(BURSTABLE, "--kubernetes", "1.36", *QOS_ON, "--set", "memoryThrottlingFactor=0.8", "--why",
                     "memory.high")  # fmt: skip
    assert "67108864 + (209715200 - 67108864) * 0.8 = 181193932.8" in out
    assert "[--set memoryThrottlingFactor]" in out
    code, _, err = told(BURSTABLE, "--kubernetes", "1.36", "--set", "memoryThrottlingFactor=1.5")
    assert (code, "--set memoryThrottlingFactor: memoryThrottlingFactor: the factor 1.5" in err) == (4, True)


def kubepods_max(out):
    [node] = [one for one in json.loads(out)["cgroups"] if one["level"] == "node"]
    return int(node["knobs"]["memory.max"]["written"])


def test_facts_of_a_node_from_a_file(told, tmp_path):
    (tmp_path / "node.yaml").write_text("memory: 3Gi\nswap: 2Gi\nzones: [{memory: 1Gi}, {memory: 2Gi}]\n")
    common = (BURSTABLE, "--kubernetes", "1.36", "--json", "--node", str(tmp_path / "node.yaml"))
    assert kubepods_max(told(*common)[1]) == 3 << 30
    # An option wins over the file.
    assert kubepods_max(told(*common, "--capacity-memory", "4Gi")[1]) == 4 << 30
    code, _, err = told(*common, "--capacity-memory", "2Gi")
    assert (code, "the zones have 3221225472 bytes" in err) == (4, True)


def test_zones_make_the_nodes_memory(told):
    assert kubepods_max(told(BURSTABLE, "--kubernetes", "1.36", "--json", "--zones", "1Gi,2Gi")[1]) == 3 << 30
    assert kubepods_max(told(BURSTABLE, "--kubernetes", "1.36", "--json")[1]) == 8 << 30
    code, _, err = told(BURSTABLE, "--kubernetes", "1.36", "--zones", "0,0")
    assert (code, "at least one byte" in err) == (4, True)


def test_cgroup_version(told):
    ready = ("--set", "failCgroupV1=false", "--cgroup", "v1")
    _, out, _ = told(BURSTABLE, "--kubernetes", "1.36", *QOS_ON, *ready, "--json")
    [container] = json.loads(out)["pods"][0]["containers"]
    assert "unified" not in container["cri"]
    assert container["cri"]["memory_swap_limit_in_bytes"] == 209715200


def test_errata_need_no_pod(told):
    code, out, err = told("--errata")
    assert (code, err) == (0, "")
    assert "best-effort-high (1.27 to 1.36)" in out
    assert len(json.loads(told("--errata", "--json")[1])["errata"]) == 15


def test_two_releases(told):
    code, out, err = told(BURSTABLE, "--diff", "1.22", "1.27", *QOS_ON, "--set", "memoryThrottlingFactor=0.9")
    assert (code, err) == (0, "")
    assert out.startswith("1.22 -> 1.27: ")
    assert "  memory.high: 188743680 -> 195452928\n" in out
    _, out, _ = told(BURSTABLE, "--diff", "1.36", "1.36", "--json")
    assert json.loads(out) == {"memqos_format": 1, "before": "1.36", "after": "1.36", "changes": []}


def test_two_configurations(told):
    other = str(FIXTURES / "kubelet" / "v1.36-none.yaml")
    code, out, err = told(BURSTABLE, "--kubernetes", "1.36", "--kubelet-config", TIERED, "--diff-config", other)
    assert (code, err) == (0, "")
    assert out.startswith(f"1.36 with {TIERED} -> 1.36 with {other}: ")
    assert "  memory.low: 67108864 -> 0\n" in out


def test_a_configuration_from_standard_input_serves_both_releases():
    done = subprocess.run(
        [sys.executable, "-m", "memqos", "expect", BURSTABLE, "--diff", "1.33", "1.35", "--kubelet-config", "-"],
        input=BAD_CONFIG.encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"1.33 -> 1.35: ")


def test_what_changes_under_running_pods(told):
    """1.36 writes no memory.min for Burstable pods; those that run keep theirs, and so does the class above them."""
    common = (BURSTABLE, "--diff", "1.35", "1.36", *QOS_ON)
    fresh, running = told(*common)[1], told(*common, "--running")[1]
    assert "  memory.min: 67108864 -> not written (0)\n" in fresh
    assert "  memory.min: 67108864 -> not written (67108864)\n" in running
    assert "    after  the kubelet writes no other value over the one that it wrote before" in running


@pytest.mark.parametrize(("arguments", "says"), [
    ((BURSTABLE, "--kubernetes", "1.36", "--running"), "--running is about a change"),
    ((BURSTABLE,), "Missing option '--kubernetes'"),
    (("--kubernetes", "1.36"), "Missing argument 'FILE...'"),
    ((BURSTABLE, "--diff", "1.22", "1.23", "--kubernetes", "1.36"), "leave --kubernetes out"),
    ((BURSTABLE, "--diff", "1.22", "1.23", "--why", "memory.high"), "--why explains one plan"),
    ((BURSTABLE, "--diff-config", TIERED), "Missing option '--kubernetes'"),
    ((BURSTABLE, "--diff", "1.22", "1.99"), "there is no Kubernetes release '1.99'"),
])  # fmt: skip
def test_wrong_combinations(told, arguments, says):
    code, _, err = told(*arguments)
    assert (code, says in err) == (4, True)


STATIC = (
    "--set", "memoryManagerPolicy=Static", "--set", "topologyManagerPolicy=single-numa-node",
    "--set", "systemReserved.memory=100Mi", "--set", "evictionHard={}",
    "--set", "reservedMemory=[{numaNode: 0, limits: {memory: 100Mi}}]",
)  # fmt: skip


def test_zones_of_containers_and_refusals(told):
    pod = str(FIXTURES / "pods" / "guaranteed-one.yaml")
    _, out, _ = told(pod, "--kubernetes", "1.36", *STATIC, "--zones", "1Gi,1Gi")
    assert "    cpuset.mems       0\n" in out
    code, out, _ = told(pod, "--kubernetes", "1.36", *STATIC, "--zones", "101Mi,8Mi")
    assert code == 0
    assert "pod default/guaranteed-one is refused: UnexpectedAdmissionError: Allocate failed due to " in out
    code, _, err = told(pod, "--kubernetes", "1.36", *STATIC, "--set", "evictionHard=null", "--zones", "1Gi,1Gi")
    assert (code, "the zones reserve 100Mi of memory together" in err, "node reserves 200Mi" in err) == (4, True, True)


WEB = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: app
    image: x
    resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: %s}}
"""


@pytest.fixture
def resizing(tmp_path):
    for name, limit in (("web.yaml", "128Mi"), ("wanted.yaml", "96Mi")):
        (tmp_path / name).write_text(WEB % limit)
    return str(tmp_path / "web.yaml"), "--resize", str(tmp_path / "wanted.yaml")


def test_resize(told, resizing):
    code, out, err = told(*resizing, "--kubernetes", "1.36")
    assert (code, err) == (0, "")
    assert "pod default/web: InProgress" in out
    assert "  memory.max: 134217728 -> 100663296" in out
    _, out, _ = told(*resizing, "--kubernetes", "1.36", "--why", "memory.max")
    assert "the pod's memory limit shrinks: its cgroup is written after the containers" in out
    document = json.loads(told(*resizing, "--kubernetes", "1.33", "--json")[1])
    assert document["resizes"][0]["outcome"] == "Forbidden"


@pytest.mark.parametrize(("used", "outcome"), [("90Mi", "InProgress"), ("96Mi", "Error")])
def test_resize_below_what_is_used(told, resizing, used, outcome):
    document = json.loads(told(*resizing, "--kubernetes", "1.36", "--usage", f"web/app={used}", "--json")[1])
    assert document["resizes"][0]["outcome"] == outcome


@pytest.mark.parametrize("more", [("--diff-config", "x.yaml"), ("--protection",)])
def test_resize_is_an_answer_of_its_own(told, resizing, more):
    code, _, err = told(*resizing, "--kubernetes", "1.36", *more)
    assert code == 4
    assert "--resize is an answer of its own" in err


def test_why_a_file_is_not_there(told):
    code, out, _ = told(BURSTABLE, "--kubernetes", "1.34", "--cgroup", "v1", "--why", "memory.high")
    assert code == 0
    assert out.startswith("memory.high does not exist on cgroup v1: nothing on cgroup v1 throttles a cgroup")


def test_fields_that_the_release_does_not_know_are_said(told, tmp_path):
    """A kubelet goes on without them, so that the plan does, but nobody should believe that they count."""
    config = str(tmp_path / "kubelet.yaml")
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    (tmp_path / "kubelet.yaml").write_text(f"{head}memoryReservationPolicy: TieredReservation\n")
    code, out, err = told(BURSTABLE, "--kubernetes", "1.27", "--kubelet-config", config)
    assert (code, out.startswith("Kubernetes 1.27")) == (0, True)
    assert err == (
        f"memqos: note: {config}:3: memoryReservationPolicy: the kubelet of 1.27 does not know this field, which came "
        'with 1.36: it logs "Using lenient decoding as strict decoding failed" and goes on without it.\n'
    )
    code, out, err = told(BURSTABLE, "--diff", "1.27", "1.28", "--kubelet-config", config, "--json")
    assert [line.partition(": the kubelet of ")[2][:4] for line in err.splitlines()] == ["1.27", "1.28"]
    code, out, _ = told(BURSTABLE, "--kubernetes", "1.27", "--kubelet-config", config, "--json")
    assert [one["field"] for one in json.loads(out)["ignored"]] == ["memoryReservationPolicy"]


def cluster(tmp_path):
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "nodeName": node},
            "status": {"phase": phase},
        }
        for name, node, phase in (
            ("a", "n1", "Running"), ("b", "n2", "Running"), ("c", "n1", "Failed"), ("d", "n1", "Succeeded"),
            ("e", "", "Pending"), ("f", "n1", "Pending"),
        )
    ]  # fmt: skip
    path = tmp_path / "pods.json"
    path.write_text(json.dumps({"apiVersion": "v1", "items": pods, "kind": "List"}))
    return str(path)


def test_the_pods_of_one_node_out_of_a_cluster(told, tmp_path):
    path = cluster(tmp_path)
    code, out, err = told(path, "--kubernetes", "1.36", "--node-name", "n1", "--json")
    assert (code, [pod["name"] for pod in json.loads(out)["pods"]]) == (0, ["a", "f"])
    assert err.splitlines() == [
        "memqos: note: 2 pods have ended (status.phase Succeeded or Failed), and are left out: they have no cgroups.",
        "memqos: note: 1 pod has not been bound to a node yet, and is left out: it has no cgroups.",
    ]
    code, out, err = told(path, "--kubernetes", "1.36", "--json")
    assert (code, [pod["name"] for pod in json.loads(out)["pods"]]) == (0, ["a", "b", "f"])
    assert err.splitlines()[-1] == (
        "memqos: note: these pods are bound to 2 nodes, and are planned as if they were on one: --node-name chooses."
    )


def test_a_node_without_pods_is_none(told, tmp_path):
    code, _, err = told(cluster(tmp_path), "--kubernetes", "1.36", "--node-name", "n3")
    assert (code, "there is no node with pods 'n3'." in err, "Known: n1, n2." in err) == (4, True, True)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    (tmp_path / "done.json").write_text(json.dumps({**pod, "status": {"phase": "Failed"}}))
    code, _, err = told(str(tmp_path / "done.json"), "--kubernetes", "1.36")
    assert (code, "no pod is left that has cgroups" in err) == (4, True)


def test_json_is_written_a_piece_at_a_time_and_reads_as_ever(told):
    """The same text as of the whole document at once, also where a list is empty."""
    for more in ((), ("--set", "cgroupsPerQOS=false", "--set", "enforceNodeAllocatable=[none]")):
        code, out, _ = told(BURSTABLE, "--kubernetes", "1.36", "--json", *more)
        assert (code, out) == (0, json.dumps(json.loads(out), indent=1) + "\n")


def namesakes(tmp_path):
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"containers": [{"name": own} for own in containers]},
        }
        for namespace, name, containers in (
            ("blue", "web-1", ("app", "proxy")), ("blue", "web-2", ("app",)), ("red", "web-1", ("app", "log")),
            ("red", "cache", ("store",)),
        )
    ]  # fmt: skip
    path = tmp_path / "pods.json"
    path.write_text(json.dumps({"apiVersion": "v1", "items": pods, "kind": "List"}))
    return str(path)


@pytest.mark.parametrize(("chosen", "shown"), [
    (["--pod", "web-2"], ["blue/web-2", "app"]),
    (["--pod", "red/web-1"], ["red/web-1", "app", "log"]),
    (["--pod", "blue/*"], ["blue/web-1", "app", "proxy", "blue/web-2", "app"]),
    (["--pod", "cache", "--pod", "web-2"], ["blue/web-2", "app", "red/cache", "store"]),
    (["--pod", "web-1", "--container", "l?g"], ["red/web-1", "log"]),
    (["--container", "proxy"], ["blue/web-1", "proxy"]),
])  # fmt: skip
def test_some_pods_and_containers_alone(told, tmp_path, chosen, shown):
    code, out, err = told(namesakes(tmp_path), "--kubernetes", "1.36", *chosen)
    heads = [line for line in out.splitlines()[2:] if line.startswith(("pod ", "  container ")) or line[:1].isalpha()]
    words = [head.split()[1].removeprefix("default/") for head in heads]
    assert (code, err, words) == (0, "", shown)
    code, out, _ = told(namesakes(tmp_path), "--kubernetes", "1.36", "--json", *chosen)
    found = []
    for pod in json.loads(out)["pods"]:
        found += [f"{pod['namespace']}/{pod['name']}", *(one["name"] for one in pod["containers"])]
    assert (code, found) == (0, shown)


def test_a_container_alone_has_its_files_and_no_others(told, tmp_path):
    path = namesakes(tmp_path)
    code, out, _ = told(path, "--kubernetes", "1.36", "--pod", "red/web-1", "--container", "log", "--why", "cpu.weight")
    assert (code, [line for line in out.splitlines() if line.startswith("cpu.weight of ")]) == (
        0, ["cpu.weight of container log of pod red/web-1: 1"]
    )  # fmt: skip
    code, out, _ = told(path, "--kubernetes", "1.36", "--container", "log", "--protection")
    assert [line for line in out.splitlines() if line.startswith(("container", "pod", "kube"))] == [
        "container log of pod red/web-1"
    ]
    code, out, _ = told(path, "--diff", "1.22", "1.36", "--container", "log")
    subjects = {line for line in out.splitlines() if line and not line.startswith((" ", "1.22"))}
    # What is sent with the sandbox is the pod's, and there for every container.
    assert (code, subjects) == (0, {"container log of pod red/web-1", "pod red/web-1"})


@pytest.mark.parametrize(("chosen", "says"), [
    (["--pod", "web-3"], "--pod: there is no pod 'web-3'."),
    (["--pod", "green/web-1"], "--pod: there is no pod 'green/web-1'."),
    (["--container", "ap"], "--container: there is no container 'ap'."),
    (["--pod", ""], "--pod: there is no pod ''."),
])  # fmt: skip
def test_names_that_nothing_has(told, tmp_path, chosen, says):
    code, out, err = told(namesakes(tmp_path), "--kubernetes", "1.36", *chosen)
    assert (code, out, says in err) == (4, "", True)


def test_a_resize_is_not_narrowed(told, tmp_path):
    path = namesakes(tmp_path)
    code, _, err = told(path, "--kubernetes", "1.36", "--resize", path, "--pod", "web-1")
    assert (code, "leave --pod and --container out" in err) == (4, True)
