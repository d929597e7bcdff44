"""`memqos watch`: runs, and reruns the failed cases whenever the runtime's binary changes."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from memqos.cli.run import run_alone
from memqos.cli.terminal import say
from memqos.clock import SYSTEM_CLOCK, Clock
from memqos.config.runtime_files import runtime_file, without_paths
from memqos.errors import ExitCode, UsageError

__all__ = ["command", "watched"]

HELP = """Run, and rerun whenever the binary of a runtime changes, until Ctrl-C.

The first run runs every selected case. A change reruns the failed cases; once none of them fails, all cases run again.
The options are those of `memqos run`.

\b
Examples:
  memqos watch --runtime-binary ./my-runc                     all default cases
  memqos watch --runtime oci:./youki requests                 a runtime of any name, without a daemon
  memqos watch --runtime-binary ./my-runc -k huge-pages       cases whose name matches
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
    """Run at once, and after each change of a file; the last exit code.

    run: runs everything, or with True the cases that failed last. is_refused: whether the run is a usage error whatever
    the files' content; then the watch ends. rounds: how many changes to wait for, None for no limit. A file that is
    being written counts once two checks in a row find it unchanged; a missing file is waited for.
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
    """Wait until the files differ from `seen`, and are complete and unchanged between two checks."""
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
    files = [runtime_file(value, _OPTIONS[key]).path for key, value in given.items() if value is not None]
    files += _runtimes_by_path(words)
    if not files:
        raise UsageError("no file to watch.", where="memqos watch", next_step=f"Give {' or '.join(_OPTIONS.values())}.")
    for file in files:
        if not file.is_file():
            raise UsageError(f"'{file}' is not a file.", where="memqos watch")
    options = [word for key, value in given.items() if value is not None for word in (_OPTIONS[key], value)]
    return watched(
        files,
        lambda again: run_alone([*options, *words, *(["--last-failed"] if again else [])]),
        is_refused=lambda: run_rejects(words),
    )


def _runtimes_by_path(words: Sequence[str]) -> list[Path]:
    """The files of runtimes that are named by their paths: --runtime oci:./uxc."""
    texts = [word.removeprefix("--runtime=") for word in words if word.startswith("--runtime=")]
    texts += [word for option, word in itertools.pairwise(words) if option == "--runtime"]
    chosen = [one.strip() for text in texts for one in text.split(",") if "/" in one]
    return [file.path for file in without_paths(chosen, "--runtime")[1]]


def run_rejects(words: Sequence[str]) -> bool:
    """Whether `memqos run` rejects these words, without the watched files."""
    collect = [sys.executable, "-m", "memqos", "run", *words, "--collect-only", "-q"]
    done = subprocess.run(collect, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return done.returncode == ExitCode.USAGE


command = click.Command(
    name="watch",
    help=HELP,
    callback=_watch,
    params=[
        *(
            click.Option([option], metavar="PATH", help=f"The {key.partition('_')[0]} binary, as for `memqos run`.")
            for key, option in _OPTIONS.items()
        ),
        click.Argument(["words"], nargs=-1, type=click.UNPROCESSED, metavar="[RUN ARGS]..."),
    ],
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
)
