"""The program that an AttendedTarget keeps on its target: it reads and writes files, and runs programs of Python.

Its source is sent to the target's python3 whole; it imports nothing but the standard library of Python 3.9. Each line
of its input is a request, a JSON object, and each line of its output the answer to one:

    {"read": [path, ...]}   {path: the file's bytes as the characters of their numbers, or an errno, ...}
    {"write": [path, ...], "text": bytes}  {path: 0 or an errno, ...}
    {"list": path}          {"names": [name, ...]}, or {"names": null} if there is no such folder
    {"python": source, "stdin": bytes}  {"status": number, "stdout": bytes, "stderr": bytes}

Under emulation each program that is started over there takes longer than many files that are read, and a new Python
longer than most of what it is started for: a program runs in a copy of this process.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import traceback


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
        while part := os.read(file, 1 << 16):
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


def ran(source: str, stdin: bytes) -> dict[str, object]:
    """What a program says and ends with that is run in a copy of this process."""
    files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    os.write(files[0], stdin)
    os.lseek(files[0], 0, os.SEEK_SET)
    child = os.fork()
    if not child:
        os._exit(in_the_copy(source, files))
    _, waited = os.waitpid(child, 0)
    said = []
    for file in files:
        with os.fdopen(file, "rb") as opened:
            opened.seek(0)
            said.append(opened.read().decode("latin-1"))
    ended = os.WEXITSTATUS(waited) if os.WIFEXITED(waited) else 128 + os.WTERMSIG(waited)
    return {"status": ended, "stdout": said[1], "stderr": said[2]}


def in_the_copy(source: str, files: list[int]) -> int:
    """Run the program with these as its standard streams; what python3 would end with."""
    status = 0
    for number, file in enumerate(files):
        os.dup2(file, number)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - numbers, for its life
    try:
        exec(compile(source, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - that is what it is for
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - nothing may get into the copy's own loop
        traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            stream.flush()
    return status


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        answer: dict[str, object]
        if "list" in asked:
            answer = {"names": listed(asked["list"])}
        elif "write" in asked:
            answer = {path: written(path, asked["text"].encode("latin-1")) for path in asked["write"]}
        elif "python" in asked:
            answer = ran(asked["python"], asked["stdin"].encode("latin-1"))
        else:
            answer = {path: read(path) for path in asked["read"]}
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
