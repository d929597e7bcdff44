"""Tries a program that a person brought in the machine that is to use it: whether it runs there, and what it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from memqos.clock import Deadline
from memqos.errors import UnfitFileError
from memqos.target.base import Target, checked
from memqos.target.programs import version_in
from memqos.vm.contents import Told

__all__ = ["try_program"]

QUESTIONS = {"containerd": ("--version",)}
"""What a program of this name is asked: containerd takes any other word for a request to serve."""

QUESTIONS_OF_OCI_RUNTIMES = ("--version", "features")

PATIENCE_SECONDS = 20
"""How long it may take to answer; a tenth of a second is usual, also under software emulation."""

NOT_FOUND = frozenset({126, 127})
"""The statuses by which a shell, env and the dynamic loader say that there is nothing they could run."""

NO_SUCH_FILE = "No such file or directory"

TRY = """\
import json, os, signal, subprocess, sys, tempfile, time
place, patience, words = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
told, running = {}, {}
with open(place, "rb") as program:
    begins = program.readline(256).decode(errors="backslashreplace")
for word in words:
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    try:
        running[word] = out, err, subprocess.Popen(
            [place, word], stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd="/", start_new_session=True
        )
    except OSError as error:
        told[word] = {"error": os.strerror(error.errno), "begins": begins}
end = time.monotonic() + patience
for word, (out, err, process) in running.items():
    try:
        status = process.wait(max(0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        status = None
    texts = {}
    for name, file in ("out", out), ("err", err):
        file.seek(0)
        texts[name] = file.read(65536).decode(errors="backslashreplace")
    told[word] = {"status": status, **texts}
json.dump(told, sys.stdout)
"""
"""Starts the program by itself and not through a shell, which would take what the kernel refuses for a script."""

NAME = r"[\w.-]{1,40}"

ANNOTATIONS = {"org.opencontainers.runc.version": "runc", "run.oci.crun.version": "crun"}
"""Where a runtime tells its version among its features, and which runtime does."""


def try_program(target: Target, place: str, *, name: str, option: str, given: str, deadline: Deadline) -> Told:
    """Ask the program at this place of the machine what it is.

    name: of what it takes the place of. option, given: which option brought it, and the file's path on the host.
    Raises UnfitFileError for a program that comes to no end of its own at any question: its interpreter or its
    libraries are not there, the kernel or the processor cannot run it, or it hangs. One that ends with an error runs,
    and says nothing.
    """
    words = QUESTIONS.get(name, QUESTIONS_OF_OCI_RUNTIMES)
    argv = ["python3", "-c", TRY, place, str(PATIENCE_SECONDS), *words]
    answers = json.loads(checked(target.run(argv, deadline=deadline), where=target.address).text)
    faults = [_fault(answers[word]) for word in words]
    if all(faults):
        raise UnfitFileError(
            f"'{given}' does not run in the machine: {faults[0]}.",
            where=option,
            next_step="Give a program for x86-64 that is static, or has its interpreter and libraries in the machine "
            "(`memqos vm shell` opens one).",
        )
    named, annotated = _named(answers["--version"]), _annotated(answers.get("features", {}))
    return named if named.version else annotated or named


def _fault(answer: Mapping[str, Any]) -> str:
    """Why this was no answer, not even a refusal; "" if it was one."""
    if "error" in answer:
        if answer["error"] != NO_SUCH_FILE:
            return f"the kernel says '{answer['error']}'"
        named = f"'{_plain(answer['begins'])}' names" if answer["begins"].startswith("#!") else "it names"
        return f"the interpreter or dynamic loader that {named} is not there"
    status, said = answer["status"], _plain(answer["err"].strip() or answer["out"].strip())[-300:]
    if status is None:
        return f"it did not end within {PATIENCE_SECONDS} s, asked what it is"
    if status < 0:
        return f"it was killed by signal {-status}{f' and said: {said}' if said else ''}"
    return f"{said or 'nothing that it could run was found'} (status {status})" if status in NOT_FOUND else ""


def _plain(text: str) -> str:
    """A program's words, which may hold anything, as they can go to a terminal; the end of a line is a space."""
    line = text.removesuffix("\n").replace("\n", " ")
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in line)


def _named(answer: Mapping[str, Any]) -> Told:
    """What the first line says, such as "runc version 1.1.15" or "crun version UNKNOWN"."""
    text = str(answer["out"]).lstrip() if answer.get("status") == 0 else ""
    version = version_in(text) or ""
    name = re.match(NAME, text, re.ASCII) if version else re.match(rf"{NAME}(?= version\b)", text, re.ASCII)
    return Told(name=name[0] if name else "", version=version)


def _annotated(answer: Mapping[str, Any]) -> Told | None:
    """What an OCI runtime's features say of itself; None if they tell no version."""
    try:
        annotations = json.loads(answer["out"])["annotations"]
        for key, name in ANNOTATIONS.items():
            if key in annotations:
                return Told(name=name, version=version_in(str(annotations[key])) or "")
    except (ValueError, KeyError, TypeError):
        return None
    return None
