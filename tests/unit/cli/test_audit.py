import json
from pathlib import Path

import pytest

from memqos.cli.main import run

TREES = Path(__file__).parents[2] / "trees"
TIERED = TREES / "v1.36.3.tiered-0.9-systemd-reserved.json"


@pytest.fixture
def told(capsys):
    """Run `memqos audit` with these arguments: the exit code, and what was written where."""

    def tell(*arguments):
        code = run(["audit", *map(str, arguments)])
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return tell


@pytest.fixture
def changed(tmp_path):
    """A copy of a recorded tree after something was done to it."""

    def change(do, source=TIERED):
        data = json.loads(source.read_text())
        do(data)
        path = tmp_path / "tree.json"
        path.write_text(json.dumps(data))
        return path

    return change


@pytest.mark.parametrize("tree", sorted(TREES.glob("*.json")), ids=lambda path: path.stem)
def test_a_real_kubelet_conforms(told, tree):
    code, out, err = told("--tree", tree)
    assert (code, " 0 deviate, " in out.splitlines()[-1]) == (0, True)
    note = "restartPolicy of container s of pod default/burst-sidecar-n1: Kubernetes 1.27 does not know this field"
    assert (err == "") is ("v1.27" not in tree.name) is (note not in err)


def path_of(data, pod, container):
    [found] = [key for key, (name, own, _) in data["containers"].items() if (name, own) == (pod, container)]
    [path] = [path for path in data["cgroups"] if found in path]
    return path


@pytest.mark.parametrize("case", [
    ("/kubepods.slice", "memory.min", "4096", "memory.min of kubepods.slice is 4096, expected "),
    ("/kubepods.slice", "memory.max", "max", "memory.max of kubepods.slice is max, expected 1904234496"),
    ("/kubepods.slice/kubepods-burstable.slice", "memory.low", "0", "memory.low of kubepods-burstable.slice is 0"),
    ("/kubepods.slice/kubepods-besteffort.slice", "cpu.weight", "9", "cpu.weight of kubepods-besteffort.slice is 9"),
    (("burst-req-lim-n1", "a"), "memory.high", "max", "memory.high of container a of pod default/burst-req-lim-n1"),
    (("burst-req-lim-n1", "a"), "memory.low", "0", "memory.low of container a of pod default/burst-req-lim-n1 is 0"),
    (("burst-req-lim-n1", "a"), "memory.swap.max", "max", "memory.swap.max of container a of pod"),
    (("burst-req-lim-n1", "a"), "memory.oom.group", "0", "memory.oom.group of container a of pod"),
    (("burst-req-lim-n1", "a"), "cpu.max", "1000 100000", "cpu.max of container a of pod"),
    (("burst-req-lim-n1", "a"), "oom_score_adj", "1000", "oom_score_adj of container a of pod"),
    (("guar-one-n1", "a"), "memory.min", "0", "memory.min of container a of pod default/guar-one-n1 is 0"),
    (("guar-one-n1", "a"), "memory.max", "67112960", "memory.max of container a of pod default/guar-one-n1 is 6711"),
])  # fmt: skip
def test_a_single_corrupted_knob_is_named(told, changed, case):
    where, file, text, says = case

    def corrupt(data):
        path = where if isinstance(where, str) else path_of(data, *where)
        assert data["cgroups"][path][file] != text
        data["cgroups"][path][file] = text

    code, out, _ = told("--tree", changed(corrupt))
    assert code == 1
    assert says in out
    assert ", 1 deviate, " in out.splitlines()[-1]
    assert "  source   " in out


def test_every_finding_as_json(told, changed):
    def corrupt(data):
        data["cgroups"]["/kubepods.slice"]["hugetlb"]["hugetlb.2MB.max"] = "0"

    code, out, _ = told("--tree", changed(corrupt), "--json")
    document = json.loads(out)
    assert code == 1
    assert document["counts"] == {"conforms": 348, "deviates": 1, "not observable": 10}
    assert len(document["findings"]) == 359
    [wrong] = [one for one in document["findings"] if one["verdict"] == "deviates"]
    assert (wrong["cgroup"], wrong["knob"], wrong["observed"]) == ("/kubepods.slice", "hugetlb.2MB.max", "0")
    assert wrong["reason"]["rule"]


def test_what_is_given_wins_over_what_is_recorded(told, changed, tmp_path):
    """Pods and configuration from files of their own; with another configuration the same tree deviates."""
    data = json.loads(TIERED.read_text())
    (tmp_path / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": data["pods"]}))
    (tmp_path / "kubelet.json").write_text(json.dumps(data["config"]))
    data["config"]["memoryReservationPolicy"] = "None"
    (tmp_path / "other.json").write_text(json.dumps(data["config"]))
    bare = changed(lambda data: [data.pop(name) for name in ("pods", "config", "kubelet")])
    common = ("--tree", bare, "--kubernetes", "1.36", "--pods", tmp_path / "pods.json")
    code, out, _ = told(*common, "--kubelet-config", tmp_path / "kubelet.json")
    assert (code, "349 conform, 0 deviate" in out) == (0, True)
    code, out, _ = told(*common, "--kubelet-config", tmp_path / "other.json")
    assert code == 1
    assert "memory.low of kubepods-burstable.slice" in out


def test_pods_that_are_missing_or_unknown_are_said(told, changed):
    def rename(data):
        data["pods"][0]["metadata"]["name"] = "elsewhere"

    code, out, _ = told("--tree", changed(rename))
    assert code == 0
    assert "admission of pod default/elsewhere: the tree has no container of this pod" in out
    assert "not judged, since they were not given: pods guar-one-n1" in out


def test_what_rests_on_pods_that_were_not_given_is_not_observable(told, changed):
    """The sums above pods lack their requests; all that is of one pod alone is judged as ever."""
    code, out, _ = told("--tree", changed(lambda data: data["pods"].pop(0)), "--json")
    document = json.loads(out)
    assert (code, document["counts"]["deviates"], document["not_judged"]) == (0, 0, ["guar-one-n1"])
    unseen = {
        (one["subject"], one["knob"]): (one["why_not"], one["observed"])
        for one in document["findings"]
        if one["verdict"] == "not observable" and "burst-init-max" not in one["subject"]
    }
    why = "it is made from what all pods of the node request, and 1 of them was not given"
    assert unseen == {
        ("kubepods.slice", "memory.min"): (why, "530112512"),
        ("kubepods-burstable.slice", "memory.low"): (why, "379670528"),
        ("kubepods-burstable.slice", "cpu.weight"): (why, "7"),
    }


def test_limits_that_are_made_from_requests_rest_on_all_pods_too(told, changed):
    reserved = TREES / "v1.36.3.qosreserved-50.json"
    _, out, _ = told("--tree", changed(lambda data: data["pods"].pop(0), reserved), "--json")
    unseen = {
        (one["subject"], one["knob"]) for one in json.loads(out)["findings"] if "all pods of the node" in one["why_not"]
    }
    assert unseen >= {("kubepods-burstable.slice", "memory.max"), ("kubepods-besteffort.slice", "memory.max")}
    assert ("kubepods.slice", "memory.max") not in unseen


def test_a_pod_of_which_only_the_cgroup_was_recorded_is_a_stranger(told, changed):
    def forget(data):
        del data["pods"][0]
        data["containers"] = {key: one for key, one in data["containers"].items() if one[0] != "guar-one-n1"}

    code, out, _ = told("--tree", changed(forget), "--json")
    [stranger] = json.loads(out)["not_judged"]
    assert (code, stranger.startswith("(uid "), len(stranger)) == (0, True, 38)


def test_zones_are_not_known_while_other_pods_may_hold_them(told, changed):
    """Without the state file and one of the pods, nobody can say which zone was free, nor who had to be refused."""

    def forget(data):
        data["pods"] = [pod for pod in data["pods"] if pod["metadata"]["name"] != "g-big"]
        del data["memory_manager_state"]

    code, out, _ = told("--tree", changed(forget, ONE_ZONE), "--json")
    findings = json.loads(out)["findings"]
    zones = {one["subject"]: one["why_not"] for one in findings if one["knob"] == "cpuset.mems"}
    assert code == 0
    assert zones["container a of pod default/g-small-n1"] == (
        "other pods may hold memory of its zones: 1 of them was not given, nor is memory_manager_state there"
    )
    assert zones["container a of pod default/burst-n1"] == ""


def test_one_pod_twice_in_a_recording(told, changed):
    code, out, err = told("--tree", changed(lambda data: data["pods"].append(data["pods"][0])))
    assert (code, out) == (4, "")
    assert "tree.json pods[12]: metadata.name: the pod default/guar-one" in err
    assert "is already there, from " in err


def test_a_recorded_pod_may_say_what_only_two_escapes_can(told, changed):
    """JSON writes characters beyond the first 65536 as two halves, which YAML does not know."""
    path = changed(lambda data: data["pods"][0]["metadata"].update(annotations={"mood": "😀"}))
    assert b"\\ud83d\\ude00" in path.read_bytes()
    assert told("--tree", path)[0] == 0


def test_an_oom_score_that_is_no_number_is_not_observable(told, changed):
    def spoil(data):
        data["cgroups"][path_of(data, "burst-req-lim-n1", "a")]["oom_score_adj"] = "?"

    code, out, _ = told("--tree", changed(spoil))
    assert (code, "oom_score_adj of container a of pod default/burst-req-lim-n1: the file does not parse" in out) == (
        0, True
    )  # fmt: skip


def test_a_container_twice_in_a_recording(told, changed):
    """One that was started again has a cgroup as the second; two that run at once are no kubelet's."""

    def restart(data):
        data["containers"] = {"0ld": ["burst-req-lim-n1", "a", names_of(data)[2]], **data["containers"]}
        data["containers"]["e1der"] = ["burst-req-lim-n1", "a", names_of(data)[2]]

    def names_of(data):
        return next(one for one in data["containers"].values() if one[:2] == ["burst-req-lim-n1", "a"])

    def double(data):
        path = path_of(data, "burst-req-lim-n1", "a")
        data["cgroups"][f"{path.rpartition('/')[0]}/cri-containerd-e1der.scope"] = data["cgroups"][path]
        restart(data)

    assert told("--tree", changed(restart))[:1] == (0,)
    code, out, err = told("--tree", changed(double))
    assert (code, out) == (4, "")
    assert "tree.json: containers.e1der: container a of pod burst-req-lim-n1 has a cgroup as " in err


def test_two_pods_of_one_name(told, changed):
    """Namespaces are not recorded: uids tell such pods apart, and without uids nobody can."""

    def twins(data, *, said):
        namesake = json.loads(json.dumps(data["pods"][0]))
        namesake["metadata"]["namespace"] = "other"
        data["pods"].append(namesake)
        own = next(one for one in data["containers"].values() if one[0] == "guar-one-n1")
        data["containers"]["tw1n"] = ["guar-one", "a", "f" * 8]
        data["cgroups"][f"/kubepods.slice/kubepods-pod{'f' * 8}.slice"] = {"memory.max": "max"}
        for key, one in data["containers"].items():
            if one[0] == "guar-one-n1":
                data["containers"][key] = ["guar-one", *one[1:]]
        if said:
            data["pods"][0]["metadata"]["uid"], namesake["metadata"]["uid"] = own[2], "f" * 8

    _, out, _ = told("--tree", changed(lambda data: twins(data, said=False)))
    assert "admission of pod other/guar-one: the tree has several pods of this name, and none of its uid" in out
    _, out, _ = told("--tree", changed(lambda data: twins(data, said=True)))
    assert "several pods" not in out
    assert "of container a of pod other/guar-one: the reading has no such cgroup" in out


def cluster(data):
    """What an API server says of these pods, and of some that are not of this node."""
    for pod in data["pods"]:
        pod["spec"]["nodeName"] = "n1"
    for name, node, phase in (("far", "n2", "Running"), ("waiting", "", "Pending"), ("done", "n1", "Succeeded")):
        pod = json.loads(json.dumps(data["pods"][0]))
        pod["metadata"]["name"], pod["spec"]["nodeName"], pod["status"] = name, node, {"phase": phase}
        data["pods"].append(pod)


def test_pods_of_other_nodes_and_pods_that_have_ended(told, changed):
    code, out, _ = told("--tree", changed(cluster))
    assert code == 0
    assert "2 pods were given that no scheduler bound to this node: not looked for" in out
    assert "1 pod was given whose phase is Succeeded or Failed: not looked for" in out
    assert "admission of pod" not in out


def test_a_full_node_as_an_api_server_prints_it(told, changed, tmp_path):
    """A List in the place of the manifests, with everything that servers add, is more than any one request may hold."""

    def fill(data):
        for number, pod in enumerate(data["pods"]):
            pod["status"] = {"phase": "Running", "message": "x" * 300_000, "qosClass": f"{number}"}
        data["pods"] = {"apiVersion": "v1", "items": data["pods"], "kind": "List", "metadata": {"resourceVersion": ""}}

    path = changed(fill)
    assert path.stat().st_size > 3 << 20
    code, out, _ = told("--tree", path)
    assert (code, ": 349 conform, 0 deviate, " in out) == (0, True)
    # A cluster's pods beside a tree that has none of its own.
    (tmp_path / "pods.json").write_text(json.dumps(json.loads(path.read_text())["pods"]))
    bare = changed(lambda data: data.pop("pods"))
    assert told("--tree", bare, "--pods", tmp_path / "pods.json")[0] == 0


def test_nothing_observed(told, changed):
    def empty(data):
        data["cgroups"] = {"/elsewhere": {"memory.min": "0"}}

    code, out, _ = told("--tree", changed(empty))
    assert code == 5
    assert ": 0 conform, 0 deviate, " in out


def test_a_file_that_was_not_there_is_not_observable(told, changed):
    def remove(data):
        data["cgroups"]["/kubepods.slice"]["memory.swap.max"] = None
        data["cgroups"]["/kubepods.slice"]["cpu.max"] = "much"

    code, out, _ = told("--tree", changed(remove))
    assert code == 0
    assert "memory.swap.max of kubepods.slice: there is no such file" in out
    assert "cpu.max of kubepods.slice: the file does not parse" in out


def test_pods_behind_an_api_server_keep_their_names(told, changed):
    """A pod with its own name and an ordinary uid is not static: it may swap."""

    def not_static(data):
        [uid] = {uid for name, _, uid in data["containers"].values() if name == "burst-req-lim-n1"}
        new = "12345678-1234-1234-1234-123456789abc"
        text = json.dumps(data["cgroups"]).replace(uid, new.replace("-", "_"))
        data["cgroups"] = json.loads(text)
        data["containers"] = {
            key: ["burst-req-lim", name, new] if old == uid else [pod, name, old]
            for key, (pod, name, old) in data["containers"].items()
        }
        data["config"]["memorySwap"] = {"swapBehavior": "LimitedSwap"}

    code, out, _ = told("--tree", changed(not_static))
    assert code == 1
    named = {line.split(" is ")[0] for line in out.splitlines() if ", expected " in line}
    assert named == {"memory.swap.max of container a of pod default/burst-req-lim"}
    assert told("--tree", changed(not_static), "--static")[0] == 0


@pytest.mark.parametrize(("do", "says"), [
    (lambda data: data.pop("cgroups"), ["tree.json: cgroups", "expected an object, got nothing"]),
    (lambda data: data["node"].update(cgroup="v3"), ["node.cgroup", "expected v1 or v2, got 'v3'"]),
    (lambda data: data["node"].update(cgroup=1), ["node.cgroup", "expected a string, got 1"]),
    (lambda data: data.update(cgroups={}), ["there is no cgroup in it"]),
    (lambda data: data.update(cgroups={"/a/../b": {}}), ["cgroups./a/../b", "cannot be the name of a cgroup"]),
    (lambda data: data.update(cgroups={"/a": {}}), ["there is no control file in it that memqos knows"]),
    (lambda data: data.update(cgroups={"/a": {"memory.min": 5}}), ["cgroups./a.memory.min", "the file's text"]),
    (lambda data: data.update(containers={"x": ["pod"]}), ["containers.x", "[pod name, container name, pod uid]"]),
    (lambda data: data.pop("node"), ["does not say 'node'"]),
    (lambda data: data["node"].update(mem_total_kib="-1"), ["node.mem_total_kib", "a number of KiB"]),
    (lambda data: data["node"].update(cpus="two"), ["node.cpus", "a whole number"]),
    (lambda data: data["cgroups"].update({"/kubepods.slice/": {"memory.max": "1"}}), ["this cgroup is there twice"]),
    (lambda data: data["cgroups"]["/kubepods.slice"].update({"hugetlb.2MB.max": "1"}), ["this file is there twice"]),
    (lambda data: data["cgroups"]["/kubepods.slice"].update(hugetlb=[1]), ["hugetlb: expected an object, got [1]"]),
    (lambda data: data.update(memory_manager_state="x"), ["memory_manager_state: expected an object"]),
    (lambda data: data["node"].update(cpus=0), ["node.cpus: 0 is not one of 1 to 8192."]),
    (lambda data: data["node"].update(page_size=7), ["node.page_size: 7 is not one of 4096, 16384, 65536."]),
    (lambda data: data["node"].update(swappiness=-1), ["node.swappiness: -1 is not one of 0 to 200."]),
    (lambda data: data["node"].update(mem_total_kib=0), ["node.mem_total_kib: a node has memory, and at least as"]),
    (lambda data: data["node"].update(numa={"node0": 1 << 40}), ["node.mem_total_kib", "at least as much as its zon"]),
    (lambda data: data["containers"].update(x=["other", "c", next(iter(data["containers"].values()))[2]]),
     ["containers.x: the uid ", " belongs to the pod "]),
    (lambda data: data["node"].update(numa={"zone": "1"}), ["node.numa", "node<number>"]),
    (lambda data: data.update(kubelet=1.36), ["kubelet", "expected a string"]),
    (lambda data: data.pop("kubelet"), ["does not say 'kubelet (its release)'", "--kubernetes"]),
    (lambda data: data.pop("pods"), ["does not say 'pods'", "--pods"]),
    (lambda data: data.update(pods=[{"kind": "Pod"}]), ["tree.json pods[0]"]),
    (lambda data: data["config"].update(memoryThrottlingFactor=2), ["tree.json config", "memoryThrottlingFactor"]),
])  # fmt: skip
def test_a_recording_that_is_none(told, changed, do, says):
    code, out, err = told("--tree", changed(do))
    assert (code, out) == (4, "")
    for words in says:
        assert words in err


@pytest.mark.parametrize(("data", "says"), [
    (b"{", "this is not JSON"),
    (b"[" * 1_000_000, "deeper than memqos reads"),
    (b"\xff\xfe", "is not UTF-8"),
    (b"[]", "expected an object"),
    (b" " * ((64 << 20) + 1), "more than 67108864 bytes"),
])  # fmt: skip
def test_a_file_that_is_no_tree(told, tmp_path, data, says):
    (tmp_path / "tree.json").write_bytes(data)
    code, _, err = told("--tree", tmp_path / "tree.json")
    assert code == 4
    assert says in err
    assert "tree.json" in err


def test_standard_input_once(told):
    code, _, err = told("--tree", "-", "--pods", "-")
    assert code == 4
    assert "can be read once only" in err


def test_facts_of_the_node_may_be_given(told, changed, tmp_path):
    """Without any node in the recording it has to be; with another one the same tree deviates."""
    bare = changed(lambda data: data.pop("node"))
    (tmp_path / "node.yaml").write_text("memory: 2023444Ki\nswap: 524284Ki\ncpus: 2\n")
    assert told("--tree", bare, "--node", tmp_path / "node.yaml")[0] == 0
    code, out, _ = told("--tree", TIERED, "--capacity-memory", "4Gi")
    assert code == 1
    assert "memory.max of kubepods.slice is 1904234496" in out


ONE_ZONE = TREES / "v1.36.3.static-single-numa.json"


def test_pods_that_must_be_refused_are_judged(told, changed):
    code, out, _ = told("--tree", ONE_ZONE, "--json")
    [admission] = [one for one in json.loads(out)["findings"] if one["knob"] == "admission"]
    assert (code, admission["verdict"], admission["subject"]) == (0, "conforms", "pod default/g-too-big")

    def admit(data):
        data["containers"]["f00"] = ["g-too-big-n1", "a", "0" * 32]

    code, out, _ = told("--tree", changed(admit, ONE_ZONE))
    assert code == 1
    assert "admission of pod default/g-too-big-n1 is running, expected refused (UnexpectedAdmissionError)" in out


def test_a_container_on_the_wrong_zone(told, changed):
    def move(data):
        data["cgroups"][path_of(data, "g-small-n1", "a")]["cpuset.mems"] = "0-1"

    code, out, _ = told("--tree", changed(move, ONE_ZONE))
    assert code == 1
    assert "cpuset.mems of container a of pod default/g-small-n1 is 0-1, expected 1" in out


def test_a_state_that_no_kubelet_goes_on_from(told, changed):
    code, _, err = told("--tree", changed(lambda data: data["memory_manager_state"].update(checksum=1), ONE_ZONE))
    assert code == 4
    assert "memory_manager_state: with this configuration and node no kubelet goes on" in err


def scopes(data, below):
    """The tree as crun makes it: the files of each container in a cgroup below its scope."""
    data["cgroups"] = {
        f"{path}{below}" if path.endswith(".scope") else path: files for path, files in data["cgroups"].items()
    }


def test_the_recorded_runtimes_decide(told, changed):
    """With quadratic weights and rounding the same files deviate, and every one is named with the runtime."""
    code, out, _ = told("--tree", changed(lambda data: data["node"].update(runc="runc version 1.3.6\ncommit: v1.3.6")))
    assert code == 1
    assert "cpu.weight of container a of pod default/burst-cpu-only-n1 is 4, expected 17" in out
    assert "containerd 1.7.24~ds1 with runc 1.3.6" in out
    named = {line.split(" of ")[0] for line in out.splitlines() if ", expected " in line}
    assert named == {"cpu.weight"}
    # What is said wins over what is recorded.
    path = changed(lambda data: data["node"].update(runc="runc version 1.3.6"))
    assert told("--tree", path, "--runtime", "runc@1.1.15")[0] == 0
    assert told("--tree", TIERED, "--weight", "quadratic")[0] == 1


def test_crun_is_found_by_where_its_containers_are(told, changed):
    def both(data):
        data["node"]["crun"] = "crun version 1.21\ncommit: 10269840aa07fb7e6b7e1acff6198692d8ff5c88"

    code, out, _ = told("--tree", changed(both), "--json")
    assert (code, json.loads(out)["runtimes"]) == (0, ["containerd 1.7.24~ds1", "runc 1.1.15+ds1"])
    code, out, _ = told("--tree", changed(lambda data: [both(data), scopes(data, "/container")]), "--json")
    document = json.loads(out)
    assert (code, document["runtimes"]) == (0, ["containerd 1.7.24~ds1", "crun 1.21"])
    assert document["counts"]["deviates"] == 0
    assert any(one["cgroup"].endswith(".scope/container") for one in document["findings"])


def test_of_runtimes_that_nobody_names_nothing_is_expected_that_versions_differ_in(told, changed):
    def bare(data):
        for name in ("containerd", "runc", "systemd"):
            del data["node"][name]

    code, out, _ = told("--tree", changed(bare))
    assert code == 0
    assert "taken to run on containerd of unknown version and runc of unknown version: what versions do" in out
    assert "not observable: cpu.weight of container a of pod default/burst-cpu-only-n1: versions of the runtime" in out
    assert "taken to run on" not in told("--tree", TIERED)[1]
    _, out, _ = told("--tree", changed(bare), "--runtime", "runc@1.1.14")
    assert "taken to run on containerd of unknown version: " in out
    assert "cpu.weight of" not in out


def test_a_runtime_without_a_version_is_not_taken_for_an_old_one(told, changed):
    """crun says UNKNOWN if it was built without its history."""

    def unknown(data):
        data["node"]["crun"] = "crun version UNKNOWN\ncommit: 1"
        scopes(data, "/container")

    _, out, _ = told("--tree", changed(unknown), "--json")
    document = json.loads(out)
    assert document["runtimes"] == ["containerd 1.7.24~ds1", "crun of unknown version"]
    assert document["counts"]["deviates"] == 0
    [weight] = [
        one
        for one in document["findings"]
        if (one["knob"], one["subject"]) == ("cpu.weight", "container a of pod default/burst-cpu-only-n1")
    ]
    assert (weight["verdict"], weight["expected"]) == ("not observable", "17 or 4")


def test_containers_below_their_scopes_are_cruns_whatever_the_recording_names(told, changed):
    _, out, _ = told("--tree", changed(lambda data: scopes(data, "/container")), "--json")
    assert json.loads(out)["runtimes"] == ["containerd 1.7.24~ds1", "crun of unknown version"]


def test_fields_on_top_of_the_recorded_configuration(told, changed, tmp_path):
    code, out, _ = told("--tree", TIERED, "--set", "memoryThrottlingFactor=0.8")
    assert code == 1
    assert {line.split(" of ")[0] for line in out.splitlines() if ", expected " in line} == {"memory.high"}
    assert "[--set memoryThrottlingFactor]" in out
    # On top of a file that takes the place of the recorded one, and of nothing at all.
    (tmp_path / "kubelet.json").write_text(json.dumps(json.loads(TIERED.read_text())["config"]))
    given = ("--tree", TIERED, "--kubelet-config", tmp_path / "kubelet.json")
    assert told(*given, "--set", "memoryThrottlingFactor=0.9")[0] == 0
    assert told(*given, "--set", "memoryThrottlingFactor=0.8")[0] == 1
    bare = changed(lambda data: data.pop("config"))
    code, out, _ = told("--tree", bare, "--set", "cgroupDriver=systemd")
    assert (code, "memory.max of kubepods.slice" in out) == (1, True)
    code, _, err = told("--tree", TIERED, "--set", "memoryThrotlingFactor=1")
    assert (code, "Did you mean 'memoryThrottlingFactor'" in err) == (4, True)


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
    (b'{"node": NaN}', "NaN is no number"),
    (b'{"node": -Infinity}', "-Infinity is no number"),
    (b'{"node": {"cpus": 1, "cpus": 2}}', "the key 'cpus' is there twice in one object."),
    (TIERED.read_bytes()[:20_000], "this is not JSON"),
])  # fmt: skip
def test_a_file_that_is_hardly_json(told, tmp_path, data, says):
    (tmp_path / "tree.json").write_bytes(data)
    code, out, err = told("--tree", tmp_path / "tree.json")
    assert (code, out) == (4, "")
    assert says in err


def test_a_text_that_no_terminal_can_show(told, changed):
    def half(data):
        data["cgroups"]["/kubepods.slice"]["memory.min"] = "\ud800"

    code, out, _ = told("--tree", changed(half))
    assert (code, r"'\ud800' is neither a number nor 'max'" in out) == (0, True)


def legacy_tree(**files):
    """One Guaranteed pod on a node with cgroup v1 and kubelet 1.24, as its own files say it, with these changed."""
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


UNMADE = {
    "memory.min": "0",
    "memory.low": "0",
    "memory.high": "max",
    "memory.max": "max",
    "memory.swap.max": "max",
    "memory.oom.group": "0",
    "cpu.weight": "100",
    "cpu.max": "max 100000",
}


@pytest.mark.parametrize(("first_process", "code", "deviating", "unseen"), [
    ({"oom_score_adj": "968", "comm": "runc:[2:INIT]"}, 0, 0, "its first process was still the runtime's"),
    ({"oom_score_adj": "968", "cmdline": "runc\0init\0"}, 0, 0, "its first process was still the runtime's"),
    ({"oom_score_adj": "-998"}, 0, 0, "or nobody ever wrote its files"),
    ({"oom_score_adj": "-998", "comm": "memload"}, 0, 0, "or nobody ever wrote its files"),
    ({"oom_score_adj": "-998", "memory.max": "209715200"}, 1, 6, ""),
    ({"oom_score_adj": "968"}, 1, 6, ""),
    ({"oom_score_adj": "968", "comm": "runcible"}, 1, 6, ""),
])  # fmt: skip
def test_a_container_that_was_being_made(told, changed, first_process, code, deviating, unseen):  # noqa: PLR0917
    def catch(data):
        data["cgroups"][path_of(data, "burst-req-lim-n1", "a")].update({**UNMADE, **first_process})

    found, out, _ = told("--tree", changed(catch))
    assert (found, f" {deviating} deviate, " in out.splitlines()[-1]) == (code, True)
    assert bool(unseen) is ("of container a of pod default/burst-req-lim-n1: the container was being made" in out)
    assert unseen in out


def test_one_file_that_was_never_written_is_a_deviation_though_the_process_is_another(told, changed):
    def reset(data):
        data["cgroups"][path_of(data, "besteffort-n1", "a")]["oom_score_adj"] = "0"

    code, out, _ = told("--tree", changed(reset))
    assert (code, " 1 deviate, " in out.splitlines()[-1]) == (1, True)


def deployment(manifest, *, kind="Deployment", name="web", replicas=3):
    """A Deployment of pods like this one."""
    spec = {name: value for name, value in manifest["spec"].items() if name != "nodeName"}
    body = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}
    body |= {} if kind == "DaemonSet" else {"replicas": replicas}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def made_by(data, pod, name):
    """Let a static pod of the recording be one that a controller made under this name."""
    uids = {uid for own, _, uid in data["containers"].values() if own == f"{pod}-n1"}
    [uid] = uids
    new = f"{uid[:8]}-{uid[8:12]}-{uid[12:16]}-{uid[16:20]}-{uid[20:]}"
    data["cgroups"] = json.loads(json.dumps(data["cgroups"]).replace(uid, new.replace("-", "_")))
    for names in data["containers"].values():
        if names[2] == uid:
            names[0], names[2] = name, new
    [index] = [number for number, one in enumerate(data["pods"]) if one["metadata"]["name"] == pod]
    return index


@pytest.mark.parametrize(("kind", "name", "elsewhere"), [
    ("Deployment", "web-5d9c7b8f6-x2x4z", "2 pods were given that no scheduler bound to this node"),
    ("ReplicaSet", "web-x2x4z", "2 pods were given that no scheduler bound to this node"),
    ("StatefulSet", "web-1", "2 pods were given that no scheduler bound to this node"),
    ("DaemonSet", "web-x2x4z", ""),
])  # fmt: skip
def test_the_pods_of_a_workload_are_found_by_what_its_controller_calls_them(told, changed, kind, name, elsewhere):
    def replace(data):
        index = made_by(data, "besteffort", name)
        data["pods"][index] = deployment(data["pods"][index], kind=kind)

    code, out, _ = told("--tree", changed(replace))
    assert f"oom_score_adj of container a of pod default/{name}" not in out
    assert "were not given" not in out
    assert elsewhere in out
    assert (code, " 0 deviate, " in out.splitlines()[-1]) == (0, True)


def test_a_pod_that_no_controller_of_this_name_makes_is_a_stranger(told, changed):
    def replace(data):
        index = made_by(data, "besteffort", "web-five")
        data["pods"][index] = deployment(data["pods"][index])

    _, out, _ = told("--tree", changed(replace))
    assert "not judged, since they were not given: pods web-five" in out
