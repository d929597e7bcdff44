"""Two releases, two configurations, and pods that are resized."""

import json
import subprocess
import sys

import pytest

from tests.unit.cli.expect.asking import BURSTABLE, EMPTY_CONFIG, FIXTURES, QOS_ON, TIERED


def test_two_releases(told):
    code, out, err = told(BURSTABLE, "--diff", "1.22", "1.27", *QOS_ON, "--set", "memoryThrottlingFactor=0.9")
    assert (code, err) == (0, "")
    assert out.startswith("1.22 -> 1.27: ")
    assert "  memory.high: 188743680 -> 195452928\n" in out
    _, out, _ = told(BURSTABLE, "--diff", "1.36", "1.36", "--json")
    assert json.loads(out) == {"memqos_format": 1, "before": "1.36", "after": "1.36", "changes": []}


def test_two_configurations(told):
    other = str(FIXTURES / "kubelet" / "v1.36-none.yaml")
    code, out, err = told(BURSTABLE, "--kubernetes", "1.36", "--kubelet-config", TIERED, "--diff-config", other)
    assert code == 0
    assert err.count("it must exist beforehand") == len(err.splitlines())
    assert out.startswith(f"1.36 with {TIERED} -> 1.36 with {other}: ")
    assert "  memory.low: 67108864 -> 0\n" in out


def test_a_configuration_from_standard_input_serves_both_releases():
    done = subprocess.run(
        [sys.executable, "-m", "memqos", "expect", BURSTABLE, "--diff", "1.33", "1.35", "--kubelet-config", "-"],
        input=EMPTY_CONFIG.encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"1.33 -> 1.35: ")


def test_what_changes_under_running_pods(told):
    """1.36 writes no memory.min for Burstable pods; running ones keep theirs, and so does the class above them."""
    common = (BURSTABLE, "--diff", "1.35", "1.36", *QOS_ON)
    fresh, running = told(*common)[1], told(*common, "--running")[1]
    assert "  memory.min: 67108864 -> not written (0)\n" in fresh
    assert "  memory.min: 67108864 -> not written (67108864)\n" in running
    assert "    after  the kubelet does not overwrite the value that it wrote before" in running


WEB = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: app
    image: x
    resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: %s}}
"""


@pytest.fixture
def resizing(tmp_path):
    for name, limit in (("web.yaml", "128Mi"), ("wanted.yaml", "96Mi")):
        (tmp_path / name).write_text(WEB % limit)
    return str(tmp_path / "web.yaml"), "--resize", str(tmp_path / "wanted.yaml")


def test_resize(told, resizing):
    code, out, err = told(*resizing, "--kubernetes", "1.36")
    assert (code, err) == (0, "")
    assert "pod default/web: InProgress" in out
    assert "  memory.max: 134217728 -> 100663296" in out
    _, out, _ = told(*resizing, "--kubernetes", "1.36", "--why", "memory.max")
    assert "the pod's memory limit shrinks: its cgroup is written after the containers" in out
    document = json.loads(told(*resizing, "--kubernetes", "1.33", "--json")[1])
    assert document["resizes"][0]["outcome"] == "Forbidden"


@pytest.mark.parametrize(("used", "outcome"), [("90Mi", "InProgress"), ("96Mi", "Error")])
def test_resize_below_usage(told, resizing, used, outcome):
    document = json.loads(told(*resizing, "--kubernetes", "1.36", "--usage", f"web/app={used}", "--json")[1])
    assert document["resizes"][0]["outcome"] == outcome


@pytest.mark.parametrize("more", [("--translate", "all"), ("--protection",)])
def test_resize_is_an_answer_of_its_own(told, resizing, more):
    code, _, err = told(*resizing, "--kubernetes", "1.36", *more)
    assert code == 4
    assert "--resize cannot be combined with" in err
