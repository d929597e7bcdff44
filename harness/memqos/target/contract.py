"""The contract of the target port as a function, for memqos's adapters, the fake, and adapters of others.

def test_my_target() -> None:
    check_target_contract(my_target, folder="/tmp/scratch")
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager

from memqos.clock import Deadline
from memqos.errors import DeadlineError, MachineryError, TargetError
from memqos.target.base import Target

__all__ = ["check_target_contract"]

_SECONDS = 30.0
_EVERY_BYTE = bytes(range(256)) * 4
_ODD_WORDS = ("", " ", "a b", "'", '"', "$HOME", "`id`", "\\", "*", ";", "&&", "-n", "ü", "\t", "a\nb")


def check_target_contract(factory: Callable[[], AbstractContextManager[Target]], *, folder: str) -> None:
    """Check an adapter against the port's promises; AssertionError names the broken one.

    factory: opens the target. folder: an absolute path of an existing folder on it, empty but for a file "keep",
    in which files may be made; they are not removed.
    """
    with factory() as target:
        for check in (
            _has_an_address,
            _runs_lists_and_not_shell,
            _passes_input_and_output_unchanged,
            _gives_a_status_that_is_not_zero_as_a_result,
            _says_when_a_program_is_missing,
            _keeps_deadlines,
            _opens_programs,
        ):
            check(target)
        for check_files in (
            _reads_what_was_written,
            _tells_missing_from_empty,
            _refuses_what_cannot_be_read_or_written,
            _lists_sorted,
        ):
            check_files(target, folder.rstrip("/"))


def _opens_programs(target: Target) -> None:
    with target.open(["cat"]) as talking:
        assert talking.stdin is not None  # noqa: S101 - the port promises both
        assert talking.stdout is not None  # noqa: S101
        talking.stdin.write(_EVERY_BYTE)
        echo = b""
        while len(echo) < len(_EVERY_BYTE) and (chunk := talking.stdout.read(len(_EVERY_BYTE))):
            echo += chunk
        _promise(echo == _EVERY_BYTE, "open gives every byte unchanged, and does not wait for the input's end")
        talking.stdin.close()
        _promise(talking.wait(_SECONDS) == 0, f"a program ends with its input, and ended with {talking.returncode}")
    with target.open(["memqos-no-such-program"]) as missing:
        _promise(missing.wait(_SECONDS) != 0, "a program that is not there ends with a status that is not zero")


def _has_an_address(target: Target) -> None:
    _promise("://" in target.address, f"address is a URL, and is {target.address!r}")


def _runs_lists_and_not_shell(target: Target) -> None:
    result = target.run(["printf", "%s\\n", *_ODD_WORDS], deadline=_soon())
    _promise(result.status == 0, f"run gives each word unchanged, and printf ended with {result.status}")
    expected = "".join(f"{word}\n" for word in _ODD_WORDS).encode()
    _promise(result.stdout == expected, f"run gives each word unchanged, and printf saw {result.stdout!r}")
    _promise(result.argv == ("printf", "%s\\n", *_ODD_WORDS), "the result keeps the argument list")


def _passes_input_and_output_unchanged(target: Target) -> None:
    result = target.run(["cat"], stdin=_EVERY_BYTE, deadline=_soon())
    _promise(result.stdout == _EVERY_BYTE, "standard input and output carry every byte unchanged")
    _promise(target.run(["cat"], deadline=_soon()).stdout == b"", "standard input is empty and ended unless given")


def _gives_a_status_that_is_not_zero_as_a_result(target: Target) -> None:
    _promise(target.run(["false"], deadline=_soon()).status == 1, "a status that is not zero is a result, not an error")
    _promise(target.run(["true"], deadline=_soon()).status == 0, "true has status 0")


def _says_when_a_program_is_missing(target: Target) -> None:
    with contextlib.suppress(MachineryError):
        status = target.run(["memqos-no-such-program"], deadline=_soon()).status
        _promise(status == 127, f"a program that is not there is status 127 or an error, and is {status}")  # noqa: PLR2004 - the shell's own


def _keeps_deadlines(target: Target) -> None:
    try:
        target.run(["sleep", "20"], deadline=Deadline.after(0.5))
    except DeadlineError as error:
        _promise("sleep" in str(error), f"a DeadlineError names what did not end, and says: {error}")
    else:
        _promise(False, "a command that does not end in time is a DeadlineError")
    _promise(target.run(["true"], deadline=_soon()).status == 0, "a command that was too slow does not spoil the next")


def _reads_what_was_written(target: Target, folder: str) -> None:
    for name, data in (("bytes", _EVERY_BYTE), ("a b'c", b"odd name"), ("bytes", b"shorter"), ("empty", b"")):
        target.write(f"{folder}/{name}", data, deadline=_soon())
        seen = target.read(f"{folder}/{name}", deadline=_soon())
        _promise(seen == data, f"read gives what write put into {name!r}, and gave {seen!r}")
    target.write(f"{folder}/private", b"x", deadline=_soon(), mode=0o600)
    _promise(target.read(f"{folder}/private", deadline=_soon()) == b"x", "a file with a mode is written like any other")


def _tells_missing_from_empty(target: Target, folder: str) -> None:
    _promise(target.read(f"{folder}/empty", deadline=_soon()) == b"", "an empty file is empty bytes")
    _promise(target.read(f"{folder}/missing", deadline=_soon()) is None, "a file that is not there is None")
    _promise(target.read(f"{folder}/no/such", deadline=_soon()) is None, "so is one in a folder that is not there")
    _promise(target.list(f"{folder}/missing", deadline=_soon()) is None, "a folder that is not there is None")


def _refuses_what_cannot_be_read_or_written(target: Target, folder: str) -> None:
    _raises_target_error(lambda: target.read(folder, deadline=_soon()), "reading a folder")
    _raises_target_error(lambda: target.write(folder, b"x", deadline=_soon()), "writing to a folder")
    no_folder = f"{folder}/no/such"
    _raises_target_error(lambda: target.write(no_folder, b"x", deadline=_soon()), "writing below a missing folder")


def _lists_sorted(target: Target, folder: str) -> None:
    seen = target.list(folder, deadline=_soon())
    expected = ("a b'c", "bytes", "empty", "keep", "private")
    _promise(seen == expected, f"list gives the sorted names {expected!r}, and gave {seen!r}")


def _raises_target_error(act: Callable[[], object], doing: str) -> None:
    try:
        act()
    except TargetError as error:
        _promise(bool(str(error)), f"{doing} is a TargetError that says something")
    else:
        _promise(False, f"{doing} is a TargetError")


def _soon() -> Deadline:
    return Deadline.after(_SECONDS)


def _promise(kept: bool, promise: str) -> None:
    if not kept:
        raise AssertionError(f"the target port's contract is broken: {promise}")
