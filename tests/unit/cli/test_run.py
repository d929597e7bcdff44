"""The arguments that `memqos run` passes to pytest, and what it rejects before anything is built."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memqos.cli.main import run
from memqos.cli.run import pytest_arguments, select_suites
from memqos.config.settings import resolve
from memqos.errors import UsageError

SUITES = Path(__file__).parents[3] / "suites"


def arguments(*words, selection=(), **given):
    chosen = select_suites(words, brought=SUITES, here=Path("/nowhere"))
    return pytest_arguments(chosen, resolve(given, {}), selection=selection)


def test_the_whole_folder_runs_with_memqos_own_configuration():
    assert arguments() == [
        "-c", f"{SUITES}/pytest.ini", f"--rootdir={SUITES}", f"--confcutdir={SUITES}",
        "-p", "no:cacheprovider", "-r", "N",
        "-W", "ignore::pytest.PytestAssertRewriteWarning",
        f"{SUITES}",
    ]  # fmt: skip


def test_given_settings_become_the_plugins_options():
    found = arguments(
        profile="trixie,forky",
        runtime="crun,oci:runc",
        kubernetes="1.27,1.36",
        keep_vm=True,
        runtime_binary="/bin/true",
        kernel_deb=("a.deb", "b.deb"),
    )

    assert [word for word in found if word.startswith("--memqos-")] == [
        "--memqos-profile=trixie,forky",
        "--memqos-runtime=containerd+crun,oci:runc",
        "--memqos-kubernetes=1.27,1.36",
        "--memqos-runtime-binary=/bin/true",
        "--memqos-kernel-deb=a.deb",
        "--memqos-kernel-deb=b.deb",
        "--memqos-keep-vm",
    ]


@pytest.mark.parametrize("word", ["values/test_values.py::test_x[a]", "suites/values/test_values.py::test_x[a]"])
def test_a_node_id_is_valid_from_any_folder(word):
    assert arguments(word)[-1] == f"{SUITES}/values/test_values.py::test_x[a]"
    assert str(SUITES) not in arguments(word)


def test_values_of_options_are_left_alone():
    assert arguments("--durations", "5")[-3:] == ["--durations", "5", str(SUITES)]


def test_an_expression_may_be_the_name_of_a_chapter():
    assert arguments("--lf", selection=["-k", "values"])[-4:] == ["-k", "values", "--lf", str(SUITES)]


def test_a_missing_test_file_is_rejected():
    with pytest.raises(UsageError, match=r"test file .values/none\.py. does not exist"):
        arguments("values/none.py::test_x")


def test_a_missing_suite_is_rejected_with_the_known_ones():
    with pytest.raises(
        UsageError,
        match=r"there is no suite 'valeus'. Did you mean 'values'\? Known: cgroup-v1, cri, docker, isolation",
    ):
        arguments("valeus")


CLAIM = (
    '[one]\nsentence = "One thing holds."\nsource = "nowhere"\nreleases = "any"\nkind = "state"\nabout = "runtime"\n'
)
TEST = """
import pytest

@pytest.mark.claim("team/one")
@pytest.mark.parametrize("number", range(2))
def test_it(qos_evidence, number):
    from memqos.engine.answer.finding import Finding, Verdict
    from memqos.engine.answer.finding import Setter
    from memqos.engine.answer.finding import Subject
    made = dict(subject=Subject.of_machine("s"), set_by=Setter.RUNTIME, expected="1", observed="1")
    qos_evidence.settle(Finding(verdict=Verdict.CONFORMS, cgroup="/c", knob="memory.max", **made))
"""


@pytest.fixture
def own(tmp_path):
    """The user's own folder of suites, in the current folder."""
    (tmp_path / "ours/team").mkdir(parents=True)
    (tmp_path / "ours/team/claims.toml").write_text(CLAIM)
    (tmp_path / "ours/team/test_team.py").write_text(TEST)
    return tmp_path


def in_folder(folder, *words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "memqos", *words],
        cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("word", "cases"),
    [("ours", 2), ("ours/team", 2), ("ours/team/test_team.py", 2), ("./ours/team/test_team.py::test_it[1]", 1)],
)
def test_only_the_given_suites_run(own, word, cases):
    done = in_folder(own, "run", word)

    assert done.returncode == 0
    assert f"verdict: conforms ({cases} case" in done.stdout
    [bundle] = own.glob("results/*/bundle.json")
    ids = [result["id"] for result in json.loads(bundle.read_text())["results"]]
    assert ids == [f"team/test_team.py::test_it[{number}]" for number in range(2)][-cases:]


def test_the_command_that_repeats_a_case_of_ones_own_suites_finds_it(own):
    test = own / "ours/team/test_team.py"
    test.write_text(test.read_text().replace("CONFORMS", "DEVIATES"))

    assert "rerun: memqos run 'ours/team/test_team.py::test_it[0]'" in in_folder(own, "run", "ours").stdout


def test_a_folder_without_suites_is_refused(own):
    (own / "papers").mkdir()

    done = in_folder(own, "run", "papers")

    assert done.returncode == 4
    assert "'papers' is not in a folder of suites" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--kuberntes", "1.34"], "unknown option '--kuberntes'.\n        Did you mean --kubernetes?"),
        (["run", "--no-checkpiont"], "Did you mean --no-checkpoint?"),
        (["expect", "--kuberntes", "1.34"], "Did you mean --kubernetes? See memqos expect --help."),
        (["vm", "lst"], "memqos vm: there is no command 'lst'.\n        Did you mean 'list'?"),
        (["rum"], "memqos: there is no command 'rum'.\n        Did you mean 'run'?"),
    ],
)
def test_mistyped_options_and_verbs_get_suggestions(own, words, says):
    done = in_folder(own, *words)

    assert done.returncode == 4
    assert says in done.stderr
    assert "memqos: error: " in done.stderr
    assert not (own / "results").exists()


@pytest.mark.parametrize("words", [[], ["report"], ["vectors"], ["vm"]])
def test_a_group_without_a_verb_prints_its_help_as_lines(words, capsys):
    code = run(words)

    shown = capsys.readouterr().err.splitlines()
    assert (code, shown[0]) == (4, f"Usage: {' '.join(['memqos', *words])} [OPTIONS] COMMAND [ARGS]...")
    assert "Commands:" in shown


def test_unknown_environment_variables_are_noted_once(own):
    listed = in_folder(own, "vm", "list", MEMQOS_CACHE=str(own / "c"), MEMQOS_RUNTIMME="crun")
    ran = in_folder(own, "run", "ours", MEMQOS_RUNTIMME="crun")

    note = (
        "the environment variable MEMQOS_RUNTIMME is not a setting of memqos and is ignored. "
        "Did you mean MEMQOS_RUNTIME?"
    )
    assert (listed.stderr.count(note), (ran.stdout + ran.stderr).count(note)) == (1, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--runtime-binary", "/no/such/file"], "--runtime-binary: "),
        (["--kubernetes", "1.21"], "--kubernetes: there is no Kubernetes release '1.21'."),
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


def test_listing_tests_builds_nothing_from_any_folder(tmp_path):
    command = [sys.executable, "-m", "memqos", "run", "--collect-only", "-q", "--kubernetes", "1.22", "-k", "values"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env={"MEMQOS_CACHE": str(tmp_path / "c")}
    )

    assert done.returncode == 0
    assert "values/test_values.py::test_pod_and_its_containers_hold_their_values[v1.22-best-effort]" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_stdout_has_only_json(tmp_path):
    """An empty selection is reported without a machine."""
    command = [sys.executable, "-m", "memqos", "run", "--json", "--collect-only", "-q", "-k", "nothing_of_that_name"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 5
    assert done.stdout == "" or json.loads(done.stdout)


@pytest.mark.parametrize("workers", ["-1", "two", "1.5", ""])
def test_an_invalid_number_of_machines(capsys, monkeypatch, workers):
    monkeypatch.setattr("memqos.cli.run.prepare_places", lambda *_, **__: pytest.fail("something was prepared"))
    assert run(["run", "-n", workers]) == 4
    assert f"-n: '{workers}' is not a number of machines." in capsys.readouterr().err


def test_a_machine_larger_than_this_host(capsys, monkeypatch, tmp_path):
    """Reported before an image is built, and before QEMU is looked for."""
    for name in ("find_qemu", "ensure_image"):
        monkeypatch.setattr(f"memqos.place.opening.{name}", lambda *_, **__: pytest.fail("something was prepared"))
    zones = [{"memoryMiB": 1 << 20, "cpus": [0]}, *[{"memoryMiB": 1 << 20}] * 100]
    (tmp_path / "large.json").write_text(json.dumps({"cpus": 1, "numaNodes": zones}))
    assert run(["run", "--topology", str(tmp_path / "large.json")]) == 6
    error = capsys.readouterr().err
    assert error.startswith(
        "memqos: error: --topology: the topology 'large' has 105906176 MiB of memory, but this host only"
    )
    assert "Reduce its NUMA nodes to " in error
