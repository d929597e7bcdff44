"""Where pytest meets memqos: options, markers, and the plugin's other modules.

This module is loaded in every pytest run of an environment that has memqos installed, so it imports nothing heavy
and changes nothing for tests that are not memqos tests.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from memqos import frame, streams
from memqos.config.kinds import Kind
from memqos.config.table import SETTINGS
from memqos.errors import MemqosError, UsageError
from memqos.plugin import asking, fixtures, hooks
from memqos.plugin.budget import Budget
from memqos.plugin.collection import collecting
from memqos.plugin.collection.sharing import CRASHES, Sharing
from memqos.plugin.face.facing import Facing
from memqos.plugin.face.telling import Relay
from memqos.plugin.given import settings_given
from memqos.plugin.interrupting import Interrupting
from memqos.plugin.keys import BUILDS, INTERRUPTION, MARKERS, RESULTS, SETTINGS_KEY, WORKERS, is_run_of_suites
from memqos.plugin.machines.recovery import Recovery
from memqos.plugin.results import outcomes
from memqos.plugin.results.beginning import Beginning
from memqos.plugin.results.recording import Recording
from memqos.plugin.results.results_folder import chosen_folder

__all__: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """One option per setting, from the settings table; and what pytest prints is written whole from here on."""
    # Before pytest's capture takes the streams.
    streams.write_whole()
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
        # To pytest a key of its file that nobody announced is a mistake. memqos reads these itself, with their lines.
        parser.addini(setting.ini, text, default=None)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """The hooks that others can implement."""
    pluginmanager.add_hookspecs(hooks)


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """With -n or --tx alone, keep tests together that share what stands on a machine.

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
    """The frame of this run, None for a run without memqos tests."""
    recording: Recording | None = config.pluginmanager.get_plugin("memqos-recording")
    return recording if recording is not None and recording.is_responsible else None


def pytest_report_header(config: pytest.Config) -> str:
    """How many machines run at a time, where it is more than one or was to be."""
    return config.stash.get(WORKERS, "")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Settings are resolved, and every usage error that needs no machine is told, before anything else happens."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    is_worker = hasattr(config, "workerinput")
    try:
        settings = settings_given(config)
        config.stash[SETTINGS_KEY] = settings
        handed: dict[str, str] | None = getattr(config, "workerinput", {}).get("memqos_builds")
        config.stash[BUILDS] = collecting.check_settings(settings) if handed is None else handed
        config.stash[RESULTS] = chosen_folder(config, settings)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    except MemqosError as error:
        # No session has begun: what pytest did not expect here, it shows with its traceback.
        pytest.exit(str(error), returncode=error.exit_code)
    manager = config.pluginmanager
    manager.register(collecting, "memqos-collecting")
    manager.register(outcomes.Outcomes(config), "memqos-outcomes")
    manager.register(Recovery(config), "memqos-recovery")
    manager.register(Relay(config), "memqos-relay")
    manager.register(Budget(config), "memqos-budget")
    manager.register(fixtures, "memqos-fixtures")
    manager.register(asking, "memqos-asking")
    if is_worker or config.getoption("tx", None):
        from memqos.plugin.collection.hosts import Hosts

        manager.register(Hosts(config), "memqos-hosts")
    if settings.shard is not None or settings.last_failed:
        from memqos.plugin.collection.parting import Parting

        try:
            manager.register(Parting(config), "memqos-parting")
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
    interrupting = Interrupting()
    config.stash[INTERRUPTION] = interrupting.interruption
    manager.register(interrupting, "memqos-interrupting")
    if not is_worker:
        recording = Recording(config, interrupting.interruption)
        manager.register(recording, "memqos-recording")
        manager.register(Beginning(config, recording), "memqos-beginning")
        manager.register(Facing(config, recording), "memqos-facing")
    if config.getoption("dist", "no") == "loadgroup" and not is_worker:
        manager.register(Sharing(), "memqos-sharing")
