"""The supervisor of a kubelet in a machine: serves the API stand-in and owns the kubelet's process.

It reads one JSON object a line and answers each with one. It ends with its input, and the kubelet ends with it, even
if the supervisor is killed. `serve` lists the commands.

This file runs in the machine, so it needs Python 3.9 and its standard library alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

from memqos.enactor.kubelet.api_server import ApiServer, Store

__all__ = ["Supervisor", "serve"]

PODS = ("v1", "pods")
_PR_SET_PDEATHSIG = 1
_END_SECONDS = 20
_LOOK_SECONDS = 0.05
_TAIL = 16384
_MESSAGE = 4096
_MOST_TRACES = 8 << 20
_FATAL = re.compile(rb"^(?:panic: |fatal error: |F[0-9]{4} )", re.MULTILINE)
"""How Go and klog begin what they print before all traces when a program cannot go on."""


def _dies_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Program(subprocess.Popen[bytes]):
    """The first process of a session; signals and `wait` are for all of the session.

    A script that starts a kubelet without exec does not pass SIGTERM on, and the kubelet would keep its ports.
    """

    def send_signal(self, sig: int) -> None:
        """Send a signal to every process of the session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, sig)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until none of its processes is left; the status of the first. TimeoutExpired if it takes longer."""
        ends = None if timeout is None else time.monotonic() + timeout
        status = super().wait(timeout)
        while self._has_others():
            if ends is not None and time.monotonic() > ends:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            time.sleep(_LOOK_SECONDS)
        return status

    def _has_others(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        return True


def launch(argv: list[str], log: str) -> subprocess.Popen[bytes]:
    """Start a program that dies with this process; its output is appended to this file."""
    with open(log, "ab") as file:  # noqa: PTH123 - fewer imports
        return Program(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            preexec_fn=_dies_with_parent,
            start_new_session=True,
        )


def fetch(url: str, seconds: float) -> str:
    """The answer of a server of this machine, whose certificate is self-signed."""
    # Not the default context: loading the system's certificates takes an emulated machine most of a second.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with urllib.request.urlopen(url, timeout=seconds, context=context) as reply:  # noqa: S310 - the kubelet's own
        text: bytes = reply.read()
    return text.decode("utf-8", "backslashreplace")


def end_of(log: bytes) -> bytes:
    """The end of a log; before it the last fatal message, if the traces of all goroutines have pushed it out."""
    fatal = [match.start() for match in _FATAL.finditer(log)]
    if not fatal or fatal[-1] >= len(log) - _TAIL:
        return log[-_TAIL:]
    return log[fatal[-1] :][:_MESSAGE] + b"\n" + log[-_TAIL:]


class Supervisor:
    """One API server and one kubelet at a time. log: the file for the output of all kubelets.

    launch, fetch: see the functions of these names.
    """

    def __init__(
        self,
        server: ApiServer,
        log: str,
        *,
        launch: Callable[[list[str], str], subprocess.Popen[bytes]] = launch,
        fetch: Callable[[str, float], str] = fetch,
    ) -> None:
        self._server = server
        self._store: Store = server.store
        self._log = log
        self._launch = launch
        self._fetch = fetch
        self._kubelet: subprocess.Popen[bytes] | None = None

    def start(self, argv: list[str]) -> dict[str, Any]:
        """Start the kubelet; a previous one must have been stopped."""
        self._kubelet = self._launch(argv, self._log)
        return {"pid": self._kubelet.pid}

    def stop(self) -> dict[str, Any]:
        """End the kubelet: SIGTERM, then SIGKILL. Pods keep running, as in any restart of a kubelet."""
        kubelet, self._kubelet = self._kubelet, None
        if kubelet is None:
            return {"status": None}
        with contextlib.suppress(ProcessLookupError):
            kubelet.terminate()
        try:
            kubelet.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            kubelet.kill()
            kubelet.wait()
        return {"status": kubelet.returncode}

    def state(self) -> dict[str, Any]:
        """Whether the kubelet runs, and the status that it ended with."""
        status = None if self._kubelet is None else self._kubelet.poll()
        return {"runs": self._kubelet is not None and status is None, "status": status}

    def log(self) -> dict[str, Any]:
        """The end of the kubelet's log, after the last fatal message if there is one; empty if there is no log."""
        try:
            with open(self._log, "rb") as log:  # noqa: PTH123
                log.seek(max(0, os.fstat(log.fileno()).st_size - _MOST_TRACES))
                return {"log": end_of(log.read()).decode("utf-8", "backslashreplace")}
        except OSError:
            return {"log": ""}

    def put(self, resource: list[str], items: list[dict[str, Any]]) -> dict[str, Any]:
        """Make or replace objects."""
        for one in items:
            self._store.put((resource[0], resource[1]), one)
        return {"version": self._store.version}

    def delete(self, names: list[list[str]], grace: int) -> dict[str, Any]:
        """Mark these pods, by namespace and name, so that the kubelet ends them."""
        for namespace, name in names:
            self._store.delete(PODS, namespace, name, grace=grace)
        return {"version": self._store.version}

    def list(self, resource: Sequence[str], after: int) -> dict[str, Any]:
        """The objects of a resource that changed after this version, and the names of all."""
        items, names, version = self._store.later((resource[0], resource[1]), after)
        return {"items": items, "names": names, "version": version}

    def fetch(self, url: str, timeout: float) -> dict[str, Any]:
        """The answer of a server in the machine, such as the kubelet's, to GET."""
        return {"text": self._fetch(url, timeout)}

    def calls(self) -> dict[str, Any]:
        """The number of API calls by verb and resource."""
        return {"calls": dict(self._store.calls)}

    def do(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry out one command: a method's name as `do`, and its arguments."""
        words = dict(order)
        what = words.pop("do")
        if what not in _ORDERS:
            raise ValueError(f"unknown order {what!r}")
        answer: dict[str, Any] = getattr(self, what)(**words)
        return answer


_ORDERS = frozenset({"start", "stop", "state", "log", "put", "delete", "list", "fetch", "calls"})


def serve(orders: Iterable[str], answers: TextIO, supervise: Callable[[ApiServer], Supervisor]) -> None:
    """Answer every order of `_ORDERS`. The first line says where the API is.

    supervise: makes the supervisor of a server. The answer to a failed command is its error.
    """
    with ApiServer().serving() as server:
        supervisor = supervise(server)
        print(json.dumps({"url": server.url}), file=answers, flush=True)
        try:
            for line in orders:
                try:
                    answer = supervisor.do(json.loads(line))
                except Exception as error:  # noqa: BLE001 - any error is reported to the other side
                    answer = {"error": f"{type(error).__name__}: {error}"}
                print(json.dumps(answer), file=answers, flush=True)
        finally:
            supervisor.stop()


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout, lambda server: Supervisor(server, sys.argv[1]))
