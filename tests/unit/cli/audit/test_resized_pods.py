"""Pods whose resources changed while they ran, after kubernetes#135107, #126033, #130657."""

import json

import pytest

from memqos.catalog.data import data_root

CASES = data_root() / "tests" / "cases"


def case(name):
    return "--tree", CASES / name / "tree.json", "--pods", CASES / name / "pods.json"


def test_a_resize_that_waits_is_in_no_cgroup(told):
    code, out, err = told(*case("deferred-resize"))
    assert (code, err) == (0, "")
    assert out.endswith("tree.json: Kubernetes 1.35: 52 conform, 0 deviate, 0 not observable\n")
    _, out, _ = told(*case("deferred-resize"), "--json")
    found = json.loads(out)["findings"]
    [limit] = [
        one for one in found if one["knob"] == "memory.max" and one["subject"] == "container app of pod default/web"
    ]
    assert (limit["verdict"], limit["expected"]) == ("conforms", "1073741824")
    origin = limit["reason"]["inputs"][0]["origin"]
    assert origin.endswith(": allocated 1Gi; 12Gi is requested and deferred")


def test_the_same_pod_as_its_manifest_alone(told):
    # Without a status only the spec is known: what ran before the resize conforms to it.
    folder = CASES / "deferred-resize"
    code, out, _ = told("--tree", folder / "tree.json", "--pods", folder / "running.yaml")
    assert (code, " 0 deviate, " in out) == (0, True)


def test_a_process_keeps_its_score(told):
    code, out, _ = told(*case("oom-after-resize"))
    assert code == 0
    assert (
        "not observable: oom_score_adj of container app of pod default/web: a process keeps the score that it was "
        "started with, and the pod may have been resized in place since: its spec has changed (generation 2): "
        "expected 750 by the allocation, observed 938"
    ) in out
    assert out.endswith("tree.json: Kubernetes 1.35: 51 conform, 0 deviate, 1 not observable\n")


@pytest.mark.parametrize(("score", "generation", "code"), [("750", 2, 0), ("-997", 2, 1), ("938", 1, 1)])
def test_scores_that_no_resize_explains(told, tmp_path, score, generation, code):
    tree = json.loads((CASES / "oom-after-resize" / "tree.json").read_text())
    pods = json.loads((CASES / "oom-after-resize" / "pods.json").read_text())
    [container] = [files for files in tree["cgroups"].values() if "oom_score_adj" in files]
    container["oom_score_adj"] = score
    pods["items"][0]["metadata"]["generation"] = generation
    (tmp_path / "t.json").write_text(json.dumps(tree))
    (tmp_path / "p.json").write_text(json.dumps(pods))
    assert told("--tree", tmp_path / "t.json", "--pods", tmp_path / "p.json")[0] == code


def test_a_checkpoint_wins_over_the_status(told, tmp_path):
    """The pod with its spec alone: the kubelet's checkpoint in the recording has its allocated resources."""
    tree = json.loads((CASES / "deferred-resize" / "tree.json").read_text())
    pods = json.loads((CASES / "deferred-resize" / "pods.json").read_text())
    del pods["items"][0]["status"]
    given = {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    entry = {"aaaaaaaa-0000-0000-0000-000000000001": {"ContainerResources": {"app": given}}}
    tree["pods"] = pods
    file = tmp_path / "t.json"
    file.write_text(json.dumps(tree))
    assert told("--tree", file)[0] == 1
    tree["allocated_pods_state"] = {"data": json.dumps({"entries": entry})}
    file.write_text(json.dumps(tree))
    code, out, _ = told("--tree", file)
    assert (code, " 0 deviate, " in out) == (0, True)


UID = "aaaaaaaa-0000-0000-0000-000000000001"
REQUESTS = {"cpu": "100m", "memory": "1Gi"}
LISTS = {"allocationEntries": {UID: {"app": REQUESTS}}, "resizeStatusEntries": {UID: "Deferred"}}
WHOLE = {**LISTS, "allocationEntries": {UID: {"app": {"requests": REQUESTS, "limits": {"memory": "1Gi"}}}}}


def resized_node(folder, release, checkpoint, status=()):
    """The tree of the deferred resize under another release. status: the fields of its container's that are kept."""
    tree = json.loads((CASES / "deferred-resize" / "tree.json").read_text())
    pods = json.loads((CASES / "deferred-resize" / "pods.json").read_text())
    given = pods["items"][0]["status"]["containerStatuses"][0]
    del pods["items"][0]["status"]
    if status:
        kept = {name: given[name] for name in ("name", *status)}
        pods["items"][0]["status"] = {"phase": "Running", "containerStatuses": [kept]}
    tree |= {"kubelet": release, "pods": pods, "pod_status_manager_state": checkpoint}
    tree["config"]["featureGates"] = {"InPlacePodVerticalScaling": True}
    (folder / "t.json").write_text(json.dumps(tree))
    return folder / "t.json"


NEITHER = "neither {} pod_status_manager_state nor the pod's status reports which limits are allocated"


@pytest.mark.parametrize(("node", "counts"), [
    (("v1.32.3", {"data": json.dumps(WHOLE)}), "52 conform, 0 deviate, 0 not observable"),
    (("v1.31.4", {**LISTS, "checksum": 1}, ("resources",)), "51 conform, 0 deviate, 0 not observable"),
    (("v1.31.4", {**LISTS, "checksum": 1}), "43 conform, 0 deviate, 8 not observable"),
    (("v1.32.0", {"data": json.dumps(LISTS)}), "44 conform, 0 deviate, 8 not observable"),
    # Damaged: any deviation from the spec may be the allocated value.
    (("v1.31.4", {"allocationEntries": 1}), "48 conform, 0 deviate, 3 not observable"),
])  # fmt: skip
def test_the_checkpoint_before_1_33_wins_over_the_spec(told, tmp_path, node, counts):
    release, checkpoint, *status = node
    assert told("--tree", resized_node(tmp_path, release, None, *status))[0] == 1
    file = resized_node(tmp_path, release, checkpoint, *status)
    code, out, _ = told("--tree", file)
    assert (code, counts in out) == (0, True)
    assert (NEITHER.format(file) in out) is (" 8 not observable" in counts)
    # A kubelet of a later release does not read the file, which stays where it is.
    assert told("--tree", resized_node(tmp_path, "v1.33.0", checkpoint))[0] == 1


def test_the_reason_names_the_checkpoint(told, tmp_path):
    file = resized_node(tmp_path, "v1.32.3", {"data": json.dumps(WHOLE)})
    found = json.loads(told("--tree", file, "--json")[1])["findings"]
    [limit] = [one for one in found if one["knob"] == "memory.max" and one["subject"].startswith("container app")]
    assert limit["reason"]["inputs"][0]["origin"] == (
        f"{file} pod_status_manager_state: allocated 1Gi; 12Gi is requested and deferred"
    )
