"""The wheel with the oldest requirements that pyproject.toml allows: it plans a pod, and collects and runs cases.

Those with compiled parts are left at their newest: their oldest have no wheels for newer versions of Python.
"""

import re
import tomllib
from pathlib import Path

import pytest

from memqos.plugin.pytest_internals import VERSIONS
from tests.plugin.conftest import CLAIMS, HEAD
from tests.plugin.test_broken_machine import CONFTEST, FAILS_ON_THE_FIRST
from tests.wheel.isolated import empty_environment, install, run

pytestmark = pytest.mark.wheel

TOP = Path(__file__).parents[2]
COMPILED = frozenset({"grpcio", "msgspec", "protobuf", "PyYAML"})


def oldest() -> list[str]:
    """Each requirement pinned to its lower bound."""
    requirements = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = dict(re.fullmatch(r"([\w.-]+)>=([\d.]+)", one).groups() for one in requirements)
    assert bounds["pytest"] == "8.0"
    return [f"{name}=={version}" for name, version in bounds.items() if name not in COMPILED]


@pytest.fixture(scope="module")
def memqos(tmp_path_factory, wheel):
    command = empty_environment(tmp_path_factory.mktemp("env"))
    install(command, str(wheel), *oldest())
    return command


@pytest.fixture(scope="module")
def newest(tmp_path_factory, wheel):
    command = empty_environment(tmp_path_factory.mktemp("newest"))
    install(command, str(wheel))
    return command


@pytest.fixture(params=["oldest", "newest"])
def either(request):
    return request.getfixturevalue("memqos" if request.param == "oldest" else "newest")


def test_a_case_is_run_again_on_another_machine(either, tmp_path, monkeypatch):
    """It takes the parts of pytest that are not documented: the module is set up anew, and pytest prints nothing."""
    folder = tmp_path / "suites" / "demo"
    folder.mkdir(parents=True)
    (folder.parent / "conftest.py").write_text(CONFTEST)
    (folder / "claims.toml").write_text(CLAIMS)
    body = FAILS_ON_THE_FIRST.replace("FAILING", "0").replace("DEVIATING", "-1")
    (folder / "test_demo.py").write_text(HEAD + body)
    monkeypatch.setenv("DAMAGED", "trixie-0")

    done = run(str(either.with_name("pytest")), "suites", "--memqos-results=out", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "runs").read_text() == "0 0 1 2 3 "
    assert "verdict: conforms (4 cases observed" in done.stdout
    assert "test session starts" not in done.stdout
    assert " lacks " not in done.stdout


def test_pytests_internals_are_said_to_be_in_the_oldest_and_in_none_newer_than_the_newest(memqos, newest, tmp_path):
    """A release of pytest that came later is no fault: what it lacks is noticed when a run starts."""
    oldest, last = (
        run(str(one.with_name("python")), "-c", "import pytest; print(pytest.__version__)", cwd=tmp_path).stdout
        for one in (memqos, newest)
    )
    first_said, _, last_said = VERSIONS.partition(" to ")
    assert _minor(oldest) == _minor(first_said)
    assert _minor(last) >= _minor(last_said)


def _minor(version):
    return tuple(int(one) for one in version.split(".")[:2])


def test_collects_every_chapter(memqos, tmp_path):
    """Before 8.4 pytest does not say in an item's id that it has no parameters: the run crashed."""
    done = run(str(memqos), "run", "--all", "--collect-only", "-q", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    chapters = {line.partition("/")[0] for line in done.stdout.splitlines() if "::" in line}
    assert {"values", "resize", "throttling", "limits", "protection"} <= chapters


def test_default_run_has_the_same_cases_as_with_the_newest(memqos, newest, tmp_path):
    [old, new] = [
        {
            line
            for line in run(str(one), "run", "--collect-only", "-q", cwd=tmp_path).stdout.splitlines()
            if "::" in line
        }
        for one in (memqos, newest)
    ]

    assert len(new) > 50
    assert old == new


def test_plans_a_pod(memqos, tmp_path):
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: app, image: app:1}]}}"
    (tmp_path / "pod.yaml").write_text(pod)

    done = run(str(memqos), "expect", "pod.yaml", "--kubernetes", "1.36", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "BestEffort" in done.stdout
