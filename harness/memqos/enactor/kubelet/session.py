"""The host's side of a kubelet in a machine: sends commands to its supervisor and reads the API stand-in."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import select
import subprocess
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from memqos.clock import WAITS, Deadline
from memqos.errors import DeadlineError, MachineryError, TargetError
from memqos.target.base import Target, checked

__all__ = ["LOG", "KubeletSession", "kubelet_session"]

_FOLDER = "/run/memqos/kubelet"
LOG = f"{_FOLDER}/kubelet.log"
_PROGRAM = f"{_FOLDER}/supervisor.pyz"
_CONFIG = f"{_FOLDER}/config.json"
_KUBECONFIG = f"{_FOLDER}/kubeconfig"
_NETWORK = "/etc/cni/net.d/99-memqos.conflist"
_NETWORK_LIST = {"cniVersion": "0.3.1", "name": "memqos", "plugins": [{"type": "memqos"}]}
_PLUGIN = "/opt/cni/bin/memqos"
_PLUGIN_PROGRAM = """#!/bin/sh
echo '{"cniVersion": "0.3.1", "supportedVersions": ["0.3.1"]}'
"""
"""A network for the runtime to report as ready; pods use the host's. CRI-O asks the plugin for its VERSION.

A kubelet whose node is not ready asks the runtime for its status and computes the node's ten times a second, for two
minutes after its start (kubelet fastStatusUpdateOnce, nodeReadyGracePeriod): on an emulated machine as much work as the
pods that start meanwhile.
"""

_HEALTH = ("http://127.0.0.1:10248/healthz", "https://127.0.0.1:10250/healthz")
"""Of the kubelet, and of the server of its statistics, which comes later."""

_METRICS = "https://127.0.0.1:10250/metrics"
_METRIC = re.compile(r"^(\w+)\{[^}]*\} (\S+)", re.MULTILINE)
_METRICS_SECONDS = 60.0
_START_SECONDS = 420.0
_ORDER_SECONDS = 60.0
_LOOKS_SECONDS = 0.5
_LOG_LINES = 12
_MOST_WORDS = 4000
_PANICS = ("panic: ", "fatal error: ")
"""How Go begins what it prints when a program cannot go on (runtime printpanics, fatalthrow)."""

_REPEATED = "Unable to register mirror pod because node is not registered yet"
"""A kubelet logs this every 100 ms until its node is registered."""


class KubeletSession:
    """A client of the supervisor, made by `kubelet_session`. url: the API stand-in's address in the machine."""

    def __init__(self, target: Target, program: subprocess.Popen[bytes]) -> None:
        self._target = target
        self._program = program
        self._pending = b""
        self._config: Mapping[str, Any] | None = None
        self._binary = ""
        self._objects: dict[tuple[str, str], tuple[int, dict[tuple[str, str], dict[str, Any]]]] = {}
        self.url = str(self._line(Deadline.after(_START_SECONDS))["url"])

    @property
    def config(self) -> Mapping[str, Any] | None:
        """The configuration that the kubelet runs with; None if none runs."""
        return self._config

    @property
    def binary(self) -> str:
        """The path in the machine of the kubelet that was started last; "" before."""
        return self._binary

    def order(self, do: str, *, seconds: float = _ORDER_SECONDS, **words: Any) -> dict[str, Any]:
        """Call a method of `supervisor.Supervisor`. MachineryError if it fails."""
        stdin = self._program.stdin
        assert stdin is not None  # noqa: S101 - it was opened with pipes
        with self._lost():
            stdin.write(json.dumps({"do": do, **words}).encode() + b"\n")
            stdin.flush()
            answer = self._line(Deadline.after(seconds))
        if "error" in answer:
            raise MachineryError(f"the kubelet's supervisor: {do}: {answer['error']}", where=self._target.address)
        return answer

    @contextlib.contextmanager
    def _lost(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise TargetError(
                f"the connection to the kubelet's supervisor broke: {error}", where=self._target.address
            ) from None

    def _line(self, deadline: Deadline) -> dict[str, Any]:
        stdout = self._program.stdout
        assert stdout is not None  # noqa: S101
        while b"\n" not in self._pending:
            ready, _, _ = select.select([stdout], [], [], deadline.remaining)
            if not ready:
                raise DeadlineError("the kubelet's supervisor did not answer in time.", where=self._target.address)
            data = os.read(stdout.fileno(), 1 << 16)
            if not data:
                raise TargetError("the kubelet's supervisor ended.", where=self._target.address)
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def run(self, config: Mapping[str, Any], *, binary: str, socket: str, anew: bool = False) -> None:
        """Run this kubelet with this configuration and the CRI server on this socket of the machine.

        A kubelet that runs with the same configuration stays, unless `anew`; another one is stopped first, and its pods
        keep running. MachineryError, with the end of the log, if the kubelet ends or does not become healthy.
        """
        if config == self._config and binary == self._binary and not anew:
            return
        self.stop()
        deadline = Deadline.after(_ORDER_SECONDS)
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "memqos", "cluster": {"server": self.url}}],
            "contexts": [{"name": "memqos", "context": {"cluster": "memqos", "user": "kubelet"}}],
            "users": [{"name": "kubelet", "user": {}}],
            "current-context": "memqos",
        }
        self._target.write(_CONFIG, json.dumps(config, indent=2).encode(), deadline=deadline)
        self._target.write(_KUBECONFIG, json.dumps(kubeconfig).encode(), deadline=deadline)
        argv = [binary, f"--config={_CONFIG}", f"--kubeconfig={_KUBECONFIG}", "--hostname-override=memqos"]
        # The configuration field exists since 1.27; the flag exists in all releases.
        argv += [f"--container-runtime-endpoint=unix://{socket}", "--v=2"]
        beats = self._heartbeats()
        self.order("start", argv=argv)
        self._await_health(beats)
        self._config, self._binary = config, binary

    def _await_health(self, beats: Set[str]) -> None:
        """Wait until the kubelet answers, and until it has reported its node. beats: of the kubelets before it.

        A node that is already registered has what the kubelet before made allocatable, and the new one admits pods by
        that until its first report (kubelet getNodeAnyWay).
        """

        def healthy() -> bool:
            self.require_running()
            try:
                for url in _HEALTH:
                    self.fetched(url, seconds=5)
            except MachineryError as error:
                if isinstance(error, TargetError):
                    raise
                return False
            return not self._heartbeats() <= beats

        self.until("the kubelet is healthy and has reported its node", healthy, Deadline.after(_START_SECONDS))

    def _heartbeats(self) -> frozenset[str]:
        """When nodes were reported last."""
        conditions = [one for node in self.objects("v1", "nodes") for one in node["status"].get("conditions") or ()]
        return frozenset(one["lastHeartbeatTime"] for one in conditions if one["type"] == "Ready")

    def require_running(self) -> None:
        """MachineryError, with the end of its log, for a kubelet that ended by itself; nothing if it was stopped."""
        state = self.order("state")
        if state["runs"] or state["status"] is None:
            return
        log = self.order("log")["log"]
        self.stop()
        raise MachineryError(
            f"the kubelet ended with status {state['status']}: {_last_words(log)}",
            where=f"{self._target.address}{LOG}",
            next_step="Its configuration and its log are in the case's evidence.",
            data={"log": log},
        )

    def stop(self) -> None:
        """Stop the kubelet; its pods keep running."""
        self._config = None
        self.order("stop")

    def put(self, version: str, resource: str, items: Sequence[Mapping[str, Any]]) -> None:
        """Make or replace these objects."""
        if items:
            self.order("put", resource=[version, resource], items=list(items))

    def objects(self, version: str, resource: str) -> list[dict[str, Any]]:
        """All current objects of a resource, which callers must not change.

        Only those that have changed since the last call are transferred: dozens of pods twice a second would take much
        of an emulated machine's time.
        """
        after, known = self._objects.get((version, resource), (0, {}))
        found = self.order("list", resource=[version, resource], after=after)
        changed = {_key(one): one for one in found["items"]}
        kept = {key: changed.get(key) or known[key] for key in map(tuple, found["names"])}
        self._objects[version, resource] = found["version"], kept
        return list(kept.values())

    def fetched(self, url: str, *, seconds: float) -> str:
        """The answer of a server in the machine to GET. MachineryError without one."""
        text: str = self.order("fetch", url=url, timeout=seconds, seconds=seconds + _ORDER_SECONDS)["text"]
        return text

    def counted(self, metric: str) -> float:
        """The sum of one of the kubelet's own metrics over all its labels; 0 without a row."""
        rows = _METRIC.findall(self.fetched(_METRICS, seconds=_METRICS_SECONDS))
        return sum(float(value) for name, value in rows if name == metric)

    def until(self, what: str, holds: Callable[[], bool], deadline: Deadline) -> None:
        """Wait until this holds. DeadlineError, with the end of the kubelet's log; MachineryError if it ended."""
        with WAITS.during(what, deadline.clock):
            while not holds():
                self.require_running()
                if deadline.remaining <= 0:
                    log = self.order("log")["log"]
                    raise DeadlineError(
                        f"not in time: {what}. The end of the kubelet's log: {_last_words(log)}",
                        where=self._target.address,
                        data={"log": log},
                    )
                deadline.clock.sleep(min(_LOOKS_SECONDS, max(deadline.remaining, 0)))


def _key(item: Mapping[str, Any]) -> tuple[str, str]:
    """Namespace and name of an object."""
    return item["metadata"].get("namespace", ""), item["metadata"].get("name", "")


def _last_words(log: str) -> str:
    """A panic, else the errors at the end of a kubelet's log (klog: lines that begin with E or F), else its last lines.

    Of a panic the first lines: the message and where it happened. The traces of all goroutines follow.
    """
    lines = [line.removeprefix("??? ") for line in log.splitlines() if line.strip() and _REPEATED not in line]
    panics = [number for number, line in enumerate(lines) if line.startswith(_PANICS)]
    if panics:
        return "\n".join(lines[panics[-1] :][:_LOG_LINES])[:_MOST_WORDS]
    errors = [line for line in lines if (line[:1] in "EF" and line[1:5].isdigit()) or line.startswith("Error:")]
    return "\n".join((errors or lines)[-_LOG_LINES:])[-_MOST_WORDS:]


def _program() -> bytes:
    """The supervisor and its imports as one Python file, with the same module names."""
    here = Path(__file__).parent
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for package in ("memqos", "memqos/enactor", "memqos/enactor/kubelet"):
            file.writestr(f"{package}/__init__.py", "")
        for name in ("api_server", "supervisor"):
            file.writestr(f"memqos/enactor/kubelet/{name}.py", (here / f"{name}.py").read_text(encoding="utf-8"))
        file.writestr(
            "__main__.py",
            "import runpy\nrunpy.run_module('memqos.enactor.kubelet.supervisor', run_name='__main__')\n",
        )
    return packed.getvalue()


@contextlib.contextmanager
def kubelet_session(target: Target) -> Iterator[KubeletSession]:
    """Start a supervisor with an API stand-in in the machine; it and its kubelet end with the context."""
    deadline = Deadline.after(_START_SECONDS)
    folders = [_FOLDER, *(one.rpartition("/")[0] for one in (_NETWORK, _PLUGIN))]
    checked(target.run(["mkdir", "-p", *folders], deadline=deadline), where=target.address)
    target.write(_PLUGIN, _PLUGIN_PROGRAM.encode(), deadline=deadline, mode=0o755)
    target.write(_NETWORK, json.dumps(_NETWORK_LIST).encode(), deadline=deadline, mode=0o644)
    target.write(_PROGRAM, _program(), deadline=deadline, mode=0o644)
    program = target.open(["python3", "-I", _PROGRAM, LOG])
    try:
        yield KubeletSession(target, program)
    finally:
        for pipe in (program.stdin, program.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            program.wait(_ORDER_SECONDS)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
