"""The plugin's entry point: options, markers, and registration of the other modules.

Loaded in every pytest run of an environment with memqos installed, so it imports nothing heavy and changes nothing for
other tests.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from memqos import frame
from memqos.bundles.files import BEGUN, RUN, write
from memqos.clock import SYSTEM_CLOCK
from memqos.config.table import SETTINGS, Kind
from memqos.errors import MemqosError, UsageError
from memqos.interruption import Interruption
from memqos.plugin import fixtures, hooks
from memqos.plugin.collection import parameters
from memqos.plugin.collection.workers import CRASHES, GroupScheduling
from memqos.plugin.face.messages import Relay
from memqos.plugin.face.reporter import SuiteDisplay
from memqos.plugin.keys import (
    BUILDS,
    INTERRUPTION,
    MARKERS,
    RESULTS,
    SETTINGS_KEY,
    SHARD,
    WORKERS,
    is_ours,
    is_run_of_suites,
    plain_id,
)
from memqos.plugin.machines.recovery import Recovery
from memqos.plugin.results import outcomes
from memqos.plugin.results.recording import Recording
from memqos.plugin.results.results_folder import chosen_folder
from memqos.plugin.settings import settings_given

__all__: list[str] = []

BEGAN = "memqos_began"


class Budget:
    """`--time-budget`: starts no further test once the time is used up; registered in every process.

    Uses the host's clock, so that workers count from their controller's start.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._settings = config.stash[SETTINGS_KEY]
        workerinput: dict[str, float] = getattr(config, "workerinput", {})
        self._began = workerinput.get(BEGAN, SYSTEM_CLOCK.now())

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Pass a worker the start of the run."""
        node.workerinput[BEGAN] = self._began

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """A started test is finished; pytest checks this before it starts the next one."""
        result = yield
        budget = self._settings.time_budget
        if budget is not None and nextitem is not None and SYSTEM_CLOCK.now() - self._began >= budget.seconds:
            item.session.shouldstop = f"the time budget of {budget} is used up; the remaining cases were not run"
        return result


class InterruptSignals:
    """SIGTERM and SIGHUP end a run of memqos tests as Ctrl-C does, also in xdist's workers; other runs are unaffected.

    Active once the run is known to have memqos tests.
    """

    def __init__(self) -> None:
        self.interruption = Interruption()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """A suites folder has nothing but memqos tests."""
        if is_run_of_suites(session.config):
            self.interruption.__enter__()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Elsewhere a test of memqos activates it."""
        if any(is_ours(item) for item in session.items):
            self.interruption.__enter__()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """No test starts after a signal, even if the running one swallowed the exception."""
        if not self.interruption.came:
            return None
        item.session.shouldstop = "ended by a signal"
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """The run is being ended: the same signal must not interrupt teardown again."""
        self.interruption.heeded()

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Restore the previous signal handlers."""
        self.interruption.__exit__(None, None, None)


class StartedCases:
    """Records during a run how many cases there are, of which shard, and which were started.

    Only a killed run keeps this file: the bundle has each case's result. Registered in the controller only.
    """

    def __init__(self, config: pytest.Config, recording: Recording) -> None:
        self._config = config
        self._recording = recording

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """This process has collected its cases."""
        self._tell_cases()

    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        """A worker has collected the cases; all of them collect the same."""
        self._tell_cases()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A case starts, here or in a worker."""
        case, folder = plain_id(nodeid), self._recording.folder
        if folder is not None and case in self._recording.roster.chosen:
            with contextlib.suppress(OSError), (folder / BEGUN).open("a", encoding="utf-8") as stream:
                stream.write(f"{case}\n")

    def _tell_cases(self) -> None:
        folder = self._recording.folder
        if folder is not None and (chosen := self._recording.roster.chosen):
            shard = self._config.stash.get(SHARD, {})
            _add(folder / RUN, {"cases": len(chosen), **({"shard": dict(shard)} if shard else {})})


def _add(file: Path, more: dict[str, object]) -> None:
    """Add to the record; a disk error is reported with the results."""
    with contextlib.suppress(OSError, ValueError):
        said = json.loads(file.read_text(encoding="utf-8"))
        write(file, json.dumps({**said, **more}, indent=1, ensure_ascii=False) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add one option per setting, from the settings table; from here on each message of pytest is written whole."""
    # Before pytest's capture takes the streams.
    frame.write_whole()
    group = parser.getgroup("memqos", "memqos: Kubernetes memory QoS conformance")
    for setting in SETTINGS:
        text = setting.help.replace("%", "%%")
        if setting.default not in (None, False, ()):
            text += f" (default: {setting.default})"
        if setting.kind is Kind.FLAG:
            group.addoption(setting.pytest_option, action="store_true", default=None, help=text)
        elif setting.kind.is_repeated:
            group.addoption(setting.pytest_option, action="append", metavar=setting.metavar, default=None, help=text)
        else:
            group.addoption(setting.pytest_option, metavar=setting.metavar, default=None, help=text)
        # pytest rejects undeclared keys of its file. memqos reads these itself, with their lines.
        parser.addini(setting.ini, text, default=None)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """The hooks that others can implement."""
    pluginmanager.add_hookspecs(hooks)


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """With -n or --tx alone, keep tests together that share a population.

    With -n start no more workers than fit here.
    """
    option = config.option
    asked = getattr(option, "numprocesses", None)
    if isinstance(asked, int) and asked < 0:
        raise pytest.UsageError(f"-n: {asked} is not a number of workers.")
    number, workers = getattr(option, "numprocesses", None), getattr(option, "tx", None)
    is_controller = not hasattr(config, "workerinput")
    if (number or workers) and is_controller and option.dist == "no" and is_run_of_suites(config):
        option.dist = "loadgroup"
        option.maxworkerrestart = str(CRASHES) if option.maxworkerrestart is None else option.maxworkerrestart
        if number:
            # Profiles and the state of the cache are read only in a run that starts machines.
            from memqos.plugin.collection.workers import limit_workers

            option.numprocesses, config.stash[WORKERS] = limit_workers(config, number)
            option.dist = option.dist if option.numprocesses else "no"
    error: BaseException | None = None
    code: object = None
    try:
        code = yield
    except BaseException as caught:
        # Recording is registered only while this hook runs.
        if isinstance(caught, pytest.UsageError) or _responsible(config) is None:
            raise
        error = caught
    recording = _responsible(config)
    return code if recording is None else recording.concluded(error or frame.flush())


def _responsible(config: pytest.Config) -> Recording | None:
    """The recording of this run, None for a run without memqos tests."""
    recording: Recording | None = config.pluginmanager.get_plugin("memqos-recording")
    return recording if recording is not None and recording.is_responsible else None


def pytest_report_header(config: pytest.Config) -> str:
    """How many machines run at a time, if it is more than one or should be."""
    return config.stash.get(WORKERS, "")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Resolve settings and report every usage error that needs no machine, before anything else happens."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    is_worker = hasattr(config, "workerinput")
    try:
        settings = settings_given(config)
        config.stash[SETTINGS_KEY] = settings
        handed: dict[str, str] | None = getattr(config, "workerinput", {}).get("memqos_builds")
        config.stash[BUILDS] = parameters.check_settings(settings) if handed is None else handed
        config.stash[RESULTS] = chosen_folder(config, settings)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    except MemqosError as error:
        # No session exists yet: pytest shows unexpected errors here with their traceback.
        pytest.exit(str(error), returncode=error.exit_code)
    manager = config.pluginmanager
    manager.register(parameters, "memqos-parameters")
    manager.register(outcomes.Outcomes(config), "memqos-outcomes")
    manager.register(Recovery(config), "memqos-recovery")
    manager.register(Relay(config), "memqos-relay")
    manager.register(Budget(config), "memqos-budget")
    manager.register(fixtures, "memqos-fixtures")
    if is_worker or config.getoption("tx", None):
        from memqos.plugin.collection.workers import Hosts

        manager.register(Hosts(config), "memqos-hosts")
    if settings.shard is not None or settings.last_failed:
        from memqos.plugin.collection.selection import CaseSelection

        try:
            manager.register(CaseSelection(config), "memqos-parting")
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
    interrupting = InterruptSignals()
    config.stash[INTERRUPTION] = interrupting.interruption
    manager.register(interrupting, "memqos-interrupting")
    if not is_worker:
        recording = Recording(config, interrupting.interruption)
        manager.register(recording, "memqos-recording")
        manager.register(StartedCases(config, recording), "memqos-beginning")
        manager.register(SuiteDisplay(config, recording), "memqos-facing")
    if config.getoption("dist", "no") == "loadgroup" and not is_worker:
        manager.register(GroupScheduling(), "memqos-sharing")
