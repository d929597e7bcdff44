"""The cleanup process on an existing machine: it removes what a run made there, even if the run was killed.

It is a separate process that survives the connection. Its request:

    lock      a file that stays locked while the guard runs, so that only one run uses the machine
    patience  seconds to wait for the lock: another guard may still be cleaning up after a lost connection
    silence   seconds without a line after which the sender counts as lost
    removal   seconds for which it retries to remove sandboxes
    settling  seconds without a sandbox or container of ours after which the runtime counts as finished with the calls
              of a lost caller
    socket    the CRI socket, "" for none; label: the label key of our sandboxes and Docker images
    engine    the Docker socket, "" for none; sandbox: the label key of our Docker containers
    bundles   the folder of bundles of an OCI runtime without a server, "" for none
    mounts    the cgroup hierarchies
    folders   [folder, prefix]: entries with this prefix that did not exist before are removed at the end

Each later line is {} (a sign of life), {"undo": [word, ...]} (a command to run at the end) or {"end": true}. The
answers are {"said": "ready"}, or "busy" if another guard holds the lock, and at the end "clean" or one line that lists
what could not be cleaned. Leftovers of an earlier run whose guard died are removed before "ready".
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import http.client
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
from typing import TYPE_CHECKING, Any

from memqos.agent.channel import GoneError
from memqos.agent.cri import CALL_SECONDS, ask_of_sandbox, sandboxes
from memqos.agent.steps import answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from memqos.agent.channel import Channel

STEP: dict[str, Any] = {"properties": [], "writes": [], "making": [], "keeps": [], "keeps_properties": []}
LOOK_EVERY = 0.2


def clean(
    request: dict[str, Any], undo: list[list[str]], before: dict[str, list[str]], settling: float = 0.0
) -> list[str]:
    """Undo everything, also after failures; returns what failed. settling: as in the request, where it matters."""
    troubles: list[str] = []
    acts: list[Callable[[], object]] = [
        lambda: remove_sandboxes(request, settling) if request["socket"] else None,
        lambda: remove_from_engine(request, settling) if request["engine"] else None,
        lambda: end_runtimes(request["bundles"]) if request["bundles"] else None,
        lambda: sweep(request["mounts"]),
        lambda: remove_folders(request, before),
        *(functools.partial(do, argv) for argv in reversed(undo)),
    ]
    for act in acts:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - the rest must still be undone
            troubles.append(" ".join(str(error).split())[:500])
    return troubles


def remove_sandboxes(request: dict[str, Any], settling: float) -> None:
    """Stop and remove every sandbox of ours, with its containers."""
    path, label = request["socket"], request["label"]

    def remove() -> list[str]:
        found = sandboxes(path, label)
        for one in found:
            for method in ("StopPodSandbox", "RemovePodSandbox"):
                ask_of_sandbox(path, method, one)
        return found

    until_settled(remove, "sandboxes", seconds=request["removal"], settling=settling)


def remove_from_engine(request: dict[str, Any], settling: float) -> None:
    """Remove every container of ours from the Docker Engine, and then every image."""
    path = request["engine"]

    def remove(kind: str, label: str) -> list[str]:
        query = urllib.parse.urlencode({"all": "1", "filters": json.dumps({"label": [label]})})
        found = [one["Id"] for one in json.loads(engine(path, "GET", f"/{kind}/json?{query}") or b"[]")]
        for one in found:
            engine(path, "DELETE", f"/{kind}/{one}?force=1&v=1")
        return found

    containers = functools.partial(remove, "containers", request["sandbox"])
    until_settled(containers, "containers", seconds=request["removal"], settling=settling)
    remove("images", request["label"])


def until_settled(remove: Callable[[], list[str]], what: str, *, seconds: float, settling: float) -> None:
    """Remove our objects until nothing is left and nothing new has appeared for `settling` seconds.

    remove: removes the objects that it finds and returns them. Raises OSError if it still finds some after `seconds`,
    so that objects that keep coming back end the loop. A runtime may still be working on its last call: it refuses to
    remove a container that is being started, and containerd lists a sandbox whose caller is gone only after its own
    cleanup of that sandbox failed.
    """
    began = last_found = time.monotonic()
    while True:
        looked = time.monotonic()
        if found := remove():
            if looked - began >= seconds:
                raise OSError(f"{what} are left: {', '.join(found)}")
            last_found = looked
        elif looked - last_found >= settling:
            return
        select.select([], [], [], LOOK_EVERY)


def engine(path: str, method: str, url: str) -> bytes:
    """One request to the Docker Engine; a missing object is not an error."""
    connection = http.client.HTTPConnection("localhost", timeout=CALL_SECONDS)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(CALL_SECONDS)
    with contextlib.closing(connection):
        connection.sock.connect(path)
        connection.request(method, url)
        answer = connection.getresponse()
        said = answer.read()
    if answer.status >= http.client.BAD_REQUEST and answer.status != http.client.NOT_FOUND:
        raise OSError(f"Docker answered {method} {url} with {answer.status}: {said[:200]!r}")
    return b"" if answer.status == http.client.NOT_FOUND else said


def end_runtimes(bundles: str) -> None:
    """Kill every process whose arguments name one of our bundles: the OCI runtime of a lost run, and conmon.

    They would create a container after its cgroup was removed. Containers themselves are killed with their cgroups.
    """
    kill_named(f"{bundles}/".encode())
    # A process that was just being executed had no arguments.
    time.sleep(LOOK_EVERY)
    kill_named(f"{bundles}/".encode())


def kill_named(folder: bytes) -> None:
    """Kill every process with an argument that begins so."""
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:  # noqa: PTH123
                if any(word.startswith(folder) for word in file.read().split(b"\0")):
                    os.kill(int(name), signal.SIGKILL)


def sweep(mounts: dict[str, str]) -> None:
    """Remove our cgroups and restore the values of adopted ones; a failure does not stop the rest."""
    troubles = []
    found = answer({"leftovers": {"mounts": mounts, "claim": True}})["leftovers"]
    for path, mark, adopted in reversed(found):
        name = path.rpartition("/")[2]
        unit = name if name.endswith(".slice") else ""
        step = {**STEP, "action": "give back" if adopted else "remove", "path": path, "unit": unit}
        request = {"mounts": mounts, "mark": mark, "seconds": 20, "steps": [step]}
        if failure := answer({"perform": request})["failure"]:
            troubles.append(f"{path}: {failure['what']}")
    if troubles:
        raise OSError("; ".join(troubles))


def do(argv: list[str]) -> None:
    """Run a command; OSError with its error output if it fails."""
    told = subprocess.run(argv, input=b"", capture_output=True, check=False)
    if told.returncode != 0:
        raise OSError(f"{argv[:4]} ended with {told.returncode}: {told.stderr.decode(errors='replace')[-300:]}")


def names(request: dict[str, Any]) -> dict[str, list[str]]:
    """By folder, the existing entries that have one of our prefixes."""
    found: dict[str, list[str]] = {}
    for folder, beginning in request["folders"]:
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
            found.setdefault(folder, []).extend(entry.name for entry in entries if entry.name.startswith(beginning))
    return found


def remove_folders(request: dict[str, Any], before: dict[str, list[str]]) -> None:
    """Remove the entries that did not exist before."""
    for folder, now in names(request).items():
        for name in now:
            if name not in before.get(folder, []) and f"{folder}/{name}" != request["lock"]:
                shutil.rmtree(f"{folder}/{name}", ignore_errors=not os.path.exists(f"{folder}/{name}"))  # noqa: PTH110


def say(channel: Channel, word: str) -> None:
    """Send a word; a reader that is gone is not an error."""
    with contextlib.suppress(OSError):
        channel.say({"said": word})


def locked(request: dict[str, Any]) -> bool:
    """Take the lock; True if this process holds it now, until it ends."""
    for _ in range(int(request["patience"] / LOOK_EVERY) + 1):
        file = os.open(request["lock"], os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The former owner may have removed the file that we opened: such a lock protects nothing.
            if os.path.exists(request["lock"]) and os.stat(request["lock"]).st_ino == os.fstat(file).st_ino:  # noqa: PTH110, PTH116
                return True
        except OSError:
            select.select([], [], [], LOOK_EVERY)
        os.close(file)
    return False


def guard(channel: Channel, request: dict[str, Any]) -> None:
    """Stand guard."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    # Runs exhaust the machine's memory: the OOM killer must not choose the guard.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:  # noqa: PTH123
        score.write("-1000")
    if not locked(request):
        say(channel, "busy")
        return
    before = names(request)
    undo: list[list[str]] = []
    troubles = clean(request, undo, before)
    if not troubles:
        say(channel, "ready")
        is_left = read_commands(channel, undo, request["silence"])
        troubles = clean(request, undo, before, request["settling"] if is_left else 0.0)
    # The reader ends this process after the last message.
    os.unlink(request["lock"])  # noqa: PTH108
    say(channel, "; ".join(troubles) or "clean")


def read_commands(channel: Channel, undo: list[list[str]], silence: float) -> bool:
    """Read commands to undo until the sender ends; True if the sender was lost, False if it ended."""
    try:
        while "end" not in (line := channel.line(silence)):
            undo += [line["undo"]] if "undo" in line else []
    except GoneError:
        return True
    return False
