"""A wheel, installed alone into an empty environment in an empty folder, carries all that the commands need."""

import os
import zipfile
from pathlib import Path

import pytest

from tests.docs import test_documentation as documentation
from tests.docs.snippets import DOCS
from tests.wheel.isolated import empty_environment, install, run

pytestmark = pytest.mark.wheel

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: app
    image: app:1
    resources:
      requests: {memory: 128Mi}
      limits: {memory: 256Mi}
"""


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The `memqos` command of an environment that holds nothing but the wheel and what it depends on."""
    memqos = empty_environment(tmp_path_factory.mktemp("env"))
    install(memqos, str(wheel))
    return memqos


def test_carries_suites_fixtures_and_machines(wheel):
    names = zipfile.ZipFile(wheel).namelist()

    for wanted in (
        "memqos/_data/suites/values/claims.toml",
        "memqos/_data/fixtures/topologies/two-numa-nodes.json",
        "memqos/_data/vm/profiles/trixie.toml",
        "memqos/_data/vm/workload/memload/memload.c",
        "memqos/py.typed",
    ):
        assert wanted in names
    assert not [name for name in names if name.startswith(("tests/", "memqos/_data/suites/__pycache__"))]


def test_expects_in_an_empty_folder(installed, tmp_path):
    (tmp_path / "pod.yaml").write_text(POD)

    done = run(str(installed), "expect", "pod.yaml", "--kubernetes", "1.27", "--why", "memory.high", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    # The gate is off by default in 1.27, so the reason is that nothing is written.
    assert "memory.high" in done.stdout
    assert "MemoryQoS" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["pod.yaml"]


def test_finds_its_suites_in_an_empty_folder(installed, tmp_path):
    done = run(str(installed), "run", "--collect-only", "-q", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "values/" in done.stdout


def test_lets_users_import_in_an_empty_folder(installed, tmp_path):
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "ask.py").write_text(
        "from memqos import Kubelet, KubeletSettings, NodeFacts, expect, load_pods\n"
        "from memqos.testing import fake_node, rises\n"
        "kubelet = Kubelet.of(node=NodeFacts(memory=8 << 30), settings=KubeletSettings(), release='1.36')\n"
        "plan = expect(load_pods(['pod.yaml']), kubelet)\n"
        "print(plan.pods[0].qos, rises('memory.events', 'max').name, fake_node().facts.cpus)\n"
    )

    done = run(str(installed.with_name("python")), "ask.py", cwd=tmp_path)

    assert done.stderr == ""
    assert done.stdout.startswith("Burstable ")


VENDORS = {
    "work-from-your-repository.md": 4,
    "check-your-kernel.md": 2,
    "check-your-distribution.md": 2,
    "bring-your-own.md": 1,
    "write-your-own-test.md": 3,
    "run-in-ci.md": 1,
    "../start/oci-runtime.md": 1,
    "../start/cri-server.md": 1,
    "../start/kernel.md": 1,
    "../start/distribution.md": 1,
    "../start/kubernetes-operator.md": 1,
    "../start/vpa.md": 3,
}
"""The pages for those who have the wheel and no checkout, with how many commands each shows."""


@pytest.mark.parametrize(("page", "count"), VENDORS.items())
def test_a_vendors_page_works_in_an_empty_folder(installed, tmp_path, monkeypatch, page, count):
    monkeypatch.setattr(documentation, "HERE", installed.parent)
    for name in [name for name in os.environ if name.startswith("PYTHON")]:
        monkeypatch.delenv(name)
    assert documentation.play(DOCS / "how-to" / page, tmp_path, flag="") >= count
