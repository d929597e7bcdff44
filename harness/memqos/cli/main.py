"""The command line: loads a verb's page, and turns every error into a message and an exit code.

A page is imported when its verb is used, so `memqos expect` loads neither gRPC nor QEMU.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys
import traceback
from pathlib import Path
from typing import NoReturn

import click

from memqos import frame
from memqos.cli.terminal import DEBUG, KnownVerbs, in_our_words, say
from memqos.config.settings import unknown_variables
from memqos.errors import ExitCode, MemqosError, UsageError
from memqos.interruption import Interruption
from memqos.version import __version__

__all__ = ["cli", "main"]

PAGES: dict[str, str] = {
    "run": "Boot a machine, run the conformance suites in it, print the verdict.",
    "watch": "Run, and rerun whenever the runtime binary changes.",
    "baseline": "Write a file that accepts a run's deviations until a date.",
    "mutants": "Make systems wrong on purpose, and report which claims notice.",
    "expect": "Print what every interface file must hold for these pods, and why.",
    "explore": "Judge random pods and requests, and shrink what deviates.",
    "audit": "Judge a node that runs pods, live or recorded: which interface file deviates, and why.",
    "analyze": "Analyse a benchmark's samples above memory.high: sleeping, thrashing, killed, or ended otherwise.",
    "collect": "Collect a node that runs pods into a file for audit.",
    "vectors": "Print literal cases of what kubelets write, for other programs' table tests.",
    "report": "Render, compare, merge and verify the results of runs.",
    "vm": "Build, list, enter and remove the virtual machines' images.",
    "settings": "Show every setting, its value and its origin.",
    "doctor": "Check whether this host can run memqos, and what to install.",
}
"""Verb to its line in `--help`; `_page` has its command."""

_PURE = (["expect"], ["audit"])
"""Verbs that read, answer and exit. Their objects have no cycles, and the garbage collector took half of their time."""

OTHER_SPELLINGS = {"analyse": "analyze", "record": "collect"}
"""Other spellings of verbs."""


def _page(verb: str) -> click.Command:  # noqa: C901, PLR0912 - one case for each verb
    """The command of a verb; its page is imported only now."""
    match verb:
        case "run":
            from memqos.cli.run import command
        case "watch":
            from memqos.cli.watch import command
        case "baseline":
            from memqos.cli.baseline import command
        case "mutants":
            from memqos.cli.mutants import command
        case "expect":
            from memqos.cli.expect import command
        case "explore":
            from memqos.cli.explore import command
        case "audit":
            from memqos.cli.audit import command
        case "analyze":
            from memqos.cli.analyze import command
        case "collect":
            from memqos.cli.collect import command
        case "vectors":
            from memqos.cli.vectors import command
        case "report":
            from memqos.cli.report import command
        case "vm":
            from memqos.cli.vm import command
        case "settings":
            from memqos.cli.settings import command
        case _:
            from memqos.cli.doctor import command
    return command


HELP = """Test Kubernetes memory QoS on cgroup v2.

memqos boots Linux machines, runs containers in them through a real runtime, applies the kubelet's rules, and checks
the values in the interface files and the kernel's behaviour.

\b
Begin with:
  memqos doctor                                  check whether this host can run memqos
  memqos run                                     run the default conformance cases and print a verdict
  memqos expect pod.yaml --kubernetes 1.36       print what every interface file must hold, and why
"""


class Verbs(KnownVerbs):
    """A group that imports its verbs on use; their one-line helps need no import."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature is click's
        """The verbs, in the order in which a newcomer needs them."""
        return list(PAGES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        """The page of a verb; None for another word."""
        verb = OTHER_SPELLINGS.get(cmd_name, cmd_name)
        if verb not in PAGES:
            return None
        command = _page(verb)
        _with_debug(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """The verbs with their help lines, without importing their pages."""
        with formatter.section("Commands"):
            formatter.write_dl(list(PAGES.items()))


def _show_tracebacks(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: ARG001 - click's
    shown = ctx.find_root().ensure_object(dict)
    shown[DEBUG] = value or shown.get(DEBUG, False)


def _with_debug(command: click.Command) -> None:
    """Give a page and the verbs below it the option --debug, unless present."""
    if any("--debug" in parameter.opts for parameter in command.params):
        return
    command.params.append(
        click.Option(
            ["--debug"], is_flag=True, is_eager=True, expose_value=False, callback=_show_tracebacks,
            help="Show the traceback of an error.",
        )
    )  # fmt: skip
    if isinstance(command, click.Group):
        for verb in command.commands.values():
            _with_debug(verb)


@click.command(
    cls=Verbs,
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 conforms, 1 deviates, 2 interrupted, 3 machinery failed, 4 usage, 5 nothing observed, "
    "6 this host cannot run it, 141 the reader closed the output.",
)
@click.version_option(__version__, "-V", "--version", prog_name="memqos", message="%(prog)s %(version)s")
def cli() -> None:
    """The memqos command; its help text is HELP."""


_with_debug(cli)


def terminal_text(error: MemqosError) -> str:
    """An error as text: what happened and where, then the next step on its own line."""
    kind = "finding" if error.exit_code is ExitCode.DEVIATES else "error"
    head = f"{error.where}: {error.what}" if error.where else error.what
    if isinstance(error, UsageError):
        # User input must not start a line.
        head = head.replace("\n", "\\n")
    lines = [f"memqos: {kind}: {head}"]
    if error.next_step:
        lines.append(f"        {error.next_step}")
    return "\n".join(lines)


def run(arguments: list[str]) -> int:
    """The exit code for these arguments; errors go to standard error.

    It raises nothing, so a bug of memqos cannot exit like a deviation.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name from a file may hold characters that the terminal's encoding lacks.
            stream.reconfigure(errors="backslashreplace")
    shown = {DEBUG: False}
    with Interruption() as interruption:
        try:
            code = _answer(arguments, shown)
        except BaseException as error:  # noqa: BLE001 - the frame is for all of them
            interruption.hold()
            code = _end(error, debug=shown[DEBUG])
        interruption.hold()
        trouble = frame.flush()
        if trouble is not None and code in {ExitCode.CONFORMS, ExitCode.DEVIATES}:
            code = _end(trouble)
        return code


def _answer(arguments: list[str], shown: dict[str, bool]) -> int:
    try:
        Path.cwd()
    except FileNotFoundError:
        raise UsageError("the current folder does not exist any more.", next_step="Change to another one.") from None
    if arguments[:1] != ["run"]:  # a run prints them in its header
        for note in unknown_variables(os.environ):
            say(f"memqos: {note}", err=True)
    answer = cli.main(args=arguments, prog_name="memqos", standalone_mode=False, obj=shown)
    return answer if isinstance(answer, int) else ExitCode.CONFORMS


def _end(error: BaseException, *, debug: bool = False) -> int:
    """Print the error, if standard error is open; its exit code."""
    if frame.is_closed_pipe(error):
        return ExitCode.CLOSED_PIPE
    if isinstance(error, click.Abort | KeyboardInterrupt):
        code, text = ExitCode.INTERRUPTED, "memqos: interrupted."
    else:
        told = in_tree(error)
        code, text = told.exit_code, terminal_text(told)
    with contextlib.suppress(OSError):  # standard error may be closed
        if debug:
            say("".join(traceback.format_exception(error)), err=True, end="")
        say(text, err=True)
    return code


def in_tree(error: BaseException) -> MemqosError:
    """Any exception of a page as a MemqosError."""
    if isinstance(error, click.UsageError):
        return in_our_words(error)
    if isinstance(error, click.ClickException):
        return UsageError(error.format_message())
    return frame.known(error)


def main() -> NoReturn:
    """The console script."""
    pure = sys.argv[1:2] in _PURE
    if pure:
        gc.disable()
    frame.open_missing_streams()
    frame.write_whole()
    code = run(sys.argv[1:])
    if frame.flush() is not None:
        # Python would flush again, print an error, and exit with another code.
        frame.lead_nowhere(sys.stdout)
        frame.lead_nowhere(sys.stderr)
    if code == ExitCode.INTERRUPTED:
        # Objects torn down in the middle of a call print errors when Python exits.
        frame.lead_nowhere(sys.stderr)
    if pure:
        gc.freeze()  # Otherwise Python collects all objects once more at exit.
    sys.exit(code)
