"""A suites folder in miniature, whose claims are proved by made-up findings."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# For a run in this process pytester forgets every module that the run imported first, and the next run would have
# second copies of classes next to the remaining ones.
import memqos.face.screens
import memqos.face.text
import memqos.place.opening
import memqos.plugin.collection.workers
import memqos.plugin.entry
import memqos.plugin.machines.lane
import memqos.plugin.machines.shared  # noqa: F401
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
from memqos.engine.answer.finding import Subject
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.answer.finding import Setter
from memqos.errors import EnactorNotAbleError, EnvironmentNotAbleError, MachineryError, RuntimeCallError, UsageError

def finding(verdict, **changes):
    fields = dict(
        verdict=Verdict(verdict), subject=Subject.of_container("app", "default/web"), cgroup="/kubepods/pod1/app",
        knob="memory.high", set_by=Setter.RUNTIME, expected="4096", observed="max",
    )
    return Finding(**{**fields, **changes})
"""

Suite = Callable[..., None]
Run = Callable[..., pytest.RunResult]


@pytest.fixture(autouse=True)
def crash_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Crash files are kept in a run's results, or else in a temporary folder of the test."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield
    assert list(tmp_path.glob("memqos-crash-*")) == []


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    """Write suites/demo/test_NAME.py with these lines below a head that defines `finding(verdict)`."""

    def write(body: str, name: str = "demo") -> None:
        folder = pytester.path / "suites" / "demo"
        folder.mkdir(parents=True, exist_ok=True)
        (pytester.path / "suites" / "pytest.ini").write_text(
            "[pytest]\naddopts = -p no:cacheprovider -p no:hypothesispytest\n"
        )
        (folder / "claims.toml").write_text(CLAIMS)
        (folder / f"test_{name}.py").write_text(HEAD + textwrap.dedent(body))

    return write


# As `memqos run` does: the plugin is loaded already.
LOADED = ("-W", "ignore::pytest.PytestAssertRewriteWarning")


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the miniature suites in this process, with results in ./out, and check them against the schema.

    Suites may replace parts of memqos's modules: afterwards each is restored.
    """

    def start(*words: str) -> pytest.RunResult:
        own = [(vars(module), dict(vars(module))) for name, module in sys.modules.items() if name.startswith("memqos")]
        try:
            return pytester.runpytest_inprocess(*LOADED, *words)
        finally:
            for names, before in own:
                names.update(before)

    return running(pytester, monkeypatch, start)


@pytest.fixture
def run_apart(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The same in a separate process, for suites that would end this one, and for Python's own start."""
    return running(pytester, monkeypatch, pytester.runpytest_subprocess)


def running(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, start: Run) -> Run:
    # pytest prints more with these set, and the tests would depend on where they run.
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)

    def go(*arguments: str) -> pytest.RunResult:
        result = start("suites", "--memqos-results=out", *arguments)
        assert_fits(pytester.path / "out")
        return result

    return go
