"""Turns pytest's report of each phase of a test into one of memqos's outcomes.

An xdist worker computes this; it travels to the controller as plain data on the report.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

import pytest

from memqos.clock import WAITS
from memqos.engine.answer.finding import Finding, Verdict, worst
from memqos.errors import EnactorNotAbleError, MachineryError, MemqosError, NonconformanceError, UsageError
from memqos.plugin.collection.known_deviations import amended
from memqos.plugin.collection.parameters import system_of
from memqos.plugin.keys import (
    AGAIN,
    ATTRIBUTE,
    LANE,
    NOTES,
    RESULTS,
    SETTINGS_KEY,
    Notes,
    cited_by,
    claim_of,
    host_of,
    is_ours,
    needs_of,
    node_fixture,
    phase_of,
)
from memqos.plugin.pytest_internals import forget
from memqos.plugin.results.ending import error_text, failure_text
from memqos.repetition import is_as_before
from memqos.report.outcome import Outcome, Phase, outcome_of
from memqos.report.summary import finding_line, known_line
from memqos.report.words import slug

if TYPE_CHECKING:
    from memqos.laboratory.station import Station
    from memqos.plugin.machines.lane import Lane

__all__ = ["Outcomes"]

_STATUS = {
    Outcome.CONFORMS: ("passed", ".", "CONFORMS"),
    Outcome.DEVIATES: ("failed", "F", "DEVIATES"),
    Outcome.KNOWN: ("known", "k", "KNOWN"),
    Outcome.NOT_OBSERVABLE: ("not observable", "n", "NOT OBSERVABLE"),
    Outcome.MACHINERY: ("error", "E", "ERROR"),
    Outcome.USAGE: ("error", "E", "USAGE ERROR"),
}


_OBSERVED = {Outcome.DEVIATES, Outcome.KNOWN}


class Outcomes:
    """Reads exceptions and findings of memqos tests; remembers which errors were printed in full."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._told: dict[str, str] = {}
        self._item: pytest.Item | None = None
        """The test that is being set up, or runs."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the outcome to the report of each phase; reports of other tests are unchanged."""
        report = yield
        waits = WAITS.take()
        if not is_ours(item):
            return report
        notes = item.stash.setdefault(NOTES, Notes())
        station = self._station(item)
        notes.machine = station.id if station is not None else notes.machine
        outcome, error = self._decide(report, call, notes, cites_claim=bool(claim_of(item)))
        if isinstance(error, NonconformanceError) and isinstance(told := error.data.get("finding"), Finding):
            notes.findings.append(amended(item, told))
            outcome = self._if_known(report, notes) or outcome
        phase = Phase(
            outcome=outcome,
            chapter=item.path.parent.name,
            claim=claim_of(item),
            kind=claim.kind.value if (claim := cited_by(item)) is not None else "",
            error_code=int(error.exit_code) if isinstance(error, MemqosError) else 0,
            # A fixture that a runtime's refusal ends has a finding as well.
            findings=tuple(notes.findings) if report.when == "call" or outcome in _OBSERVED else (),
            machine=notes.machine,
            host=host_of(self._config),
            untried=is_as_before(error),
            waits=waits,
        )
        phase = self._with_system(item, phase)
        if outcome is not None and outcome is not Outcome.CONFORMS:
            phase = self._told_of(report, phase, outcome, error, notes.findings)
            if report.failed:
                self._capture(item, notes)
            if outcome is Outcome.MACHINERY and station is not None:
                station.place.spoil(f"{report.when} of {item.name} ended in an error")
        if notes.folder is not None:
            results = self._config.stash[RESULTS]
            phase = dataclasses.replace(phase, folder=notes.folder.relative_to(results).as_posix())
        setattr(report, ATTRIBUTE, phase)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """After a test's fixtures: check that its machine is still the required one, and that the node meets its needs.

        An error before them would make pytest neither set the test up nor tear down the previous test's fixtures; a
        broken machine would then stay for tests that need another one.
        """
        self._item = item
        yield
        if not is_ours(item):
            return
        station = self._station(item)
        if station is not None:
            station.place.check_alive()
        target = self._config.stash[SETTINGS_KEY].target
        if station is not None and target and item.get_closest_marker("machine"):
            pytest.skip("the test needs a specific machine, and a --target machine cannot be reconfigured")
        self._check_needs(item, station)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """Before a fixture acts on a node, check that the node has what the claim needs.

        Any fixture of a suite may act on it, and those of memqos that take a node; without the need that may be
        impossible. A skip raised here is for this test alone: pytest does not keep it for the other tests of a module,
        which may need less.
        """
        item = self._item  # A module's fixture: the test that it is set up for.
        is_of_suite = not fixturedef.func.__module__.startswith("memqos.")
        if item is not None and (is_of_suite or node_fixture(fixturedef.argnames)) and is_ours(item):
            try:
                self._check_needs(item, self._station(item))
            except pytest.skip.Exception as skipped:
                forget(fixturedef, request, skipped)
                raise
        return (yield)

    @staticmethod
    def _check_needs(item: pytest.Item, station: Station | None) -> None:
        """Skip a test if the node lacks something that its claim needs; without a machine nothing is known."""
        lacks = [why for need in needs_of(item) if (why := station.node.why_not(need))] if station is not None else []
        if lacks:
            pytest.skip("; ".join(lacks))

    def _station(self, item: pytest.Item) -> Station | None:
        """The machine that a test uses, if it is booted.

        The lane may still have an earlier test's machine: pytest returns a module's machine when it needs the next.
        """
        lane: Lane | None = self._config.stash.get(LANE, None)
        station = lane.station if lane is not None else None
        if station is None or not node_fixture(getattr(item, "fixturenames", ())):
            return None
        return station if station.key == system_of(item, self._config.stash[SETTINGS_KEY]) else None

    def _with_system(self, item: pytest.Item, phase: Phase) -> Phase:
        """The phase with the system that its test runs on, whether or not it came up; unchanged without a machine."""
        if not node_fixture(getattr(item, "fixturenames", ())):
            return phase
        key = system_of(item, self._config.stash[SETTINGS_KEY])
        return dataclasses.replace(phase, profile=key.profile, runtime=key.runtime, driver=str(key.driver))

    def _capture(self, item: pytest.Item, notes: Notes) -> None:
        """Gather evidence of a failure while the machine is in that state."""
        station = self._station(item)
        if station is None or not station.place.condition.is_usable:
            return
        notes.folder = notes.folder or self._config.stash[RESULTS] / "tests" / slug(item.nodeid)
        station.capture(notes.folder)
        self._config.stash[LANE].keep(station)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Letters and words for memqos's outcomes; a repeated error is counted but not printed again."""
        phase = phase_of(report)
        if report.outcome == AGAIN:
            return "", "", ""
        if phase is None or phase.outcome is None:
            return None
        category, letter, word = _STATUS[phase.outcome]
        return ("the same error" if phase.repeated else category), letter, word

    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable(self, report: object) -> Generator[None, Any, Any]:
        """On its way from a worker a phase is plain data."""
        data = yield
        phase = getattr(report, ATTRIBUTE, None)
        return data if phase is None else {**data, ATTRIBUTE: phase.to_json()}

    @pytest.hookimpl(wrapper=True)
    def pytest_report_from_serializable(self) -> Generator[None, Any, Any]:
        """In the controller it is a phase again."""
        report = yield
        data = getattr(report, ATTRIBUTE, None)
        if data is not None:
            setattr(report, ATTRIBUTE, Phase.from_json(data))
        return report

    def _decide(
        self, report: pytest.TestReport, call: pytest.CallInfo[None], notes: Notes, *, cites_claim: bool
    ) -> tuple[Outcome | None, BaseException | None]:
        """A phase's outcome (None: no outcome) and the error behind it."""
        if call.excinfo is None:
            return self._without_error(report, notes, cites_claim) if report.when == "call" else (None, None)
        error = call.excinfo.value
        if report.skipped:
            return Outcome.NOT_OBSERVABLE, error
        if isinstance(error, EnactorNotAbleError):
            # For pytest this is a skip: nothing failed, and nothing was seen.
            report.outcome = "skipped"
            report.longrepr = (str(report.location[0]), report.location[1] or 0, str(error))
            return Outcome.NOT_OBSERVABLE, error
        if isinstance(error, UsageError):
            return Outcome.USAGE, error
        # An assertion in a test's own body is about the system under test; one in setup or teardown is not.
        asserted = isinstance(error, AssertionError | pytest.fail.Exception) and report.when == "call"
        if asserted or isinstance(error, NonconformanceError):
            return Outcome.DEVIATES, error
        return Outcome.MACHINERY, error

    def _if_known(self, report: pytest.TestReport, notes: Notes) -> Outcome | None:
        """KNOWN for a phase before teardown that ended in deviations which are all known; None for any other.

        For pytest a fixture is then skipped, since its test cannot run, and a test has passed.
        """
        if report.when == "teardown" or worst(notes.findings) is not Verdict.KNOWN:
            return None
        skipped = report.when == "setup"
        report.outcome = "skipped" if skipped else "passed"
        line = known_line(notes.findings[-1])
        report.longrepr = (str(report.location[0]), report.location[1] or 0, line) if skipped else None
        return Outcome.KNOWN

    def _without_error(
        self, report: pytest.TestReport, notes: Notes, cites_claim: bool
    ) -> tuple[Outcome | None, BaseException | None]:
        if notes.findings:
            outcome = outcome_of(notes.findings)
            if outcome is Outcome.DEVIATES:
                report.outcome = "failed"
                return outcome, NonconformanceError("the test did not settle its deviating findings.")
            return outcome, None
        if not cites_claim:
            return Outcome.CONFORMS, None
        report.outcome = "failed"
        return Outcome.MACHINERY, MachineryError(
            "the test judged nothing: it proves no claim.", next_step="End it with qos_evidence.settle(findings)."
        )

    def _told_of(
        self,
        report: pytest.TestReport,
        phase: Phase,
        outcome: Outcome,
        error: BaseException | None,
        findings: list[Finding],
    ) -> Phase:
        """The phase with its reason and text; pytest's report has them too, unless its user wants tracebacks."""
        wants_traceback = self._config.getoption("tbstyle") == "long" or self._config.get_verbosity() >= 2  # noqa: PLR2004
        phase = dataclasses.replace(phase, reason=_reason(outcome, error, findings))
        if outcome in {Outcome.NOT_OBSERVABLE, Outcome.KNOWN}:
            return phase
        if isinstance(error, MemqosError):
            text = failure_text(findings) if outcome is Outcome.DEVIATES and findings else error_text(error)
            known = None if outcome is Outcome.DEVIATES else self._told.setdefault(text, report.nodeid)
            repeated = known not in {None, report.nodeid}
            if repeated:
                report.longrepr = f"the same as in {known}: {phase.reason}"
            elif not wants_traceback or report.longrepr is None:
                report.longrepr = text
            return dataclasses.replace(phase, text=text, repeated=repeated)
        return dataclasses.replace(phase, text=report.longreprtext)


def _reason(outcome: Outcome, error: BaseException | None, findings: Iterable[Finding]) -> str:
    """One line."""
    if outcome is Outcome.DEVIATES:
        lines = [finding_line(finding) for finding in findings if finding.verdict is Verdict.DEVIATES]
        if lines:
            return "; ".join(lines)
    if outcome is Outcome.KNOWN:
        return "; ".join(known_line(finding) for finding in findings if finding.verdict is Verdict.KNOWN)
    if isinstance(error, MemqosError):
        # Further lines, such as the console's last ones, are in the text.
        return error_text(error).splitlines()[0]
    if isinstance(error, pytest.skip.Exception):
        return str(error.msg)
    if error is None:
        return "; ".join(finding.why_not for finding in findings if finding.why_not)
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return first if outcome is Outcome.DEVIATES else f"{type(error).__name__}: {first}"
