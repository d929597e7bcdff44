"""xdist workers of a run of suites: the fastest number that fits on this host, or those on other hosts.

A host is named as ssh knows it. Its worker has the results folder on a disk of its own; its compatibility is checked
before the run, and evidence is transferred at the end. Each worker reports the groups of tests that must stay together.

pytest-xdist's own loadgroup encodes a test's group in its node id. From pytest 9.2 on this is silently lost
(pytest-dev/pytest-xdist, issue 1386): any worker would get any test, and each worker would create every population.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import execnet
import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling  # type: ignore[import-untyped]

from memqos.bundles.files import evidence_files, keep_evidence
from memqos.errors import MemqosError, TargetError, UsageError
from memqos.plugin.collection import host_program
from memqos.plugin.face.messages import Messenger
from memqos.plugin.keys import HOST, RESULTS, SETTINGS_KEY, host_of, is_run_of_suites, plain_id
from memqos.plugin.settings import Carried, files_to_carry, settings_for_worker, settings_given
from memqos.report.bundle import LeftOut

__all__ = ["CRASHES", "GROUPS", "OMITTED", "SHARES", "GroupScheduling", "Hosts", "limit_workers", "pass_groups"]


def check_copied(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Check that the named tests are copied to other hosts. specs: of the workers, as execnet has them.

    xdist treats every word of the command line that is a path here as tests, even an option's value. Raises UsageError
    for one that is in none of the folders that it copies.
    """
    if all(spec.popen and not spec.chdir for spec in specs):
        return
    copied = [Path(folder).resolve() for folder in (*config.option.rsyncdir, *config.getini("rsyncdirs"))]
    for word in map(str, config.invocation_params.args):
        place = Path(word.partition("::")[0])
        if place.exists() and not any(place.is_relative_to(folder) for folder in copied):
            raise UsageError(
                f"'{place}' is outside of the folders that are copied to the hosts.",
                next_step="Name tests by their whole path below a folder of --rsyncdir, and write an option and its "
                "value as one word, such as --memqos-results=FOLDER.",
            )


def limit_workers(config: pytest.Config, asked: int | str) -> tuple[int, str]:
    """The possible number of workers for the requested one, and one line that explains it.

    asked: a number, of which as many are started as fit, or xdist's words "auto" and "logical" for the fastest number;
    0 is this process alone. Settings that cannot be resolved are left for pytest_configure to reject.
    """
    # What machines need is imported only for a run with workers, not in every project that has the plugin.
    from memqos.place.opening import room_for

    try:
        room = room_for(settings_given(config))
    except MemqosError:
        return (asked, "") if isinstance(asked, int) else (0, "")
    most, best = room.most, room.best
    if not isinstance(asked, int):
        # One worker would only add a process: this process runs the tests itself.
        number = best.machines if best.machines > 1 else 0
        return number, f"memqos: {_machines(best.machines)} at a time: {best.reason}"
    if asked > most.machines:
        said = f"memqos: {_machines(most.machines)} at a time instead of {asked}: {most.reason}"
    else:
        said = f"memqos: {_machines(asked)} at a time"
    number = min(asked, most.machines)
    if number > best.machines:
        said += f"; {best.machines} would be faster (-n auto): {best.reason}"
    return number, said


def _machines(number: int) -> str:
    return "1 machine" if number == 1 else f"{number} machines"


CRASHES = 3
"""How many crashed workers are replaced; a crash in every worker would cost a machine for each of its cases."""

GROUPS = "memqos_groups"
"""The key for the groups of tests in a worker's report."""

OMITTED = "memqos_left_out"
"""The key for what the default leaves out."""


SHARES = "memqos_shares"
"""The key for what tests share."""


def pass_groups(
    config: pytest.Config, groups: Mapping[str, str], *, left_out: LeftOut, shares: Mapping[str, str]
) -> None:
    """In a worker: report the group of each test by node id, what was left out, and what tests share.

    Sent as a collect report that neither passes nor fails, since xdist forwards those at once.
    """
    if hasattr(config, "workerinput"):
        report = pytest.CollectReport(nodeid="", outcome="told", longrepr=None, result=None)  # type: ignore[arg-type]
        setattr(report, GROUPS, dict(groups))
        setattr(report, OMITTED, dataclasses.asdict(left_out))
        setattr(report, SHARES, dict(shares))
        config.hook.pytest_collectreport(report=report)


class GroupScheduling:
    """Gives xdist's controller a scheduler that knows the groups."""

    def __init__(self) -> None:
        self._groups: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep a worker's report; all workers send the same."""
        self._groups.update(getattr(report, GROUPS, {}))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
        """Replaces loadgroup."""
        return _Scheduling(config, log, self._groups) if config.getoption("dist") == "loadgroup" else None


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Sends tests of one group to one worker, and the rest of a crashed worker to another one.

    pytest-xdist's own scheduler would resend the test that crashed the worker, and never return to a new worker that
    got a single test: a worker begins a test once it knows the next one, or that it is the last.
    """

    def __init__(self, config: pytest.Config, log: Any, groups: Mapping[str, str]) -> None:
        super().__init__(config, log)
        self._groups = groups

    def _split_scope(self, nodeid: str) -> str:
        return self._groups.get(plain_id(nodeid), nodeid)

    def schedule(self) -> None:
        """Send tests to the workers that have collected them."""
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        """Send a worker its next tests; those of a crashed worker come back when xdist reports its end."""
        with contextlib.suppress(OSError):
            super()._assign_work_unit(node)

    def remove_node(self, node: Any) -> str | None:
        """Forget a worker; returns the test that it was running if it crashed, None if it had finished."""
        units = [(scope, unit) for scope, unit in self.assigned_work.pop(node).items() if not all(unit.values())]
        if not units:
            return None
        crashed: str = next(nodeid for nodeid, is_done in units[0][1].items() if not is_done)
        units[0][1][crashed] = True
        for scope, unit in reversed(units):
            if not all(unit.values()):
                self.workqueue[scope] = unit
                self.workqueue.move_to_end(scope, last=False)
        for other in self.nodes:
            self._reschedule(other)
        return crashed


_EVIDENCE = "memqos_evidence"
"""The key of the transferred evidence in a worker's output."""
_THERE = "/var/tmp/memqos-results"  # noqa: S108 - a random name follows
_FILES = "-files"
"""The suffix of the folder with the files that settings name."""
ANSWER_SECONDS = 60.0
TERMINATION_SECONDS = 5.0


def host_address(spec: Any) -> str:
    """The name of a worker's host as ssh knows it, or its server's address; "" for this host.

    spec: of the worker, as execnet has it.
    """
    if spec.popen:
        return ""
    if spec.socket or spec.vagrant_ssh:
        return str(spec.socket or spec.vagrant_ssh)
    return f"-F {spec.ssh_config} {spec.ssh}" if spec.ssh_config else str(spec.ssh)


class Hosts:
    """Messages between the controller and workers on other hosts; registered in both."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._run = secrets.token_hex(4)
        self._owing: dict[str, tuple[Any, str]] = {}
        """The workers whose evidence is still elsewhere, and where, by id."""
        self._files: Carried = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, config: pytest.Config, specs: Sequence[Any]) -> None:
        """Workers are about to be started."""
        if is_run_of_suites(config):
            try:
                check_copied(config, specs)
                check_hosts(specs)
                if not all(spec.popen for spec in specs):
                    self._files = files_to_carry(config.stash[SETTINGS_KEY])
            except UsageError as error:
                raise pytest.UsageError(str(error)) from None

    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Pass a worker the name of its host and a folder there for it alone: the run's folder need not exist there."""
        if address := host_address(node.gateway.spec):
            folder = f"{_THERE}-{self._run}-{node.gateway.id}"
            told = settings_for_worker(self._config.stash[SETTINGS_KEY], self._files, f"{folder}{_FILES}")
            node.workerinput |= {HOST: address, "memqos_results": folder, **told}
            self._owing[node.gateway.id] = (node, f"{folder} on {address}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker has ended."""
        self._take_over(node)

    def _take_over(self, node: Any) -> None:
        """Store a worker's evidence here, if it was transferred."""
        evidence = (getattr(node, "workeroutput", None) or {}).get(_EVIDENCE)
        if evidence is not None:
            keep_evidence(self._config.stash[RESULTS], evidence)
            self._owing.pop(node.gateway.id, None)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """A worker sends its evidence; the controller reports what is missing."""
        if host_of(self._config):
            self._hand_over(interrupted=exitstatus == pytest.ExitCode.INTERRUPTED)
        # An interrupted controller never reads what workers sent meanwhile.
        for node, _ in list(self._owing.values()):
            self._take_over(node)
        for _, place in self._owing.values():
            Messenger(self._config).note(f"evidence was not transferred: it is in {place}")

    def _hand_over(self, *, interrupted: bool) -> None:
        """Transfer this worker's evidence to the controller; it stays here if the controller does not accept it."""
        folder = self._config.stash[RESULTS]
        shutil.rmtree(f"{folder}{_FILES}", ignore_errors=True)
        output: dict[str, Any] | None = getattr(self._config, "workeroutput", None)
        # An interrupted worker has lost the controller, too.
        if output is None or interrupted or _is_controller_gone(self._config):
            return
        output[_EVIDENCE] = evidence_files(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _is_controller_gone(config: pytest.Config) -> bool:
    """Whether a worker ended by itself but lost the controller that takes its evidence.

    A worker that has run all its cases and waits for more ends normally when its controller goes, as with Ctrl-C: xdist
    treats the closed channel like the message that there are no more.
    """
    # A host reached by ssh has its own execnet classes: a channel raises its own errors.
    channels: list[Any] = [getattr(plugin, "channel", None) for plugin in config.pluginmanager.get_plugins()]
    for channel in (one for one in channels if hasattr(one, "waitclose")):
        try:
            channel.waitclose(timeout=0)
        except channel.TimeoutError:
            continue
        except (EOFError, channel.RemoteError):
            return True
        return True
    return False


def check_hosts(specs: Sequence[Any]) -> None:
    """Check each host once, before anything is copied to it or run on it.

    Raises TargetError if a host is unreachable, UsageError if its memqos or Python differs from this host's.
    """
    here = host_program.installed()
    told = {host_address(spec): _asked(spec) for spec in {str(spec): spec for spec in specs if not spec.popen}.values()}
    if misfits := [f"{host} has {said}" for host, there in told.items() if (said := _misfit(there, here))]:
        raise UsageError(
            f"{'; '.join(misfits)}; this host has memqos {here['memqos']} on Python {here['python']}.",
            where="--tx",
            next_step="Install the same wheel on each host, and name its Python with //python=PATH.",
        )


def _asked(spec: Any) -> Mapping[str, str]:
    """The versions on a host; raises TargetError if it is unreachable."""
    group = execnet.Group()
    try:
        gateway = group.makegateway(execnet.XSpec(str(spec)))
        answer: Mapping[str, str] = gateway.remote_exec(host_program).receive(ANSWER_SECONDS)
    except (execnet.HostNotFound, EOFError, OSError, ValueError, execnet.RemoteError, execnet.TimeoutError) as error:
        python = spec.python or "python"
        raise TargetError(
            f"the Python '{python}' of this host cannot be reached: {_said(error)}.",
            where=f"--tx {host_address(spec)}",
            next_step="Try the host of --tx with ssh; //python=PATH names the Python on it.",
        ) from error
    finally:
        group.terminate(timeout=TERMINATION_SECONDS)
    return answer


def _said(error: Exception) -> str:
    match error:
        case execnet.TimeoutError():
            return f"it did not answer in {ANSWER_SECONDS:g} s"
        case execnet.HostNotFound() | EOFError() | OSError():
            return "ssh, or the Python that it started, ended at once"
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def _misfit(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """A host's mismatch with this one, "" for none."""
    if not there["memqos"]:
        return f"no memqos in its Python {there['python']}"
    if there["memqos"] != here["memqos"]:
        return f"memqos {there['memqos']}"
    if there["sources"] != here["sources"]:
        return f"another build of memqos {there['memqos']}"
    if _minor(there["python"]) != _minor(here["python"]):
        return f"memqos {there['memqos']} on Python {there['python']}"
    return ""


def _minor(python: str) -> list[str]:
    return python.split(".")[:2]
