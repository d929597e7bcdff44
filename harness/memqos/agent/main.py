"""The agent: reads and writes files, runs commands, makes cgroups, and takes back what a run made, on a target itself.

Each line of its input is a request, a JSON object, and each line of its output the answer to one (`channel`):

    {"read": [path, ...]}   {path: the file's bytes as the characters of their numbers, or an errno, ...}
    {"write": [path, ...], "text": bytes}  {path: 0 or an errno, ...}
    {"list": path}          {"names": [name, ...]}, or {"names": null} if there is no such folder
    {"run": [word, ...], "stdin": bytes}  {"stdout": number} or {"stderr": number}, after whose line as many bytes
                                          follow, as often as there are any; {"status": number} at the end
    {"perform": ...}, {"leftovers": ...}  see `steps`; {"error": text} where the program itself is wrong
    {"guard": ...}          see `cleanup`: from then on this process is the guard of its machine

A command has ended when its own process has, even if others still hold its output. If the input ends before that, its
process group is killed. Steps that are being done end with the input, too, but for those of a request that is the
whole input.

Under emulation a program that is started takes longer than many files that are read, and a module that is imported
longer than most of what it does: so this one imports little, and the rest when it is asked for.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys

from memqos.agent.channel import CHUNK, Channel, GoneError
from memqos.agent.files import content, write

TYPE_CHECKING = False
"""Importing typing would take a tenth of the start."""

if TYPE_CHECKING:
    from typing import Any


DEFAULT = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores, and a command does not expect to be ignored."""


def read(path: str) -> str | int:
    """A file's bytes, one character each, or the errno."""
    try:
        return content(path).decode("latin-1")
    except OSError as error:
        return error.errno or errno.EIO


def written(path: str, text: bytes) -> int:
    """Put text into a file; 0, or the errno."""
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
    """Pass on what a command says until it ends."""
    given = os.memfd_create("stdin")
    os.write(given, stdin)
    os.lseek(given, 0, os.SEEK_SET)
    ends = {kind: os.pipe() for kind in ("stdout", "stderr")}
    files = [given, *(written for _, written in ends.values())]
    try:
        child = spawned(argv, files)
    except OSError as error:
        said = f"{argv[0]}: {os.strerror(error.errno or errno.EIO)}\n".encode()
        passed_on(channel, "stderr", said)
        channel.say({"status": 127 if error.errno == errno.ENOENT else 126})
    else:
        outputs = {read_end: kind for kind, (read_end, _) in ends.items()}
        channel.say({"status": followed(channel, child, outputs, files)})
        files = []
    for file in [*files, *(read_end for read_end, _ in ends.values())]:
        os.close(file)


def spawned(argv: list[str], files: list[int]) -> int:
    """A process of this command, with these as its standard streams; OSError if there is no such program."""
    streams = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(files)]
    return os.posix_spawnp(argv[0], argv, os.environ, file_actions=streams, setpgroup=0, setsigdef=DEFAULT)


def followed(channel: Channel, child: int, outputs: dict[int, str], files: list[int]) -> int:
    """Pass on what a process says until it ends; its status, as a shell tells it.

    outputs: what it says can be read from these. files: its own ends of all its streams, which are closed here.
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
            # The caller sends nothing before this is answered, so it is gone.
            os.killpg(child, signal.SIGKILL)
            os._exit(1)
        is_running = ended not in ready
        for file in ready & outputs.keys():
            if not (said := os.read(file, CHUNK)):
                poll.unregister(file)
            passed_on(channel, outputs[file], said)
    os.close(ended)
    for file, kind in outputs.items():
        # Once: that is all that a pipe holds, and what the command left behind may never stop.
        os.set_blocking(file, False)
        with contextlib.suppress(BlockingIOError):
            passed_on(channel, kind, os.read(file, CHUNK))
    _, waited = os.waitpid(child, 0)
    return os.WEXITSTATUS(waited) if os.WIFEXITED(waited) else 128 + os.WTERMSIG(waited)


def passed_on(channel: Channel, kind: str, said: bytes) -> None:
    """Give the bytes that a command said, if any."""
    if said:
        channel.say({kind: len(said)}, said)


def enforced(asked: dict[str, Any], *, is_kept: bool) -> dict[str, Any]:
    """The answer to a request of enforcement. is_kept: the caller stays for as long as the input does."""
    from memqos.agent.steps import answer, until_left

    try:
        with until_left(0) if is_kept else contextlib.nullcontext():
            return answer(asked)
    except Exception:  # noqa: BLE001 - the caller reports it, and the next request still runs
        import traceback

        return {"error": traceback.format_exc()}


def main() -> None:
    """Answer until the input ends."""
    channel = Channel(0, 1)
    is_kept = sys.argv[1:] != ["once"]
    with contextlib.suppress(GoneError):
        while True:
            asked = channel.line()
            if "list" in asked:
                channel.say({"names": names_in(asked["list"])})
            elif "write" in asked:
                channel.say({path: written(path, asked["text"].encode("latin-1")) for path in asked["write"]})
            elif "run" in asked:
                run(channel, asked["run"], asked["stdin"].encode("latin-1"))
            elif "read" in asked:
                channel.say({path: read(path) for path in asked["read"]})
            elif "guard" in asked:
                from memqos.agent.cleanup import guard

                guard(channel, asked["guard"])
                return
            else:
                channel.say(enforced(asked, is_kept=is_kept))
