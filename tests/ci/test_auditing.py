"""The manifests that audit nodes of a cluster: their rights, and what their commands do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from memqos.place.collecting import ClusterNode
from tests.ci.sonobuoy_pod import PLUGIN, pod
from tests.node_folder import node_folder
from tests.recorded_nodes import recorded_node

FOLDER = PLUGIN.parent


def pods() -> dict[str, dict[str, Any]]:
    found = {"sonobuoy": pod()["spec"], "kubectl": ClusterNode.of("kubectl://n1").manifest()["spec"]}
    for name in ("audit-daemonset.yaml", "audit-job.yaml"):
        last = list(yaml.safe_load_all((FOLDER / name).read_text()))[-1]
        found[name] = last["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("name", ["sonobuoy", "kubectl", "audit-daemonset.yaml", "audit-job.yaml"])
def test_pods_that_audit_have_the_least_rights(name: str) -> None:
    spec = pods()[name]
    container = spec["containers"][0]
    security = container["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["runAsNonRoot"] is True
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert "privileged" not in security
    assert not spec.keys() & {"hostPID", "hostIPC"}
    seen = {one["name"]: one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one}
    assert set(seen.values()) <= {"/proc", "/sys", "/var/lib/node_exporter/textfile"}
    for mount in container["volumeMounts"]:
        if seen.get(mount["name"]) in {"/proc", "/sys"}:
            assert mount["readOnly"] is True
    assert container["resources"]["limits"]["memory"]


def test_the_service_account_may_read_its_node_and_nothing_else() -> None:
    documents = list(yaml.safe_load_all((FOLDER / "audit-daemonset.yaml").read_text()))
    [role] = [one for one in documents if one["kind"] == "ClusterRole"]
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["nodes", "nodes/configz", "nodes/pods"], "verbs": ["get"]}
    ]


@pytest.fixture
def plugin(tmp_path: Path) -> Any:
    """Run the plug-in's own command on a folder that looks like a node: status, and the results folder."""
    results = tmp_path / "results"
    results.mkdir()
    [script] = yaml.safe_load(PLUGIN.read_text())["spec"]["args"]
    (tmp_path / "bin").mkdir()

    def run(root: Path) -> tuple[int, Path]:
        (tmp_path / "bin/memqos").write_text(f'#!/bin/sh\nexec {sys.executable} -m memqos "$@" --settle 0\n')
        (tmp_path / "bin/memqos").chmod(0o755)
        env = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "SONOBUOY_RESULTS_DIR": str(results)}
        done = subprocess.run(["sh", "-c", script.replace("/host", str(root))], env=env, check=False, timeout=120)
        return done.returncode, results

    return run


def test_the_sonobuoy_plugin_keeps_its_contract(plugin: Any, tmp_path: Path) -> None:
    with node_folder(recorded_node("n1", pods=4, seed=3)) as node:
        (tmp_path / "pods.json").write_text(json.dumps(node.pods))
        status, results = plugin(node.root)
    assert status == 0
    assert (results / "done").read_text() == f"{results}/audit.xml"
    [suite] = ElementTree.parse(results / "audit.xml").getroot()  # noqa: S314 - our own
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    assert "Kubernetes 1.36" in (results / "audit.txt").read_text()


def test_the_sonobuoy_plugin_reports_a_node_that_it_cannot_read(plugin: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    status, results = plugin(tmp_path / "empty")
    assert status == 0
    [suite] = ElementTree.parse(results / "audit.xml").getroot()  # noqa: S314 - our own
    assert suite.get("errors") == "1"
    assert (results / "done").exists()
