"""What a sosreport has of a node, by the names that sos gives its files: `sosreports`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memqos.catalog.support_archives import archived
from memqos.cli.main import run
from memqos.errors import UsageError
from tests.unit.catalog.test_support_archives import DOCUMENT, must_gather, packed, sosreport

DEBS = """\
Desired=Unknown/Install/Remove/Purge/Hold
||/ Name              Version            Architecture Description
+++-=================-==================-============-===========
ii  containerd.io     1.7.27-1           amd64        runtime
rc  crun              1.8.1-1            amd64        OCI runtime
hi  kubelet           1.36.2-1.1         amd64        node agent
ii  runc:amd64        1.1.12-0ubuntu3    amd64        OCI runtime
ii  systemd           255.4-1ubuntu8     amd64        system and service manager
"""
HEAD = "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n"
KUBELET = "root        2345  3.1  0.9 999999 9999 ?        Ssl  Nov01   9:59 /usr/bin/kubelet --config={}\n"
OTHER = "root         {}  0.0  0.0   9999  999 ?        S    Nov01   0:00 {}\n"


def put(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def running(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pods with the ids of their containers in their status, as an API server has them."""
    ids = {(uid, name): id_ for id_, (_, name, uid) in DOCUMENT["containers"].items()}
    copy: list[dict[str, Any]] = json.loads(json.dumps(pods))
    for pod in copy:
        for one in pod["status"]["containerStatuses"]:
            one["containerID"] = "containerd://" + ids[pod["metadata"]["uid"], one["name"]]
    return copy


def with_running(folder: Path) -> Path:
    place = must_gather(folder)
    listed = {"apiVersion": "v1", "kind": "PodList", "items": running(DOCUMENT["pods"])}
    (place / "quay-io-image/namespaces/default/core/pods.yaml").write_text(json.dumps(listed))
    return place


def audited(place: Path, *words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = run(["audit", str(place), *words])
    out, err = capsys.readouterr()
    return code, out + err


def test_a_debian_node_has_packages_on_hold_and_a_link_for_its_host_name(tmp_path: Path) -> None:
    """`apt-mark hold kubelet`, as kubeadm's page says; in a tarball /hostname is a link to the command's output."""
    root = sosreport(tmp_path)
    (root / "hostname").unlink()
    (root / "installed-rpms").unlink()
    put(root, "sos_commands/host/hostname", "node7\n")
    put(root, "sos_commands/dpkg/dpkg_-l", DEBS)
    (root / "hostname").symlink_to("sos_commands/host/hostname")
    (root / "installed-debs").symlink_to("sos_commands/dpkg/dpkg_-l")
    for place in (root, packed(root, tmp_path / "sos.tar.xz")):
        found = archived(place)
        assert (found["source"], found["kubelet"]) == ("node7", "v1.36.2")
        assert {name: found["node"].get(name) for name in ("containerd", "runc", "crun", "systemd")} == {
            "containerd": "containerd 1.7.27",
            "runc": "runc 1.1.12",
            "crun": None,
            "systemd": "systemd 255 (255.4)",
        }


@pytest.mark.parametrize(("package", "release"), [
    ("openshift-kubelet-4.16.0-1.el9.x86_64", "v1.29.0"), ("openshift-hyperkube-4.8.0-1.el8.x86_64", "v1.21.0"),
    ("kubelet-1.34.1-150500.1.1.x86_64", "v1.34.1"), ("openshift-kubelet-5.0.0-1.el9.x86_64", None),
])  # fmt: skip
def test_the_release_of_an_openshift_package_is_known_for_its_version_4(
    package: str, release: str | None, tmp_path: Path
) -> None:
    root = sosreport(tmp_path)
    (root / "installed-rpms").write_text(f"{package}     Mon\n")
    found = archived(root)
    assert found.get("kubelet") == release
    assert ("kubelet" in found["notes"]) is (release is None)


def test_containers_are_found_by_the_status_of_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Debian's and most of Ubuntu's sosreports have no output of crictl: it judged no container."""
    root = sosreport(tmp_path / "sos", inspect=False)
    put(root, "sos_commands/process/ps_auxwwwm", HEAD + KUBELET.format("/etc/kubernetes/kubelet.conf"))
    pods = with_running(tmp_path)
    runtime = ("--runtime", "containerd@2.1+runc@1.3")
    code, out = audited(packed(root, tmp_path / "sos.tar.gz"), "--pods", str(pods), "-R", *runtime, capsys=capsys)
    assert (code, ", 0 deviate, " in out) == (0, True), out
    assert int(out.rsplit("Kubernetes 1.36: ", 1)[1].split()[0]) > 80
    file = sorted(one for one in root.rglob("memory.high") if one.read_text() not in {"max\n", "0\n"})[0]
    file.write_text("4096\n")
    code, out = audited(root, "--pods", str(pods), "-R", *runtime, capsys=capsys)
    assert (code, ", 1 deviate, " in out) == (1, True), out
    assert "memory.high of container " in out


def test_pods_of_other_nodes_are_not_missed_without_crictl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, place = sosreport(tmp_path / "sos", inspect=False), with_running(tmp_path)
    file = place / "quay-io-image/namespaces/default/core/pods.yaml"
    listed = json.loads(file.read_text())
    other = json.loads(json.dumps(listed["items"][0]))
    other["metadata"] |= {"name": "elsewhere", "uid": "0e15e000-0000-4000-8000-000000000001"}
    other["spec"]["nodeName"] = "n2"
    file.write_text(json.dumps(listed | {"items": [*listed["items"], other]}))
    _, out = audited(root, "--pods", str(place), "-R", capsys=capsys)
    assert "1 pod was given that no scheduler bound to this node: not looked for" in out
    assert "default/elsewhere" not in out


@pytest.mark.parametrize(("others", "why"), [
    ((), "the kubelet's command line names /etc/other.yaml, which the archive does not contain"),
    (("journalctl -u kubelet --follow", "vim kubelet --noplugin"), "the kubelet's command line names /etc/other.yaml"),
    (("/usr/bin/kubelet --config=/kind/config.yaml",), "ps_auxwwwm shows 2 kubelets"),
])  # fmt: skip
def test_the_kubelets_command_line_is_its_own_and_names_the_file(
    others: tuple[str, ...], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of kubeadm's usual name, left behind, was taken although the kubelet reads another one."""
    root = sosreport(tmp_path / "sos")
    config = (root / "etc/kubernetes/kubelet.conf").read_text()
    (root / "etc/kubernetes/kubelet.conf").write_text(f"{config}systemReserved: {{memory: 2Gi}}\n")
    lines = [OTHER.format(number, words) for number, words in enumerate(others, 11)]
    put(root, "sos_commands/process/ps_auxwwwm", HEAD + "".join(lines) + KUBELET.format("/etc/other.yaml"))
    code, out = audited(root, "--pods", str(with_running(tmp_path)), "-R", capsys=capsys)
    assert (code, ", 0 deviate, " in out, why in out) == (0, True, True), out


@pytest.mark.parametrize("form", ["ps_auxfwww", "ps_elfL", "ps_axo_flags_state_uid_pid_lstart_tty_time_cmd"])
def test_other_outputs_of_ps_are_read_by_their_heads(form: str, tmp_path: Path) -> None:
    root = sosreport(tmp_path)
    head, words = {
        "ps_auxfwww": (HEAD, "root 2345 3.1 0.9 9 9 ? Ssl Nov01 9:59  \\_ "),
        "ps_elfL": (
            "F S UID PID PPID LWP C NLWP PRI NI ADDR SZ WCHAN STIME TTY TIME CMD\n",
            "4 S root 2345 1 2345 0 9 80 0 - 9 - Nov01 ? 0:01 ",
        ),
    }.get(form, ("F S UID PID STARTED TT TIME CMD\n", "4 S 0 2345 Mon Nov 30 20:00:00 2026 ? 0:01 "))
    line = f"{words}/usr/bin/kubelet --config=/etc/kubernetes/kubelet.conf --max-pods=9\n"
    put(root, f"sos_commands/process/{form}", head + line)
    assert archived(root).get("unread") == (None if "lstart" in form else ["--max-pods=9"])


def test_a_kubelet_inside_another_program_is_named(tmp_path: Path) -> None:
    root = sosreport(tmp_path)
    put(root, "sos_commands/process/ps_auxwww", HEAD + OTHER.format(9, "/usr/local/bin/k3s server"))
    found = archived(root)
    assert (found["kubelet_inside"], "config" in found, "unread" in found) == ("k3s", False, False)


def test_the_pods_and_the_node_that_kubectl_printed_are_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A control plane, with `-k kubernetes.all`."""
    root = sosreport(tmp_path, inspect=False)
    (root / "installed-rpms").unlink()
    put(root, "sos_commands/process/ps_auxwwwm", HEAD + KUBELET.format("/etc/kubernetes/kubelet.conf"))
    folder = "sos_commands/kubernetes/cluster-info"
    kubectl = "kubectl_--kubeconfig_.etc.kubernetes.admin.conf_get_-o_json"
    listed = {"apiVersion": "v1", "kind": "List", "items": running(DOCUMENT["pods"])}
    put(root, f"{folder}/default/{kubectl}_--namespace_default_pods", json.dumps(listed))
    put(root, f"{folder}/other/{kubectl}_--namespace_other_pods", "error: the server is gone\n")
    info = {"kubeletVersion": "v1.36.2", "containerRuntimeVersion": "containerd://2.1.4"}
    nodes = [
        {"metadata": {"name": name}, "status": {"nodeInfo": one}}
        for name, one in (("n2", info | {"kubeletVersion": "v1.30.0"}), ("n1", info))
    ]
    put(root, f"{folder}/{kubectl}_nodes", json.dumps({"kind": "List", "items": nodes}))
    found = archived(packed(root, tmp_path / "sos.tar.xz"))
    assert (found["kubelet"], found["node"]["containerd"]) == ("v1.36.2", "containerd 2.1.4")
    assert (len(found["pods"]), len(found["containers"]), found["notes"]) == (5, 7, {})
    code, out = audited(root, capsys=capsys)
    assert (code, ", 0 deviate, " in out) == (0, True), out
    assert int(out.rsplit("Kubernetes 1.36: ", 1)[1].split()[0]) > 80


def test_the_pods_that_oc_printed_are_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = sosreport(tmp_path)
    put(root, "sos_commands/process/ps_auxwwwm", HEAD + KUBELET.format("/etc/kubernetes/kubelet.conf"))
    for pod in DOCUMENT["pods"]:
        text = f"apiVersion: v1\nkind: Pod\nmetadata: {json.dumps(pod['metadata'])}\n"
        text += f"spec: {json.dumps(pod['spec'])}\nstatus: {json.dumps(pod['status'])}\n"
        put(root, f"sos_commands/openshift/namespaces/default/pods/{pod['metadata']['name']}.yaml", text)
    put(root, "sos_commands/openshift/namespaces/default/pods/gone.yaml", "Error from server (NotFound)\n")
    code, out = audited(packed(root, tmp_path / "sos.tar.xz"), capsys=capsys)
    assert (code, ", 0 deviate, " in out) == (0, True), out


def test_scores_of_processes_are_read_from_a_tarball(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """sos copies /proc/PID/oom_*: they were judged in an unpacked archive alone, and said to be missing."""
    root = sosreport(tmp_path)
    found, packed_found = archived(root), archived(packed(root, tmp_path / "sos.tar.xz"))
    scores = [files["oom_score_adj"] for files in packed_found["cgroups"].values() if "oom_score_adj" in files]
    assert scores
    assert scores == [files["oom_score_adj"] for files in found["cgroups"].values() if "oom_score_adj" in files]
    assert packed_found["machine"]["cgroup_mount"] == found["machine"]["cgroup_mount"]
    assert "memory_recursiveprot" in packed_found["machine"]["cgroup_mount"]["options"]
    for file in root.rglob("oom_score_adj"):
        file.unlink()
    assert archived(root)["notes"]["processes"] == "it has no oom_score_adj of processes"


def test_a_cgroup_that_was_removed_while_it_was_copied_is_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = sosreport(tmp_path)
    put(root, "sos_commands/process/ps_auxwwwm", HEAD + KUBELET.format("/etc/kubernetes/kubelet.conf"))
    id_ = next(one for one, names in DOCUMENT["containers"].items() if names[1] != "(sandbox)")
    leaf = next(one.parent for one in root.rglob("memory.high") if id_ in one.parent.name)
    for file in leaf.iterdir():
        file.write_text("")
    found = archived(root)
    assert found["notes"]["removed"].startswith("cgroups were removed while sos copied them: 1, such as /kubepods")
    code, out = audited(root, "--pods", str(must_gather(tmp_path)), "-R", capsys=capsys)
    assert (code, ", 0 deviate, " in out, "the file was not read" in out) == (0, True, True), out


@pytest.mark.parametrize(("said", "name", "version"), [
    ("Version:  0.1.0\nRuntimeName:  cri-o\nRuntimeVersion:  1.36.9\nRuntimeApiVersion:  v1\n", "cri-o", "1.36.9"),
    ("", "containerd", "2.1.4"),
])  # fmt: skip
def test_of_two_cri_servers_the_one_in_use_counts(said: str, name: str, version: str, tmp_path: Path) -> None:
    root = sosreport(tmp_path)
    with (root / "installed-rpms").open("a") as file:
        file.write("cri-o-1.36.2-3.el9.x86_64     Mon\n")
    if said:
        put(root, "sos_commands/crio/crictl_version", said)
    put(root, "sos_commands/containerd/containerd_config_dump", "x = 1\n    disable_hugetlb_controller = false\n")
    node = archived(packed(root, tmp_path / "sos.tar.xz"))["node"]
    assert {one: node[one] for one in ("cri-o", "containerd") if one in node} == {name: f"{name} {version}"}
    assert node.get("hugetlb") is (True if name == "containerd" else None)


def test_cpus_are_the_nodes_and_not_this_hosts(tmp_path: Path) -> None:
    root = sosreport(tmp_path)
    (root / "sys/devices/system/cpu/online").unlink()
    put(root, "proc/cpuinfo", "".join(f"processor\t: {number}\nmodel name\t: x\n\n" for number in range(48)))
    assert archived(packed(root, tmp_path / "sos.tar"))["node"]["cpus"] == 48


def test_a_folder_of_sosreports_is_one_of_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the first one was judged, without a word."""
    root = sosreport(tmp_path / "all")
    packed(root, tmp_path / f"all/{root.name}.tar.xz")
    other = sosreport(tmp_path / "other")
    (other / "hostname").write_text("n2\n")
    packed(other, tmp_path / "all/sosreport-n2.tar.xz")
    _, out = audited(tmp_path / "all", "--pods", str(must_gather(tmp_path)), "-R", capsys=capsys)
    assert [line.split()[0] for line in out.splitlines() if line.split()[1:2] == ["1.36"]] == ["n1", "n2"], out


@pytest.mark.parametrize(("name", "words"), [
    ("sosreport-n1.tar.xz.gpg", "it is encrypted"), ("sosreport-n1.tar.zst", "memqos does not read zstd"),
    ("must-gather.zip", "memqos does not read zip archives"),
])  # fmt: skip
def test_other_forms_are_refused_with_the_next_step(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(UsageError, match=words) as error:
        archived(tmp_path / name)
    assert "first" in error.value.next_step or "Unpack" in error.value.next_step


def test_archives_of_archives_and_packed_must_gathers_are_refused(tmp_path: Path) -> None:
    outer = tmp_path / "sos-collector-x"
    outer.mkdir()
    packed(sosreport(tmp_path), outer / "sosreport-n1.tar.xz")
    with pytest.raises(UsageError, match="it is an archive of 1 archives, as `sos collect` makes it"):
        archived(packed(outer, tmp_path / "sos-collector-x.tar.xz"))
    with pytest.raises(UsageError, match="a must-gather has pods and no interface file"):
        archived(packed(must_gather(tmp_path), tmp_path / "must-gather.tar.gz"))
