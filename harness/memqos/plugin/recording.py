"""The controller's side of results: every test's result is written as it comes, the bundle at the end."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from memqos import claims
from memqos.clock import utc_now
from memqos.config.settings import Settings
from memqos.errors import ExitCode, UsageError
from memqos.plugin.keys import ATTRIBUTE, RESULTS, SETTINGS_KEY, is_ours, plain_id
from memqos.report import junit, matrix, summary
from memqos.report.as_json import as_json, result_from
from memqos.report.bundle import Bundle
from memqos.report.outcome import Outcome, TestResult, exit_code
from memqos.version import __version__

__all__ = ["Recording", "results_folder"]

_OWN_NAMES = frozenset(
    {"bundle.json", "findings.jsonl", "junit_01.xml", "machines", "matrix.txt", "populations", "tests"}
)
_PACKAGES = ("grpcio", "protobuf", "pytest", "pytest-testinfra", "pytest-xdist", "PyYAML", "qemu.qmp")
# The worst of a test's phases decides: an error in tearing down does not undo a deviation.
_RANK = [Outcome.DEVIATES, Outcome.USAGE, Outcome.MACHINERY, Outcome.NOT_OBSERVABLE, Outcome.CONFORMS]


def results_folder(config: pytest.Config, settings: Settings) -> Path:
    """Where this run's results go; the folder is made when there is a first result.

    Raises UsageError for a folder that holds something else than results.
    """
    handed: str | None = getattr(config, "workerinput", {}).get("memqos_results")
    if handed is not None:
        return Path(handed)
    if settings.results is None:
        return config.invocation_params.dir / "results" / utc_now().strftime("%Y-%m-%dT%H-%M-%SZ")
    folder = config.invocation_params.dir / settings.results
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"'{folder}' is not a folder.", where=settings["results"].origin)
    foreign = sorted({path.name for path in folder.glob("*")} - _OWN_NAMES)
    if foreign:
        raise UsageError(
            f"'{folder}' holds '{foreign[0]}', which is not of a memqos run.",
            where=settings["results"].origin,
            next_step="Name a new or empty folder.",
        )
    return folder


class Recording:
    """Collects the results of all workers; registered in the controller only."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._folder = config.stash[RESULTS]
        self._settings = config.stash[SETTINGS_KEY]
        self._started = utc_now()
        self._phases: dict[str, list[Mapping[str, Any]]] = {}
        self._seconds: dict[str, float] = {}
        self._results: list[TestResult] = []
        self._collected: set[str] = set()
        self._others_failed = False
        self._usage = ""
        self._bundle: Bundle | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell an xdist worker where the results go."""
        node.workerinput["memqos_results"] = str(self._folder)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker could only say at its end."""
        output = getattr(node, "workeroutput", None) or {}
        self._usage = self._usage or output.get("memqos_usage", "")

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Under xdist only the workers collect, each the same; only in a suites folder all of it is ours."""
        if claims.is_suites_root(self._config.rootpath):
            self._collected.update(plain_id(nodeid) for nodeid in ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember which tests were to run, so that a run that was broken off says how many are missing."""
        self._collected.update(item.nodeid for item in session.items if is_ours(item))

    def pytest_report_header(self) -> list[str]:
        """One line on what is going to be tested, if this is a run of suites, and what was not left at its default."""
        changed = [
            f"{name.replace('_', '-')}={setting_text(value.value)} ({value.origin})"
            for name, value in self._settings.items()
            if value.origin != "default"
        ]
        if not changed and not claims.is_suites_root(self._config.rootpath):
            return []
        words = self._settings.word
        head = (
            f"memqos {__version__}: machine {','.join(self._settings.profiles)}/{words('topology')}, "
            f"containerd+{words('runtime')}, {words('driver')} driver"
        )
        return [head, *([f"memqos settings: {', '.join(changed)}"] if changed else [])]

    def pytest_sessionstart(self) -> None:
        """Results of an earlier run in the same folder make room; suites tell in lines of their own where they are."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and claims.is_suites_root(self._config.rootpath):
            reporter.showfspath = False
        if self._config.getoption("collectonly"):
            return
        for name in _OWN_NAMES:
            path = self._folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a phase; when a test is over, write its result at once."""
        nodeid = plain_id(report.nodeid)
        if report.failed and report.when not in {"setup", "call", "teardown"} and nodeid in self._collected:
            # xdist made this report of a worker that died in the middle of a test.
            setattr(report, ATTRIBUTE, _worker_died(report))
        phase = getattr(report, ATTRIBUTE, None)
        if phase is None:
            self._others_failed = self._others_failed or report.failed
            return
        self._phases.setdefault(nodeid, []).append(phase)
        self._seconds[nodeid] = self._seconds.get(nodeid, 0.0) + report.duration
        if report.when not in {"setup", "call"}:
            self._finish(nodeid)

    def _finish(self, nodeid: str) -> None:
        phases = [phase for phase in self._phases.pop(nodeid) if phase["outcome"] is not None]
        if not phases:
            return
        deciding = min(phases, key=lambda phase: _RANK.index(Outcome(phase["outcome"])))
        findings = [finding for phase in phases for finding in phase["findings"]]
        fields = ("claim", "chapter", "outcome", "reason", "text", "error_code", "machine", "profile", "folder")
        data = {
            **{name: deciding[name] for name in fields},
            "id": nodeid,
            "findings": findings,
            "seconds": round(self._seconds[nodeid], 3),
            "folder": next((phase["folder"] for phase in reversed(phases) if phase["folder"]), ""),
        }
        result = result_from(data)
        self._results.append(result)
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "findings.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(as_json(result), ensure_ascii=False) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write bundle and JUnit, and answer with memqos's exit code if memqos tests ran."""
        if self._usage:
            session.exitstatus = ExitCode.USAGE
            return
        if not self._collected and not self._results:
            return
        for nodeid in list(self._phases):
            self._finish(nodeid)
        if exitstatus == pytest.ExitCode.USAGE_ERROR or self._config.getoption("collectonly"):
            return
        interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
        code = exit_code(self._results, interrupted=interrupted)
        if exitstatus == pytest.ExitCode.INTERNAL_ERROR and code is not ExitCode.DEVIATES:
            code = ExitCode.MACHINERY
        if self._others_failed and code in {ExitCode.CONFORMS, ExitCode.NOTHING_OBSERVED}:
            code = ExitCode.DEVIATES
        session.exitstatus = code
        self._write(code, interrupted=interrupted)

    def _write(self, code: ExitCode, *, interrupted: bool) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        bundle = Bundle(
            started=self._started.isoformat(timespec="seconds"),
            ended=utc_now().isoformat(timespec="seconds"),
            exit_code=int(code),
            interrupted=interrupted,
            versions=_versions(),
            host=_host(),
            settings={
                name: {"value": as_json(value.value), "origin": value.origin} for name, value in self._settings.items()
            },
            machines=tuple(_machines(self._folder)),
            results=tuple(self._results),
            not_run=len(self._collected - {result.id for result in self._results}),
        )
        self._bundle = bundle
        _replace(self._folder / "bundle.json", bundle.to_text())
        _replace(self._folder / "junit_01.xml", junit.render(bundle))
        if lines := list(matrix.render(matrix.matrix_of(bundle.results))):
            _replace(self._folder / "matrix.txt", "\n".join(lines) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The table, what went wrong, and the verdict."""
        if self._usage:
            terminalreporter.write_line(f"ERROR: {self._usage}", red=True)
        if self._bundle is None:
            return
        terminalreporter.section("memqos")
        folder = os.path.relpath(self._folder)
        for line in summary.render(self._bundle, results_folder=folder):
            good = self._bundle.exit_code == ExitCode.CONFORMS
            markup = {"bold": True, "green" if good else "red": True} if line.startswith("verdict:") else {}
            terminalreporter.write_line(line, **markup)


def _worker_died(report: pytest.TestReport) -> dict[str, Any]:
    """The phase of a test during which its worker's process ended."""
    return {
        "claim": "",
        "chapter": Path(report.nodeid.partition("::")[0]).parent.name,
        "outcome": Outcome.MACHINERY.value,
        "reason": report.longreprtext,
        "text": report.longreprtext,
        "error_code": int(ExitCode.MACHINERY),
        "findings": [],
        "machine": "",
        "profile": "",
        "folder": "",
        "repeated": False,
    }


def setting_text(value: object) -> str:
    """A setting's value as the header shows it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _replace(path: Path, text: str) -> None:
    """Write a file so that a reader finds either the old text or the whole new one."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _machines(folder: Path) -> list[Mapping[str, Any]]:
    found = []
    for file in sorted(folder.glob("machines/*/machine.json")):
        machine = json.loads(file.read_text(encoding="utf-8"))
        kept = file.with_name("kept.json")
        found.append({**machine, "kept": json.loads(kept.read_text(encoding="utf-8"))} if kept.exists() else machine)
    return found


def _versions() -> dict[str, str]:
    versions = {"memqos": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def _host() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
    }
