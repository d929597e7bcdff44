"""A suites folder in miniature, in which claims are proved by findings that the tests make up."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.documents import assert_fits

CLAIMS = """
[one]
sentence = "One thing holds."
source = "nowhere"
releases = "any"
kind = "state"
about = "runtime"

[two]
sentence = "Another thing holds."
source = "nowhere"
releases = "any"
kind = "behaviour"
about = "runtime"
needs = ["psi"]
"""

HEAD = """
import pytest
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.answer.setter import Setter
from memqos.errors import EnvironmentNotAbleError, MachineryError, RuntimeCallError, UsageError

def finding(verdict, **changes):
    fields = dict(
        verdict=Verdict(verdict), subject="container app of pod default/web", cgroup="/kubepods/pod1/app",
        knob="memory.high", set_by=Setter.RUNTIME, expected="4096", observed="max",
    )
    return Finding(**{**fields, **changes})
"""

Suite = Callable[..., None]


@pytest.fixture(autouse=True)
def crash_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Crash files are kept in a run's results; where there are none they go to a folder of the test, which has none."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield
    assert list(tmp_path.glob("memqos-crash-*")) == []


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    """Write suites/demo/test_NAME.py with these lines below a head that knows `finding(verdict)`."""

    def write(body: str, name: str = "demo") -> None:
        folder = pytester.path / "suites" / "demo"
        folder.mkdir(parents=True, exist_ok=True)
        (pytester.path / "suites" / "pytest.ini").write_text(
            "[pytest]\naddopts = -p no:cacheprovider -p no:hypothesispytest\n"
        )
        (folder / "claims.toml").write_text(CLAIMS)
        (folder / f"test_{name}.py").write_text(HEAD + textwrap.dedent(body))

    return write


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Run the miniature suites in a process of their own, with results in ./out, which are as the schema says."""
    # pytest says more where these are set, and what the tests look at would depend on where they run.
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)

    def go(*arguments: str) -> pytest.RunResult:
        result = pytester.runpytest_subprocess("suites", "--memqos-results=out", *arguments)
        assert_fits(pytester.path / "out")
        return result

    return go
