"""`memqos watch`: run, and whenever the runtime's file changes, run what failed again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from memqos.cli.own_process import run_alone
from memqos.cli.terminal import say
from memqos.clock import SYSTEM_CLOCK, Clock
from memqos.errors import ExitCode, UsageError

__all__ = ["command", "watched"]

HELP = """Run, and run again whenever the file of a runtime changes, until Ctrl-C.

The first run has every case that is asked for. After a change those that failed are run again, and once none of them
fails any more, everything. The options are those of `memqos run`.

\b
Examples:
  memqos watch --runtime-binary ./my-runc                     while you mend it
  memqos watch --runtime-binary ./my-runc -k memory.high      some cases of it
"""

_LOOKS_SECONDS = 0.5
_OPTIONS = {"runtime_binary": "--runtime-binary", "containerd_binary": "--containerd-binary"}

Stamp = tuple[int, int, int] | None


def watched(
    files: Sequence[Path],
    run: Callable[[bool], int],
    *,
    is_refused: Callable[[], bool] = lambda: False,
    clock: Clock = SYSTEM_CLOCK,
    rounds: int | None = None,
) -> int:
    """Run at once, and after each change of one of the files; the last exit code.

    run: runs everything, or what failed last time if it is given True. is_refused: whether the run is a usage error
    whatever the files hold; then it is not run again. rounds: how many changes to wait for, None for
    as many as come. A file that is being written is let be until it stays the same from one look to the next; one that
    is not there is waited for.
    """
    seen = [_stamp(file) for file in files]
    code = run(False)
    while (rounds is None or rounds > 0) and not (code == ExitCode.USAGE and is_refused()):
        rounds = None if rounds is None else rounds - 1
        say(f"memqos: waiting for a change of {', '.join(map(str, files))} (Ctrl-C ends it)", err=True)
        seen = _changed(files, seen, clock)
        again = code in {ExitCode.DEVIATES, ExitCode.MACHINERY}
        code = run(again)
        if again and code in {ExitCode.CONFORMS, ExitCode.USAGE}:
            code = run(False)
    return code


def _changed(files: Sequence[Path], seen: Sequence[Stamp], clock: Clock) -> list[Stamp]:
    """Wait until the files are others than those that were seen, whole, and at rest."""
    before = list(seen)
    while True:
        clock.sleep(_LOOKS_SECONDS)
        now = [_stamp(file) for file in files]
        if now == before and now != list(seen) and None not in now:
            return now
        before = now


def _stamp(file: Path) -> Stamp:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _watch(*, words: Sequence[str], **given: str | None) -> int:
    files = [Path(value) for value in given.values() if value is not None]
    if not files:
        raise UsageError(
            "there is no file to watch.", where="memqos watch", next_step=f"Give {' or '.join(_OPTIONS.values())}."
        )
    for file in files:
        if not file.is_file():
            raise UsageError(f"there is no file '{file}'.", where="memqos watch")
    options = [word for key, value in given.items() if value is not None for word in (_OPTIONS[key], value)]
    return watched(
        files,
        lambda again: run_alone([*options, *words, *(["--last-failed"] if again else [])]),
        is_refused=lambda: _is_refused(words),
    )


def _is_refused(words: Sequence[str]) -> bool:
    """Whether `memqos run` refuses these words, without the files that are watched."""
    collect = [sys.executable, "-m", "memqos", "run", *words, "--collect-only", "-q"]
    done = subprocess.run(collect, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return done.returncode == ExitCode.USAGE


command = click.Command(
    name="watch",
    help=HELP,
    callback=_watch,
    params=[
        *(
            click.Option([option], metavar="PATH", help=f"As of `memqos run`: the file of the {key.partition('_')[0]}.")
            for key, option in _OPTIONS.items()
        ),
        click.Argument(["words"], nargs=-1, type=click.UNPROCESSED, metavar="[RUN ARGS]..."),
    ],
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
)
