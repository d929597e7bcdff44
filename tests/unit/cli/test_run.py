"""What `memqos run` hands to pytest, and what it refuses before anything is built."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from memqos.cli.main import run
from memqos.cli.run import pytest_arguments
from memqos.config.settings import resolve
from memqos.errors import UsageError

SUITES = Path(__file__).parents[3] / "suites"


def arguments(*words, selection=(), **given):
    return pytest_arguments(SUITES, resolve(given, {}), results=Path("/r"), selection=selection, words=words)


def test_the_whole_folder_runs_with_memqos_own_configuration():
    assert arguments() == [
        "-c", f"{SUITES}/pytest.ini", f"--rootdir={SUITES}",
        "-p", "no:cacheprovider", "-r", "N",
        "-W", "ignore::pytest.PytestAssertRewriteWarning",
        "--memqos-results=/r",
        f"{SUITES}",
    ]  # fmt: skip


def test_settings_that_were_given_become_the_plugins_options():
    found = arguments(
        profile="trixie,forky",
        runtime="crun",
        kubernetes="1.27,1.36",
        keep_vm=True,
        runtime_binary="/bin/true",
        kernel_deb=("a.deb", "b.deb"),
    )

    assert [word for word in found if word.startswith("--memqos-")] == [
        "--memqos-profile=trixie,forky",
        "--memqos-runtime=crun",
        "--memqos-kubernetes=1.27,1.36",
        "--memqos-runtime-binary=/bin/true",
        "--memqos-kernel-deb=a.deb",
        "--memqos-kernel-deb=b.deb",
        "--memqos-keep-vm",
        "--memqos-results=/r",
    ]


@pytest.mark.parametrize("word", ["values/test_values.py::test_x[a]", "suites/values/test_values.py::test_x[a]"])
def test_a_node_id_means_the_same_wherever_the_command_is_given(word):
    assert arguments(word)[-1] == f"{SUITES}/values/test_values.py::test_x[a]"
    assert str(SUITES) not in arguments(word)


def test_values_of_options_are_left_alone():
    assert arguments("--durations", "5")[-3:] == ["--durations", "5", str(SUITES)]


def test_an_expression_may_be_the_name_of_a_chapter():
    assert arguments("--lf", selection=["-k", "values"])[-4:] == ["-k", "values", "--lf", str(SUITES)]


def test_a_test_file_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match=r"there is no test file .values/none\.py."):
        arguments("values/none.py::test_x")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--runtime-binary", "/no/such/file"], "--runtime-binary: "),
        (["--kubernetes", "1.21"], "--kubernetes: there is no kubelet of the release '1.21'."),
        (["--topology", "ring"], "there is no topology 'ring'."),
        (["--profile", "slackware"], "there is no profile 'slackware'."),
        (["--runtime", "podman"], "--runtime: there is no runtime 'podman'."),
        (["--parallel", "0"], "--parallel: '0' is not a whole number, 1 or more."),
    ],
)
def test_wrong_usage_is_one_sentence_before_anything_is_built(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("MEMQOS_CACHE", str(tmp_path / "cache"))

    assert run(["run", *words]) == 4
    assert said in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


def test_listing_tests_builds_nothing_and_works_from_any_folder(tmp_path):
    command = [sys.executable, "-m", "memqos", "run", "--collect-only", "-q", "--kubernetes", "1.22", "-k", "values"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env={"MEMQOS_CACHE": str(tmp_path / "c")}
    )

    assert done.returncode == 0
    assert "values/test_values.py::test_pod_and_its_containers_hold_their_values[v1.22-best-effort]" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_json_is_all_that_is_on_stdout(tmp_path):
    """No machine is needed to be told that nothing was selected."""
    command = [sys.executable, "-m", "memqos", "run", "--json", "--collect-only", "-q", "-k", "nothing_of_that_name"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 5
    assert done.stdout == "" or json.loads(done.stdout)


@pytest.mark.parametrize("workers", ["-1", "two", "1.5", ""])
def test_a_number_of_machines_that_is_none(capsys, monkeypatch, workers):
    monkeypatch.setattr("memqos.cli.run._prepare", lambda _settings: pytest.fail("something was prepared"))
    assert run(["run", "-n", workers]) == 4
    assert f"-n: '{workers}' is not a number of machines." in capsys.readouterr().err


def test_a_machine_larger_than_this_host(capsys, monkeypatch, tmp_path):
    """Told before an image is made, and before QEMU is looked for."""
    for name in ("find_qemu", "ensure_image"):
        monkeypatch.setattr(f"memqos.cli.run.{name}", lambda *_, **__: pytest.fail("something was prepared"))
    zones = [{"memoryMiB": 1 << 20, "cpus": [0]}, *[{"memoryMiB": 1 << 20}] * 100]
    (tmp_path / "large.json").write_text(json.dumps({"cpus": 1, "zones": zones}))
    assert run(["run", "--topology", str(tmp_path / "large.json")]) == 6
    error = capsys.readouterr().err
    assert error.startswith(
        "memqos: error: --topology: the topology 'large' has 105906176 MiB of memory, and this host"
    )
    assert "Give its zones at most " in error
