"""Which pods a recording has, which it should have, and what depends on missing ones."""

import json

import pytest

from tests.unit.cli.audit.recordings import TREES, cluster, path_of


def test_missing_and_unknown_pods_are_reported(told, changed):
    def rename(data):
        data["pods"][0]["metadata"]["name"] = "elsewhere"

    code, out, _ = told("--tree", changed(rename))
    assert code == 0
    assert "admission of pod default/elsewhere: the tree has no container of this pod" in out
    assert "not judged, since no manifest was given: pods guar-one-n1" in out


def test_values_that_depend_on_missing_pods_are_not_observable(told, changed):
    """The sums above pods lack their requests; everything about a single pod is judged as usual."""
    code, out, _ = told("--tree", changed(lambda data: data["pods"].pop(0)), "--json")
    document = json.loads(out)
    assert (code, document["counts"]["deviates"], document["not_judged"]) == (0, 0, ["guar-one-n1"])
    unseen = {
        (one["subject"], one["knob"]): (one["why_not"], one["observed"])
        for one in document["findings"]
        if one["verdict"] == "not observable" and "burst-init-max" not in one["subject"]
    }
    why = "it is computed from what all pods of the node request, and 1 of them was not given"
    assert unseen == {
        ("kubepods.slice", "memory.min"): (why, "530112512"),
        ("kubepods-burstable.slice", "memory.low"): (why, "379670528"),
        ("kubepods-burstable.slice", "cpu.weight"): (why, "7"),
    }


def test_limits_summed_from_requests_depend_on_all_pods(told, changed):
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


def test_one_pod_twice_in_a_recording(told, changed):
    code, out, err = told("--tree", changed(lambda data: data["pods"].append(data["pods"][0])))
    assert (code, out) == (4, "")
    assert "tree.json pods[12]: metadata.name: the pod default/guar-one" in err
    assert "is already defined in " in err


def test_a_recorded_pod_may_say_what_only_two_escapes_can(told, changed):
    """JSON writes characters beyond the first 65536 as two halves, which YAML does not know."""
    path = changed(lambda data: data["pods"][0]["metadata"].update(annotations={"mood": "😀"}))
    assert b"\\ud83d\\ude00" in path.read_bytes()
    assert told("--tree", path)[0] == 0


def test_a_container_twice_in_a_recording(told, changed):
    """A restarted one has a cgroup as the second; two that run at once are not from one kubelet."""

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


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("empty", [{"cgroup.procs": ""}, {"processes": "0"}, {"cgroup.events": "populated 0"}])
def test_a_container_whose_earlier_cgroup_is_left(told, changed, first, empty):
    def leave(data):
        path = path_of(data, "burst-req-lim-n1", "a")
        data["cgroups"][f"{path.rpartition('/')[0]}/cri-containerd-e1der.scope"] = {
            **{name: "0" for name in data["cgroups"][path] if name.startswith("memory.")}, **empty
        }  # fmt: skip
        own = next(one for one in data["containers"].values() if one[:2] == ["burst-req-lim-n1", "a"])
        data["containers"] = {"e1der": own, **data["containers"]} if first else {**data["containers"], "e1der": own}

    code, out, _ = told("--tree", changed(leave))
    assert (code, ": 349 conform, 0 deviate, " in out) == (0, True)


def test_a_container_that_the_manifest_does_not_have(told, changed):
    """A webhook may have added it, with requests of its own: its pod and the sums are unknown, the other pods known."""

    def inject(data):
        own = next(one for one in data["containers"].values() if one[:2] == ["burst-req-lim-n1", "a"])
        path = path_of(data, "burst-req-lim-n1", "a")
        pod = path.rpartition("/")[0]
        data["containers"]["1ns1de"] = [own[0], "istio-proxy", own[2]]
        data["cgroups"][f"{pod}/cri-containerd-1ns1de.scope"] = dict(data["cgroups"][path])
        data["cgroups"][pod] |= {"memory.low": "201326592", "memory.max": "max"}
        data["cgroups"]["/kubepods.slice/kubepods-burstable.slice"]["memory.low"] = "606208000"
        data["cgroups"]["/kubepods.slice"]["memory.min"] = "664330240"

    code, out, _ = told("--tree", changed(inject), "--json")
    findings = json.loads(out)["findings"]
    why = {one["why_not"] for one in findings if "burst-req-lim" in one["subject"]}
    assert (code, why) == (
        0, {"the node runs a container istio-proxy of this pod, which its manifest does not have"}
    )  # fmt: skip
    assert [one["verdict"] for one in findings if one["subject"] == "pod default/guar-one-n1"].count("conforms") > 5


@pytest.mark.parametrize(("told_class", "verdicts"), [
    ("Guaranteed", {"not observable"}), ("BestEffort", {"not observable"}), ("Burstable", {"conforms"}),
    ("", {"conforms"}), ("Weird", {"conforms"}),
])  # fmt: skip
def test_a_class_in_the_status_that_the_spec_does_not_imply(told, changed, told_class, verdicts):
    """Kubelets from 1.29 on take the class of the status; the spec is then not the one of the pod's creation."""

    def classify(data):
        [pod] = [one for one in data["pods"] if one["metadata"]["name"] == "burst-req-only"]
        pod["status"] = {"phase": "Running", "qosClass": told_class}

    _, out, _ = told("--tree", changed(classify), "--json")
    findings = json.loads(out)["findings"]
    assert {one["verdict"] for one in findings if one["subject"] == "pod default/burst-req-only-n1"} == verdicts


def test_two_pods_of_one_name(told, changed):
    """Namespaces are not recorded: uids distinguish such pods, and without uids nothing does."""

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


def test_pods_of_other_nodes_and_pods_that_have_ended(told, changed):
    code, out, _ = told("--tree", changed(cluster))
    assert code == 0
    assert "2 pods were given that no scheduler bound to this node: not looked for" in out
    assert "1 pod was given whose phase is Succeeded or Failed: not looked for" in out
    assert "admission of pod" not in out


def test_a_full_node_as_an_api_server_prints_it(told, changed, tmp_path):
    """A List with everything that servers add exceeds the size limit of a single request."""

    def fill(data):
        for number, pod in enumerate(data["pods"]):
            pod["status"] = {"phase": "Running", "message": "x" * 300_000, "qosClass": f"{number}"}
        data["pods"] = {"apiVersion": "v1", "items": data["pods"], "kind": "List", "metadata": {"resourceVersion": ""}}

    path = changed(fill)
    assert path.stat().st_size > 3 << 20
    code, out, _ = told("--tree", path)
    assert (code, ": 349 conform, 0 deviate, " in out) == (0, True)
    # A cluster's pods next to a tree without its own.
    (tmp_path / "pods.json").write_text(json.dumps(json.loads(path.read_text())["pods"]))
    bare = changed(lambda data: data.pop("pods"))
    assert told("--tree", bare, "--pods", tmp_path / "pods.json")[0] == 0


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


def deployment(manifest, *, kind="Deployment", name="web", replicas=3):
    """A Deployment of pods like this one."""
    spec = {name: value for name, value in manifest["spec"].items() if name != "nodeName"}
    body = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}
    body |= {} if kind == "DaemonSet" else {"replicas": replicas}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def made_by(data, pod, name):
    """Turn a static pod of the recording into one that a controller created under this name."""
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
def test_pods_of_a_workload_are_found_by_their_controllers_naming(told, changed, kind, name, elsewhere):
    def replace(data):
        index = made_by(data, "besteffort", name)
        data["pods"][index] = deployment(data["pods"][index], kind=kind)

    code, out, _ = told("--tree", changed(replace))
    assert f"oom_score_adj of container a of pod default/{name}" not in out
    assert "were not given" not in out
    assert elsewhere in out
    assert (code, " 0 deviate, " in out.splitlines()[-1]) == (0, True)


def test_a_pod_with_a_name_no_controller_generates_is_unknown(told, changed):
    def replace(data):
        index = made_by(data, "besteffort", "web-five")
        data["pods"][index] = deployment(data["pods"][index])

    _, out, _ = told("--tree", changed(replace))
    assert "not judged, since no manifest was given: pods web-five" in out
