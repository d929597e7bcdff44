"""The published schema fits what the commands print, and nothing else."""

import copy
import json
from pathlib import Path

import jsonschema
import pytest

from memqos.catalog.data import data_root
from memqos.cli.main import run
from tests.docs import schema_file
from tests.docs.snippets import DOCS
from tests.documents import FILE, SCHEMA, misfits
from tests.recorded_nodes import recorded_node

PODS = [str(path) for path in sorted((data_root() / "fixtures" / "pods").glob("*.yaml"))]
KUBELETS = sorted((data_root() / "fixtures" / "kubelet").glob("*.yaml"))
TREES = sorted((Path(__file__).parents[1] / "trees").glob("*.json"))


@pytest.fixture
def printed(capsys):
    def call(*arguments):
        code = run([*map(str, arguments), "--json"])
        assert code in {0, 1}
        return json.loads(capsys.readouterr().out)

    return call


def test_the_schema_is_one_and_the_published_is_the_shipped():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert (DOCS / "reference" / "memqos.schema.json").read_text() == FILE.read_text()


def test_the_schema_is_made_of_the_types():
    """`python -m tests.docs.schema_file` writes it anew."""
    assert FILE.read_text() == schema_file.text()
    assert schema_file.PAGE.read_text() == schema_file.page()


def test_the_page_names_every_document():
    page = (DOCS / "reference" / "json.md").read_text()
    documents = [one["$ref"].rpartition("/")[2] for one in SCHEMA["anyOf"]]
    assert [name for name in documents if f"`{name}`" not in page] == []


def test_topologies():
    files = sorted((data_root() / "fixtures" / "topologies").glob("*.json"))
    assert len(files) == 8
    for file in files:
        document = json.loads(file.read_text())
        for one in document if isinstance(document, list) else [document]:
            kind = "topology_file" if one is document else "numa_machine" if "purpose" in one else "numa_group"
            assert misfits(one, kind) == [], file
    assert misfits({"cpus": 1, "numaNodes": [{"memoryMiB": 1024, "cpu": [0]}]}, "topology_file")
    assert misfits({"mem": "2G", "cores": 1, "hugepages": {"2M": 8}, "node-dist": {"0": 21}}, "numa_group") == []
    assert misfits({"mem": "2T"}, "numa_group")
    assert misfits({"swap": [{"sizeMiB": 64, "priority": 1}], "zswap": True}, "numa_machine") == []


@pytest.mark.parametrize("kubelet", KUBELETS, ids=lambda path: path.stem)
def test_plans(printed, kubelet):
    release = kubelet.stem.removeprefix("v").partition("-")[0]
    document = printed("expect", *PODS, "--kubernetes", release, "--kubelet-config", kubelet, "--swap", "1Gi",
                       "--numa-nodes", "4Gi,4Gi", "--cpus", "16")  # fmt: skip
    assert len(document["pods"]) == len(PODS)
    assert misfits(document, "plan") == []


def test_plans_without_reasons_or_knobs(printed):
    assert misfits(printed("expect", *PODS, "--kubernetes", "1.34", "--cgroup", "v1"), "plan") == []
    assert misfits(printed("expect", PODS[0], "--kubernetes", "1.36", "--why", "memory.max"), "plan") == []


@pytest.mark.parametrize("runtime", ["youki@0.6", "kata@3.20", "containerd@2.1.9+runsc@20240729", "pouch+runc@1.3.6"])
def test_plans_of_runtimes_that_are_not_modelled(printed, runtime):
    document = printed("expect", *PODS, "--kubernetes", "1.36", "--runtime", runtime, "--translate", "all")
    assert misfits(document, "plan") == []
    gate = ("--set", "featureGates.MemoryQoS=true", "--set", "memoryThrottlingFactor=0.8")
    answers = ("--protection", "--throttling", "--oom")
    document = printed("expect", *PODS, "--kubernetes", "1.36", "--runtime", runtime, *gate, *answers)
    assert misfits(document, "plan") == []
    assert any("not_modelled" in one for one in document["throttling"])


@pytest.mark.parametrize("runtime", ["runc@1.1.15", "crun@1.21", "cri-o@1.36+runc@1.3.6"])
def test_translations_and_protection(printed, runtime):
    """With pods that CRI-O refuses, since they have too little memory."""
    more = (
        "--kubernetes",
        "1.36",
        "--translate",
        "all",
        "--protection",
        "--oom",
        "--runtime",
        runtime,
        "--driver",
        "systemd",
    )
    document = printed("expect", *PODS, *more)
    assert misfits(document, "plan") == []
    assert all("translation" in one for pod in document["pods"] for one in pod["containers"])
    assert document["oom"]
    document["protection"][0]["use"] = 5
    assert misfits(document, "plan") != []


def test_analyses(printed):
    cases = Path(__file__).parents[1] / "cases" / "throttle-series"
    for name in ("factor-0.9-no-end", "factor-1.0", "factor-0.6-end"):
        assert misfits(printed("analyze", cases / f"{name}.csv"), "analysis") == []
    document = printed("analyze", cases / "8gi-alone.csv", "--memory-high", "max")
    assert misfits(document, "analysis") == []
    document["runs"][0]["verdict"] = "fine"
    assert misfits(document, "analysis") != []


def test_differences_errata_and_audits(printed):
    assert misfits(printed("expect", *PODS, "--diff", "1.22", "1.36", "--set", "featureGates.MemoryQoS=true"),
                  "differences") == []  # fmt: skip
    assert misfits(printed("expect", "--errata"), "errata") == []
    for tree in TREES[-2:]:
        assert misfits(printed("audit", "--tree", tree), "audit") == []


def test_audits_of_several_nodes_and_what_would_change(printed, tmp_path):
    document = recorded_node("n1", pods=12)
    for path, files in document["cgroups"].items():
        if path.endswith(".scope"):
            files["memory.high"] = "4096"
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    (tmp_path / "c.json").write_text("{")
    fleet = printed("audit", tmp_path)
    assert fleet["causes"]
    assert misfits(fleet, "fleet") == []
    assert misfits(printed("audit", tmp_path / "a.json"), "audit") == []
    change = printed("audit", tmp_path / "a.json", "--what-if", "--set", "memoryThrottlingFactor=0.2")
    assert change["changes"]
    assert misfits(change, "what_if") == []
    fleet["nodes"][0]["state"] = "FINE"
    assert misfits(fleet, "fleet") != []


def test_resizes(printed, tmp_path):
    text = Path(PODS[0]).with_name("burstable.yaml").read_text()
    (tmp_path / "wanted.yaml").write_text(text.replace("200Mi", "300Mi"))
    arguments = (Path(PODS[0]).with_name("burstable.yaml"), "--resize", tmp_path / "wanted.yaml")
    for release, outcome in (("1.26", "Forbidden"), ("1.36", "InProgress")):
        document = printed("expect", *arguments, "--kubernetes", release)
        assert [one["outcome"] for one in document["resizes"]] == [outcome]
        assert misfits(document, "resizes") == []
    document["resizes"][0]["steps"][0].update(kind="reboot")
    assert misfits(document, "resizes") != []


def test_a_resize_of_a_pod_without_limits(printed, tmp_path):
    text = Path(PODS[0]).with_name("requests-only.yaml").read_text()
    for name, cpu in (("pod.yaml", "1"), ("wanted.yaml", "2")):
        (tmp_path / name).write_text(text.replace("memory: 48Mi", f"memory: 48Mi, cpu: {cpu}"))
    document = printed("expect", tmp_path / "pod.yaml", "--resize", tmp_path / "wanted.yaml", "--kubernetes", "1.36")
    told = [step for one in document["resizes"] for step in one["steps"] if "Sandbox" in step["kind"]]
    assert [step["cri"]["memory_limit_in_bytes"] for step in told] == [-1]
    assert misfits(document, "resizes") == []


@pytest.mark.parametrize("spoil", [
    lambda plan: plan.pop("release"),
    lambda plan: plan.update(release="1.99"),
    lambda plan: plan.update(more=1),
    lambda plan: plan["pods"][0].update(qos="Golden"),
    lambda plan: plan["pods"][0]["containers"][0]["cri"].update(cpu_shares="2"),
    lambda plan: plan["cgroups"][0]["knobs"]["memory.min"].update(written=0),
    lambda plan: plan["cgroups"][0]["knobs"]["memory.min"].pop("value"),
    lambda plan: plan["cgroups"][0]["knobs"]["memory.min"]["reason"].update(guess=""),
])  # fmt: skip
def test_a_spoiled_plan_does_not_fit(printed, spoil):
    document = copy.deepcopy(printed("expect", PODS[0], "--kubernetes", "1.36"))
    assert misfits(document, "plan") == []
    spoil(document)
    assert misfits(document, "plan") != []
