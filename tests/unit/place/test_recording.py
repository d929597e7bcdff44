"""An existing node, recorded: what is read of it, and that nothing is written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memqos.catalog.recorded_trees import tree_of
from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError, MachineryError, ManifestError, TargetError
from memqos.model.node import CgroupDriver, CgroupVersion
from memqos.model.path import CgroupPath
from memqos.place import recording
from memqos.place.recording import ReadOnlyTarget, recorded
from memqos.runtime.base import gone
from memqos.runtime.proto import cri_pb2
from memqos.target.local import LocalTarget
from tests.live_node import CONFIG, NODE, LiveNode, live_node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    with live_node(tmp_path / "cri.sock") as live:
        yield live


def test_everything_that_an_audit_needs_is_recorded_but_for_manifests(node: LiveNode) -> None:
    tree = tree_of(recorded(node.target), "fake://")
    assert tree.release == "v1.27.7"
    assert tree.settings is not None
    assert tree.settings.origin["systemReserved.memory"] == "fake:// config:13"
    assert tree.node is not None
    assert (tree.node.memory, tree.node.swap, tree.node.cpus, tree.node.kernel) == (
        2147483648, 536870912, 2, "6.12.107+deb13-cloud-amd64",
    )  # fmt: skip
    assert tree.runtimes == {"containerd": "1.7.24", "runc": "1.1.15+ds1", "systemd": "257"}
    assert tree.driver is CgroupDriver.SYSTEMD
    assert sorted(tree.sandboxes.values()) == ["best-effort", "burstable", "guaranteed-two"]
    assert sorted({one.name for one in tree.containers}) == ["app", "side"]
    assert tree.pods is None


def test_nothing_is_written(node: LiveNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("written")

    before = node.place.cgroups.snapshot()
    monkeypatch.setattr(node.target, "write", refused)
    recorded(node.target)
    assert node.place.cgroups.snapshot() == before


def test_a_write_to_a_read_only_machine_raises_before_it_is_tried(node: LiveNode) -> None:
    file = "/sys/fs/cgroup/kubepods.slice/memory.max"
    before = node.target.read(file, deadline=Deadline.after(1))
    with pytest.raises(TargetError, match="read-only"):
        ReadOnlyTarget(node.target).write(file, b"4096", deadline=Deadline.after(1))
    assert node.target.read(file, deadline=Deadline.after(1)) == before != b"4096\n"


def test_a_node_without_pods_of_a_kubelet_is_reported(node: LiveNode) -> None:
    node.place.cgroups.remove(CgroupPath(("kubepods.slice",)))
    with pytest.raises(EnvironmentNotAbleError, match="it has no pods of a kubelet"):
        recorded(node.target)


def test_a_node_without_a_listening_runtime_is_reported(node: LiveNode) -> None:
    node.listens = ""
    with pytest.raises(EnvironmentNotAbleError, match="no container runtime listens on /run/containerd"):
        recorded(node.target)


def test_a_runtime_that_does_not_answer_is_noted_unless_it_was_named(
    node: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: Any, name: str, **__: Any) -> None:
        raise gone(name, "Version", "it closed the connection", data={})

    monkeypatch.setattr(recording, "connect", silent)
    document = recorded(node.target)
    assert document["notes"] == {"containers": f"{node.listens} does not answer: it closed the connection"}
    assert document["containers"] == {}
    assert tree_of(document, "fake://").release == "v1.27.7"
    with pytest.raises(MachineryError, match="does not answer"):
        recorded(node.target, cri_socket=node.listens)


def test_only_a_given_socket_is_queried(node: LiveNode) -> None:
    node.listens = ""
    with pytest.raises(EnvironmentNotAbleError, match=r"listens on /run/mine\.sock\."):
        recorded(node.target, cri_socket="/run/mine.sock")


def test_without_a_kubelet_its_release_and_configuration_are_left_out(node: LiveNode) -> None:
    node.kubelet = []
    tree = tree_of(recorded(node.target), "fake://")
    assert (tree.release, tree.settings) == ("", None)


def test_a_kubelet_inside_another_program_is_named_by_it(
    node: LiveNode,
) -> None:
    node.kubelet = ["inside k3s-server"]
    node.target.put("/var/lib/kubelet/memory_manager_state", b'{"policyName": "None"}')
    document = recorded(node.target)
    tree = tree_of(document, "fake://")
    assert (tree.kubelet_inside, tree.release, tree.settings) == ("k3s-server", "", None)
    assert document["memory_manager_state"] == {"policyName": "None"}


PROCESSES = [
    (["kubelet"], "Kubernetes v1.36.0"),
    (["k3s-server"], "inside k3s-server"),
    (["kubelite", "containerd"], "inside kubelite"),
    (["k3s-agent", "kubelet"], "Kubernetes v1.36.0"),
    (["containerd", "kubelet-wrapper"], ""),
]


@pytest.mark.parametrize(("names", "first"), PROCESSES)
def test_the_script_finds_a_kubelet_and_programs_that_contain_one(tmp_path: Path, names: list[str], first: str) -> None:
    """The script itself, over a folder in the place of /proc."""
    program = tmp_path / "kubelet"
    program.write_text("#!/bin/sh\necho Kubernetes v1.36.0\n")
    program.chmod(0o755)
    for number, name in enumerate([*names, "self"]):
        process = tmp_path / "proc" / ("self" if name == "self" else str(number + 1))
        (process / "ns").mkdir(parents=True)
        (process / "ns/mnt").symlink_to("mnt:[1]")
        (process / "comm").write_text(f"{name}\n")
        (process / "cmdline").write_bytes(b"kubelet\0--v=2\0")
        (process / "cwd").symlink_to("/")
        (process / "exe").symlink_to(program)
    script = recording.KUBELET_SCRIPT.replace("/proc/", f"{tmp_path}/proc/")
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert next(iter(done.stdout.splitlines()), "") == first


def test_an_option_of_the_kubelet_may_have_its_value_behind_it(node: LiveNode) -> None:
    node.kubelet = ["Kubernetes v1.27.7", "/var/lib", "kubelet", "--v", "2", "--config", "kubelet/config.yaml"]
    assert tree_of(recorded(node.target), "fake://").settings is not None


def test_a_missing_configuration_is_reported_with_its_path(node: LiveNode) -> None:
    node.kubelet[-1] = "--config=/etc/gone.yaml"
    with pytest.raises(
        TargetError, match=r"/etc/gone\.yaml: the kubelet's configuration cannot be read: it no longer exists"
    ):
        recorded(node.target)


def test_ended_containers_have_no_files_to_read(node: LiveNode) -> None:
    for one in node.lists.containers:
        one.state = cri_pb2.CONTAINER_EXITED
    assert tree_of(recorded(node.target), "fake://").containers == ()


def without_processes(node: LiveNode, number: int = 0) -> str:
    """The id of a container without a process in its cgroup."""
    id_: str = node.lists.containers[number].id
    [path] = [path for path in node.place.cgroups.snapshot() if id_ in str(path)]
    node.place.cgroups.lose_process(path)
    return id_


def test_the_processes_of_each_cgroup_are_recorded_and_counted(node: LiveNode) -> None:
    without = without_processes(node)
    cgroups = tree_of(recorded(node.target), "fake://").reading.cgroups
    seen = {path.name: cgroup.files["cgroup.procs"] for path, cgroup in cgroups.items() if path.name.endswith("scope")}
    assert [text for name, text in seen.items() if without in name] == [""]
    assert {text for name, text in seen.items() if without not in name} == {"1"}
    assert {"cgroup.events", "pids.current"} <= {name for cgroup in cgroups.values() for name in cgroup.files}


def test_processes_of_a_container_that_ends_meanwhile_are_not_judged(node: LiveNode) -> None:
    without = without_processes(node)
    node.lists.later = node.lists.containers[1:]
    cgroups = tree_of(recorded(node.target), "fake://").reading.cgroups
    [files] = [cgroup.files for path, cgroup in cgroups.items() if without in path.name]
    assert "memory.max" in files
    assert "cgroup.procs" not in files


def test_a_node_inside_a_container_of_this_one_is_passed_over(node: LiveNode) -> None:
    inner = CgroupPath(("system.slice", "docker-1.scope", "kubelet.slice", "kubelet-kubepods.slice"))
    node.place.cgroups.make(inner)
    found = {str(path) for path in tree_of(recorded(node.target), "fake://").reading.cgroups}
    assert "/system.slice" in found
    assert not any("docker-1" in path for path in found)


def test_a_node_in_a_container_has_its_own_parent(node: LiveNode) -> None:
    cgroups = node.place.cgroups
    cgroups.remove(CgroupPath(("kubepods.slice",)))
    cgroups.make(CgroupPath(("kubelet.slice", "kubelet-kubepods.slice", "kubelet-kubepods-besteffort.slice")))
    found = {str(path) for path in tree_of(recorded(node.target), "fake://").reading.cgroups}
    assert {path for path in found if not path.startswith("/memqos")} == {
        "/kubelet.slice",
        "/kubelet.slice/kubelet-kubepods.slice",
        "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice",
    }


def test_the_files_of_every_hierarchy_of_cgroup_v1_are_under_one_path(tmp_path: Path) -> None:
    facts = replace(NODE, cgroup_version=CgroupVersion.V1)
    with live_node(tmp_path / "cri.sock", pods=("burstable",), driver=CgroupDriver.CGROUPFS, node=facts) as live:
        tree = tree_of(recorded(live.target), "fake://")
    assert tree.node is not None
    assert tree.node.cgroup_version is CgroupVersion.V1
    files = tree.reading.cgroups[CgroupPath(("kubepods", "burstable"))].files
    assert files["cpu.shares"] == "10"
    assert files["memory.limit_in_bytes"] == "9223372036854771712"


def test_the_state_of_the_memory_manager_is_taken_along(node: LiveNode) -> None:
    node.kubelet.append("--root-dir=/data/kubelet")
    node.target.put("/data/kubelet/memory_manager_state", b'{"policyName": "Static", "checksum": 1}')
    assert recorded(node.target)["memory_manager_state"] == {"policyName": "Static", "checksum": 1}


def test_what_the_kubelet_has_allocated_is_taken_along(node: LiveNode) -> None:
    for name in ("allocated_pods_state", "actuated_pods_state", "pod_status_manager_state"):
        node.target.put(f"/var/lib/kubelet/{name}", b'{"data": "{}", "checksum": 1}')
        assert recorded(node.target)[name] == {"data": "{}", "checksum": 1}


def test_the_configuration_keeps_its_own_lines(node: LiveNode) -> None:
    text = node.target.read(CONFIG, deadline=Deadline.after(1))
    assert text is not None
    assert recorded(node.target)["config"] == text.decode()


HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def with_drop_ins(node: LiveNode, texts: dict[str, str]) -> None:
    node.kubelet.append("--config-dir=/etc/kubelet.d")
    for name, text in texts.items():
        node.target.put(f"/etc/kubelet.d/{name}", (HEAD + text).encode())


def test_the_drop_ins_of_the_node_are_merged_onto_its_configuration(node: LiveNode) -> None:
    with_drop_ins(
        node,
        {
            "20.conf": "systemReserved: {memory: 300Mi}\n",
            "10.conf": "systemReserved: {memory: 200Mi}\nkubeReserved:\n  memory: 400Mi\n",
            "10-more/50.conf": "podPidsLimit: 77\n",
        },
    )
    found = recorded(node.target)
    assert list(found["drop_ins"]) == [  # type: ignore[call-overload]
        "/etc/kubelet.d/10-more/50.conf", "/etc/kubelet.d/10.conf", "/etc/kubelet.d/20.conf",
    ]  # fmt: skip
    settings = tree_of(found, "fake://").settings
    assert settings is not None
    assert str(settings.system_reserved["memory"]) == "300Mi"
    assert settings.pod_pids_limit == 77
    assert settings.origin["systemReserved.memory"] == "fake:// /etc/kubelet.d/20.conf:3"
    assert settings.origin["kubeReserved.memory"] == "fake:// /etc/kubelet.d/10.conf:5"
    assert not [note for note in settings.notes if "config-dir" in note.field]


def test_a_flag_and_a_field_on_top_win_over_drop_ins(node: LiveNode) -> None:
    with_drop_ins(node, {"10.conf": "systemReserved: {memory: 200Mi}\nkubeReserved: {memory: 1Mi}\n"})
    node.kubelet.append("--kube-reserved=memory=5Mi")
    settings = tree_of(recorded(node.target), "fake://", ["systemReserved.memory=6Mi"]).settings
    assert settings is not None
    assert [str(one["memory"]) for one in (settings.kube_reserved, settings.system_reserved)] == ["5Mi", "6Mi"]


def test_drop_ins_that_cannot_be_read_are_named(node: LiveNode) -> None:
    with_drop_ins(node, {"10.conf": "systemReserved: {memory: 200Mi}\n"})
    node.special.add("/etc/kubelet.d/20.conf")
    node.target.put("/etc/kubelet.d/30.conf", b"#" * ((1 << 20) + 1))
    settings = tree_of(recorded(node.target), "fake://").settings
    assert settings is not None
    assert str(settings.system_reserved["memory"]) == "200Mi"
    told = {note.field: note.what for note in settings.notes}
    assert told["/etc/kubelet.d/20.conf"].startswith("it is not a regular file: its settings are not known here")
    assert told["/etc/kubelet.d/30.conf"].startswith("it has more than 1 MiB")


def test_a_missing_drop_in_folder_is_named(node: LiveNode) -> None:
    node.kubelet.append("--config-dir=/etc/gone")
    settings = tree_of(recorded(node.target), "fake://").settings
    assert settings is not None
    [note] = [one for one in settings.notes if one.field == "/etc/gone"]
    assert note.what.startswith("the folder no longer exists")


def test_a_broken_drop_in_is_named_with_its_line(node: LiveNode) -> None:
    with_drop_ins(node, {"10.conf": "systemReserved: 5\n"})
    with pytest.raises(ManifestError, match=r"/etc/kubelet\.d/10\.conf:3"):
        tree_of(recorded(node.target), "fake://")


def test_the_scripts_read_plain_files_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a d"
    (folder / "20.d").mkdir(parents=True)
    (folder / "10.conf").write_text("ten")
    (folder / "20.d" / "x.conf").symlink_to("../10.conf")
    (folder / "30.yaml").write_text("skipped")
    (folder / "40.conf").symlink_to("gone")
    os.mkfifo(folder / "50.conf")
    target, deadline = LocalTarget(), Deadline.after(60)
    found = recording.drop_ins_of(target, str(folder), deadline)
    assert found == {
        "drop_ins": {f"{folder}/10.conf": "ten", f"{folder}/20.d/x.conf": "ten"},
        "drop_ins_unread": {
            f"{folder}/40.conf": "it is a dangling link",
            f"{folder}/50.conf": "it is not a regular file",
        },
    }
    assert recording.drop_ins_of(target, f"{folder}/gone", deadline)["drop_ins"] == {}
