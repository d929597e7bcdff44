"""The collecting program: what it reads, what it never keeps, and its notes on a node that lacks something."""

from __future__ import annotations

import ast
import datetime
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memqos.catalog.kubelet_flags import BOOLS, FIELD_FLAGS
from memqos.catalog.recorded_trees import load_tree, tree_of
from memqos.cli.main import run
from memqos.collector import program as collect_program
from memqos.errors import EnvironmentNotAbleError, MissingProgramError, TargetError, UsageError
from memqos.model.path import CgroupPath
from memqos.place import collecting
from tests.node_folder import SECRET, VERSION, NodeFolder, node_folder
from tests.recorded_nodes import CONFIG, recorded_node

PODS = 4


@pytest.fixture
def node() -> Iterator[NodeFolder]:
    with node_folder(recorded_node("n1", pods=PODS, seed=3)) as made:
        yield made


def judged(document: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    path = tmp_path / "node.json"
    path.write_text(json.dumps(document))
    code = run(["audit", "--tree", str(path), *more])
    return code, capsys.readouterr().out


def test_it_needs_only_python_3_6_and_the_standard_library() -> None:
    tree = ast.parse(collecting.program(), feature_version=(3, 6))
    modules = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    modules |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert modules == {
        "argparse", "http.client", "json", "os", "re", "socket", "ssl", "stat", "struct", "subprocess", "sys", "time",
        "typing",
    }  # fmt: skip


def test_its_lists_of_flags_are_those_of_the_catalogue() -> None:
    assert (
        set(FIELD_FLAGS) | {"config-dir", "experimental-allocatable-ignore-eviction"} == collect_program.SETTING_FLAGS
    )
    assert BOOLS == collect_program.BOOL_FLAGS


def test_a_collected_node_is_judged_as_it_is(
    node: NodeFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, document, said = node.collect()
    assert (status, said) == (0, "")
    assert document["kubelet"] == "v1.36.3"
    assert document["node"]["containerd"] == "containerd 1.7.24"
    assert document["node"]["systemd"] == "systemd 257 (257.13-1~deb13u1)"
    assert document["machine"]["cgroup_mount"]["options"].endswith("memory_recursiveprot")
    assert len(document["containers"]) == len(node.document["containers"])
    assert [pod["metadata"]["name"] for pod in document["pods"]] == ["pod-0", "pod-1", "pod-2", "pod-3"]
    assert document["second_look"]["changed"] == {}
    document.pop("configz")  # this one has no reservations
    code, out = judged(document, tmp_path, capsys)
    assert (code, "0 deviate" in out) == (0, True), out


def test_no_planted_secret_leaves_the_node(node: NodeFolder) -> None:
    """Environment, commands, arguments, labels, annotations, mounts, flags, probes, images, messages, files."""
    planted = [path for path in node.root.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert len(planted) > PODS
    assert SECRET in json.dumps(node.pods)
    _, document, said = node.collect()
    assert document["pods"]
    assert document["config"]
    assert SECRET not in json.dumps(document) + said
    [annotations] = {json.dumps(pod["metadata"]["annotations"]) for pod in document["pods"]}
    assert json.loads(annotations) == {
        "kubernetes.io/config.source": "api", "unified-cgroup.crio.io": "memory.high=1", "koordinator.sh/qos": "",
    }  # fmt: skip
    assert document["flags_omitted"] == ["--node-ip", "--storage-driver-password"]


@pytest.mark.parametrize("form", [
    "staticPodURLHeader: {A: [SECRET]}\nmaxPods: 9\n",
    '"staticPodURLHeader":\n  A:\n  - SECRET\nmaxPods: 9\n',
    "staticPodURLHeader:\n  A:\n   - |\n    SECRET\n\n    maxPods\nmaxPods: 9\n",
    "maxPods: 9 # SECRET\n#SECRET\n---\n",
    "SECRET: 1\nmaxPods: 9\n",
    '{"staticPodURLHeader": {"A": ["SECRET"]}, "maxPods": 9}',
])  # fmt: skip
def test_a_configuration_keeps_only_the_fields_that_rules_read(form: str) -> None:
    kept = collect_program.kept_lines(form.replace("SECRET", SECRET))
    assert kept is not None
    assert SECRET not in kept
    assert "maxPods" in kept
    assert "9" in kept


@pytest.mark.parametrize("form", [
    "staticPodURLHeader: &a {A: [SECRET]}\nkubeReserved: *a\n", "{staticPodURLHeader: {A: [SECRET]}}\n",
    "? staticPodURLHeader\n: SECRET\n", "kubeReserved: !x SECRET\n", "\tmaxPods: SECRET\n",
])  # fmt: skip
def test_a_configuration_of_another_form_is_not_kept(form: str) -> None:
    assert collect_program.kept_lines(form.replace("SECRET", SECRET)) is None


def test_the_lines_of_the_configuration_keep_their_numbers(node: NodeFolder) -> None:
    node.put("/var/lib/kubelet/config.yaml", "# a\nclusterDNS:\n- 10.0.0.1\n\nmemoryThrottlingFactor: 0.7\n")
    _, document, _ = node.collect()
    assert document["config"].splitlines()[4] == "memoryThrottlingFactor: 0.7"
    assert not any(document["config"].splitlines()[:4])


def test_the_running_configuration_wins_over_the_file_and_the_difference_is_noted(node: NodeFolder) -> None:
    node.put("/var/lib/kubelet/config.yaml", CONFIG.replace("0.9", "0.7"))
    _, document, _ = node.collect()
    tree = tree_of(document, "n1")
    assert tree.settings is not None
    assert float(tree.settings.throttling_factor or 0) == 0.9
    assert any(one.field == "throttling_factor" for one in tree.settings.notes)


def test_a_value_that_changes_between_the_looks_is_in_the_document(tmp_path: Path) -> None:
    one = collect_program.Node("/")
    one.root = str(tmp_path)
    (tmp_path / "sys/fs/cgroup/kubepods/a").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("memory\n")
    tree = collect_program.Tree(one, "/sys/fs/cgroup")
    file = tmp_path / "sys/fs/cgroup/kubepods/a/memory.high"
    file.write_text("1\n")
    first, ours = collect_program.cgroups_of(one, tree, 1.0)
    file.write_text("2\n")
    assert collect_program.second_look(tree, ours, first) == {
        "changed": {"/kubepods/a": {"memory.high": "2"}}, "gone": [], "counters": {},
    }  # fmt: skip
    shutil.rmtree(file.parent)
    assert collect_program.second_look(tree, ours, first)["gone"] == ["/kubepods/a"]


def test_a_node_without_cgroup_2_is_read_from_the_hierarchies_of_version_1(node: NodeFolder, tmp_path: Path) -> None:
    node.put("/proc/1/mountinfo", "30 22 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")
    shutil.rmtree(node.root / "sys/fs/cgroup")
    node.put("/sys/fs/cgroup/memory/kubepods/memory.limit_in_bytes", "4096\n")
    node.put("/sys/fs/cgroup/memory/kubepods/cpu.shares", "2\n")
    _, document, _ = node.collect()
    assert document["node"]["cgroup"] == "v1"
    assert document["cgroups"]["/kubepods"]["memory.limit_in_bytes"] == "4096"
    assert "cpu.shares" not in document["cgroups"]["/kubepods"]


def test_a_node_without_the_memory_controller_is_reported(node: NodeFolder) -> None:
    shutil.rmtree(node.root / "sys/fs/cgroup")
    status, document, said = node.collect()
    assert (status, document["cgroups"]) == (6, {})
    assert "no mounted cgroup hierarchy has the memory controller" in said


def test_a_machine_without_a_kubelet_is_reported(node: NodeFolder) -> None:
    shutil.rmtree(node.cgroup("/kubepods.slice"))
    shutil.rmtree(node.root / "proc/500")
    status, document, said = node.collect()
    assert status == 5
    assert "kubepods: no cgroup is called kubepods or kubepods.slice" in said
    assert "kubelet" not in document


def test_a_kubelet_that_does_not_answer_is_noted_and_its_pods_come_from_the_runtime(
    node: NodeFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node.answers = False
    _, document, _ = node.collect()
    assert document["notes"]["pods"] == f"{node.url}/pods: the kubelet answers 401"
    assert "pods" not in document
    assert {pod["name"] for pod in document["runtime_pods"]} == {"pod-0", "pod-1", "pod-2", "pod-3"}
    code, out = judged(document, tmp_path, capsys)
    assert (code, ", 0 deviate" in out) == (0, True), out
    assert "not judged, since no manifest was given: pods" in out


def test_a_runtime_that_does_not_answer_is_noted_and_containers_come_from_the_pods(node: NodeFolder) -> None:
    (node.root / "run/containerd/containerd.sock").unlink()
    for pod in node.pods:
        for one in pod["status"]["containerStatuses"]:
            one["containerID"] = f"containerd://{pod['metadata']['name']}{one['name']}"
    _, document, _ = node.collect()
    assert document["notes"]["containers"].startswith("no socket of a runtime is there: /run/containerd")
    uid = node.pods[0]["metadata"]["uid"]
    assert document["containers"]["pod-0c0"] == ["pod-0", "c0", uid]


def test_a_kubelet_that_is_slow_to_print_its_version_is_waited_for(node: NodeFolder) -> None:
    """On a loaded machine, a kubelet of 80 MB needs seconds to start."""
    node.put("/proc/500/exe", VERSION.replace("echo", "sleep 2.5; echo")).chmod(0o755)
    _, document, _ = node.collect("--timeout", "20")
    assert (document["kubelet"], "kubelet" in document["notes"]) == ("v1.36.3", False)


def test_a_longer_time_reaches_the_program(node: NodeFolder, capsys: pytest.CaptureFixture[str]) -> None:
    node.put("/proc/500/exe", VERSION.replace("echo", "sleep 2.5; echo")).chmod(0o755)
    place = f"local://{node.root}"
    assert "kubelet" not in collecting.collected_at(place)
    assert run(["collect", place, "--timeout", "20"]) == 0
    assert json.loads(capsys.readouterr().out)["kubelet"] == "v1.36.3"


def test_a_kubelet_that_is_slow_is_noted_with_the_option_that_allows_it_more(node: NodeFolder) -> None:
    node.slow = 0.5
    _, document, _ = node.collect("--timeout", "0.2")
    assert document["notes"]["pods"] == f"{node.url}/pods: no answer in 0.2 s; --timeout SECONDS allows more"
    _, document, _ = node.collect("--timeout", "20")
    assert {"configz", "pods"}.isdisjoint(document["notes"])
    assert len(document["pods"]) == PODS


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("/var/lib/minikube/binaries/v1.36.4/kubelet", "v1.36.4"),
        ("/opt/bin/kubelet-1.32.13", "v1.32.13"),
        ("/opt/v1.31.7+rke2r1/bin/kubelet", "v1.31.7+rke2r1"),
        ("/usr/bin/kubelet", None),
        ("/opt/2.0.1/v1.36/kubelet", None),
    ],
)
def test_a_version_that_is_not_printed_is_that_of_the_program_s_path(
    node: NodeFolder, path: str, version: str | None
) -> None:
    program = node.put(path, "#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    (node.root / "proc/500/exe").unlink()
    (node.root / "proc/500/exe").symlink_to(program)
    _, document, _ = node.collect()
    assert document.get("kubelet") == version
    assert document["notes"]["kubelet"].startswith("it did not print its version")


def test_several_kubelets_are_none(node: NodeFolder) -> None:
    node.process(502, "kubelet")
    _, document, _ = node.collect()
    assert document["notes"]["kubelet"] == "2 kubelets run here, and none is chosen"
    assert "config" not in document


def test_a_node_of_kind_inside_is_not_taken_for_the_outer_one(node: NodeFolder) -> None:
    inner = "/kubepods.slice/kubepods-podx.slice/cri-containerd-x.scope/kubelet/kubepods"
    assert collect_program.parents_of_pods(["/", "/kubepods.slice", inner]) == ["/kubepods.slice"]


def test_names_that_try_to_escape_stay_names(node: NodeFolder) -> None:
    (node.root / "sys/fs/cgroup/\x1b[31mred").mkdir()
    (node.root / "sys/fs/cgroup/link").symlink_to("/etc")
    Path(os.fsdecode(os.fsencode(node.root / "sys/fs/cgroup") + b"/\xff\xfe")).mkdir()
    _, document, said = node.collect()
    assert "\x1b" not in said
    assert "/link" not in document["cgroups"]
    assert "/\\xff\\xfe" in document["cgroups"]
    assert load_document(document).reading.cgroups


def load_document(document: dict[str, Any]) -> Any:
    return tree_of(document, "n1")


def test_a_device_in_the_place_of_the_configuration_is_not_read(node: NodeFolder) -> None:
    path = node.root / "var/lib/kubelet/config.yaml"
    path.unlink()
    os.mkfifo(path)
    _, document, _ = node.collect()
    assert document["notes"]["/var/lib/kubelet/config.yaml"] == "it is not a regular file"


def test_with_ten_thousand_cgroups_those_of_pods_are_complete(
    node: NodeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = collect_program.Node(str(node.root))
    for number in range(300):
        node.put(f"/sys/fs/cgroup/system.slice/a{number}/memory.max", "max\n")
    found, ours = collect_program.cgroups_of(one, collect_program.Tree(one, ""), 0.0)
    assert len(found) < 300
    assert one.notes["cgroups"] == "300 outside the kubelet's were left out to be done in time"
    assert {collect_program.shown(path) for path in ours} <= set(found)


def test_a_token_goes_to_this_node_or_over_verified_tls_alone() -> None:
    for url in ("http://127.0.0.1:10250", "https://10.0.0.7:10250"):
        with pytest.raises(ValueError, match="a token is sent to this very node, or over TLS"):
            collect_program.asked(url, "/pods", "token", "", 0.1)


def test_what_is_counted_is_a_count(node: NodeFolder) -> None:
    _, document, _ = node.collect()
    tree = tree_of(document, "n1")
    path = next(path for path in tree.reading.cgroups if path.name.endswith(".scope"))
    assert tree.reading.file(path, "cgroup.procs") == "(1)"
    assert tree.reading.file(CgroupPath.parse("/kubepods.slice"), "cgroup.procs") == ""


def test_a_wrong_clock_is_noted(node: NodeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    monkeypatch.setattr(collecting, "utc_now", lambda: now)
    document = collecting.collected_at(f"local://{node.root}")
    assert re.fullmatch(r"the node's clock is \d+ s ahead of this host's", document["notes"]["clock"])


def test_print_prints_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["collect", "--print"]) == 0
    assert capsys.readouterr().out == collecting.program()


def test_a_recording_is_written_for_its_owner_alone(
    node: NodeFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["collect", f"local://{node.root}", "--output", str(tmp_path / "n.json")]) == 0
    assert (tmp_path / "n.json").stat().st_mode & 0o777 == 0o600
    assert load_tree(tmp_path / "n.json").node_name
    assert run(["collect", f"local://{node.root}", "--output", str(tmp_path)]) == 4
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [[], ["local://", "--target", "local://"], ["nothing"], ["ssh://-x"], ["kubectl://A"]]
)
def test_what_names_no_node_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["collect", *words]) == 4


KUBECTL = """#!/bin/sh
# A stand-in for kubectl: it notes each command line, and runs `exec` on this host.
echo "$@" >> "$LOG"
case "$*" in
  *" create "* | "create "*) cat > "$FOLDER/manifest.json"; echo pod/memqos-collect-x1 ;;
  *wait*) [ -z "$FAILS" ] || { echo "error: timed out waiting" >&2; exit 1; } ;;
  *exec*) shift 6; shift; python3 - --root "$ROOT" --no-api --source n1 ;;
  *"get pods"*) cat "$FOLDER/pods.json" ;;
  *configz*) echo 'Error from server (Forbidden)' >&2; exit 1 ;;
  *"get node"*) cat "$FOLDER/node.json" ;;
esac
"""


@pytest.fixture
def kubectl(node: NodeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "kubectl").write_text(KUBECTL)
    (folder / "kubectl").chmod(0o755)
    (folder / "pods.json").write_text(json.dumps({"kind": "List", "items": node.pods}))
    info = {"kubeletVersion": "v1.36.2", "containerRuntimeVersion": "containerd://2.1.4"}
    (folder / "node.json").write_text(json.dumps({"status": {"nodeInfo": info}}))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    for name, value in {"LOG": folder / "log", "FOLDER": folder, "ROOT": node.root}.items():
        monkeypatch.setenv(name, str(value))
    return folder


def test_a_node_of_a_cluster_is_read_by_a_pod_without_rights(node: NodeFolder, kubectl: Path) -> None:
    (node.root / "run/containerd/containerd.sock").unlink()
    shutil.rmtree(node.root / "proc/500")
    document = collecting.collected_at("kubectl://n1?namespace=audit&context=c1")
    assert (document["kubelet"], document["source"]) == ("v1.36.2", "kubectl://n1")
    assert document["node"]["containerd"] == "containerd 2.1.4"
    assert document["notes"]["configz"] == "kubectl get: Error from server (Forbidden)"
    assert SECRET not in json.dumps(document)
    assert len(document["pods"]) == PODS
    lines = (kubectl / "log").read_text().splitlines()
    assert lines[0] == "--context c1 create -f - -o name"
    assert lines[1] == "--context c1 wait -n audit --for=condition=Ready --timeout=180s pod/memqos-collect-x1"
    assert lines[2] == (
        "--context c1 exec -i -n audit pod/memqos-collect-x1 -- python3 - --root /host --no-api --source n1"
    )
    assert lines[3] == "--context c1 delete -n audit --wait=false --now pod/memqos-collect-x1"
    spec = json.loads((kubectl / "manifest.json").read_text())["spec"]
    [container] = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "runAsNonRoot": True, "runAsUser": 65534,
        "runAsGroup": 65534, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    assert not spec.keys() & {"hostPID", "hostNetwork", "hostIPC", "serviceAccountName"}
    assert spec["automountServiceAccountToken"] is False
    assert {one["hostPath"]["path"] for one in spec["volumes"]} == {"/proc", "/sys"}
    assert all(one["readOnly"] for one in container["volumeMounts"])


def test_without_the_running_configuration_defaults_are_not_assumed(
    node: NodeFolder, kubectl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The node has a factor and reservations; configz is forbidden, and its files cannot be seen from a pod."""
    shutil.rmtree(node.root / "var")
    document = dict(collecting.collected_at("kubectl://n1"))
    assert "config" not in document
    code, out = judged(document, tmp_path, capsys)
    assert (code, ", 0 deviate" in out) == (0, True), out
    assert "the kubelet's configuration is not known: /var/lib/kubelet/config.yaml: it does not exist" in out


def test_a_pod_that_never_runs_is_removed(kubectl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAILS", "1")
    with pytest.raises(TargetError, match="timed out waiting"):
        collecting.collected_at("kubectl://n1")
    assert (kubectl / "log").read_text().splitlines()[-1].startswith("delete -n kube-system")


def test_without_kubectl_the_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MissingProgramError, match="'kubectl' is not installed"):
        collecting.collected_at("kubectl://n1")


@pytest.mark.parametrize(
    "url", ["kubectl://", "kubectl://n1/x", "kubectl://-n1", "kubectl://n1?x=1", "kubectl://n1?image="]
)
def test_what_names_no_node_of_a_cluster_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        collecting.check_place(url)


def test_an_invalid_document_is_an_error() -> None:
    with pytest.raises(TargetError, match="ended with status 1: Traceback"):
        collecting.document_in(b"", 1, "Traceback", where="n1")
    with pytest.raises(EnvironmentNotAbleError, match="can be read"):
        collecting.document_in(b'{"cgroups": {}}', 6, "", where="n1")
    with pytest.raises(EnvironmentNotAbleError, match="no pods of a kubelet"):
        collecting.document_in(b'{"cgroups": {"/": {}}, "notes": {"kubepods": "none"}}', 5, "", where="n1")
