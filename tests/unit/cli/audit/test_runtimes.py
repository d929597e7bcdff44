"""What the runtimes of a recorded node make of requests, and containers that they were creating just then."""

import json

import pytest

from tests.unit.cli.audit.recordings import TIERED, path_of, scopes


def test_the_recorded_runtimes_decide(told, changed):
    """With quadratic weights and rounding the same files deviate, and every one is named with the runtime."""
    code, out, _ = told("--tree", changed(lambda data: data["node"].update(runc="runc version 1.3.6\ncommit: v1.3.6")))
    assert code == 1
    assert "cpu.weight of container a of pod default/burst-cpu-only-n1 is 4, expected 17" in out
    assert "containerd 1.7.24~ds1 with runc 1.3.6" in out
    named = {line.split(" of ")[0] for line in out.splitlines() if ", expected " in line}
    assert named == {"cpu.weight"}
    # Options override the recording.
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


def test_unnamed_runtimes_leave_version_dependent_values_unjudged(told, changed):
    def bare(data):
        for name in ("containerd", "runc", "systemd"):
            del data["node"][name]

    code, out, _ = told("--tree", changed(bare))
    assert code == 0
    assert "assumed to run on containerd of unknown version and runc of unknown version: what differs" in out
    assert "not observable: cpu.weight of container a of pod default/burst-cpu-only-n1: versions of the runtime" in out
    assert "assumed to run on" not in told("--tree", TIERED)[1]
    _, out, _ = told("--tree", changed(bare), "--runtime", "runc@1.1.14")
    assert "assumed to run on containerd of unknown version: " in out
    assert "cpu.weight of" not in out


def test_a_runtime_without_a_version_is_not_taken_for_an_old_one(told, changed):
    """crun prints UNKNOWN if it was built without its git history."""

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
    ({"oom_score_adj": "-998"}, 0, 0, "or its files were never written"),
    ({"oom_score_adj": "-998", "comm": "memload"}, 0, 0, "or its files were never written"),
    ({"oom_score_adj": "-998", "memory.max": "209715200"}, 1, 6, ""),
    ({"oom_score_adj": "968"}, 1, 6, ""),
    ({"oom_score_adj": "968", "comm": "runcible"}, 1, 6, ""),
])  # fmt: skip
def test_a_container_being_created(told, changed, first_process, code, deviating, unseen):  # noqa: PLR0917
    def catch(data):
        data["cgroups"][path_of(data, "burst-req-lim-n1", "a")].update({**UNMADE, **first_process})

    found, out, _ = told("--tree", changed(catch))
    assert (found, f" {deviating} deviate, " in out.splitlines()[-1]) == (code, True)
    assert bool(unseen) is ("of container a of pod default/burst-req-lim-n1: the container was being created" in out)
    assert unseen in out


def test_one_file_that_was_never_written_is_a_deviation_though_the_process_is_another(told, changed):
    def reset(data):
        data["cgroups"][path_of(data, "besteffort-n1", "a")]["oom_score_adj"] = "0"

    code, out, _ = told("--tree", changed(reset))
    assert (code, " 1 deviate, " in out.splitlines()[-1]) == (1, True)


@pytest.mark.parametrize(("recorded", "name"), [
    ("youki version 0.6.0", "youki 0.6.0"), ("uxc", "uxc"), ("my-runtime version UNKNOWN", "my-runtime"),
])  # fmt: skip
def test_an_unmodelled_runtime_is_not_judged_as_runc(told, changed, recorded, name):
    def other(data):
        del data["node"]["runc"]
        data["node"]["oci"] = recorded

    code, out, err = told("--tree", changed(other), "--json")
    document = json.loads(out)
    assert (code, document["runtimes"][1], document["not_modelled"]) == (0, name, [name])
    assert f"memqos: note: {name}: not modelled" in err
    weights = [one for one in document["findings"] if one["knob"] == "cpu.weight" and "container" in one["subject"]]
    assert weights
    assert {one["verdict"] for one in weights} == {"not observable"}
    why = f"{name} is not modelled, and the OCI runtime specification does not specify this file"
    assert {one["why_not"] for one in weights} == {why, "the reading has no such cgroup"}
    assert document["counts"]["deviates"] == 0
    limits = [one for one in document["findings"] if one["knob"] == "memory.max" and one["verdict"] == "conforms"]
    assert any("container" in one["subject"] for one in limits)
    # What the kubelet writes itself is judged in full.
    above = [one for one in document["findings"] if "container" not in one["subject"]]
    assert {one["verdict"] for one in above} == {"conforms"}


def test_an_unmodelled_cri_server(told, changed):
    def other(data):
        del data["node"]["containerd"]
        data["node"]["cri"] = "pouch 1.2"

    code, out, _ = told("--tree", changed(other), "--json")
    document = json.loads(out)
    assert (code, document["not_modelled"]) == (0, ["pouch 1.2"])
    assert told("--tree", changed(lambda data: data["node"].update(oci="; x")))[0] == 4


def test_docker_below_a_kubelet_is_cri_dockerd(told, changed):
    def docker(data):
        del data["node"]["containerd"]
        data["node"]["docker"] = "docker 28.0.1"

    _, out, _ = told("--tree", changed(docker), "--json")
    assert json.loads(out)["runtimes"][0] == "cri-dockerd of unknown version"


def test_a_pod_of_a_sandboxed_class_is_not_judged_as_runc(told, changed):
    """Its container has its limit in the recording: a stand-in of gVisor would have none."""

    def sandboxed(data):
        for pod in data["pods"]:
            pod["spec"]["runtimeClassName"] = "gvisor"
            pod["status"] = {"phase": "Running"}

    code, out, err = told("--tree", changed(sandboxed), "--json")
    found = [one for one in json.loads(out)["findings"] if one["verdict"] == "deviates"]
    assert code == 1
    assert {one["expected"] for one in found if one["knob"] == "memory.max"} == {"max"}
    assert "one sandbox" in err


def test_an_annotation_that_may_count_is_not_observable(told, changed):
    def annotated(data):
        data["node"]["cri-o"] = "cri-o 1.34.0"
        del data["node"]["containerd"]
        for pod in data["pods"]:
            name = pod["spec"]["containers"][0]["name"]
            pod["metadata"]["annotations"] = {f"io.kubernetes.cri-o.UnifiedCgroup.{name}": "memory.high=100000"}

    def rename(data):
        annotated(data)
        text = json.dumps(data["cgroups"]).replace("cri-containerd-", "crio-")
        data["cgroups"] = json.loads(text)

    path = changed(rename)
    _, out, _ = told("--tree", path, "--json")
    high = [one for one in json.loads(out)["findings"] if one["knob"] == "memory.high" and "ner a of" in one["subject"]]
    assert high
    assert {one["verdict"] for one in high} == {"not observable"}
    assert "it is unknown whether the runtime handler allows that: it would be 100000" in high[0]["why_not"]
    code, out, _ = told("--tree", path, "--allowed-annotation", "io.kubernetes.cri-o.UnifiedCgroup", "--json")
    high = [one for one in json.loads(out)["findings"] if one["knob"] == "memory.high" and "ner a of" in one["subject"]]
    assert code == 1
    assert {one["expected"] for one in high} == {"98304"}
