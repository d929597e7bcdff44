"""The command line: finds a verb's page, and turns every error into a sentence and an exit code.

Pages are loaded when their verb is used, so that `memqos expect` does not pay for gRPC or QEMU.
"""

from __future__ import annotations

import importlib
import io
import sys
from typing import NoReturn

import click

from memqos.cli.terminal import say
from memqos.errors import ExitCode, MemqosError, UsageError
from memqos.version import __version__

__all__ = ["cli", "main"]

PAGES: dict[str, tuple[str, str]] = {
    "run": ("memqos.cli.run", "Boot a machine, run the conformance suites in it, print the verdict."),
    "expect": ("memqos.cli.expect", "Print what every control file must hold for these pods, and why."),
    "audit": ("memqos.cli.audit", "Judge a recorded tree of cgroups: which control file deviates, and why."),
    "vm": ("memqos.cli.vm", "Build, list, enter and remove the virtual machines' images."),
    "doctor": ("memqos.cli.doctor", "Say whether this host can run memqos, and what to install."),
}
"""Verb to the module that holds its click command (`command`) and the line that `--help` shows."""


HELP = """Test and prove Kubernetes memory QoS on cgroup v2.

memqos boots real Linux machines, runs real containers in them through a real runtime, applies the kubelet's rules
and judges what the kernel then holds and does.

\b
Begin with:
  memqos doctor                                  can this host run it?
  memqos run                                     the default conformance, with a verdict
  memqos expect pod.yaml --kubernetes 1.36       what must every control file hold, and why?
"""


class Verbs(click.Group):
    """A group whose verbs are imported on use; their one-line helps are known without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature is click's
        """The verbs, in the order a newcomer meets them."""
        return list(PAGES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        """The page of a verb, or None for a word that is none."""
        if cmd_name not in PAGES:
            return None
        command = importlib.import_module(PAGES[cmd_name][0]).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{PAGES[cmd_name][0]}.command is not a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """The verbs with their lines, without importing their pages."""
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, line) for verb, (_, line) in PAGES.items()])


@click.command(
    cls=Verbs,
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 conforms, 1 deviates, 2 interrupted, 3 machinery failed, 4 usage, 5 nothing observed, "
    "6 this host is not able.",
)
@click.version_option(__version__, "-V", "--version", prog_name="memqos", message="%(prog)s %(version)s")
def cli() -> None:
    """The memqos command; its help text is HELP."""


def render(error: MemqosError) -> str:
    """An error as a person reads it: what happened and where, then the next step on a line of its own."""
    kind = "finding" if error.exit_code is ExitCode.DEVIATES else "error"
    head = f"{error.where}: {error.what}" if error.where else error.what
    if isinstance(error, UsageError):
        # What a person gave has no business on a line of its own.
        head = head.replace("\n", "\\n")
    lines = [f"memqos: {kind}: {head}"]
    if error.next_step:
        lines.append(f"        {error.next_step}")
    return "\n".join(lines)


def _shown(error: click.ClickException) -> str:
    """What click would say of an error."""
    text = io.StringIO()
    error.show(text)
    return text.getvalue().rstrip("\n")


def run(arguments: list[str]) -> int:
    """The exit code for these arguments; whatever has to be said about an error is on standard error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name out of a file may hold what the terminal's encoding cannot say.
            stream.reconfigure(errors="backslashreplace")
    try:
        answer = cli.main(args=arguments, prog_name="memqos", standalone_mode=False)
    except MemqosError as error:
        say(render(error), err=True)
        return error.exit_code
    except click.UsageError as error:
        say(_shown(error), err=True)
        return ExitCode.USAGE
    except click.ClickException as error:
        say(_shown(error), err=True)
        return ExitCode.MACHINERY
    except (click.Abort, KeyboardInterrupt):
        say("memqos: interrupted.", err=True)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has seen enough; python would complain again when it closes stdout.
        sys.stdout = None
        return ExitCode.CONFORMS
    return answer if isinstance(answer, int) else ExitCode.CONFORMS


def main() -> NoReturn:
    """The console script."""
    sys.exit(run(sys.argv[1:]))
