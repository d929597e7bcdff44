"""What users copy for their services: by the services' schemas, and with every command run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FAKE = """#!/bin/sh
printf '%s\\0' memqos "$@" >> "$CALLS"
printf '\\n' >> "$CALLS"
exit "${ANSWER:-0}"
"""


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """A memqos that writes down how it was called, in a copy of the checkout, and on the PATH as other programs are."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("memqos", "apt-get", "git", "sudo"):
        file = programs / name
        file.write_text(FAKE.replace("memqos", name))
        file.chmod(0o755)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in ("vm", "fixtures"):
        shutil.copytree(ROOT / name, checkout / name)
    shutil.copy(programs / "memqos", checkout / "memqos")
    shutil.copytree(checkout, tmp_path / ".memqos")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)

    def read():
        file = tmp_path / "calls"
        return [line.rstrip("\0").split("\0") for line in file.read_text().splitlines()] if file.exists() else []

    return read


def shell(script, **environment):
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(words, env={**os.environ, **environment}, text=True, capture_output=True, check=False)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("action.yml", ["--builtin-schema", "vendor.github-actions"]),
        ("ci/github.yml", ["--builtin-schema", "vendor.github-workflows"]),
        ("ci/gitlab.yml", ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"]),
    ],
)
def test_files_are_as_their_services_schemas_say(file, words):
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", *words, str(ROOT / file)],
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def steps():
    return {step["name"]: step for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]}


def action(name, tmp_path, **inputs):
    """Run a step of the action with these inputs, as GitHub does; what it told, by name."""
    step = steps()[name]
    given = {"arguments": "", "results": "memqos-results", "shard": "", **inputs}
    contexts = {"github.action_path": str(tmp_path / "checkout")}
    contexts |= {f"inputs.{key}": value for key, value in given.items()}
    env = {
        key: re.sub(r"\$\{\{ (.*?) \}\}", lambda found: contexts[found[1]], value)
        for key, value in step.get("env", {}).items()
    }
    output = tmp_path / "output"
    output.write_text("")
    answer = os.environ.get("ANSWER", "0")
    done = shell(step["run"], GITHUB_OUTPUT=str(output), RUNNER_OS="Linux", RUNNER_ARCH="X64", ANSWER=answer, **env)
    return done, dict(line.split("=", 1) for line in output.read_text().splitlines())


def test_scripts_of_the_action_have_no_expression_in_them():
    """What an input holds would become a part of the script: it comes in through the environment alone."""
    scripts = [step["run"] for step in steps().values() if "run" in step]
    assert len(scripts) == 3
    assert not any("${{" in script for script in scripts)


def test_the_action_hands_arguments_over_as_they_are(tmp_path, calls):
    given = """--runtime-binary "./my runc" -k 'a or b' $(touch evil) ; touch evil"""
    done, output = action("Run", tmp_path, arguments=given, shard="2/5")
    words = ["--runtime-binary", "./my runc", "-k", "a or b", "$(touch", "evil)", ";", "touch", "evil"]
    assert calls() == [["memqos", "run", "--results", "memqos-results", *words, "--shard", "2/5"]]
    assert (done.returncode, output) == (0, {"exit-code": "0"})
    assert not (tmp_path / "evil").exists()


def test_the_action_without_arguments_runs_the_default(tmp_path, calls):
    action("Run", tmp_path)
    assert calls() == [["memqos", "run", "--results", "memqos-results"]]


def test_the_action_fails_with_what_memqos_answered(tmp_path, calls, monkeypatch):
    monkeypatch.setenv("ANSWER", "3")
    done, output = action("Run", tmp_path)
    assert (done.returncode, output) == (3, {"exit-code": "3"})


def test_the_actions_cache_changes_with_what_images_are_made_of(tmp_path, calls, monkeypatch):
    monkeypatch.setenv("MEMQOS_CACHE", "/somewhere")
    _, one = action("Name the cache", tmp_path)
    assert re.fullmatch(r"memqos-Linux-X64-[0-9a-f]{16}", one["key"])
    assert one["folder"] == "/somewhere"
    (tmp_path / "checkout" / "vm" / "new").write_text("x")
    assert action("Name the cache", tmp_path)[1]["key"] != one["key"]


def test_looking_for_kvm_fails_nowhere(tmp_path, calls, monkeypatch):
    monkeypatch.setenv("ANSWER", "1")
    assert action("Use KVM if the runner has it", tmp_path)[0].returncode == 0


def test_the_workflow_merges_what_its_jobs_found(tmp_path, calls):
    jobs = yaml.safe_load((ROOT / "ci/github.yml").read_text())["jobs"]
    [merge] = [step["run"] for step in jobs["report"]["steps"] if "run" in step]
    shutil.copytree(tmp_path / "checkout", tmp_path / "memqos")
    for part in (1, 2):
        (tmp_path / "parts" / f"memqos-{part}").mkdir(parents=True)
    assert shell(merge, GITHUB_STEP_SUMMARY=str(tmp_path / "summary")).returncode == 0
    assert calls()[0] == ["memqos", "report", "merge", "parts/memqos-1", "parts/memqos-2", "--output", "whole"]
    assert [call[2] for call in calls()] == ["merge", "markdown"]


def test_every_job_of_the_workflow_is_one_part_of_all():
    strategy = yaml.safe_load((ROOT / "ci/github.yml").read_text())["jobs"]["conformance"]
    [step] = [step for step in strategy["steps"] if "memqos" in step["uses"]]
    parts = strategy["strategy"]["matrix"]["part"]
    assert parts == list(range(1, len(parts) + 1))
    assert step["with"]["shard"] == f"${{{{ matrix.part }}}}/{len(parts)}"


def test_gitlabs_commands(tmp_path, calls):
    jobs = yaml.safe_load((ROOT / "ci/gitlab.yml").read_text())
    told = {name: str(value) for name, value in jobs["variables"].items()} | {"CI_PROJECT_DIR": str(tmp_path)}
    for line in jobs[".memqos"]["before_script"]:
        assert shell(line, **told).returncode == 0, line
    assert [call[0] for call in calls()] == ["apt-get", "apt-get", "git"]
    for line in jobs["memqos"]["script"]:
        assert shell(line, **told, CI_NODE_INDEX="2", CI_NODE_TOTAL="5").returncode == 0, line
    assert calls()[3] == ["memqos", "run", "--results", "part-2", "--shard", "2/5", "--all"]
    (tmp_path / "part-1").mkdir()
    for line in jobs["memqos-report"]["script"]:
        assert shell(line, **told).returncode == 0, line
    assert calls()[4] == ["memqos", "report", "merge", "part-1", "--output", "whole"]


def job(name):
    documents = yaml.safe_load_all((ROOT / "ci/kubernetes" / name).read_text())
    return next(one for one in documents if one["kind"] == "Job")["spec"]


@pytest.mark.parametrize("index", [0, 4])
def test_each_pod_of_the_indexed_job_has_a_part(index, calls):
    spec = job("job.yaml")
    [container] = spec["template"]["spec"]["containers"]
    assert container["command"] == ["sh", "-c"]
    assert shell(container["args"][0], JOB_COMPLETION_INDEX=str(index)).returncode == 0
    part = f"{index + 1}/{spec['completions']}"
    assert calls() == [["memqos", "run", "--all", "--shard", part, "--results", f"/results/part-{index}"]]


def test_a_verdict_is_not_tried_again():
    """0 to 2, 4 and 5 say what was found, or that somebody has to mend the call; 3 and 6 may be the node's."""
    spec = job("job.yaml")
    [rule] = [one["onExitCodes"] for one in spec["podFailurePolicy"]["rules"] if "onExitCodes" in one]
    assert (rule["operator"], rule["values"]) == ("In", [1, 2, 4, 5])
    assert spec["maxFailedIndexes"] == spec["completions"] == spec["parallelism"]


def test_the_merging_jobs_commands(calls, tmp_path):
    [container] = job("merge.yaml")["template"]["spec"]["containers"]
    script = container["args"][0].replace("/results", str(tmp_path / "results"))
    (tmp_path / "results" / "part-0").mkdir(parents=True)
    assert shell(script).returncode == 0
    assert [call[2] for call in calls()] == ["merge", "markdown"]


def test_the_container_has_every_program_that_the_launcher_looks_for():
    recipe = (ROOT / "Containerfile").read_text()
    launcher = (ROOT / "memqos").read_text()
    needed = set(re.findall(r"^\s*(?:\[.*\] \|\| )?need_program \S+ (\S+) ", launcher, re.MULTILINE))
    needed |= set(re.findall(r"\bneed ([a-z][\w.-]+) \"", launcher))
    needed |= set(re.findall(r"^\s*\*\) qemu=\S+ qemu_package=(\S+)", launcher, re.MULTILINE))
    assert {"qemu-system-x86", "mmdebstrap", "gcc", "libc6-dev", "uidmap"} <= needed
    installed = set(re.search(r"install --yes --no-install-recommends \\\n(.*?)&&", recipe, re.DOTALL)[1].split())
    installed |= set(re.search(r'amd64\) emulator="(.*?)"', recipe)[1].split())
    # The wheel has programs that are compiled. The venv is made before; reports are opened in the project's own tests.
    assert needed - {"gcc", "libc6-dev", "python3-venv", "chromium"} <= installed
