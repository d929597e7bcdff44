"""Wrong input to the command line: one sentence with file, line, field and what is allowed, and never a traceback."""

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from memqos.cli.main import run

HEAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n"
KUBELET = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
ONE = "  containers:\n  - {name: c, image: i, resources: {requests: {memory: 64Mi}}}\n"


@pytest.fixture
def told(capsys, tmp_path, monkeypatch):
    """Run `memqos expect` on a pod's specification and a configuration: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def tell(spec, *arguments, config="", release="1.36"):
        (tmp_path / "pod.yaml").write_text(HEAD + spec)
        (tmp_path / "kubelet.yaml").write_text(KUBELET + config)
        code = run(["expect", "pod.yaml", "--kubernetes", release, "--kubelet-config", "kubelet.yaml", *arguments])
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return tell


MEMORY = "pod.yaml:8: spec.containers[0].resources.limits.memory: "


@pytest.mark.parametrize(("text", "says"), [
    ('""', "'' is not a quantity: write a number and a suffix"),
    ("1e1000", "'1e1000' is above Kubernetes' maximum of 2^63-1"),
    ('"1e1000"', "'1e1000' is above Kubernetes' maximum of 2^63-1"),
    ("-1", "an amount must not be negative, got -1"),
    ("12q", "'12q' is not a quantity: 'q' is not a suffix (Ki Mi Gi Ti Pi Ei"),
    ("1\u0661", "'1\u0661' is not a quantity: write a number and a suffix"),
    ("\u0661\u0662", "'\u0661\u0662' is not a quantity: write a number and a suffix"),
    ("9" * 10240, "a quantity of 10240 characters is longer than the 128 that are accepted"),
    (".inf", "'inf' is not a quantity"),
    ("1 Gi", "'1 Gi' is not a quantity"),
    ("[1]", "expected a quantity, got a list"),
    ("yes", "expected a quantity, got 'yes'"),
])  # fmt: skip
def test_quantities(told, text, says):
    code, out, err = told(f"  containers:\n  - name: c\n    image: i\n    resources: {{limits: {{memory: {text}}}}}\n")
    assert (code, out) == (4, "")
    assert MEMORY + says in err


def test_a_tenth_of_a_byte_is_a_quantity(told):
    """Kubernetes takes it, and counts whole bytes, rounded up."""
    code, out, _ = told("  containers:\n  - {name: c, image: i, resources: {limits: {memory: 0.1}}}\n", "--json")
    assert code == 0
    assert json.loads(out)["pods"][0]["containers"][0]["cri"]["memory_limit_in_bytes"] == 1


@pytest.mark.parametrize(("spec", "says"), [
    ("  containers:\n  - {name: c, image: i}\n  - {name: c, image: i}\n",
     "pod.yaml:7: spec.containers[1].name: "),
    ("  initContainers:\n  - {name: c, image: i}\n  containers:\n  - {name: c, image: i}\n",
     "pod.yaml:8: spec.containers[0].name: "),
    ("  containers:\n  - name: c\n    image: i\n    resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}\n",
     "pod.yaml:8: spec.containers[0].resources.requests.memory: the request 2Gi is above the limit 1Gi"),
    ("  resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}\n" + ONE,
     "pod.yaml:5: spec.resources.requests.memory: the request 2Gi is above the limit 1Gi"),
    ("  containers: []\n", "pod.yaml:5: spec.containers: a pod needs at least one container"),
    ("  containers:\n  - {name: c, image: i, resources: {limits: {memroy: 1}}}\n", "Did you mean 'memory'?"),
])  # fmt: skip
def test_pods(told, spec, says):
    code, out, err = told(spec)
    assert (code, out) == (4, "")
    assert says in err


STATIC = "memoryManagerPolicy: Static\nsystemReserved: {memory: 100Mi}\nevictionHard: {}\n"


@pytest.mark.parametrize(("config", "arguments", "says"), [
    ("", ("--numa-nodes", "0,0"), ["--numa-nodes: the NUMA nodes together have 0 bytes of memory", "one byte"]),
    ("", ("--numa-nodes", "4Gi,4Gi", "--capacity-memory", "2Gi"),
     ["the NUMA nodes together have 8589934592", "the machine has 2147483648"]),
    ("", ("--numa-nodes", "1Gi,"), ["--numa-nodes: '' is not a quantity", "Write sizes such as 4Gi,4Gi"]),
    (STATIC + "reservedMemory:\n- numaNode: 0\n  limits: {memory: 60Mi}\n- numaNode: 1\n  limits: {memory: 39Mi}\n",
     ("--numa-nodes", "1Gi,2Gi"),
     ["kubelet.yaml:7: reservedMemory: ", "reserve 99Mi of memory together (103809024 bytes)", "100Mi (104857600"]),
    (STATIC, ("--numa-nodes", "1Gi,2Gi"), ["kubelet configuration: reservedMemory: ", "reserve 0 of memory together"]),
    (STATIC, ("--numa-nodes", "1Gi", "--set", "reservedMemory=[{numaNode: 7, limits: {memory: 100Mi}}]"),
     ["--set reservedMemory: reservedMemory: there is no NUMA node 7 on this machine", "It has 0"]),
    (STATIC, ("--numa-nodes", "1Gi", "--set", "reservedMemory=[{numaNode: 0, limits: {memory: null}}]"),
     ["reservedMemory: memory of NUMA node 0 is 0, and must be more than zero"]),
    ("memoryThrottlingFactor: 0\n", (), ["kubelet.yaml:3: memoryThrottlingFactor: the factor 0 ", "above 0, at most"]),
    ("memoryThrottlingFactor: -0.5\n", (), ["kubelet.yaml:3: memoryThrottlingFactor: the factor -0.5 "]),
    ("memoryThrottlingFactor: 1.0001\n", (), ["kubelet.yaml:3: memoryThrottlingFactor: the factor 1.0001 "]),
    ("memoryThrottlingFactor: 1e-400\n", (), ["kubelet.yaml:3: memoryThrottlingFactor: the factor 0 "]),
    ("memoryThrottlingFactor: .nan\n", (), ["kubelet.yaml:3: memoryThrottlingFactor: '.nan' is not a decimal number"]),
    ("", ("--set", "memoryThrottlingFactor=x"), ["--set memoryThrottlingFactor: memoryThrottlingFactor: expected a"]),
    ("memoryReservationPolicy: TieredReservation\n", (),
     ["kubelet.yaml:3: memoryReservationPolicy: TieredReservation needs the feature gate MemoryQoS", "or leave"]),
    ("memorySwap: {swapBehavior: LimitedSwap}\nfeatureGates: {NodeSwap: false}\n", ("--kubernetes", "1.30"),
     ["kubelet.yaml:3: memorySwap.swapBehavior: 'LimitedSwap' needs the feature gate NodeSwap"]),
    ("qosReserved: {memory: 50%}\n", (), ["kubelet.yaml:3: qosReserved: it needs the feature gate QOSReserved"]),
    ("featureGates: {MemoryQos: true}\n", (),
     ["kubelet.yaml:3: featureGates.MemoryQos: unknown feature gate 'MemoryQos'", "Did you mean 'MemoryQoS'?"]),
    ("systemReserved: {memory: 100Gi}\n", (),
     ["kubelet.yaml:3: systemReserved: more memory is reserved",
      "(systemReserved 100Gi + evictionHard 100Mi = 107479040000) than the node has (8589934592)"]),
    ("kubeReserved: {cpu: '3'}\nsystemReserved: {cpu: 1500m}\n", (),
     ["systemReserved: more cpu is reserved (systemReserved 1500m + kubeReserved 3 = 4500m) than the node has (4)"]),
])  # fmt: skip
def test_nodes_and_configurations(told, config, arguments, says):
    code, out, err = told(ONE, *arguments, config=config)
    assert (code, out) == (4, "")
    assert "Traceback" not in err
    for words in says:
        assert words in err


@pytest.mark.parametrize(("arguments", "says"), [
    (("--why", "memory.hgih"), ["--why: there is no interface file 'memory.hgih'", "Did you mean 'memory.high'?"]),
    (("--why", "cpu.wight"), ["Did you mean 'cpu.weight'"]),
    (("--why", "x" * 4000), ["--why: there is no interface file '" + "x" * 80 + "'.\n", "Known: memory.min, "]),
    (("--set", "nonsense"), ["--set: 'nonsense' is not key=value", "Write key=value, such as"]),
    (("--set", "featureGates.MemoryQoS=maybe"), ["--set featureGates.MemoryQoS: ", "true or false, got 'maybe'"]),
    (("--set", "memoryThrotlingFactor=0.8"), ["unknown field 'memoryThrotlingFactor'", "'memoryThrottlingFactor'?"]),
    (("--set", "evictionHard={{"), ["--set evictionHard:1: a key must be a word"]),
    (("--set", "memorySwap=[1]"), ["--set memorySwap: memorySwap: expected a mapping of fields, got a list"]),
    (("--set", "cpuManagerPolicy=statik"), ["--set cpuManagerPolicy: ", "'statik' is not one of none, static"]),
    (("--set", "memoryManagerPolicy=static"), ["'static' is not a valid value", "Known: None, Static"]),
    (("--diff", "1.22", "1.36"), ["--diff names both releases: leave --kubernetes out"]),
    (("--diff-config", "no.yaml"), ["the file 'no.yaml' cannot be read", "Give the path of a KubeletConfiguration"]),
    (("--node", "no.yaml"), ["the file 'no.yaml' cannot be read", "Give the path of a file of node facts"]),
])  # fmt: skip
def test_options(told, arguments, says):
    code, out, err = told(ONE, *arguments)
    assert (code, out) == (4, "")
    assert "Traceback" not in err
    for words in says:
        assert words in err


@pytest.mark.parametrize(("releases", "says"), [
    (("1.99", "1.22"), "there is no Kubernetes release '1.99'.\n        Known: 1.22, 1.23"),
    (("1.36", "one"), "there is no Kubernetes release 'one'.\n        Known: 1.22"),
])  # fmt: skip
def test_differences_of_unknown_releases(capsys, tmp_path, releases, says):
    (tmp_path / "pod.yaml").write_text(HEAD + ONE)
    assert run(["expect", str(tmp_path / "pod.yaml"), "--diff", *releases]) == 4
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(("data", "says"), [
    (b"", "tree.json: the file is empty."),
    (b'{\n "kubelet": "1.27', "tree.json:2: this is not JSON, at column 13: Unterminated string."),
    (b"\x7fELF\x00\xff", "tree.json:1: byte 5 is not UTF-8."),
    (b"[]", "tree.json: expected an object."),
    (b"{}", "tree.json: missing required field 'cgroups'."),
    (b'{"containers": {}, "cgroups": 7}', "tree.json:1: cgroups: 'cgroups' must be an object, each value an object"),
    (b"[" * 200_000, "tree.json: the nesting is deeper than memqos reads."),
    (b'{"a": "' + b"y" * (64 << 20), "tree.json: the file has more than 67108864 bytes."),
    (b'{"containers": {}, "cgroups": {}}', "tree.json: cgroups: it contains no cgroup."),
])  # fmt: skip
def test_recorded_trees(capsys, tmp_path, monkeypatch, data, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tree.json").write_bytes(data)
    assert run(["audit", "--tree", "tree.json"]) == 4
    streams = capsys.readouterr()
    assert streams.out == ""
    assert says in streams.err


def test_a_malformed_configuration(told, tmp_path):
    (tmp_path / "other.yaml").write_text("17\n")
    code, out, err = told(ONE, "--diff-config", "other.yaml")
    assert (code, out) == (4, "")
    assert "other.yaml: expected one KubeletConfiguration, got something else than a mapping of fields" in err


def test_a_missing_recorded_tree(capsys):
    assert run(["audit", "--tree", "no.json"]) == 4
    assert "Give the path of a recorded tree, or - for standard input" in capsys.readouterr().err


def test_a_numa_node_without_memory_is_one(told):
    """A zone of CPUs only is nothing wrong, as long as another has memory."""
    reserved = "reservedMemory=[{numaNode: 1, limits: {memory: 100Mi}}]"
    code, _, err = told(ONE, "--numa-nodes", "0,2Gi", "--set", reserved, config=STATIC)
    assert (code, err) == (0, "")


def test_a_factor_that_a_float_makes_one(told):
    code, _, err = told(ONE, config="memoryThrottlingFactor: 1.00000000000000000001\n")
    assert code == 0
    assert "the factor has no effect: MemoryQoS is off" in err


GUARANTEED = "  containers:\n  - {name: c, image: i, resources: {limits: {memory: 3Gi, cpu: 1}}}\n"


def test_pods_that_do_not_fit_are_refused_as_the_kubelet_does(told):
    """With its own reason names, and without an error: a node does the same."""
    code, out, err = told(GUARANTEED, "--capacity-memory", "1Gi")
    assert (code, err) == (0, "")
    assert "pod default/p is refused: OutOfmemory: Node didn't have enough resource: memory, requested: 32" in out
    assert "OutOfcpu" in told(GUARANTEED, "--cpus", "1", config="systemReserved: {cpu: 1m}\n")[1]
    one_zone = ("--set", "topologyManagerPolicy=single-numa-node", "--numa-nodes", "2Gi,2Gi")
    reserved = "reservedMemory=[{numaNode: 0, limits: {memory: 100Mi}}]"
    _, out, _ = told(GUARANTEED, *one_zone, "--set", reserved, "--json", config=STATIC)
    [refusal] = json.loads(out)["refusals"]
    assert (refusal["name"], refusal["reason_name"]) == ("default/p", "TopologyAffinityError")
    # A node that is only assumed has room for every pod.
    assert "refused" not in told("  containers:\n  - {name: c, image: i, resources: {requests: {cpu: 100}}}\n")[1]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(b"\xff\xfe\x00")
@example(b'"\\ud800"')
@example(b"- " * 5000)
@example((HEAD + '  containers: [{name: "\\u0000"}]').encode())
@example((HEAD + "  containers: [{name: c, resources: {limits: {memory: " + "1" * 5000 + "}}}]").encode())
def test_random_bytes_never_give_a_traceback(tmp_path, capsys, data):
    """As a manifest, as a configuration, as the node's facts and as a tree: a sentence, and an exit code of its own."""
    path = tmp_path / "x.yaml"
    path.write_bytes(data)
    (tmp_path / "pod.yaml").write_text(HEAD + ONE)
    pod, file = str(tmp_path / "pod.yaml"), str(path)
    for arguments in (
        ["expect", file, "--kubernetes", "1.36"],
        ["expect", pod, "--kubernetes", "1.36", "--kubelet-config", file],
        ["expect", pod, "--kubernetes", "1.36", "--node", file],
        ["audit", "--tree", file],
    ):
        code = run(arguments)
        streams = capsys.readouterr()
        assert code in {0, 4}
        assert ("memqos: error: " in streams.err) is (code == 4)
        assert "Traceback" not in streams.err


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.sampled_from([
    "--json", "--why", "memory.high", "--set", "a=b", "featureGates.MemoryQoS=true", "--runtime", "runc@1", "crun@1.21",
    "--translate", "all", "--protection", "--usage", "p/c=1", "--diff", "1.22", "1.36", "--page-size", "4096", "--swap",
    "1Gi", "--numa-nodes", "1Gi,1Gi", "--cgroup", "v1", "--driver", "systemd", "--kubernetes", "-1", "", "--errata",
]), max_size=8))  # fmt: skip
def test_random_words_never_give_a_traceback(tmp_path, capsys, words):
    (tmp_path / "pod.yaml").write_text(HEAD + ONE)
    code = run(["expect", str(tmp_path / "pod.yaml"), *words])
    streams = capsys.readouterr()
    assert code in {0, 4}
    assert bool(streams.err) is (code == 4)
