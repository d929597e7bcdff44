"""The program that an AttendedTarget keeps on its target: it reads and writes files, and runs commands.

Its source is sent to the target's python3 whole; it imports nothing but the standard library of Python 3.9. Each line
of its input is a request, a JSON object, and each line of its output the answer to one:

    {"read": [path, ...]}   {path: the file's bytes as the characters of their numbers, or an errno, ...}
    {"write": [path, ...], "text": bytes}  {path: 0 or an errno, ...}
    {"list": path}          {"names": [name, ...]}, or {"names": null} if there is no such folder
    {"run": [word, ...], "stdin": bytes}  {"stdout": number} or {"stderr": number}, after whose line as many bytes
                                          follow, as often as there are any; {"status": number} at the end
    {"call": [word, ..., source], "stdin": text}  the same, of a program of Python

Under emulation each program that is started over there takes longer than many files that are read, and a new Python
longer than most of what it is started for. So of a program whose source ends with MAIN the main is called here, and
what it imports and defines is there already the second time. Its streams are its own; all else that a process has is
this one's, and it is to leave that as it was. Another one, and one that cannot be defined, is run as a command is.

A command has ended when its own process has, whoever still holds its output. If the input ends before it, its process
group is killed; before what is called has ended, this process ends.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Iterator

CHUNK = 1 << 16
"""Bytes, as many as a pipe holds."""

MAIN = '\nif __name__ == "__main__":\n    main()\n'
"""The end of a source that does nothing but import and define what is before it."""

DEFINED: dict[str, dict[str, object]] = {}
"""The names of such programs, by their source."""

DEFAULT = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores, and a command does not expect to be ignored."""


def read(path: str) -> str | int:
    """A file's bytes, one character each, or the errno.

    Hundreds are read for each container: by the system's own calls that takes half as long as by `open`.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return error.errno or errno.EIO
    try:
        parts = []
        while part := os.read(file, CHUNK):
            parts.append(part)
        return b"".join(parts).decode("latin-1")
    except OSError as error:
        return error.errno or errno.EIO
    finally:
        os.close(file)


def written(path: str, text: bytes) -> int:
    """Put text into a file that is there, at once, as control files need it; 0, or the errno."""
    try:
        file = os.open(path, os.O_WRONLY)
    except OSError as error:
        return error.errno or errno.EIO
    try:
        os.write(file, text)
    except OSError as error:
        return error.errno or errno.EIO
    finally:
        os.close(file)
    return 0


def listed(path: str) -> list[str] | None:
    """The names in a folder; None if it is none."""
    try:
        return os.listdir(path)  # noqa: PTH208 - half as long
    except (FileNotFoundError, NotADirectoryError):
        return None


def run(argv: list[str], stdin: bytes) -> None:
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
        passed_on("stderr", said)
        answer({"status": 127 if error.errno == errno.ENOENT else 126})
    else:
        answer({"status": followed(child, {read_end: kind for kind, (read_end, _) in ends.items()}, files)})
        files = []
    for file in [*files, *(read_end for read_end, _ in ends.values())]:
        os.close(file)


def spawned(argv: list[str], files: list[int]) -> int:
    """A process of this command, with these as its standard streams; OSError if there is no such program."""
    streams = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(files)]
    return os.posix_spawnp(argv[0], argv, os.environ, file_actions=streams, setpgroup=0, setsigdef=DEFAULT)


def followed(child: int, outputs: dict[int, str], files: list[int]) -> int:
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
            # Nothing is asked before this is answered: whoever asked has gone.
            os.killpg(child, signal.SIGKILL)
            os._exit(1)
        is_running = ended not in ready
        for file in ready & outputs.keys():
            if not (said := os.read(file, CHUNK)):
                poll.unregister(file)
            passed_on(outputs[file], said)
    os.close(ended)
    for file, kind in outputs.items():
        # Once: that is all that a pipe holds, and what the command left behind may never stop.
        os.set_blocking(file, False)
        with contextlib.suppress(BlockingIOError):
            passed_on(kind, os.read(file, CHUNK))
    _, waited = os.waitpid(child, 0)
    return os.WEXITSTATUS(waited) if os.WIFEXITED(waited) else 128 + os.WTERMSIG(waited)


def passed_on(kind: str, said: bytes) -> None:
    """Give the bytes that a command said, if any."""
    if said:
        answer({kind: len(said)}, said)


def call(argv: list[str], stdin: bytes) -> None:
    """Call the program of Python that is the last of these words, and pass on what it says."""
    names = defined(argv[-1])
    if names is None:
        run(argv, stdin)
        return
    streams = sys.stdin, sys.stdout, sys.stderr
    stdout, stderr = io.StringIO(), io.StringIO()
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(stdin.decode()), stdout, stderr
    try:
        with until_left():
            status = called(names)
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
    passed_on("stdout", stdout.getvalue().encode())
    passed_on("stderr", stderr.getvalue().encode())
    answer({"status": status})


def defined(source: str) -> dict[str, object] | None:
    """The names of a program that can be called; None if it cannot."""
    if source.endswith(MAIN) and source not in DEFINED:
        names: dict[str, object] = {"__name__": "defined"}
        with contextlib.suppress(Exception):
            # What is wrong with it, its own process says.
            exec(compile(source, "<string>", "exec"), names)  # noqa: S102 - that is what it is for
            DEFINED[source] = names
    return DEFINED.get(source)


def called(names: dict[str, object]) -> int:
    """Call a program's main; what python3 would end with."""
    try:
        exec("main()", names)  # noqa: S102 - that is what it is for
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)  # noqa: T201 - as python3 does
        return 1
    except Exception:  # noqa: BLE001 - it may end as it likes, and the next is asked all the same
        traceback.print_exc()
        return 1
    return 0


@contextlib.contextmanager
def until_left() -> Iterator[None]:
    """End this process if its input does meanwhile: whoever asked has gone."""
    read_end, write_end = os.pipe()
    poll = select.poll()
    for file in (0, read_end):
        poll.register(file, select.POLLIN)

    def watch() -> None:
        # Nothing is asked before this is answered.
        if 0 in {file for file, _ in poll.poll()}:
            os._exit(1)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        os.close(write_end)
        watching.join()
        os.close(read_end)


def answer(line: dict[str, object], further: bytes = b"") -> None:
    """Say a line, and the bytes that belong to it."""
    sys.stdout.buffer.write(json.dumps(line).encode() + b"\n" + further)
    sys.stdout.buffer.flush()


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        if "list" in asked:
            answer({"names": listed(asked["list"])})
        elif "write" in asked:
            answer({path: written(path, asked["text"].encode("latin-1")) for path in asked["write"]})
        elif "run" in asked:
            run(asked["run"], asked["stdin"].encode("latin-1"))
        elif "call" in asked:
            call(asked["call"], asked["stdin"].encode("latin-1"))
        else:
            answer({path: read(path) for path in asked["read"]})


if __name__ == "__main__":
    main()
