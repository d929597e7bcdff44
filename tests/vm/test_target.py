"""`memqos run --target` on a machine of memqos in place of an existing one, which it leaves unchanged."""

import contextlib
import difflib
import io
import json
import operator
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from memqos.clock import Deadline, wait
from memqos.place.vm import opened_vm
from memqos.vm.host.progress import SILENT
from memqos.vm.options import BootOptions
from memqos.vm.qemu.machine import Machine
from tests.vm.machines import output, soon, start, url_of

pytestmark = [pytest.mark.vm, pytest.mark.ports]

CASE = "v1.27-burstable and containers"

STATE = """
cd /; find sys/fs/cgroup -maxdepth 3 -type d -not -name 'session-*' -not -path '*/user.slice/*' |
  grep -v 'system.slice/'
ls -A run var/lib var/log/pods 2>/dev/null
ctr --namespace=k8s.io images list --quiet
ctr --namespace=k8s.io containers list --quiet
cat sys/fs/cgroup/system.slice/memory.min sys/fs/cgroup/system.slice/memory.high
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with start(tmp_path_factory.mktemp("target"), topology="two-numa-nodes") as machine:
        yield machine


def state_of(machine: Machine) -> str:
    return output(machine, "sh", "-c", STATE)


def wait_until_nothing_is_left(machine: Machine, before: str) -> None:
    def difference() -> str:
        return "\n".join(difflib.unified_diff(before.split("\n"), state_of(machine).split("\n"), n=0, lineterm=""))

    wait("nothing is left", difference, until=operator.not_, shown=str, deadline=Deadline.after(150), every=1)


def command(machine: Machine, folder: Path, *options: str) -> list[str]:
    url = url_of(machine, folder)
    return [sys.executable, "-m", "memqos", "run", "--results", f"{folder}/out", "--target", url, "-k", CASE, *options]


def run(machine: Machine, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(machine, folder, *options), capture_output=True, text=True, check=False, cwd=folder)


@contextlib.contextmanager
def begun(machine: Machine, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run whose pods are on the machine by now."""
    with subprocess.Popen(command(machine, folder), cwd=folder, stdout=subprocess.PIPE) as process:
        try:
            wait("pods are there", lambda: "kubepods" in state_of(machine), deadline=Deadline.after(180), every=0.5)
            yield process
        finally:
            process.kill()


def test_an_existing_machine_is_tested_and_restored(machine: Machine, tmp_path: Path) -> None:
    before = state_of(machine)
    done = run(machine, tmp_path)
    assert done.returncode == 0, done
    [told] = json.loads((tmp_path / "out/bundle.json").read_text())["machines"]
    address = f"ssh://root@127.0.0.1:{machine.ssh_port()}"
    assert (told["profile"], told["target"]) == (address, address)
    assert f"machine ssh://root@127.0.0.1:{machine.ssh_port()}" in done.stdout
    assert state_of(machine) == before


def test_a_machine_without_our_images_gets_them_and_is_rid_of_them(machine: Machine, tmp_path: Path) -> None:
    output(machine, "sh", "-c", "ctr --namespace=k8s.io images list -q | xargs ctr --namespace=k8s.io images rm --sync")
    output(machine, "mv", "/usr/lib/memqos/memwatch", "/usr/lib/memqos/away")
    before = state_of(machine)
    assert "memqos.local" not in before
    done = run(machine, tmp_path)
    output(machine, "mv", "/usr/lib/memqos/away", "/usr/lib/memqos/memwatch")
    assert done.returncode == 0, done
    assert state_of(machine) == before


def test_an_oci_runtime_needs_no_daemon_and_none_of_our_files(machine: Machine, tmp_path: Path) -> None:
    output(machine, "systemctl", "stop", "containerd.service")
    output(machine, "mv", "/var/lib/memqos", "/var/away")
    before = state_of(machine)
    try:
        done = run(machine, tmp_path, "--runtime", "oci:runc,oci:crun")
        after = state_of(machine)
    finally:
        output(machine, "mv", "/var/away", "/var/lib/memqos")
        output(machine, "systemctl", "start", "containerd.service")
    assert done.returncode == 0, done
    told = json.loads((tmp_path / "out/bundle.json").read_text())["machines"]
    assert {one["runtime"] for one in told} == {"oci:runc", "oci:crun"}
    # crun keeps its own cache there, whatever its --root.
    assert after.replace("\ncrun\n", "\n") == before.replace("\ncrun\n", "\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_ended_run_leaves_nothing(machine: Machine, tmp_path: Path, number: signal.Signals) -> None:
    before = state_of(machine)
    with begun(machine, tmp_path) as process:
        agents = "for one in $(pgrep --exact python3); do cat /proc/$one/oom_score_adj; done"
        assert "-1000" in output(machine, "sh", "-c", agents).split(), "the guard cannot be OOM-killed"
        # Like one of memqos's own that was requested when its creator was killed, and that was never marked.
        manager = "org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager"
        slice_of_ours = "kubepodslate.slice replace 1 Description s 'memqos: late' 0"
        output(machine, "sh", "-c", f"busctl call {manager} StartTransientUnit 'ssa(sv)a(sa(sv))' {slice_of_ours}")
        process.send_signal(number)
        code = process.wait(120)
    assert code == (2 if number is signal.SIGINT else -signal.SIGKILL)
    wait_until_nothing_is_left(machine, before)


def test_a_lost_connection_leaves_nothing_and_is_a_machinery_error(machine: Machine, tmp_path: Path) -> None:
    """The processes of the run's connection are killed on the machine: the test's own is the oldest, and stays."""
    before = state_of(machine)
    with begun(machine, tmp_path) as process:
        output(machine, "pkill", "--newest", "-f", r"^sshd(-session)?: root(@notty)?( |$)")
        assert process.wait(120) == 3
    wait_until_nothing_is_left(machine, before)


@pytest.mark.parametrize(
    ("make", "undo", "told"),
    [
        (
            "cp /bin/sleep /root/kubelet && (/root/kubelet 300 >/dev/null 2>&1 &)",
            "pkill -x kubelet; rm /root/kubelet",
            "a kubelet runs there (kubelet), and memqos would interfere with it",
        ),
        (
            "mkdir /sys/fs/cgroup/kubepods.slice",
            "rmdir /sys/fs/cgroup/kubepods.slice",
            "it has cgroups of a kubelet: kubepods.slice",
        ),
    ],
    ids=["kubelet", "cgroups"],
)
def test_a_machine_in_use_is_rejected_and_left_alone(
    machine: Machine, tmp_path: Path, make: str, undo: str, told: str
) -> None:
    machine.target.run(["sh", "-c", make], deadline=soon())
    before = state_of(machine)
    done = run(machine, tmp_path)
    after = state_of(machine)
    machine.target.run(["sh", "-c", undo], deadline=soon())
    assert done.returncode == 6, done
    assert told in done.stdout
    assert after == before


DOCKER_STATE = """
cd /; find sys/fs/cgroup -maxdepth 3 -type d -not -name 'session-*' -not -path '*/user.slice/*' |
  grep -v 'system.slice/'
ls -A run var/lib var/log/pods 2>/dev/null
python3 -c "
import http.client, socket
for what in ('containers/json?all=1', 'images/json'):
    one = http.client.HTTPConnection('localhost'); one.sock = socket.socket(socket.AF_UNIX)
    one.sock.connect('/run/docker.sock'); one.request('GET', '/' + what); print(one.getresponse().read())
"
"""


@pytest.mark.profiles
def test_docker_and_other_runtimes_of_an_existing_machine_are_crossed(tmp_path: Path) -> None:
    """Values and a kill under two daemons in one run; the machine is restored, including Docker's store."""
    with opened_vm(
        ("trixie", "two-numa-nodes"), BootOptions(), folder=tmp_path, progress=SILENT, additions=("docker",)
    ) as place:
        machine = place.machine
        output(machine, "systemctl", "start", "memqos-docker@systemd.service")
        output(machine, "ln", "-s", "/run/memqos-docker/systemd.sock", "/run/docker.sock")
        before = output(machine, "sh", "-c", DOCKER_STATE)
        assert "memqos.local" not in before
        argv = command(machine, tmp_path, "--runtime", "docker+runc,containerd+crun", "swap", "docker", "lifecycle")
        argv[argv.index(CASE)] = "no_swap_is_used or docker-oom-score-docker or (lifecycle and test_drift_of_pod)"
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=tmp_path)
        after = output(machine, "sh", "-c", DOCKER_STATE)
    assert done.returncode == 0, done
    told = json.loads((tmp_path / "out/bundle.json").read_text())
    assert {one["runtime"] for one in told["machines"]} == {"docker+runc", "containerd+crun"}
    assert after == before


NODE = (
    *("--privileged", "--pid=host", "--network=host", "--cgroupns=host", "--volume=/sys/fs/cgroup:/sys/fs/cgroup"),
    *(f"--volume={folder}:{folder}:rslave" for folder in ("/usr", "/etc", "/run", "/var")),
)
"""The machine itself, seen from a container of its own: its programs, its containerd, its cgroups."""


def node_root() -> bytes:
    """A root file system with nothing but the links of a merged /usr."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("bin", "sbin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(link)
        folder = tarfile.TarInfo("tmp")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        archive.addfile(folder)
    return buffer.getvalue()


@pytest.mark.profiles
@pytest.mark.skipif(shutil.which("docker") is None, reason="this host has no docker, the program (package docker-cli)")
def test_a_container_that_plays_a_node_is_reached_over_docker(tmp_path: Path) -> None:
    """A real dockerd, whose socket is forwarded, and the real program docker; kind makes its nodes in this way."""
    with (
        opened_vm(
            ("trixie", "two-numa-nodes"), BootOptions(), folder=tmp_path, progress=SILENT, additions=("docker",)
        ) as place,
        place.target.forward("/run/memqos-docker/systemd.sock") as socket,
    ):
        output(place.machine, "systemctl", "start", "memqos-docker@systemd.service")
        environment = {**os.environ, "DOCKER_HOST": f"unix://{socket}", "DOCKER_CONFIG": str(tmp_path)}

        def docker(*words: str, given: bytes = b"") -> str:
            done = subprocess.run(["docker", *words], env=environment, input=given, capture_output=True, check=False)
            assert done.returncode == 0, done
            return done.stdout.decode()

        docker("import", "-", "node:1", given=node_root())
        docker("run", "--detach", "--name", "node", *NODE, "node:1", "sleep", "infinity")
        before = state_of(place.machine)
        argv = [sys.executable, "-m", "memqos", "run", "--results", f"{tmp_path}/out", "--target", "docker://node"]
        done = subprocess.run(
            [*argv, "-k", CASE], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
        )
        after = state_of(place.machine)
    assert done.returncode == 0, done
    [told] = json.loads((tmp_path / "out/bundle.json").read_text())["machines"]
    assert (told["profile"], told["target"]) == ("docker://node", "docker://node")
    assert after == before
