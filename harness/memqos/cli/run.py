"""`memqos run`: the conformance suites on a machine, run by pytest, with memqos's own settings and exit codes.

Also `memqos run` in a child process, for verbs that run several times; `--compare NAME`: the same cases with another
runtime first, then what is worse with this one; and the suites of a run: memqos's own, or the folders, files and tests
on the command line.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from memqos import claims
from memqos.bundles.files import write
from memqos.catalog.data import data_root
from memqos.cli.progress import shown_progress
from memqos.cli.settings import setting_option, settings_from
from memqos.cli.terminal import DEBUG, say, say_document, unknown_option
from memqos.clock import utc_now
from memqos.config.settings import Settings
from memqos.config.table import PREFIX, RUNTIMES, SETTINGS, oci_runtime, offered_name
from memqos.errors import ExitCode, UnknownNameError, UsageError
from memqos.laboratory.kubelets_in_use import kubelets_in_use
from memqos.place.opening import check_host, check_places, prepare_places
from memqos.report.markdown import support_lines, support_of

__all__ = ["command", "pytest_arguments", "run_alone", "select_suites"]


def run_alone(
    arguments: Sequence[str], *, environment: Mapping[str, str] | None = None, on_stderr: bool = False
) -> int:
    """The child's exit code. An interrupt is passed to the child, and raised after it has ended.

    environment: None is this process's own. on_stderr: its output goes to standard error.
    """
    # In its own process group it gets Ctrl-C only from this process, not also from the terminal.
    process = subprocess.Popen(
        [sys.executable, "-m", "memqos", "run", *arguments],
        process_group=0,
        env=environment,
        stdout=sys.stderr if on_stderr else None,
    )
    interrupted = False
    while True:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            interrupted = True
            process.send_signal(signal.SIGINT)
        else:
            break
    if interrupted or code == ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    return code


OPTION = "--compare"
_OWN_BUILD = ".dist"
_BROUGHT = ("runtime_binary", "runtime_deb", "runtime_version")
"""Settings that replace the machine's own runtime."""
_UNDER_TEST = "under-test"
_JUDGED = frozenset({ExitCode.CONFORMS, ExitCode.DEVIATES})


def run_compared(settings: Settings, words: Sequence[str], *, against: str, as_json: bool) -> int:
    """Run twice, and compare. words: the arguments of `memqos run`. against: runc.dist, or a runtime's name.

    The exit code is 1 only for deviations of the runtime under test that the other does not have. If a run could not be
    judged, its exit code is returned. `--last-failed` has no effect. Raises UsageError for an unsuitable runtime to
    compare with.
    """
    other = _other(settings, against)
    base = settings.results or Path("results") / utc_now().strftime("%Y-%m-%dT%H-%M-%SZ")
    folders = {against: base / against.replace(":", "-"), _UNDER_TEST: base / _UNDER_TEST}
    # Failures of one of the two runs must not select the cases of both: a comparison needs the same cases.
    plain = list(_without([word for word in words if word != "--last-failed"], {OPTION, "--results"}))
    dropped = [*_BROUGHT, *(["runtime"] if other else [])]
    apart = list(_without(plain, {f"--{name.replace('_', '-')}" for name in dropped}))
    environment = {name: text for name, text in os.environ.items() if name not in {_variable(one) for one in dropped}}
    runs: Mapping[str, tuple[Sequence[str], Mapping[str, str]]] = {
        against: ([*(["--runtime", other] if other else []), *apart], environment),
        _UNDER_TEST: (plain, os.environ),
    }
    for name, (arguments, variables) in runs.items():
        say(f"memqos: running with {name}", err=as_json)
        words_of = ["--results", str(folders[name]), *arguments]
        code = run_alone(words_of, environment=variables, on_stderr=as_json)
        if code not in _JUDGED:
            say(f"memqos: note: the run with {name} was not judged, so nothing is compared", err=True)
            return code
    return _compared(folders, base, as_json=as_json)


def _other(settings: Settings, against: str) -> str:
    """The runtime to name in the other run; "" if it has the same name and is the machine's own build."""
    name = against.removesuffix(_OWN_BUILD)
    if name not in RUNTIMES:
        raise UnknownNameError.of("runtime", against, [f"{name}{_OWN_BUILD}", *RUNTIMES], where=OPTION)
    if len(settings.runtime) != 1:
        raise UsageError(
            f"a comparison tests one runtime, not {len(settings.runtime)}.",
            where=settings.origins["runtime"],
            next_step="Name one; a run of several runtimes prints a matrix.",
        )
    [tested] = settings.runtime
    brought = [key for key in _BROUGHT[:2] if getattr(settings, key)]
    same = offered_name(name) == offered_name(tested) or (against != name and oci_runtime(tested) == name)
    if same and not brought:
        raise UsageError(
            f"{against} is already the runtime under test.",
            where=OPTION,
            next_step="Bring another build with --runtime-binary, or name another runtime.",
        )
    for key in brought:
        origin = settings.origins[key]
        if not origin.startswith("--") and origin != _variable(key):
            raise UsageError(
                f"the file replaces the machine's own runtime in both runs: {origin}.",
                where=OPTION,
                next_step=f"Give --{key.replace('_', '-')} on the command line instead.",
            )
    by_path = any(file.option == settings.origins["runtime"] for file in settings.runtime_binary)
    return (tested if by_path else "") if same else name


def _variable(key: str) -> str:
    return f"{PREFIX}{key.upper()}"


def _without(words: Sequence[str], options: Collection[str]) -> Iterator[str]:
    """The words without these options and their values."""
    passing = False
    for word in words:
        if passing:
            passing = False
        elif word in options:
            passing = True
        elif word.partition("=")[0] not in options:
            yield word


def _compared(folders: Mapping[str, Path], base: Path, *, as_json: bool) -> int:
    from memqos.bundles.comparing import compare, comparison_lines
    from memqos.bundles.reading import read_results

    read = {name: read_results(folder).bundle for name, folder in folders.items()}
    comparison = compare(*read.values())
    write(base / "comparison.json", json.dumps(comparison.to_json(), indent=1, ensure_ascii=False) + "\n")
    if as_json:
        say_document(comparison.to_json())
    else:
        for line in ("", *support_lines(support_of(read.items())), "", *comparison_lines(comparison)):
            say(line)
        say(f"results: {base}")
    return ExitCode.DEVIATES if comparison.new_deviations else ExitCode.CONFORMS


_LISTED = "memqos run --collect-only -q lists every test."


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """pytest's arguments: words, some of them places, and the folder of suites that node ids are relative to.

    conftest_root: the topmost folder whose conftest.py counts.
    """

    words: tuple[str, ...]
    root: Path
    configuration: Path
    conftest_root: Path


def select_suites(words: Sequence[str], *, brought: Path, here: Path) -> Selection:
    """Resolve the words on the command line of `memqos run` that are not its options.

    A word may name a place, or a chapter of memqos's own suites, from any current folder; pytest gets other words
    unchanged. Without a place, all of memqos's own suites run. brought: the folder of memqos's own suites. here: the
    current folder. Raises UsageError for a place that does not exist or is not in a folder of suites.
    """
    found: list[str] = []
    roots: list[Path] = []
    for number, word in enumerate(words):
        place = None if word.startswith("-") else _place(word, brought, here)
        if place is not None:
            path, root = place
            roots.append(root)
            found.append(f"{path}{word[len(word.partition('::')[0]) :]}")
            continue
        if not word.startswith("-") and not (number and words[number - 1].startswith("-")):
            raise _unknown(word, brought, here)
        found.append(word)
    root = roots[0] if len(set(roots)) == 1 else brought
    own = root / "pytest.ini"
    return Selection(
        words=(*found, *([] if roots else [str(brought)])),
        root=root,
        configuration=own if own.is_file() else brought / "pytest.ini",
        conftest_root=here if root.is_relative_to(here) else root,
    )


def _place(word: str, brought: Path, here: Path) -> tuple[Path, Path] | None:
    """The path that a word names, and its folder of suites; None for other words."""
    path = word.partition("::")[0]
    if not path:
        return None
    for place in (Path(path), Path("suites", path)):
        # Symbolic links stay unresolved, so paths read as typed.
        absolute = Path(os.path.normpath(here / place))
        if absolute.exists():
            for folder in (absolute, *absolute.parents):
                if claims.is_suites_root(folder):
                    return absolute, folder
    for name in (path, path.removeprefix("suites/")):
        if (brought / name).exists() and (brought / name).is_relative_to(brought):
            return brought / name, brought
    return None


def _unknown(word: str, brought: Path, here: Path) -> UsageError:
    path = word.partition("::")[0]
    if (here / path).exists():
        return UsageError(
            f"'{path}' is not in a folder of suites: no chapter with a {claims.FILE_NAME} in it or above it.",
            next_step="Name a folder of suites, or a file or test in one.",
        )
    if "::" in word or word.endswith(".py"):
        return UsageError(f"test file '{path}' does not exist.", next_step=_LISTED)
    return UnknownNameError.of("suite", word, sorted(_chapters(brought)))


def _chapters(root: Path) -> Iterator[str]:
    return (file.parent.name for file in root.glob(f"*/{claims.FILE_NAME}"))


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
  memqos run --image fedora.qcow2               a distribution's cloud image
  memqos run --kernel-tree ~/linux              the kernel that you have built
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
    # Otherwise Python leaves its compiled files next to the suites, which may be in the installed package.
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
    kubelets_in_use(settings)


def _check_workers(asked: str | None) -> None:
    """Check -n as pytest-xdist does: its own check comes after the image builds, and it accepts -1."""
    if asked is not None and asked not in {"auto", "logical"} and not (asked.isascii() and asked.isdigit()):
        raise UsageError(f"'{asked}' is not a number of machines.", where="-n", next_step="Give 1 or more, or auto.")


class Running:
    """What `memqos run` adds to pytest's run, besides the plugin.

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
