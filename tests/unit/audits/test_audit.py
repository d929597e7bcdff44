"""`memqos.audit` in Python judges as `memqos audit` does, and prints nothing."""

import json

import pytest

import memqos
from memqos import ExitCode, Finding, KubeletSettings, UsageError, Verdict, load_tree
from memqos.cli.main import run
from tests.unit.cli.audit.recordings import TIERED, TREES, path_of


def deviating(tmp_path):
    data = json.loads(TIERED.read_text())
    pod, container, _ = next(names for names in data["containers"].values() if names[1] != "(sandbox)")
    data["cgroups"][path_of(data, pod, container)]["memory.max"] = "4096\n"
    path = tmp_path / "tree.json"
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize("tree", sorted(TREES.glob("*.json")), ids=lambda path: path.stem)
@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ((), {}),
        (("--runtime", "crun@1.21"), {"runtime": "crun@1.21"}),
        (
            ("--set", "featureGates.MemoryQoS=true", "--kubernetes", "1.30"),
            {"overrides": ["featureGates.MemoryQoS=true"], "kubernetes": "1.30"},
        ),
    ],
    ids=["recorded", "runtime", "release"],
)
def test_python_and_the_command_line_give_the_same_document(tree, options, arguments, capsys):
    code = run(["audit", "--tree", str(tree), "--json", *options])
    printed = json.loads(capsys.readouterr().out)
    found = memqos.audit(tree, **arguments)
    assert json.loads(json.dumps(found.document())) == printed
    assert found.exit_code == code
    assert capsys.readouterr() == ("", "")


def test_a_loaded_recording_is_judged_as_its_file(tmp_path):
    path = deviating(tmp_path)
    found = memqos.audit(load_tree(path))
    assert found.findings == memqos.audit(path).findings
    [wrong] = found.of(Verdict.DEVIATES)
    assert isinstance(wrong, Finding)
    assert (wrong.knob, wrong.observed) == ("memory.max", "4096")
    assert str(wrong.subject).startswith("container ")
    assert found.exit_code is ExitCode.DEVIATES
    assert found.counts[Verdict.DEVIATES] == 1


def test_the_earlier_configuration_explains_its_leftovers(tmp_path):
    data = json.loads(TIERED.read_text())
    before = tmp_path / "before.yaml"
    before.write_text(json.dumps(data["config"]))
    settings = KubeletSettings()
    plain = memqos.audit(TIERED, kubelet_config=settings)
    explained = memqos.audit(TIERED, kubelet_config=settings, was_config=before)
    assert len(explained.of(Verdict.DEVIATES)) < len(plain.of(Verdict.DEVIATES))
    [note] = [one for one in plain.notes if one.about == "kubelet_config"]
    assert "replaces the node's configuration" in note.what


@pytest.mark.parametrize(
    ("field", "step"),
    [("pods", "pods="), ("kubelet", "kubernetes="), ("node", "node=")],
    ids=["pods", "kubelet", "node"],
)
def test_errors_about_missing_data_name_the_arguments(field, step, tmp_path):
    data = json.loads(TIERED.read_text())
    del data[field]
    path = tmp_path / "tree.json"
    path.write_text(json.dumps(data))
    with pytest.raises(UsageError, match=step):
        memqos.audit(path)


def test_wrong_arguments_are_named():
    with pytest.raises(UsageError, match="cgroup driver 'systemdd'"):
        memqos.audit(TIERED, driver="systemdd")
    with pytest.raises(UsageError, match="settings already"):
        memqos.audit(load_tree(TIERED), overrides=["featureGates.MemoryQoS=true"])
    with pytest.raises(UsageError, match="need a configuration file"):
        memqos.audit(TIERED, kubelet_config=KubeletSettings(), flags=["--v=2"])
