"""Sosreports as recordings, with notes about missing parts; must-gathers as pods."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from memqos.catalog.support_archives import archived, is_archive, is_must_gather
from memqos.cli.main import run
from memqos.errors import UsageError
from tests.node_folder import SECRET, NodeFolder
from tests.recorded_nodes import CONFIG, recorded_node

DOCUMENT = recorded_node("n1", pods=5, seed=11)
RPMS = """\
containerd-2.1.4-3.el9.x86_64               Mon
openshift-kubelet-4.23.0-202610.el9.x86_64  Mon
runc-1.3.0-1.el9.x86_64                     Mon
systemd-257-13.el9.x86_64                   Mon
"""


def sosreport(folder: Path, *, inspect: bool = True) -> Path:
    """An unpacked sosreport of a node, and its kubelet's files."""
    root = folder / "sosreport-n1-2026-11-29-abc"
    node = NodeFolder(root, DOCUMENT)
    node.put("/etc/kubernetes/kubelet.conf", CONFIG)
    node.put("/installed-rpms", RPMS)
    node.put("/hostname", "n1\n")
    node.put("/sos_commands/kernel/uname_-a", "Linux n1 5.14.0-570.el9 #1 SMP x86_64 GNU/Linux\n")
    node.put("/sos_commands/kernel/sysctl_-a", "vm.swappiness = 10\n")
    for id_, (pod, name, uid) in DOCUMENT["containers"].items() if inspect else ():
        labels = {"pod.name": pod, "container.name": name, "pod.uid": uid}
        status = {
            "id": id_,
            "state": "CONTAINER_RUNNING",
            "labels": {f"io.kubernetes.{key}": text for key, text in labels.items()},
        }
        inspected = {"status": status, "info": {"runtimeSpec": {"process": {"env": [SECRET]}}}}
        if name != "(sandbox)":
            node.put(f"/sos_commands/crio/containers/crictl_inspect_{id_}", json.dumps(inspected))
    return root


def packed(root: Path, to: Path) -> Path:
    with tarfile.open(to, f"w:{to.suffix[1:].replace('tar', '')}") as archive:  # type: ignore[call-overload]
        archive.add(root, root.name)
    return to


def must_gather(folder: Path) -> Path:
    own = folder / "must-gather.local.1/quay-io-image"
    (own / "cluster-scoped-resources/core").mkdir(parents=True)
    for name in ("default", "other"):
        (own / f"namespaces/{name}/core").mkdir(parents=True)
    pods = {"apiVersion": "v1", "kind": "PodList", "items": DOCUMENT["pods"]}
    (own / "namespaces/default/core/pods.yaml").write_text(json.dumps(pods))
    return own.parent


@pytest.mark.parametrize("form", ["folder", "outer", "tar"])
def test_a_sosreport_with_the_pods_of_a_must_gather_is_judged(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = sosreport(tmp_path / "sos")
    place = {"folder": root, "outer": root.parent, "tar": root}[form]
    if form == "tar":
        place = packed(root, tmp_path / "sosreport-n1.tar.xz")
    code = run(
        ["audit", str(place), "--pods", str(must_gather(tmp_path)), "-R", "--runtime", "containerd@2.1+runc@1.3"]
    )
    out, err = capsys.readouterr()
    assert code == 0, out + err
    assert "Kubernetes 1.36: " in out
    assert ", 0 deviate, " in out
    assert int(out.rsplit("Kubernetes 1.36: ", 1)[1].split()[0]) > 80


def test_a_sosreport_is_a_recording_with_notes(tmp_path: Path) -> None:
    found = archived(packed(sosreport(tmp_path), tmp_path / "sos.tar.xz"))
    assert found["kubelet"] == "v1.36.0"
    assert found["node"]["containerd"] == "containerd 2.1.4"
    assert found["node"]["swappiness"] == 10
    assert found["source"] == "n1"
    assert set(found["notes"]) == {"pods"}
    assert SECRET not in json.dumps({name: one for name, one in found.items() if name != "daemons"})


PS = """\
USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
root           9  0.0  0.0      0     0 ?        S    Nov01   0:00 grep kubelet
root        2345  3.1  0.9 999999 9999 ?        Ssl  Nov01   9:59 /usr/bin/kubelet --config=/etc/kubernetes/kubelet.conf
""".rstrip("\n")


@pytest.mark.parametrize(("flags", "code"), [
    ("", 0), (" --kube-reserved=memory=1Gi,cpu=500m", 0), (" --kube-reserved memory=3Gi,cpu=500m --v=2", 1),
    (" --config-dir=/etc/openshift/kubelet.conf.d", 1), (" --config-dir=/etc/openshift/absent.d", 0), (None, 0),
])  # fmt: skip
def test_flags_and_drop_ins_win_over_the_file(
    flags: str | None, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kubelet of this node has kubeReserved of 1Gi. Without its flags nothing deviates: they may explain it."""
    root = sosreport(tmp_path / "sos")
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    (root / "etc/openshift/kubelet.conf.d").mkdir(parents=True)
    (root / "etc/openshift/kubelet.conf.d/9.conf").write_text(f"{head}kubeReserved:\n  memory: 3Gi\n")
    if flags is None or "absent" in flags:
        (root / "etc/kubernetes/kubelet.conf").write_text(f"{CONFIG}systemReserved: {{memory: 2Gi}}\n")
    if flags is not None:
        (root / "sos_commands/process").mkdir()
        (root / "sos_commands/process/ps_auxwwwm").write_text(f"{PS}{flags}\n")
    place = packed(root, tmp_path / "sosreport-n1.tar.xz")
    found = run(["audit", str(place), "--pods", str(must_gather(tmp_path)), "-R"])
    out, err = capsys.readouterr()
    assert found == code, out + err
    assert ("memory.max of kubepods.slice is" in out) is bool(code)
    if flags is None:
        assert "the kubelet's configuration is not completely known: the kubelet's flags: sos_commands/process" in out


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    root = sosreport(tmp_path)
    (root / "var/lib/kubelet/allocated_pods_state").write_text("{")
    assert archived(root)["checkpoints_unread"] == {"allocated_pods_state": "the file is not JSON"}


def test_without_inspected_containers_values_are_not_assigned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = sosreport(tmp_path, inspect=False)
    assert "containers" in archived(root)["notes"]
    code = run(["audit", str(root), "--pods", str(must_gather(tmp_path)), "-R"])
    out, _ = capsys.readouterr()
    assert code in {0, 5}, out
    assert ", 0 deviate, " in out


def test_outside_names_links_and_devices_are_left_out(tmp_path: Path) -> None:
    packed_root = tmp_path / "evil.tar"
    with tarfile.open(packed_root, "w") as archive:
        archive.add(sosreport(tmp_path), "sos")
        for name in (
            "sos/../../../escaped/sys/fs/cgroup/x",
            "/sys/fs/cgroup/memory.max",
            "sos/sys/fs/cgroup/../../../../up",
        ):
            member = tarfile.TarInfo(name)
            member.size = 2
            archive.addfile(member, io.BytesIO(b"x\n"))
        link = tarfile.TarInfo("sos/proc/meminfo")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/shadow"
        archive.addfile(link)
    before = set(tmp_path.rglob("*"))
    assert archived(packed_root)["cgroups"]
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(("make", "words"), [
    (lambda path: path.write_bytes(b"\xfd7zXZ\0nonsense"), "the archive cannot be read"),
    (lambda path: path.write_bytes(b""), "the archive cannot be read"),
    (lambda path: tarfile.open(path, "w").close(), "no folder sys/fs/cgroup"),
])  # fmt: skip
def test_an_invalid_archive_is_refused(make: object, words: str, tmp_path: Path) -> None:
    path = tmp_path / "sos.tar.xz"
    make(path)  # type: ignore[operator]
    with pytest.raises(UsageError, match=words):
        archived(path)


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "tar.xz", "tar.bz2"])
def test_a_truncated_archive_is_refused_wherever_it_ends(ending: str, tmp_path: Path) -> None:
    path = packed(sosreport(tmp_path), tmp_path / f"sos.{ending}")
    whole = path.read_bytes()
    for kept in (600, 1536, len(whole) // 3, len(whole) * 2 // 3 // 512 * 512, len(whole) - 10240, len(whole) - 30):
        if not 0 < kept < len(whole) or (ending == "tar" and not any(whole[kept - 512 : kept])):
            continue
        path.write_bytes(whole[:kept])
        with pytest.raises(UsageError, match="cannot be read"):
            archived(path)


def test_a_damaged_header_in_the_middle_is_not_the_end(tmp_path: Path) -> None:
    """All that followed was lost without a word."""
    path = packed(sosreport(tmp_path), tmp_path / "sos.tar")
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    whole = path.read_bytes()
    for member in (members[len(members) // 3], members[-2]):
        path.write_bytes(whole[: member.offset] + b"\xff" + whole[member.offset + 1 :])
        with pytest.raises(UsageError, match=f"it is damaged behind byte {member.offset} of the tar"):
            archived(path)
    path.write_bytes(whole + b"garbage")
    with pytest.raises(UsageError, match="it is damaged behind byte"):
        archived(path)
    path.write_bytes(whole + bytes(100))
    assert archived(path)["cgroups"]


def test_a_name_that_no_file_can_have_is_damage(tmp_path: Path) -> None:
    """A byte of 0 in a name, as a damaged archive had it, was an unexpected error."""
    path = tmp_path / "sos.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("sos/sys/fs/cgroup/x")
        member.pax_headers = {"path": "sos/sys/fs/cgroup/\0x"}
        archive.addfile(member)
    with pytest.raises(UsageError, match="the archive cannot be read: embedded null byte"):
        archived(path)


@pytest.mark.parametrize("above", [".", "./sos", "sos", "tickets/7/sos", "var/tmp/sos"])
def test_the_node_is_found_below_any_folder(above: str, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "sos.tar", "w") as archive:
        archive.add(sosreport(tmp_path), above)
    found = archived(tmp_path / "sos.tar")
    assert (found["source"], found["kubelet"], len(found["containers"])) == ("n1", "v1.36.0", 7)


def test_two_nodes_in_one_archive_are_not_mixed(tmp_path: Path) -> None:
    """The files of the second one replaced those of the first, and the mixture was judged."""
    root = sosreport(tmp_path)
    with tarfile.open(tmp_path / "sos.tar", "w") as archive:
        archive.add(root, "sosreport-a")
        archive.add(root, "sosreport-b")
    with pytest.raises(UsageError, match="it has the files of 2 nodes"):
        archived(tmp_path / "sos.tar")


def test_a_must_gather_alone_is_refused_with_the_next_step(tmp_path: Path) -> None:
    place = must_gather(tmp_path)
    assert is_must_gather(place)
    assert is_archive(place)
    with pytest.raises(UsageError, match="has pods and no interface file") as error:
        archived(place)
    assert f"--pods {place} -R" in error.value.next_step


KERNEL_64K = "Linux n1 5.14.0-570.el9.aarch64+64k #1 SMP aarch64 GNU/Linux"
PPC64LE = "Linux n1 5.14.0-570.el9.ppc64le #1 SMP ppc64le GNU/Linux"
ARM64 = "Linux n1 5.14.0-570.el9.aarch64 #1 SMP aarch64 GNU/Linux"


def with_pages(root: Path, uname: str, *, current: int = 0) -> Path:
    """A sosreport with another kernel. current: what every cgroup uses is this and a multiple of 1 MiB."""
    (root / "sos_commands/kernel/uname_-a").write_text(f"{uname}\n")
    (root / "proc/sys/kernel/osrelease").write_text(f"{uname.split()[2]}\n")
    (root / "proc/meminfo").write_text("MemTotal:       8388608 kB\nMemFree:        4194304 kB\n")
    for number, file in enumerate(sorted((root / "sys/fs/cgroup").rglob("memory.current")), start=1):
        file.write_text(f"{(number << 20) + current}\n")
    return root


@pytest.mark.parametrize(
    ("uname", "current", "page_size", "note"),
    [
        (KERNEL_64K, 0, 65536, None),
        (
            KERNEL_64K,
            4096,
            4096,
            (
                "it is taken as 4096 bytes on aarch64: an amount of memory is not a multiple of more, against the "
                "kernel's name 5.14.0-570.el9.aarch64+64k"
            ),
        ),
        (PPC64LE, 0, 65536, "it is taken as 65536 bytes on ppc64le: all amounts of memory are multiples"),
        (PPC64LE, 4096, 4096, None),
        (ARM64, 16384, 16384, "it is taken as 16384 bytes on aarch64: all amounts of memory are multiples"),
        (ARM64, 4096, 4096, None),
    ],
)
def test_the_page_size_is_the_kernels_or_follows_from_what_it_counts(
    uname: str, current: int, page_size: int, note: str | None, tmp_path: Path
) -> None:
    """It was 4096 bytes on every node, also of RHEL on ppc64le and of its kernels called +64k."""
    found = archived(with_pages(sosreport(tmp_path), uname, current=current))
    assert (found["node"]["page_size"], found["notes"].get("page_size")) == (page_size, note)


def test_a_page_size_that_nothing_tells_is_noted(tmp_path: Path) -> None:
    root = with_pages(sosreport(tmp_path), PPC64LE)
    for file in (root / "sys/fs/cgroup").rglob("memory.current"):
        file.unlink()
    assert archived(root)["notes"]["page_size"] == "it is taken as 65536 bytes, as most kernels have on ppc64le"


def test_the_page_size_that_glibc_prints_is_certain(tmp_path: Path) -> None:
    root = with_pages(sosreport(tmp_path), ARM64)
    (root / "sos_commands/system").mkdir()
    (root / "sos_commands/system/ld.so_--list-diagnostics").write_text("dl_hwcap=0x0\ndl_pagesize=0x10000\n")
    found = archived(packed(root, tmp_path / "sos.tar.xz"))
    assert found["node"]["page_size"] == 65536
    assert "page_size" not in found["notes"]


def test_a_sosreport_without_kubelet_or_cgroup_2_is_refused(tmp_path: Path) -> None:
    root = sosreport(tmp_path)
    (root / "sys/fs/cgroup/kubepods.slice").rename(root / "sys/fs/cgroup/user.slice")
    with pytest.raises(UsageError, match="no cgroup in it is called kubepods"):
        archived(root)
    (root / "sys/fs/cgroup/cgroup.controllers").write_text("pids\n")
    with pytest.raises(UsageError, match="no cgroup v2 with the memory controller"):
        archived(root)
