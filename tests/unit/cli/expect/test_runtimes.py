"""The runtimes of containers: sandboxed and unmodelled ones, and annotations that runtimes act on."""

import json
from pathlib import Path

import pytest

CASES = Path(__file__).parents[3] / "cases"
GVISOR = str(CASES / "gvisor" / "pod.yaml")
ANNOTATED = str(CASES / "crio-annotation" / "pod.yaml")
CRIO = ("--kubernetes", "1.34", "--runtime", "cri-o@1.34+crun@1.21", "--driver", "systemd")


def files(out, level="container"):
    document = json.loads(out)
    [own] = [one for one in document["cgroups"] if one["level"] == level]
    return document, own["knobs"]


def test_a_sandboxed_container_limits_nothing_and_its_pod_does(told):
    arguments = (GVISOR, "--kubernetes", "1.34", "--driver", "systemd", "--runtime", "containerd@1.7.13+runsc@20240729")
    code, out, err = told(*arguments, "--container", "app")
    assert code == 0
    assert "runsc 20240729: runs all containers of a pod in one sandbox" in err
    assert "memory.max max" in out
    assert "536870912" not in out
    document, own = files(told(*arguments, "--json")[1])
    assert (own["memory.max"]["written"], own["memory.max"]["value"]) == (None, "max")
    assert files(told(*arguments, "--json")[1], "pod")[1]["memory.max"]["value"] == "536870912"
    assert "one sandbox" in document["remarks"][-1]["what"]
    assert "not_modelled" not in document
    assert "the pod's limit counts" in told(*arguments, "--why", "memory.max")[1]


@pytest.mark.parametrize(("runtime", "name"), [
    ("youki@0.6", "youki 0.6"), ("uxc", "uxc"), ("containerd@2.1+sysbox-runc", "sysbox-runc"),
    ("containerd@2.1.9+my-runtime@2024-01-05", "my-runtime 2024-01-05"), ("oci:youki@main", "youki main"),
    ("runcc@1.3.6", "runcc 1.3.6"), ("pouch@1.2+runc@1.3.6", "pouch 1.2"), ("cri-foo", "cri-foo"),
    ("youki@0.6+containerd@2.1.9", "youki 0.6"), ("kata@3.20", "kata 3.20"), ("containerd@2.1.9+kata-runtime", None),
])  # fmt: skip
def test_runtimes_that_are_not_modelled(told, runtime, name):
    code, out, err = told(GVISOR, "--kubernetes", "1.34", "--runtime", runtime, "--json")
    assert code == 0
    document, own = files(out)
    if name is not None:
        assert document["not_modelled"] == [name]
        assert f"memqos: note: {name}: " in err
    assert own["memory.high"]["value"] is None
    assert "not_modelled" in own["memory.high"]
    assert own["memory.max"]["written"] == (None if "kata" in runtime else "536870912")
    assert files(out, "pod")[1]["memory.max"]["value"] == "536870912"
    _, out, _ = told(GVISOR, "--kubernetes", "1.34", "--runtime", runtime)
    assert "not observable: " in out
    assert "memory.high of container app of pod default/web: not observable" in told(
        GVISOR, "--kubernetes", "1.34", "--runtime", runtime, "--why", "memory.high"
    )[1]  # fmt: skip


@pytest.mark.parametrize(
    ("runtime", "why"),
    [
        ("containerd@2.1.9+runsc@20240729", "runsc 20240729 runs all containers of a pod in one sandbox"),
        ("containerd@2.1.9+kata@3.20", "kata 3.20 runs all containers of a pod in one virtual machine"),
        ("pouch@1+runc@1.3.6", "memory.min, memory.low: pouch 1 is not modelled"),
    ],
)
def test_answers_leave_containers_that_are_not_modelled_out(told, runtime, why):
    asked = (GVISOR, "--kubernetes", "1.34", "--runtime", runtime, "--set", "featureGates.MemoryQoS=true")
    code, out, _ = told(*asked, "--protection", "--throttling", "--oom")
    assert code == 0
    name = "container app of pod default/web"
    assert f"{name}\n  not modelled: {why}" in out
    assert out.count(f"{name}\n") >= 2
    document = json.loads(told(*asked, "--protection", "--throttling", "--oom", "--json")[1])
    [left] = [one for one in document["protection"] if "not_modelled" in one]
    assert (left["subject"], sorted(left)) == (name, ["not_modelled", "path", "subject"])
    assert left["not_modelled"].startswith(why)
    assert [one["subject"] for one in document["throttling"] if "not_modelled" in one] == [name]
    boxed = "pouch" not in runtime
    assert [one["subject"] for one in document["oom"][0].get("left_out", [])] == [name] * boxed


@pytest.mark.parametrize(("runtime", "said"), [
    ("runcc@1", "did you mean 'runc'?"),
    ("containerd@2.1+cruun@1.2", "did you mean 'crun'?"),
    ("contanerd@2.1+runc@1.3.6", "did you mean 'containerd'?"),
    ("runc@1.9.0", "runc 1.9.0: newer than 1.5, the newest modelled release"),
    ("containerd@9.0+runc@1.3.6", "containerd 9.0: newer than 2.3, the newest modelled release"),
])  # fmt: skip
def test_notes_about_runtimes(told, runtime, said):
    code, _, err = told(GVISOR, "--kubernetes", "1.34", "--runtime", runtime)
    assert code == 0
    assert said in err


@pytest.mark.parametrize("runtime", [
    "runc@1.3.6;id", "runc@1.3.6 ", "runc@1.3\x1b[1m", "youki@$(id)", "../runc@1", "youki@0.6\n", "youki/0.6", "-",
    "@1", "+", "y" * 70, "youki@" + "1" * 90, "runc@\u0661",
])  # fmt: skip
def test_what_is_no_name_and_version_is_refused_in_one_line(told, runtime):
    code, out, err = told(GVISOR, "--kubernetes", "1.34", "--runtime", runtime)
    assert (int(code), out) == (4, "")
    assert err.startswith("memqos: error: --runtime: ")
    assert "\x1b" not in err
    assert len(err.splitlines()) == 2


@pytest.mark.parametrize(("runtime", "cri", "oci"), [
    ("containerd@1.7.24~ds1-6+deb12u1+runc@1.1.15+ds1-2+b4", "containerd 1.7.24~ds1-6+deb12u1", "runc 1.1.15+ds1-2+b4"),
    ("runc@1.3.1+dev", "containerd 1.7.24", "runc 1.3.1+dev"),
    ("crio@1.36+crun@1.21", "cri-o 1.36", "crun 1.21"),
    ("containerd@2.1.9+gvisor@20240729", "containerd 2.1.9", "runsc 20240729"),
    ("cri-dockerd@0.3.15+runc@1.3.6", "cri-dockerd 0.3.15", "runc 1.3.6"),
    ("cri-dockerd+runc@1.3.6", "cri-dockerd of unknown version", "runc 1.3.6"),
])  # fmt: skip
def test_where_a_plus_sign_separates(told, runtime, cri, oci):
    code, out, _ = told(GVISOR, "--kubernetes", "1.34", "--runtime", runtime, "--why", "cpu.weight")
    assert code == 0
    assert f"{cri} with {oci}" in out


def test_cri_dockerd_drops_fields_that_docker_lacks(told):
    arguments = ("--kubernetes", "1.34", "--runtime", "cri-dockerd@0.3.15+runc@1.3.6", "--swap", "4Gi", "--json")
    _, out, _ = told(GVISOR, *arguments, "--set", "memorySwap.swapBehavior=LimitedSwap", "--set", "failSwapOn=false")
    _, own = files(out)
    # kubernetes#124096: swap is requested, and lost.
    assert own["memory.swap.max"]["written"] == "0"
    assert own["memory.oom.group"]["value"] == "0"
    assert json.loads(out)["pods"][0]["containers"][0]["cri"]["unified"]["memory.swap.max"] == "134217728"


def test_an_annotation_that_no_handler_allows_is_named(told):
    code, out, err = told(ANNOTATED, *CRIO, "--json")
    document, own = files(out)
    assert code == 0
    assert (own["memory.high"]["value"], own["memory.low"]["value"]) == ("max", "0")
    assert "acts on it only where the runtime handler allows io.kubernetes.cri-o.UnifiedCgroup" in err
    assert len(document["ignored"]) == 2


@pytest.mark.parametrize("name", ["io.kubernetes.cri-o.UnifiedCgroup", "unified-cgroup.crio.io"])
def test_an_annotation_that_the_handler_allows_counts(told, name):
    code, out, _ = told(ANNOTATED, *CRIO, "--allowed-annotation", name, "--json")
    _, own = files(out)
    assert code == 0
    assert (own["memory.high"]["value"], own["memory.low"]["value"]) == ("7999488", "98304")
    assert own["memory.high"]["written"] == "8000000"
    _, out, _ = told(ANNOTATED, *CRIO, "--allowed-annotation", name, "--translate", "files")
    assert "memory.high       8000000, reads 7999488" in out


def test_containerd_reads_no_annotation_of_cri_o(told):
    _, out, err = told(ANNOTATED, "--kubernetes", "1.34", "--json")
    assert files(out)[1]["memory.high"]["value"] == "max"
    assert "containerd 1.7.24 does not read it" in err


CLASS = """
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {{name: {}}}
handler: {}
"""

MAIN = """
[crio.runtime]
default_runtime = "crun"
[crio.runtime.runtimes.crun]
runtime_path = "/usr/libexec/crio/crun"
[crio.runtime.runtimes.kata]
runtime_path = "/opt/kata/bin/containerd-shim-kata-v2"
runtime_type = "vm"
[crio.runtime.workloads.management]
activation_annotation = "target.workload.openshift.io/management"
annotation_prefix = "resources.workload.openshift.io"
[crio.runtime.workloads.management.resources]
cpushares = 400
cpuset = "0-1"
"""
DROP_IN = """
[crio.runtime.runtimes.crun]
allowed_annotations = ["io.kubernetes.cri-o.UnifiedCgroup"]
"""


@pytest.fixture
def crio_conf(tmp_path):
    (tmp_path / "crio.conf.d").mkdir()
    (tmp_path / "crio.conf").write_text(MAIN)
    (tmp_path / "crio.conf.d" / "10-unified.conf").write_text(DROP_IN)
    return ("--crio-config", str(tmp_path / "crio.conf"), "--crio-config", str(tmp_path / "crio.conf.d"))


def test_crio_conf_decides_allowed_annotations(told, crio_conf):
    _, out, _ = told(ANNOTATED, *CRIO, *crio_conf, "--json")
    assert files(out)[1]["memory.high"]["value"] == "7999488"
    _, out, _ = told(ANNOTATED, *CRIO, *crio_conf[:2], "--json")
    assert files(out)[1]["memory.high"]["value"] == "max"
    # Without a version either name may be the one that is read.
    _, out, _ = told(ANNOTATED, "--kubernetes", "1.34", *crio_conf, "--json")
    assert files(out)[1]["memory.high"]["undecided"] == ["max", "7999488"]


def test_crio_conf_decides_the_driver_and_names_its_limit_of_processes(told, tmp_path):
    first, later = tmp_path / "crio.conf", tmp_path / "20-later.conf"
    first.write_text('[crio.runtime]\n# cgroup_manager = "systemd"\ncgroup_manager = "systemd"\npids_limit = 2048\n')
    later.write_text('[crio]\nruntime.cgroup_manager = "cgroupfs"\n')
    asked = (GVISOR, "--runtime", "cri-o@1.36.0+runc@1.3.6", "--crio-config", str(first), "--json")
    _, out, err = told(*asked, "--kubernetes", "1.36", "--set", "cgroupDriver=cgroupfs")
    assert json.loads(out)["driver"] == "systemd"
    assert f"systemd is the cgroup_manager of CRI-O's configuration ({first}:3)" in err
    assert "ignores cgroupDriver: cgroupfs (KEP-4033)" in err
    assert f"{first}:4: pids_limit: CRI-O writes 2048 into pids.max of every container" in err
    _, out, err = told(*asked, "--kubernetes", "1.36", "--crio-config", str(later))
    assert json.loads(out)["driver"] == "cgroupfs"
    assert f"cgroupfs is the cgroup_manager of CRI-O's configuration ({later}:2)" in err
    _, out, err = told(*asked, "--kubernetes", "1.30")
    assert json.loads(out)["driver"] == "cgroupfs"
    assert "CRI-O refuses pods whose parent cgroup is the other driver's" in err
    first.write_text('[crio.runtime]\n[crio.runtime.runtimes.a]\ncgroup_manager = "x"\n')
    _, out, err = told(*asked, "--kubernetes", "1.36")
    assert "systemd is assumed" in err


def test_crio_conf_has_handlers_and_workloads(told, crio_conf, tmp_path):
    text = Path(ANNOTATED).read_text()
    pod = tmp_path / "pod.yaml"
    pod.write_text(text.replace("spec:", "spec:\n  runtimeClassName: kata") + CLASS.format("kata", "kata"))
    _, out, _ = told(str(pod), *CRIO, *crio_conf, "--json")
    assert json.loads(out)["not_modelled"] == ["kata of unknown version"]
    pod.write_text(text.replace("annotations:", "annotations:\n    target.workload.openshift.io/management: '{}'"))
    _, out, _ = told(str(pod), *CRIO, *crio_conf, "--json")
    # crun 1.21: 1 + (400 - 2) * 9999 / 262142.
    assert files(out)[1]["cpu.weight"]["value"] == "16"


@pytest.mark.parametrize(("text", "said"), [
    ("crio = 1", "crio is not a table"), ("[crio.runtime]\nruntimes = 1", "runtimes is not a table"),
    ("[", "is not TOML"),
    ("[crio.runtime.runtimes.a]\nallowed_annotations = [1]", "allowed_annotations is not a list of strings"),
    ("[crio.runtime.workloads.a]\n", "workload a has no activation_annotation"),
    ('[crio.runtime.workloads.a]\nactivation_annotation="x"\nresources={cpushares="1"}', "cpushares of workload a"),
    ("#" * (1 << 20) + "#", "more than 1048576 bytes"),
    ('[crio.runtime]\ncgroup_manager = "other"', "cgroup_manager 'other' is unknown"),
    ("[crio.runtime]\ncgroup_manager = 1", "cgroup_manager '1' is unknown"),
    ('[crio.runtime]\npids_limit = "9"', "pids_limit '9' is not a whole number"),
    ("[crio.runtime]\npids_limit = true", "pids_limit 'True' is not a whole number"),
])  # fmt: skip
def test_a_crio_conf_of_another_form_is_refused(told, tmp_path, text, said):
    path = tmp_path / "crio.conf"
    path.write_text(text)
    code, out, err = told(ANNOTATED, *CRIO, "--crio-config", str(path))
    assert (int(code), out) == (4, "")
    assert f"memqos: error: {path}:" in err
    assert said in err


@pytest.mark.parametrize(("arguments", "said"), [
    (("--crio-config", "nowhere.conf"), "cannot be read"),
    (("--allowed-annotation", "io.kubernetes.cri-o.UnifiedCgroup.app"), "Give io.kubernetes.cri-o.UnifiedCgroup"),
    (("--runtime-class", "gvisor"), "is not NAME=RUNTIME"),
    (("--runtime-class", "x=containerd@2.1"), "is not an OCI runtime"),
    (("--runtime-class", "x=a b"), "there is no runtime 'a b'"),
])  # fmt: skip
def test_wrong_words_about_runtimes(told, arguments, said):
    code, out, err = told(ANNOTATED, *CRIO, *arguments)
    assert (int(code), out) == (4, "")
    assert said in err


def test_crio_conf_belongs_to_cri_o(told, crio_conf):
    code, _, err = told(ANNOTATED, "--kubernetes", "1.34", "--runtime", "containerd@2.1.9+runc@1.3.6", *crio_conf)
    assert (int(code), "containerd 2.1.9 does not read CRI-O's configuration" in err) == (4, True)


def test_a_runtime_class_is_served_by_its_own_runtime(told, tmp_path):
    pod = tmp_path / "pod.yaml"
    text = Path(GVISOR).read_text().replace("spec:", "spec:\n  runtimeClassName: untrusted")
    pod.write_text(text + CLASS.format("untrusted", "runsc"))
    _, out, err = told(str(pod), "--kubernetes", "1.34", "--json")
    assert "runsc of unknown version: runs all containers of a pod in one sandbox" in err
    assert files(out)[1]["memory.max"]["value"] == "max"
    pod.write_text(text + CLASS.format("untrusted", "other"))
    _, out, err = told(str(pod), "--kubernetes", "1.34", "--json")
    assert json.loads(out)["not_modelled"] == ["the runtime of RuntimeClass untrusted"]
    assert "--runtime-class untrusted=" in err
    _, out, err = told(str(pod), "--kubernetes", "1.34", "--runtime-class", "untrusted=runsc@20240729", "--json")
    assert files(out)[1]["memory.max"]["value"] == "max"
    _, out, err = told(str(pod), "--kubernetes", "1.34", "--runtime-class", "untrusted=runc@1.3.6", "--json")
    assert (files(out)[1]["cpu.weight"]["value"], err) == ("13", "")
