"""`memqos vectors export`: literal cases for other programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memqos.cli.main import run
from tests.documents import misfits

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: app
    image: app:1
    resources: {requests: {memory: 128Mi}, limits: {memory: 256Mi}}
"""
CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
featureGates: {MemoryQoS: true}
memoryThrottlingFactor: 0.9
memoryReservationPolicy: TieredReservation
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "web.yaml").write_text(POD)
    (tmp_path / "tiered.yaml").write_text(CONFIG)
    return ["--pods", str(tmp_path / "web.yaml"), "--kubelet-config", str(tmp_path / "tiered.yaml")]


def test_a_case_is_complete_and_literal(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """memory.high is floor((128Mi + 0.9 * 128Mi) / 4096) * 4096 = 255012864 (KEP-2570, container level)."""
    assert run(["vectors", "export", "--kubernetes", "1.36", *files]) == 0
    document = json.loads(capsys.readouterr().out)
    assert misfits(document, "vectors") == []
    [case] = document["cases"]
    assert case["name"] == "tiered/web"
    assert case["pod"]["spec"]["containers"][0]["resources"]["limits"] == {"memory": "256Mi"}
    assert case["kubeletConfiguration"]["memoryThrottlingFactor"] == 0.9
    assert case["node"] == {"memory": 8589934592, "swap": 2147483648, "cpus": 4, "pageSize": 4096, "cgroup": "v2"}
    expected = case["expected"]
    assert (expected["qosClass"], expected["cgroupDriver"], expected["refused"]) == ("Burstable", "cgroupfs", [])
    assert expected["oomScoreAdj"] == {"app": 985}
    container = next(one for one in expected["cgroups"] if one["level"] == "container")
    assert container["files"]["memory.high"] == {"written": "255012864", "shown": "255012864"}
    assert container["files"]["memory.low"] == {"written": "134217728", "shown": "134217728"}
    assert container["files"]["memory.min"]["written"] is None
    [pod] = [one for one in expected["cgroups"] if one["level"] == "pod"]
    assert pod["name"] == "kubepods/burstable/pod00000000-0000-4000-8000-000000000001"
    assert pod["files"]["memory.low"]["written"] == "134217728"
    [kubepods] = [one for one in expected["cgroups"] if one["level"] == "node"]
    assert kubepods["files"]["memory.max"]["written"] == "8589934592"


@pytest.mark.parametrize("release", ["1.22", "1.27", "1.36", "1.37"])
def test_the_catalogue_has_cases_for_every_release(release: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["vectors", "export", "--kubernetes", release]) == 0
    document = json.loads(capsys.readouterr().out)
    assert misfits(document, "vectors") == []
    names = [one["name"] for one in document["cases"]]
    assert len(names) == len(set(names)) > 10


def test_what_is_no_pod_or_configuration_is_refused(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deployment.yaml").write_text("apiVersion: apps/v1\nkind: Deployment\n")
    assert run(["vectors", "export", "--kubernetes", "1.36", "--pods", str(tmp_path / "deployment.yaml")]) == 4
    assert "expected a v1 Pod" in capsys.readouterr().err
    (tmp_path / "list.yaml").write_text("- 1\n")
    assert run(["vectors", "export", "--kubernetes", "1.36", "--kubelet-config", str(tmp_path / "list.yaml")]) == 4
    assert run(["vectors", "export", "--kubernetes", "1.36", "--kubelet-config", str(tmp_path / "none.yaml")]) == 4
    assert run(["vectors", "export", "--kubernetes", "1.36", "--pods", str(tmp_path / "none.yaml")]) == 4
    assert run(["vectors", "export", "--kubernetes", "1.99", *files]) == 4
    assert run(["vectors", "export"]) == 4
