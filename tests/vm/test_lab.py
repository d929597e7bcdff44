"""The Python way in on a real machine, from an empty folder: findings, and an end that leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memqos.clock import Deadline, wait
from tests.vm.test_run import alive, qemus_of

pytestmark = pytest.mark.vm

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: app
    image: memqos.local/memload:1
    args: [hold]
    resources: {requests: {memory: 64Mi}, limits: {memory: 128Mi}}
"""

KUBELET = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
featureGates: {MemoryQoS: true}
memoryThrottlingFactor: 0.9
"""

SCRIPT = """
import memqos

with memqos.lab(profile="trixie", runtime="containerd+crun") as bench:
    pods = bench.admit("pod.yaml", kubernetes="1.36", kubelet_config="kubelet.yaml")
    for finding in bench.judge(pods):
        print(finding)
    print("judged", flush=True)
    import time

    time.sleep(PAUSE)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "kubelet.yaml").write_text(KUBELET)
    return tmp_path


def script(folder: Path, *, pause: int) -> subprocess.Popen:
    own = folder / "tmp"
    own.mkdir()
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.replace("PAUSE", str(pause))],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(own)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_script_gets_findings(folder):
    told, noise = (process := script(folder, pause=0)).communicate(timeout=600)
    assert process.returncode == 0, noise
    assert "conforms: memory.high of container app of pod default/web is 127504384\n" in told
    assert "conforms: memory.max of pod default/web is 134217728\n" in told
    assert not [line for line in told.splitlines() if not line.startswith(("conforms", "judged"))], told
    assert list((folder / "tmp").iterdir()) == []
    assert sorted(path.name for path in folder.iterdir()) == ["kubelet.yaml", "pod.yaml", "tmp"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_end_in_the_middle_leaves_no_machine(folder, how):
    process = script(folder, pause=600)
    for line in process.stdout:
        if line == "judged\n":
            break
    qemus = qemus_of(process.pid)
    assert qemus, process.stderr.read()
    process.send_signal(how)
    process.communicate(timeout=60)
    wait("the machine's end", lambda: not [pid for pid in qemus if alive(pid)], deadline=Deadline.after(20))
    if how is signal.SIGINT:
        assert list((folder / "tmp").iterdir()) == []
