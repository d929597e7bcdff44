"""`memqos settings`, and that verbs take settings from the same places."""

import json

import pytest

from memqos.cli.main import run
from tests.documents import misfits


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[tool.memqos]\ntopology = "nowhere"\ndriver = "cgroupfs"\n')
    monkeypatch.chdir(tmp_path)
    for name in ("MEMQOS_PARALLEL", "MEMQOS_TOPOLOGY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_every_setting_is_shown_with_its_origin(project, capsys, monkeypatch):
    monkeypatch.setenv("MEMQOS_PARALLEL", "7")

    assert run(["settings", "--runtime", "crun"]) == 0

    said = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert len(said) == 40
    assert said["topology"] == ["nowhere", "pyproject.toml:2"]
    assert said["runtime"] == ["containerd+crun", "--runtime"]
    assert said["parallel"] == ["7", "MEMQOS_PARALLEL"]
    assert said["keep-vm"] == ["no", "default"]
    assert said["results"] == ["-", "default"]


def test_settings_as_json(project, capsys):
    assert run(["settings", "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert misfits(document, "settings") == []
    assert document["settings"]["driver"] == {"value": ["cgroupfs"], "origin": "pyproject.toml:3"}


@pytest.mark.parametrize(
    "arguments", [["run", "--collect-only"], ["vm", "shell"], ["doctor"]], ids=["run", "shell", "doctor"]
)
def test_verbs_take_a_setting_from_the_same_file(project, capsys, arguments):
    assert run(arguments) == 4
    assert "there is no topology 'nowhere'" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["vm build", "vm shell", "doctor", "doctor --bench", "run --collect-only"])
def test_verbs_take_the_profile_from_the_settings(project, capsys, monkeypatch, verb):
    (project / "pyproject.toml").write_text('[tool.memqos]\nprofile = "sarge"\n')
    assert run(verb.split()) == 4
    assert "there is no profile 'sarge'" in capsys.readouterr().err

    monkeypatch.setenv("MEMQOS_PROFILE", "potato")
    assert run(verb.split()) == 4
    assert "there is no profile 'potato'" in capsys.readouterr().err


def test_what_is_written_in_the_place_of_pytests_file_is_taken(project, capsys):
    assert run(["run", "--collect-only", "-o", "memqos_topology=elsewhere"]) == 4
    assert "there is no topology 'elsewhere'" in capsys.readouterr().err

    assert run(["run", "--collect-only", "--override-ini=memqos_topologies=x"]) == 4
    assert "-o memqos_topologies: there is no setting 'memqos_topologies'." in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["run"], ["vm", "exec", "trixie", "true"], ["vm", "build"], ["doctor"], ["settings"]],
    ids=" ".join,
)
def test_every_verb_refuses_the_same_mistake_with_its_line(project, capsys, arguments):
    (project / "pyproject.toml").write_text('[tool.memqos]\n\ncgrop = "v1"\n')
    assert run(arguments) == 4
    said = capsys.readouterr().err
    assert "pyproject.toml:3: there is no setting 'cgrop'." in said
    assert "Did you mean 'cgroup'?" in said


def test_verbs_without_settings_do_not_mind(project, capsys):
    (project / "pyproject.toml").write_text("[tool.memqos]\ncgrop = 1\n")
    assert run(["expect", "--errata"]) == 0
