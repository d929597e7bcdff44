"""`memqos audit --target` and `memqos record`: an existing node, judged without being touched."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memqos.audits.live import looked_at
from memqos.catalog.data import data_root
from memqos.cli import audit_places
from memqos.cli.main import run
from memqos.errors import EnvironmentNotAbleError
from memqos.model.path import CgroupPath
from memqos.place import collecting
from tests.clocks import HandClock
from tests.live_node import LiveNode, live_node

Told = Callable[..., tuple[int, str, str]]
PODS = [
    word
    for name in ("burstable", "best-effort", "guaranteed-two")
    for word in ("--pods", data_root() / f"fixtures/pods/{name}.yaml")
]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveNode]:
    @contextlib.contextmanager
    def reached(*_: Any) -> Iterator[Any]:
        yield live.target

    monkeypatch.setattr(collecting, "reached", reached)
    monkeypatch.setattr(audit_places, "looked_at", functools.partial(looked_at, clock=HandClock()))
    with live_node(tmp_path / "cri.sock") as live:
        yield live


def test_a_container_with_its_processes_elsewhere_deviates(node: LiveNode, told: Told) -> None:
    id_ = node.lists.containers[0].id
    [path] = [path for path in node.place.cgroups.snapshot() if id_ in str(path)]
    node.place.cgroups.lose_process(path)
    code, out, _ = told("--target", "ssh://node7", *PODS)
    assert code == 1
    assert "cgroup.procs of container app" in out
    assert out.endswith("ssh://node7: Kubernetes 1.27: 126 conform, 1 deviate, 0 not observable\n")


def test_a_right_node_conforms(node: LiveNode, told: Told) -> None:
    code, out, err = told("--target", "ssh://node7", *PODS)
    assert (code, err) == (0, "")
    assert out.endswith("ssh://node7: Kubernetes 1.27: 128 conform, 0 deviate, 0 not observable\n")


def test_a_node_without_python_has_its_use_all_the_same(node: LiveNode, told: Told) -> None:
    document = json.loads(told("--target", "ssh://node7", "--json", *PODS)[1])
    assert document["state"] == "FULFILLED"
    now = document["node"]
    assert now["recursive"] is True
    assert now["memory_qos"]["force"] == "in force"
    assert [one["container"] for one in now["containers"] if one["effective_memory_high"]]
    assert all(one["usage"] is not None for one in now["containers"])


def test_a_foreign_write_deviates_as_a_kubelets_file(node: LiveNode, told: Told) -> None:
    cgroups = node.place.cgroups
    [pod] = [path for path in cgroups.below([CgroupPath(("kubepods.slice",))]) if "burstable-pod" in path.name]
    cgroups.show(pod, "memory.min", "4096\n")
    code, out, _ = told("--target", "ssh://node7", *PODS)
    assert code == 1
    assert "memory.min of pod default/burstable is 4096, expected 67108864" in out
    assert "set by   the kubelet" in out


def test_a_recording_is_judged_as_the_node_itself(
    node: LiveNode, told: Told, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["record", "--target", "ssh://node7"]) == 0
    (tmp_path / "node7.json").write_text(capsys.readouterr().out)
    _, there, _ = told("--target", "ssh://node7", "--json", *PODS)
    _, kept, _ = told("--tree", tmp_path / "node7.json", "--json", *PODS)
    assert [said(one) for one in json.loads(there)["findings"]] == [said(one) for one in json.loads(kept)["findings"]]


def said(finding: dict[str, Any]) -> dict[str, Any]:
    """Without its reason, which names the file of the configuration."""
    return {name: value for name, value in finding.items() if name != "reason"}


def test_without_pods_the_nodes_requests_are_unknown(node: LiveNode, told: Told) -> None:
    code, _, err = told("--target", "ssh://node7")
    assert code == 4
    assert "kubectl get pods -A -o json" in err


@pytest.mark.parametrize("given", [[], ["--target", "ssh://node7", "--tree", "node7.json"]])
def test_one_node_is_judged(told: Told, given: list[str]) -> None:
    code, _, err = told(*given, *PODS)
    assert code == 4
    assert ("name two nodes." if given else "no node is given.") in err


def test_a_recording_has_no_socket(told: Told) -> None:
    code, _, err = told("--tree", "node7.json", "--cri-socket", "/run/mine.sock", *PODS)
    assert code == 4
    assert "--cri-socket: a recording has no socket." in err


def test_an_invalid_url_names_its_option(told: Told) -> None:
    code, _, err = told("--target", "http://node7", *PODS)
    assert code == 4
    assert "--target: there is no connection 'http'" in err


def test_a_machine_without_pods_is_not_able(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any, **__: Any) -> None:
        raise EnvironmentNotAbleError("it has no pods of a kubelet.", where="ssh://node7")

    monkeypatch.setattr(collecting, "collected", nothing)
    monkeypatch.setattr(collecting, "reached", lambda *_: contextlib.nullcontext())
    assert told("--target", "ssh://node7", *PODS)[0] == 6


def test_without_a_kubelet_the_release_is_required(node: LiveNode, told: Told) -> None:
    node.kubelet = []
    code, _, err = told("--target", "ssh://node7", *PODS)
    assert code == 4
    assert "Give the release with --kubernetes." in err
    config = data_root() / "fixtures/kubelet/v1.27.yaml"
    assert told("--target", "ssh://node7", "--kubernetes", "1.27", "--kubelet-config", config, *PODS)[0] == 0


def test_a_kubelet_inside_k3s_is_named_and_defaults_are_not_assumed(node: LiveNode, told: Told) -> None:
    node.kubelet = ["inside k3s-server"]
    code, _, err = told("--target", "ssh://node7", *PODS)
    assert code == 4
    assert "the kubelet is part of k3s-server." in err
    assert "`kubectl get --raw /api/v1/nodes/NAME/proxy/configz` prints its configuration for --kubelet-config." in err

    node.place.cgroups.show(CgroupPath.parse("/kubepods.slice"), "memory.max", "4096\n")
    code, out, _ = told("--target", "ssh://node7", "--kubernetes", "1.27", *PODS)
    assert code == 0, out
    assert "the kubelet's configuration is not known: the kubelet is part of k3s-server, which sets its flags" in out
    config = data_root() / "fixtures/kubelet/v1.27.yaml"
    assert told("--target", "ssh://node7", "--kubernetes", "1.27", "--kubelet-config", config, *PODS)[0] == 1


def test_options_override_the_node(node: LiveNode, told: Told) -> None:
    code, out, _ = told("--target", "ssh://node7", "--set", "memoryThrottlingFactor=0.5", *PODS)
    assert code == 1
    assert "memory.high" in out


def test_a_containerd_that_passes_huge_page_limits_on_is_judged_by_that(node: LiveNode, told: Told) -> None:
    node.lists.drops_huge_pages = False
    code, out, _ = told("--target", "ssh://node7", *PODS)
    assert code == 1
    assert "hugetlb.2MB.max of container app of pod default/burstable is max, expected 0" in out


def test_the_kubelets_command_line_wins_over_its_file(
    node: LiveNode, told: Told, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    node.kubelet += ["--kube-reserved=memory=1Gi", "--node-ip=10.0.0.7"]
    code, out, err = told("--target", "ssh://node7", *PODS)
    assert code == 1
    assert "memory.max of kubepods" in out
    assert "kubeReserved" in out
    assert "node-ip" not in err
    assert run(["record", "--target", "ssh://node7"]) == 0
    (tmp_path / "node7.json").write_text(capsys.readouterr().out)
    config = data_root() / "fixtures/kubelet/v1.27.yaml"
    assert told("--tree", tmp_path / "node7.json", *PODS)[0] == 1
    code, _, err = told("--tree", tmp_path / "node7.json", "--kubelet-config", config, *PODS)
    assert (code, err.count("memqos: note: ")) == (0, 1)
    assert "--kubelet-config: it replaces the node's configuration" in err


def test_what_an_unread_drop_in_may_explain_is_not_observable(node: LiveNode, told: Told) -> None:
    """The node has other values than without the drop-ins, and those with them are not known."""
    node.kubelet += ["--kube-reserved=memory=1Gi", "--config-dir", "/etc/kubernetes/conf.d"]
    code, out, err = told("--target", "ssh://node7", *PODS)
    assert code == 0
    assert "/etc/kubernetes/conf.d: the folder no longer exists: its settings are not known here" in err
    assert "the kubelet's configuration is not completely known: /etc/kubernetes/conf.d" in out
    config = data_root() / "fixtures/kubelet/v1.22.yaml"
    code, out, _ = told("--target", "ssh://node7", "--kubelet-config", config, *PODS)
    assert "is not known whole" not in out


DAMAGED = b'{"data": "{}", "checksum": 7}'


@pytest.mark.parametrize(("release", "name", "text"), [
    ("1.27", "pod_status_manager_state", b"{"), ("1.32", "pod_status_manager_state", DAMAGED),
    ("1.33", "allocated_pods_state", b"{"), ("1.35", "actuated_pods_state", DAMAGED),
])  # fmt: skip
def test_damaged_checkpoints_leave_deviations_undecided(
    node: LiveNode, told: Told, release: str, name: str, text: bytes
) -> None:
    node.kubelet += ["--kube-reserved=memory=1Gi"]
    node.target.put(f"/var/lib/kubelet/{name}", text)
    code, out, _ = told("--target", "ssh://node7", "--kubernetes", release, *PODS)
    assert code == 0
    assert f"the resources that the kubelet has allocated are not known: {name}: " in out


@pytest.mark.parametrize(("release", "name"), [
    ("1.26", "pod_status_manager_state"), ("1.33", "pod_status_manager_state"), ("1.32", "allocated_pods_state"),
])  # fmt: skip
def test_a_checkpoint_of_another_release_explains_nothing(node: LiveNode, told: Told, release: str, name: str) -> None:
    node.kubelet += ["--kube-reserved=memory=1Gi"]
    node.target.put(f"/var/lib/kubelet/{name}", DAMAGED)
    code, out, _ = told("--target", "ssh://node7", "--kubernetes", release, *PODS)
    assert (code, name in out) == (1, False)


def test_drop_ins_apply_unless_an_option_gives_a_configuration(node: LiveNode, told: Told, tmp_path: Path) -> None:
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    node.kubelet.append("--config-dir=/etc/kubelet.d")
    node.target.put("/etc/kubelet.d/10.conf", f"{head}kubeReserved: {{memory: 1Gi}}\n".encode())
    code, out, err = told("--target", "ssh://node7", *PODS)
    assert (code, err.count("memqos: note: ")) == (1, 1)
    assert "the kubelet of 1.27 has no --config-dir" in err
    assert "memory.max of kubepods" in out
    assert "/etc/kubelet.d/10.conf:3" in out
    own = data_root() / "fixtures/kubelet/v1.27.yaml"
    code, out, err = told("--target", "ssh://node7", "--kubelet-config", own, *PODS)
    assert code == 0
    assert "--kubelet-config: it replaces the node's configuration, drop-ins and command line" in err
