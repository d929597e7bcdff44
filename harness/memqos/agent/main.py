"""The agent, which runs on a target: reads and writes files, runs commands, makes cgroups, and undoes what a run made.

Each line of its input is a request, a JSON object; each line of its output answers one (`channel`):

    {"read": [path, ...]}   {path: the file's bytes as the characters of their numbers, or an errno, ...}
    {"write": [path, ...], "text": bytes}  {path: 0 or an errno, ...}
    {"list": path}          {"names": [name, ...]}, or {"names": null} if there is no such folder
    {"run": [word, ...], "stdin": bytes}  {"stdout": number} or {"stderr": number}, each followed by that many bytes,
                                          as the output comes; {"status": number} at the end
    {"perform": ...}, {"leftovers": ...}  see `steps`; {"error": text} for a fault of the agent itself
    {"guard": ...}          see `cleanup`: from then on this process is the machine's guard

A command ends with its own process, even if other processes still hold its output. If the input ends earlier, the
agent kills the command's process group. It also stops performing steps then, unless the request is the whole input.

Under emulation, starting a program takes longer than reading many files, and importing a module takes longer than most
requests. So the agent imports little at start, and the rest when a request needs it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys

from memqos.agent.channel import CHUNK, Channel, GoneError, content, write

TYPE_CHECKING = False
"""Importing typing would take a tenth of the start."""

if TYPE_CHECKING:
    from typing import Any


DEFAULT = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores; they are reset to their defaults for commands."""


def read(path: str) -> str | int:
    """A file's bytes, one character each, or the errno."""
    try:
        return content(path).decode("latin-1")
    except OSError as error:
        return error.errno or errno.EIO


def write_file(path: str, text: bytes) -> int:
    """Write text to a file; 0, or the errno."""
    try:
        write(path, text)
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def names_in(path: str) -> list[str] | None:
    """The names in a folder; None if it is none."""
    try:
        return os.listdir(path)  # noqa: PTH208 - half as long
    except (FileNotFoundError, NotADirectoryError):
        return None


def run(channel: Channel, argv: list[str], stdin: bytes) -> None:
    """Forward a command's output until it ends."""
    given = os.memfd_create("stdin")
    os.write(given, stdin)
    os.lseek(given, 0, os.SEEK_SET)
    ends = {kind: os.pipe() for kind in ("stdout", "stderr")}
    files = [given, *(write_end for _, write_end in ends.values())]
    try:
        child = spawn(argv, files)
    except OSError as error:
        said = f"{argv[0]}: {os.strerror(error.errno or errno.EIO)}\n".encode()
        forward(channel, "stderr", said)
        channel.say({"status": 127 if error.errno == errno.ENOENT else 126})
    else:
        outputs = {read_end: kind for kind, (read_end, _) in ends.items()}
        channel.say({"status": forward_until_exit(channel, child, outputs, files)})
        files = []
    for file in [*files, *(read_end for read_end, _ in ends.values())]:
        os.close(file)


def spawn(argv: list[str], files: list[int]) -> int:
    """Start this command with these standard streams; its PID. OSError for a missing program."""
    streams = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(files)]
    return os.posix_spawnp(argv[0], argv, os.environ, file_actions=streams, setpgroup=0, setsigdef=DEFAULT)


def forward_until_exit(channel: Channel, child: int, outputs: dict[int, str], files: list[int]) -> int:
    """Forward a process's output until it ends; its exit status, as a shell reports it.

    outputs: the readable ends of its output streams. files: its own ends of all streams, which are closed here.
    """
    for file in files:
        os.close(file)
    ended = os.pidfd_open(child)
    poll = select.poll()
    for file in (0, ended, *outputs):
        poll.register(file, select.POLLIN)
    is_running = True
    while is_running:
        ready = {file for file, _ in poll.poll()}
        if 0 in ready:
            # The caller sends nothing before the answer: readable input means that it is gone.
            os.killpg(child, signal.SIGKILL)
            os._exit(1)
        is_running = ended not in ready
        for file in ready & outputs.keys():
            if not (said := os.read(file, CHUNK)):
                poll.unregister(file)
            forward(channel, outputs[file], said)
    os.close(ended)
    for file, kind in outputs.items():
        # Read once: that empties the pipe, and a process that the command left behind may write without end.
        os.set_blocking(file, False)
        with contextlib.suppress(BlockingIOError):
            forward(channel, kind, os.read(file, CHUNK))
    _, waited = os.waitpid(child, 0)
    return os.WEXITSTATUS(waited) if os.WIFEXITED(waited) else 128 + os.WTERMSIG(waited)


def forward(channel: Channel, kind: str, said: bytes) -> None:
    """Send a command's output, unless it is empty."""
    if said:
        channel.say({kind: len(said)}, said)


def enforcement_answer(asked: dict[str, Any], *, is_kept: bool) -> dict[str, Any]:
    """The answer to a `perform` or `leftovers` request. is_kept: stop if the input ends, as the caller is gone then."""
    from memqos.agent.steps import answer, until_left

    try:
        with until_left(0) if is_kept else contextlib.nullcontext():
            return answer(asked)
    except Exception:  # noqa: BLE001 - the caller reports it, and the next request still runs
        import traceback

        return {"error": traceback.format_exc()}


def main() -> None:
    """Answer requests until the input ends."""
    channel = Channel(0, 1)
    is_kept = sys.argv[1:] != ["once"]
    with contextlib.suppress(GoneError):
        while True:
            asked = channel.line()
            if "list" in asked:
                channel.say({"names": names_in(asked["list"])})
            elif "write" in asked:
                channel.say({path: write_file(path, asked["text"].encode("latin-1")) for path in asked["write"]})
            elif "run" in asked:
                run(channel, asked["run"], asked["stdin"].encode("latin-1"))
            elif "read" in asked:
                channel.say({path: read(path) for path in asked["read"]})
            elif "guard" in asked:
                from memqos.agent.cleanup import guard

                guard(channel, asked["guard"])
                return
            else:
                channel.say(enforcement_answer(asked, is_kept=is_kept))
