"""Invalid, damaged and hostile recordings: each is rejected in one sentence."""

import pytest

from tests.unit.cli.audit.recordings import TIERED


@pytest.mark.parametrize(("do", "says"), [
    (lambda data: data.pop("cgroups"), ["tree.json: missing required field 'cgroups'."]),
    (lambda data: data["node"].update(cgroup="v3"), ["node.cgroup", "'cgroup' must be one of v1, v2, not 'v3'."]),
    (lambda data: data["node"].update(cgroup=1), ["node.cgroup", "'cgroup' must be one of v1, v2, not 1."]),
    (lambda data: data.update(cgroups={}), ["it contains no cgroup"]),
    (lambda data: data.update(cgroups={"/a/../b": {}}), ["cgroups./a/../b", "cannot be the name of a cgroup"]),
    (lambda data: data.update(cgroups={"/a": {}}), ["no cgroup has an interface file that memqos knows"]),
    (lambda data: data.update(cgroups={"/a": {"memory.min": 5.0}}), ["cgroups./a.memory.min", "the file's text"]),
    (lambda data: data.update(containers={"x": ["pod"]}), ["containers.x", "[pod name, container name, pod uid]"]),
    (lambda data: data.pop("node"), ["does not contain 'node'"]),
    (lambda data: data["node"].update(mem_total_kib="-1"), ["node.mem_total_kib", "a number of KiB"]),
    (lambda data: data["node"].update(cpus="two"), ["node.cpus", "a whole number"]),
    (lambda data: data["cgroups"].update({"/kubepods.slice/": {"memory.max": "1"}}), ["this cgroup occurs twice"]),
    (lambda data: data["cgroups"]["/kubepods.slice"].update({"hugetlb.2MB.max": "1"}), ["this file occurs twice"]),
    (lambda data: data["cgroups"]["/kubepods.slice"].update(hugetlb=[1]), ["hugetlb: it must be an object, not [1]."]),
    (lambda data: data.update(memory_manager_state="x"), ["'memory_manager_state' must be an object, not 'x'."]),
    (lambda data: data["node"].update(cpus=0), ["node.cpus: 'cpus' must be a whole number from 1 to 8192, not 0."]),
    (lambda data: data["node"].update(page_size=7), ["node.page_size: 'page_size' must be one of 4096, 16384, 65536"]),
    (lambda data: data["node"].update(swappiness=-1), ["node.swappiness: 'swappiness' must be a whole number from 0"]),
    (lambda data: data["node"].update(mem_total_kib=0), ["node.mem_total_kib: a node has memory, at least as"]),
    (lambda data: data["node"].update(numa={"node0": 1 << 40}), ["node.mem_total_kib", "at least as much as its NUMA"]),
    (lambda data: data["containers"].update(x=["other", "c", next(iter(data["containers"].values()))[2]]),
     ["containers.x: the uid ", " belongs to the pod "]),
    (lambda data: data["node"].update(numa={"zone": "1"}), ["node.numa", "node<number>"]),
    (lambda data: data["node"].update(numa={"node0": "x"}), ["node.numa.node0: 'node0' must be a number of KiB, not"]),
    (lambda data: data.update(cgroups={"/a": 1}), ["cgroups./a: '/a' must be an object, not 1."]),
    (lambda data: data.update(unread=[1]), ["unread[0]: '[0]' must be a string, not 1."]),
    (lambda data: data.update(drop_ins_unread={"a.conf": 1}), ["drop_ins_unread.a.conf: 'a.conf' must be a string"]),
    (lambda data: data.update(kubelet=1.36), ["kubelet: 'kubelet' must be a string, not 1.36."]),
    (lambda data: data.pop("kubelet"), ["does not contain 'kubelet (its release)'", "--kubernetes"]),
    (lambda data: data.pop("pods"), ["does not contain 'pods'", "--pods"]),
    (lambda data: data.update(pods=[{"kind": "Pod"}]), ["tree.json pods[0]"]),
    (lambda data: data["config"].update(memoryThrottlingFactor=2), ["tree.json config", "memoryThrottlingFactor"]),
])  # fmt: skip
def test_a_malformed_recording(told, changed, do, says):
    code, out, err = told("--tree", changed(do))
    assert (code, out) == (4, "")
    for words in says:
        assert words in err


@pytest.mark.parametrize(("data", "says"), [
    (b"{", "this is not JSON"),
    (b"[" * 1_000_000, "deeper than memqos reads"),
    (b"\xff\xfd", "is not UTF-8"),
    (b"[]", "expected an object"),
    (b" " * ((64 << 20) + 1), "more than 67108864 bytes"),
])  # fmt: skip
def test_a_file_that_is_not_a_tree(told, tmp_path, data, says):
    (tmp_path / "tree.json").write_bytes(data)
    code, _, err = told("--tree", tmp_path / "tree.json")
    assert code == 4
    assert says in err
    assert "tree.json" in err


def test_standard_input_once(told):
    code, _, err = told("--tree", "-", "--pods", "-")
    assert code == 4
    assert "can be read once only" in err


@pytest.mark.parametrize(("do", "says"), [
    (lambda data: data["node"].update(runc="unknown"), ["node.runc", "what 'runc --version' prints"]),
    (lambda data: data["node"].update(systemd=257), ["node.systemd", "a string"]),
    (lambda data: data["node"].update(mem_total_kib="9" * 5000), ["node.mem_total_kib", "a number of KiB"]),
    (lambda data: data["node"].update(numa={"node" + "1" * 30: "1"}), ["node.numa", "node<number>"]),
    (lambda data: data["containers"].update(x=["p", "c", "a/b"]), ["containers.x", "letters, digits"]),
    (lambda data: data["containers"].update({"a\u0000": ["p", "c", "u"]}), ["containers.a", "letters, digits"]),
    (lambda data: data["config"].update(podCIDR="\ud800", memoryThrottlingFactor="\ud800"), ["tree.json config"]),
])  # fmt: skip
def test_a_hostile_recording(told, changed, do, says):
    code, out, err = told("--tree", changed(do))
    assert (code, out) == (4, "")
    for words in says:
        assert words in err


@pytest.mark.parametrize(("data", "says"), [
    (b'{"node": ' + b"1" * 5000 + b"}", "Exceeds the limit"),
    (b'{"node": NaN}', "NaN is not a number"),
    (b'{"node": -Infinity}', "-Infinity is not a number"),
    (b'{"node": {"cpus": 1, "cpus": 2}}', "the key 'cpus' occurs twice in one object."),
    (TIERED.read_bytes()[:20_000], "this is not JSON"),
    *((b'{"cgroups": {}, "containers": {}, "kubelet": ' + b"[" * deep + b"]" * deep + b"}", "must be a string")
      for deep in (100, 500, 900)),
])  # fmt: skip
def test_almost_json(told, tmp_path, data, says):
    (tmp_path / "tree.json").write_bytes(data)
    code, out, err = told("--tree", tmp_path / "tree.json")
    assert (code, out) == (4, "")
    assert says in err


def test_the_line_of_a_value_that_does_not_fit_is_named(told, tmp_path):
    text = """{
 "other": {"kubelet": [1, {"a": "}"}]},
 "containers": {},
 "cgroups": {"/a": {"memory.min": "0"},
  "/b":
   7
 }
}
"""
    (tmp_path / "tree.json").write_text(text)
    code, out, err = told("--tree", tmp_path / "tree.json")
    assert (code, out) == (4, "")
    assert "tree.json:6: cgroups./b: '/b' must be an object, not 7." in err

    (tmp_path / "tree.json").write_text(
        text.replace("7", '{"memory.min": "1"}, "/c": {}').replace("{},", '{}, "unread": [\n"--a",\n1],')
    )
    code, out, err = told("--tree", tmp_path / "tree.json")
    assert "tree.json:5: unread[1]: '[1]' must be a string, not 1." in err
