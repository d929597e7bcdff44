"""The published schema fits what the commands print, and nothing else."""

import copy
import json
from pathlib import Path

import jsonschema
import pytest

from memqos.catalog.data import data_root
from memqos.cli.main import run
from tests.docs.snippets import DOCS

SCHEMA = json.loads((DOCS / "reference" / "memqos.schema.json").read_text())
PODS = [str(path) for path in sorted((data_root() / "fixtures" / "pods").glob("*.yaml"))]
KUBELETS = sorted((data_root() / "fixtures" / "kubelet").glob("*.yaml"))
TREES = sorted((Path(__file__).parents[1] / "trees").glob("*.json"))


def errors(document, kind):
    schema = {**SCHEMA, "anyOf": [{"$ref": f"#/$defs/{kind}"}]}
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(document)]


@pytest.fixture
def printed(capsys):
    def call(*arguments):
        code = run([*map(str, arguments), "--json"])
        assert code in {0, 1}
        return json.loads(capsys.readouterr().out)

    return call


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("kubelet", KUBELETS, ids=lambda path: path.stem)
def test_plans(printed, kubelet):
    release = kubelet.stem.removeprefix("v").partition("-")[0]
    document = printed("expect", *PODS, "--kubernetes", release, "--kubelet-config", kubelet, "--swap", "1Gi",
                       "--zones", "4Gi,4Gi", "--cpus", "16")  # fmt: skip
    assert len(document["pods"]) == len(PODS)
    assert errors(document, "plan") == []


def test_plans_without_reasons_or_knobs(printed):
    assert errors(printed("expect", *PODS, "--kubernetes", "1.34", "--cgroup", "v1"), "plan") == []
    assert errors(printed("expect", PODS[0], "--kubernetes", "1.36", "--why", "memory.max"), "plan") == []


@pytest.mark.parametrize("runtime", ["runc@1.1.15", "crun@1.21", "cri-o@1.36+runc@1.3.6"])
def test_translations_and_protection(printed, runtime):
    """With pods that CRI-O refuses, since they have too little memory."""
    more = ("--kubernetes", "1.36", "--translate", "all", "--protection", "--runtime", runtime, "--driver", "systemd")
    document = printed("expect", *PODS, *more)
    assert errors(document, "plan") == []
    assert all("translation" in one for pod in document["pods"] for one in pod["containers"])
    document["protection"][0]["use"] = 5
    assert errors(document, "plan") != []


def test_differences_errata_and_audits(printed):
    assert errors(printed("expect", *PODS, "--diff", "1.22", "1.36", "--set", "featureGates.MemoryQoS=true"),
                  "differences") == []  # fmt: skip
    assert errors(printed("expect", "--errata"), "errata") == []
    for tree in TREES[-2:]:
        assert errors(printed("audit", "--tree", tree), "audit") == []


def test_resizes(printed, tmp_path):
    text = Path(PODS[0]).with_name("burstable.yaml").read_text()
    (tmp_path / "wanted.yaml").write_text(text.replace("200Mi", "300Mi"))
    arguments = (Path(PODS[0]).with_name("burstable.yaml"), "--resize", tmp_path / "wanted.yaml")
    for release, outcome in (("1.26", "Forbidden"), ("1.36", "InProgress")):
        document = printed("expect", *arguments, "--kubernetes", release)
        assert [one["outcome"] for one in document["resizes"]] == [outcome]
        assert errors(document, "resizes") == []
    document["resizes"][0]["steps"][0].update(kind="reboot")
    assert errors(document, "resizes") != []


def test_a_resize_of_a_pod_without_limits(printed, tmp_path):
    text = Path(PODS[0]).with_name("requests-only.yaml").read_text()
    for name, cpu in (("pod.yaml", "1"), ("wanted.yaml", "2")):
        (tmp_path / name).write_text(text.replace("memory: 48Mi", f"memory: 48Mi, cpu: {cpu}"))
    document = printed("expect", tmp_path / "pod.yaml", "--resize", tmp_path / "wanted.yaml", "--kubernetes", "1.36")
    told = [step for one in document["resizes"] for step in one["steps"] if "Sandbox" in step["kind"]]
    assert [step["cri"]["memory_limit_in_bytes"] for step in told] == [-1]
    assert errors(document, "resizes") == []


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
    assert errors(document, "plan") == []
    spoil(document)
    assert errors(document, "plan") != []
