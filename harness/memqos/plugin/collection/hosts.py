"""xdist workers on other hosts: compatibility is checked before the run, and evidence is transferred at the end.

A host is named as ssh knows it. Its worker has the results folder on a disk of its own.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import execnet
import pytest

from memqos.bundles.files import evidence_files, keep_evidence
from memqos.errors import TargetError, UsageError
from memqos.plugin.collection import host_program
from memqos.plugin.collection.workers import check_copied
from memqos.plugin.face.messages import Messenger
from memqos.plugin.keys import HOST, RESULTS, SETTINGS_KEY, host_of, is_run_of_suites
from memqos.plugin.settings import Carried, files_to_carry, settings_for_worker

__all__ = ["Hosts", "check_hosts", "host_address"]

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
