"""A sosreport of a real node, made by sos 4.10.2 on Debian 13 with containerd and a kubelet of 1.36.2, cut down.

`tests/sosreports/debian-13.json` has the files that memqos reads, of all cgroups of pods, and the pods as the kubelet's
API server had them. The machine was one of memqos; sos ran in it while the pods ran.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from memqos.cli.main import run

RECORDED = "/run/memqos/kubelet/config.json"
COPIED = "/var/lib/kubelet/config.yaml"
"""Where its kubelet's configuration was, and where kubeadm's is, which sos copies."""

FOLDER = "sosreport-node7-2026-11-30-nogwsjc"
"""As sos names it: the host, the date and some letters."""
BURSTABLE = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod5f13baf1_1e56_5792_acc0_d8d2c466cc7b.slice"
CONTAINER = f"{BURSTABLE}/cri-containerd-7b98c93ac24195b49986ad18f875e6ac54e5402bef729e74f49409d410f64017.scope"


@cache
def fixture() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(__file__).parents[2] / "sosreports/debian-13.json").read_text())
    return found


class Sosreport:
    """The folder that the archive unpacks to. config: the file that the kubelet's command line names."""

    def __init__(self, folder: Path, *, config: str = COPIED) -> None:
        self.root = folder / FOLDER
        for name, text in fixture()["files"].items():
            self.put(name, text.replace(RECORDED, config) if "/ps_" in name else text)
        for name, to in fixture()["links"].items():
            (self.root / name).symlink_to(to)
        for path, files in fixture()["cgroups"].items():
            for name, text in files.items():
                self.put(f"sys/fs/cgroup{path}/{name}", f"{text}\n" if text else "")
        self.pods = folder / "pods.json"
        listed = {"apiVersion": "v1", "kind": "PodList", "items": fixture()["pods"]}
        self.pods.write_text(json.dumps(listed))

    def put(self, path: str, text: str) -> None:
        """A file of the archive."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def move(self, path: str, to: str) -> None:
        """Give a file the name that another version of sos gives it."""
        self.put(to, (self.root / path).read_text())
        (self.root / path).unlink()

    def audited(self, capsys: pytest.CaptureFixture[str], *words: str, packed: bool = False) -> tuple[int, str]:
        """Audit it with the pods of its cluster."""
        place = self.root
        if packed:
            place = self.root.with_suffix(".tar.gz")
            with tarfile.open(place, "w:gz") as archive:
                archive.add(self.root, self.root.name)
        code = run(["audit", str(place), "--pods", str(self.pods), "--kubernetes", "1.36", *words])
        out, err = capsys.readouterr()
        return code, out + err


@pytest.mark.parametrize("packed", [False, True])
def test_all_of_it_is_judged(packed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The systemd of Debian, 257.13-1~deb13u1, ended the audit; of containers and scores nothing was judged."""
    code, out = Sosreport(tmp_path).audited(capsys, packed=packed)
    assert (code, "Kubernetes 1.36: 265 conform, 0 deviate, 0 not observable" in out) == (0, True), out
    notes = [line.partition(FOLDER)[2].partition(": ")[2] for line in out.splitlines() if "note: " in line]
    assert [one.partition(":")[0] for one in notes] == ["pods", "containers", "kubelet"], out


@pytest.mark.parametrize(("file", "text", "says"), [
    (f"sys/fs/cgroup{CONTAINER}/memory.high", "195448832\n",
     "memory.high of container app of pod default/burstable is 195448832, expected 195452928"),
    (f"sys/fs/cgroup{CONTAINER}/memory.swap.max", "max\n",
     "memory.swap.max of container app of pod default/burstable is max, expected 17661952"),
    (f"sys/fs/cgroup{BURSTABLE}/memory.low", "0\n", "memory.low of pod default/burstable is 0, expected 67108864"),
    ("sys/fs/cgroup/memqossys.slice/memory.min", "0\n", "memory.min of memqossys.slice is 0, expected 104857600"),
])  # fmt: skip
def test_the_changed_file_alone_is_named(
    file: str, text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Sosreport(tmp_path)
    assert (report.root / file).exists()
    report.put(file, text)
    code, out = report.audited(capsys)
    assert (code, "264 conform, 1 deviate, 0 not observable" in out, says in out) == (1, True, True), out


def test_a_configuration_that_sos_did_not_copy_leaves_what_follows_from_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Sosreport(tmp_path, config=RECORDED)
    assert (report.root / COPIED.lstrip("/")).exists()
    code, out = report.audited(capsys)
    assert (code, "214 conform, 0 deviate, 29 not observable" in out) == (0, True), out
    assert f"the kubelet's command line names {RECORDED}, which the archive does not contain" in out
    (tmp_path / "config.json").write_text(json.dumps(fixture()["config"]))
    code, out = report.audited(capsys, "--kubelet-config", str(tmp_path / "config.json"))
    assert (code, "265 conform, 0 deviate, 0 not observable" in out) == (0, True), out


def test_the_layout_of_sos_3_and_4_0_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before 4.9 sos copied neither the kubelet's configuration nor scores of processes nor ld.so's diagnostics."""
    report = Sosreport(tmp_path)
    for path in ("proc/1/mountinfo", "sos_commands/system/ld.so_--list-diagnostics", "var/lib/kubelet/config.yaml"):
        (report.root / path).unlink()
    for file in [*report.root.glob("proc/*/oom_score_adj"), *report.root.glob("proc/*/status")]:
        file.unlink()
    report.move("sos_commands/process/ps_auxwwwm", "sos_commands/process/ps_auxwww")
    for pod in fixture()["pods"]:
        for one in (*pod["status"]["containerStatuses"], *pod["status"].get("initContainerStatuses", ())):
            texts = {
                "pod.name": pod["metadata"]["name"],
                "container.name": one["name"],
                "pod.uid": pod["metadata"]["uid"],
            }
            labels = {f"io.kubernetes.{key}": text for key, text in texts.items()}
            status = {"id": one["containerID"].rpartition("://")[2], "state": "CONTAINER_RUNNING", "labels": labels}
            inspected = (
                f"WARN[0000] runtime connect using default endpoints\n{json.dumps({'status': status}, indent=2)}\n"
            )
            report.put(f"sos_commands/crio/crictl_inspect_{status['id']}", inspected)
    code, out = report.audited(capsys, packed=True)
    assert (code, ", 0 deviate, " in out) == (0, True), out
    assert f"the kubelet's command line names {COPIED}, which the archive does not contain" in out
    assert "processes: it has no oom_score_adj of processes" in out
    (tmp_path / "config.json").write_text(json.dumps(fixture()["config"]))
    code, out = report.audited(capsys, "--kubelet-config", str(tmp_path / "config.json"))
    assert (code, "254 conform, 0 deviate, 0 not observable" in out) == (0, True), out


@pytest.mark.parametrize(("file", "text"), [
    ("proc/sys/vm/swappiness", "x\n"), ("proc/uptime", "x\n"), ("proc/1/mountinfo", "x y z\n"),
    ("var/lib/kubelet/memory_manager_state", "[]"), ("sos_commands/kernel/uname_-a", ""),
])  # fmt: skip
def test_a_damaged_fact_without_influence_costs_nothing(
    file: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first two were unexpected errors."""
    report = Sosreport(tmp_path)
    report.put(file, text)
    code, out = report.audited(capsys)
    assert (code, "265 conform, 0 deviate, 0 not observable" in out) == (0, True), out


@pytest.mark.parametrize(("file", "text", "says"), [
    ("proc/meminfo", "", "its proc/meminfo does not show the node's memory (MemTotal)"),
    ("sys/devices/system/cpu/online", "garbage\n", "no file in it shows how many CPUs the node has"),
    ("sys/devices/system/cpu/online", "0-", "no file in it shows how many CPUs the node has"),
])  # fmt: skip
def test_without_a_needed_fact_the_plug_in_is_named(
    file: str, text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node of one CPU was assumed, and four of its files deviated."""
    report = Sosreport(tmp_path)
    report.put(file, text)
    code, out = report.audited(capsys)
    assert (code, says in out, "sos report --enable-plugins " in out) == (4, True, True), out
    report.put("sys/devices/system/cpu/online", "0-7\n")
    report.put("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n")
    assert report.audited(capsys)[0] == (4 if file == "proc/meminfo" else 0)


def test_numa_nodes_without_their_memory_are_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """sos copies /sys/devices/system/node only where numactl is installed; the state file then fitted no node."""
    report = Sosreport(tmp_path)
    shutil.rmtree(report.root / "sys/devices/system/node", ignore_errors=True)
    report.put("sys/fs/cgroup/cpuset.mems.effective", "0-1\n")
    state = {"policyName": "Static", "machineState": {"0": {}, "1": {}}, "entries": {}, "checksum": 1}
    report.put("var/lib/kubelet/memory_manager_state", json.dumps(state))
    config = fixture()["config"] | {
        "memoryManagerPolicy": "Static",
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "260Mi"}}],
    }
    report.put("var/lib/kubelet/config.yaml", json.dumps(config))
    code, out = report.audited(capsys)
    assert (code, ", 0 deviate, " in out) == (0, True), out
    assert "numa: the plug-in numa, which needs numactl, did not run" in out


def test_links_to_this_host_are_no_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unpacked archive with such a link was judged by this host's memory."""
    report = Sosreport(tmp_path)
    for name, to in ((f"sys/fs/cgroup{CONTAINER}/memory.high", "/etc/hostname"), ("proc/swaps", "/proc/swaps")):
        (report.root / name).unlink()
        (report.root / name).symlink_to(to)
    code, out = report.audited(capsys)
    assert (code, "264 conform, 0 deviate, 1 not observable" in out) == (0, True), out
    assert "memory.high of container app of pod default/burstable: the file was not read" in out
    (report.root / "proc/meminfo").unlink()
    (report.root / "proc/meminfo").symlink_to("/proc/meminfo")
    code, out = report.audited(capsys)
    assert (code, "does not show the node's memory" in out) == (4, True), out


def test_a_pod_that_runs_without_a_cgroup_leaves_the_sums_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its cgroup was not copied, or it was not there any more: three sums above pods deviated."""
    report = Sosreport(tmp_path)
    shutil.rmtree(report.root / f"sys/fs/cgroup{BURSTABLE}")
    code, out = report.audited(capsys)
    assert (code, ", 0 deviate, " in out) == (0, True), out
    assert "pod default/burstable runs by its status, and has no cgroup here" in out
