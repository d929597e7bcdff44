"""`memqos run`: the conformance suites on a machine, run by pytest, with memqos's own settings and exit codes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from memqos.catalog import kubelets
from memqos.catalog.data import data_root
from memqos.cli.comparing import OPTION, run_compared
from memqos.cli.progress import shown_progress
from memqos.cli.setting_options import setting_option, settings_from
from memqos.cli.suites import Selection, select_suites
from memqos.cli.words import DEBUG, unknown_option
from memqos.config.settings import Settings
from memqos.config.table import SETTINGS
from memqos.errors import ExitCode, UsageError
from memqos.place.opening import check_host, check_places, prepare_places

__all__ = ["command", "pytest_arguments"]

HELP = """Boot a machine, run containers in it by the kubelet's rules, and check the kernel's values and behaviour.

The first run builds the VM image, which takes minutes; later runs restore it. Each case conforms, deviates (a finding
about the system under test), is not observable (with the reason), or ends in a machinery error. The results are in
results/TIME: report.html, bundle.json, junit_01.xml, and the evidence of each failure.

Name a folder with your own suites, a chapter, a file or a test to run only that. Options that memqos does not know go
to pytest: --durations, --collect-only ...

\b
Examples:
  memqos run                                    the default cases, in minutes
  memqos run --all                              everything
  memqos run -k best-effort                     cases whose name matches
  memqos run --kubernetes 1.27,1.36             the rules of two releases
  memqos run --runtime crun --driver cgroupfs   another runtime, another cgroup driver
  memqos run --runtime runc,oci:crun            the same cases with both, in one matrix
  memqos run --runtime-binary ./my-runc         your runtime instead of the machine's runc
  memqos run --runtime-binary ./my-runc --compare runc.dist     what your runtime makes worse
  memqos run --profile bookworm,trixie,forky    the same cases on three systems, in one matrix
  memqos run --profile bookworm --cgroup v1     cgroup v1
  memqos run -n auto                            the number of machines that is fastest on this host
  memqos run throttling                         one chapter
  memqos run --target ssh://root@node7          an existing machine without pods
  memqos run suites                             your own suites in the folder ./suites
"""


def _run(
    *,
    keyword: str | None,
    marks: str | None,
    exit_first: bool,
    workers: str | None,
    overrides: Sequence[str],
    as_json: bool,
    against: str | None,
    words: Sequence[str],
    **given: Any,
) -> int:
    chosen = select_suites(words, brought=data_root() / "suites", here=Path.cwd())
    settings = settings_from(given, configuration=chosen.configuration, overrides=overrides)
    _check(settings)
    _check_workers(workers)
    if not {"--collect-only", "--co"} & set(words):
        check_host(settings)
        if against is not None:
            said: Sequence[str] = click.get_current_context().meta[_SAID]
            return run_compared(settings, said, against=against, as_json=as_json)
    selection = [*_pair("-k", keyword), *_pair("-m", marks), *_pair("-n", workers), *(["-x"] if exit_first else [])]
    selection += [word for one in overrides for word in ("-o", one)]
    if click.get_current_context().find_root().ensure_object(dict).get(DEBUG):
        selection.append("--full-trace")
    arguments = pytest_arguments(chosen, settings, selection=selection)
    # Python would otherwise leave its compiled files beside the suites, which may be inside the installed package.
    sys.dont_write_bytecode = True
    running = Running(settings)
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        code = int(pytest.main(arguments, plugins=[running]))
    bundle = running.results / "bundle.json" if running.results is not None else None
    if as_json and bundle is not None and bundle.exists():
        click.echo(bundle.read_text(encoding="utf-8"), nl=False)
    return code


def _check(settings: Settings) -> None:
    """Raise an error for an unknown name or a missing file, before anything is built."""
    check_places(settings)
    known = kubelets.load_kubelets(on=settings.cgroup)
    kubelets.select_kubelets(known, settings.kubernetes, where=settings.origins["kubernetes"])


def _check_workers(asked: str | None) -> None:
    """Check -n as pytest-xdist does: its own check comes after the image builds, and it accepts -1."""
    if asked is not None and asked not in {"auto", "logical"} and not (asked.isascii() and asked.isdigit()):
        raise UsageError(f"'{asked}' is not a number of machines.", where="-n", next_step="Give 1 or more, or auto.")


class Running:
    """What `memqos run` adds to pytest's run, beside the plugin.

    memqos_settings: the plugin reads it, so errors and bundles name the given option or variable. results: the folder
    of the run, set at its end.
    """

    def __init__(self, settings: Settings) -> None:
        self.memqos_settings = settings
        self.results: Path | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_load_initial_conftests(self, parser: pytest.Parser, args: list[str]) -> Generator[None, object, object]:
        """Report options that pytest does not know: most of them are misspelled options of memqos."""
        result = yield
        _, unknown = parser.parse_known_and_unknown_args(args)
        for word in unknown:
            if word.startswith("-"):
                options = [option for one in command.params for option in one.opts]
                raise unknown_option(word, options, where="memqos run")
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Check before the first case whether this host can run a machine, and build the images that the cases need.

        Under xdist only the workers know the cases. Machines come from the plugin's fixture qos_lane alone.
        """
        option = session.config.option
        if option.collectonly or not (session.items or getattr(option, "numprocesses", None)):
            return
        if session.items and not any("qos_lane" in getattr(item, "fixturenames", ()) for item in session.items):
            return
        with shown_progress() as progress:
            prepare_places(self.memqos_settings, progress=progress)

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Record the results folder."""
        recording = config.pluginmanager.get_plugin("memqos-recording")
        self.results = recording.folder if recording is not None else None


def pytest_arguments(chosen: Selection, settings: Settings, *, selection: Sequence[str] = ()) -> list[str]:
    """The arguments with which pytest runs the chosen suites. selection: options with their values."""
    return [
        *("-c", str(chosen.configuration), f"--rootdir={chosen.root}", f"--confcutdir={chosen.conftest_root}"),
        *("-p", "no:cacheprovider", "-r", "N"),
        # The plugin is loaded explicitly, since this command is part of the same package.
        *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
        *_settings_arguments(settings),
        *selection,
        *chosen.words,
    ]


def _settings_arguments(settings: Settings) -> list[str]:
    arguments = []
    for one in settings.entries():
        option, value = one.setting.pytest_option, one.value
        if not one.is_given or value is None or value is False:
            continue
        if value is True:
            arguments.append(option)
        elif one.setting.kind.is_repeated and isinstance(value, tuple):
            arguments += [f"{option}={file}" for file in value]
        else:
            arguments.append(f"{option}={one.text}")
    return arguments


def _pair(option: str, value: str | None) -> list[str]:
    return [] if value is None else [option, value]


_PYTEST_OPTIONS: Mapping[str, click.Option] = {
    "keyword": click.Option(["-k", "keyword"], metavar="EXPR", help="Only cases whose name matches."),
    "marks": click.Option(["-m", "marks"], metavar="EXPR", help="Only cases with these markers, such as 'behaviour'."),
    "exit_first": click.Option(["-x", "exit_first"], is_flag=True, help="Stop at the first failure or error."),
    "workers": click.Option(
        ["-n", "workers"],
        metavar="N",
        help="Number of machines at a time, each with its own memory; auto is the fastest number on this host.",
    ),
    "overrides": click.Option(
        ["-o", "--override-ini", "overrides"],
        multiple=True,
        metavar="KEY=VALUE",
        help="A setting as in a pytest configuration file; memqos_NAME is the setting NAME.",
    ),
}


class _Command(click.Command):
    """A command that keeps its arguments as typed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's."""
        ctx.meta[_SAID] = tuple(args)
        return super().parse_args(ctx, args)


_SAID = "memqos.run"

_CODES = ", ".join(f"{code.value} {code.name.lower().replace('_', ' ')}" for code in ExitCode)
_EPILOG = f"Exit codes: {_CODES}."

command: click.Command = _Command(
    name="run",
    help=HELP,
    callback=_run,
    params=[
        *(setting_option(setting) for setting in SETTINGS),
        *_PYTEST_OPTIONS.values(),
        click.Option(
            [OPTION, "against"],
            metavar="NAME",
            help="Run with this runtime first, and exit with 1 only for what got worse. runc.dist is the machine's own "
            "build of the runtime given with --runtime-binary; crun is another runtime.",
        ),
        click.Option(
            ["--json", "as_json"], is_flag=True, help="Print the bundle to stdout and everything else to stderr."
        ),
        click.Argument(["words"], nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST ARGS]..."),
    ],
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
    epilog=_EPILOG,
)
