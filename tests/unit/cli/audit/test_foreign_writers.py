"""Programs other than kubelet and runtime that write cgroup files: named in an audit if the recording shows them."""

import json

import pytest

from memqos.catalog.recorded_contents import foreign_writers
from memqos.errors import ManifestError
from memqos.model.knob import Knob
from tests.unit.cli.audit.recordings import path_of

KEY = "not the kubelet's value"


def deviating(data, *, annotation="", knob="memory.low", text="4096\n"):
    [name, own, _] = next(iter(names for names in data["containers"].values() if names[1] != "(sandbox)"))
    data["cgroups"][path_of(data, name, own)][knob] = text
    for pod in data["pods"]:
        if f"{pod['metadata']['name']}-n1" == name and annotation:
            pod["metadata"]["annotations"] = {annotation: "x"}
    return name


def found(told, path):
    code, out, _ = told("--tree", path, "--json")
    document = json.loads(out)
    return code, [one for one in document["findings"] if one["verdict"] == "deviates"], document


def test_without_evidence_no_writer_is_named(told, changed):
    code, deviations, _ = found(told, changed(deviating))
    assert code == 1
    assert [(one["knob"], one["set_by"]) for one in deviations] == [("memory.low", "the runtime under test")]
    assert KEY not in deviations[0]["evidence"]


@pytest.mark.parametrize(("pod", "name"), [
    ("koordlet-x7k2p", "koordlet (Koordinator)"),
    ("nri-memory-qos-abcde", "the NRI plugin memory-qos"),
    ("volcano-agent-q1w2e", "volcano-agent (Volcano)"),
])  # fmt: skip
def test_a_writer_with_a_pod_on_the_node_is_named(told, changed, pod, name):
    def do(data):
        deviating(data)
        data["containers"]["0a1b2c"] = [pod, "(sandbox)", "11111111-1111-1111-1111-111111111111"]

    path = changed(do)
    code, deviations, _ = found(told, path)
    assert code == 1
    [one] = deviations
    assert one["evidence"][KEY] == f"{name} is known to write this file: its pod {pod} is on this node"
    assert one["set_by"] not in {"the runtime under test", "the kubelet"}
    out = told("--tree", path)[1]
    assert f"seen     not the kubelet's value: {name} is known to write this file" in out


def test_of_a_file_that_it_does_not_write_it_is_not_named(told, changed):
    def do(data):
        deviating(data)
        data["containers"]["0a1b2c"] = ["katalyst-agent-x", "(sandbox)", "11111111-1111-1111-1111-111111111111"]

    assert KEY not in found(told, changed(do))[1][0]["evidence"]


@pytest.mark.parametrize(("annotation", "name"), [
    ("class.memory-qos.nri.io", "the NRI plugin memory-qos"),
    ("memory.low.memory-qos.nri.io/a", "the NRI plugin memory-qos"),
    ("koordinator.sh/memoryQOS", "koordlet (Koordinator)"),
])  # fmt: skip
def test_a_writer_requested_by_the_pod_is_named(told, changed, annotation, name):
    _, [one], _ = found(told, changed(lambda data: deviating(data, annotation=annotation)))
    assert one["evidence"][KEY] == (f"{name} is known to write this file: the pod has its annotation {annotation}")


def test_crane_is_named_for_the_cpu_quota(told, changed):
    def do(data):
        deviating(data, knob="cpu.max", text="12345 100000\n")
        data["containers"]["0a1b2c"] = ["crane-agent-x", "(sandbox)", "11111111-1111-1111-1111-111111111111"]

    _, [one], _ = found(told, changed(do))
    assert one["evidence"][KEY].startswith("crane-agent (Crane) is known to write this file: its pod crane-agent-x")


def test_a_file_that_only_it_has_is_a_sign(told, changed):
    def do(data):
        deviating(data)
        path = next(path for path in data["cgroups"] if path.endswith("kubepods.slice"))
        data["cgroups"][path]["memory.wmark_ratio"] = "95\n"

    _, [one], _ = found(told, changed(do))
    assert "has its file memory.wmark_ratio" in one["evidence"][KEY]


@pytest.mark.parametrize(("cgroup", "name"), [("/podruntime/kubelet", "Talos' OOM controller"),
                                              ("/system.slice/systemd-oomd.service", "systemd-oomd")])  # fmt: skip
def test_a_userspace_oom_killer_is_a_remark(told, changed, cgroup, name):
    path = changed(lambda data: data["cgroups"].update({cgroup: {"memory.max": "max\n"}}))
    code, _, document = found(told, path)
    assert code == 0
    [remark] = [one for one in document["remarks"] if one["about"] == name]
    assert f"(the cgroup {cgroup} is its own)" in remark["what"]
    assert f"memqos: note: {name}: " in told("--tree", path)[2]


def test_the_list_names_interface_files_and_sources():
    for one in foreign_writers():
        assert one.source
        names = {*one.writes.qos, *one.writes.pod, *one.writes.container}
        assert bool(names) is not bool(one.kills)
        assert names <= {knob.value for knob in Knob}


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ('source = "b"', r"writers\.toml:1: writer\[0\]: missing required field 'name'"),
        ('name = ""\nsource = "b"', r"writers\.toml:2: writer\[0\]: 'name' must be a string that is not empty, not ''"),
        ('name = "a"\nsource = "b"\npod = ["c"]', r"writers\.toml:4: writer\[0\]: unknown field 'pod'"),
        (
            'name = "a"\nsource = "b"\nwrites.node = ["c"]',
            r"writers\.toml:4: writer\[0\]\.writes: unknown field 'node'",
        ),
        ('name = "a"\nsource = "b"\nfiles = "c"', r"writers\.toml:4: writer\[0\]: 'files' must be a list"),
    ],
)
def test_a_wrong_entry_is_named_by_line_and_field(tmp_path, entry, says):
    (tmp_path / "writers.toml").write_text(f"[[writer]]\n{entry}\n")
    with pytest.raises(ManifestError, match=says):
        foreign_writers(tmp_path / "writers.toml")
