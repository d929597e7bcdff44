"""`memqos run`: the conformance suites in a machine, as pytest runs them, with memqos's own settings and exit codes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from memqos.catalog.data import data_root
from memqos.catalog.kubelets import load_kubelets, select
from memqos.catalog.profiles import load_profile
from memqos.catalog.topologies import load_topology
from memqos.cli.progress import shown_progress
from memqos.cli.setting_options import setting_option, settings_from
from memqos.clock import utc_now
from memqos.config.settings import Settings
from memqos.config.table import SETTINGS, Kind
from memqos.errors import ExitCode, UsageError
from memqos.model.node import CgroupVersion
from memqos.vm.cache.store import default_cache
from memqos.vm.host.capacity import check_room
from memqos.vm.host.programs import find_qemu
from memqos.vm.image.making import ensure_image
from memqos.vm.options import boot_options, check_options, kernel_words

__all__ = ["command", "pytest_arguments"]

HELP = """Boot a machine, run real containers in it by the kubelet's rules, and judge what the kernel holds and does.

The first run builds the machine's image (minutes); later ones boot it. Each case ends in one of: conforms, deviates
(a finding about the system under test), not observable (with the reason), or an error of the machinery. Results are
kept in results/TIME: bundle.json, junit_01.xml, and the evidence of each failure.

What is not an option of memqos is handed to pytest: node ids as they are printed, --durations, --collect-only ...

\b
Examples:
  memqos run                                    everything
  memqos run -k best-effort                     the cases whose name matches
  memqos run --kubernetes 1.27,1.36             the rules of two releases
  memqos run --runtime crun --driver cgroupfs   another runtime, another cgroup driver
  memqos run --runtime-binary ./my-runc         your runtime in the place of the machine's runc
  memqos run --profile bookworm,trixie,forky    the same cases on three systems, and a matrix of them
  memqos run --profile bookworm --cgroup v1     what holds of cgroup v1
  memqos run -n 2                               two machines at a time
"""


def _run(
    *,
    keyword: str | None,
    marks: str | None,
    exit_first: bool,
    workers: str | None,
    as_json: bool,
    words: Sequence[str],
    **given: Any,
) -> int:
    # An option that may be given several times, and was not, is an empty tuple.
    settings = settings_from(given)
    _check(settings)
    _check_workers(workers)
    suites = data_root() / "suites"
    selection = [*_pair("-k", keyword), *_pair("-m", marks), *_pair("-n", workers), *(["-x"] if exit_first else [])]
    results = settings.results or Path("results") / utc_now().strftime("%Y-%m-%dT%H-%M-%SZ")
    arguments = pytest_arguments(suites, settings, results=results, selection=selection, words=words)
    if not {"--collect-only", "--co"} & set(words):
        _prepare(settings)
    # Python would otherwise leave its compiled files beside the suites, which may be inside the installed package.
    sys.dont_write_bytecode = True
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        code = int(pytest.main(arguments))
    bundle = results / "bundle.json"
    if as_json and bundle.exists():
        click.echo(bundle.read_text(encoding="utf-8"), nl=False)
    return code


def _check(settings: Settings) -> None:
    """Every name and file is there: asked before anything is built."""
    load_topology(settings.word("topology"))
    known = load_kubelets(on=CgroupVersion(settings.word("cgroup")))
    select(known, settings.kubernetes, where=settings["kubernetes"].origin)
    options = check_options(boot_options(settings.plain)).options
    for name in settings.profiles:
        kernel_words(load_profile(name), options)


def _check_workers(asked: str | None) -> None:
    """-n takes what pytest-xdist takes; its own error comes after the images, and -1 means nothing to it."""
    if asked is not None and asked not in {"auto", "logical"} and not (asked.isascii() and asked.isdigit()):
        raise UsageError(f"'{asked}' is not a number of machines.", where="-n", next_step="Give 1 or more, or auto.")


def _prepare(settings: Settings) -> None:
    """Find out at once whether this host can run a machine, and make the images while nothing else is said."""
    topology = load_topology(settings.word("topology"))
    check_room(topology.name, topology.memory_bytes)
    find_qemu()
    with shown_progress() as progress:
        for name in settings.profiles:
            ensure_image(load_profile(name), default_cache(os.environ), progress=progress)


def pytest_arguments(
    suites: Path, settings: Settings, *, results: Path, selection: Sequence[str] = (), words: Sequence[str] = ()
) -> list[str]:
    """The arguments with which pytest runs the suites of this folder.

    selection: options with their values. words: what else the person added. A word that names a suite, a file or a
    test below the folder is made to mean it, wherever the command is given; the whole folder is run if there is none.
    """
    named = [_below(suites, word) for word in words]
    places = [word for word, given in zip(named, words, strict=True) if word != given]
    return [
        *("-c", str(suites / "pytest.ini"), f"--rootdir={suites}"),
        *("-p", "no:cacheprovider", "-r", "N"),
        # The plugin is loaded already, since this command is part of the same package.
        *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
        *_settings_arguments(settings),
        f"--memqos-results={results.absolute()}",
        *selection,
        *named,
        *([] if places else [str(suites)]),
    ]


def _settings_arguments(settings: Settings) -> list[str]:
    arguments = []
    for setting in SETTINGS:
        value = settings[setting.key].value
        if setting.name == "results" or settings[setting.key].origin == "default" or value is None or value is False:
            continue
        if value is True:
            arguments.append(setting.pytest_option)
        elif setting.kind is Kind.FILES and isinstance(value, tuple):
            arguments += [f"{setting.pytest_option}={file}" for file in value]
        else:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            arguments.append(f"{setting.pytest_option}={text}")
    return arguments


def _below(suites: Path, word: str) -> str:
    if word.startswith("-"):
        return word
    path = word.partition("::")[0]
    for place in (path, path.removeprefix("suites/")):
        if place and (suites / place).exists():
            return str(suites / place) + word[len(path) :]
    if "::" in word:
        raise UsageError(
            f"there is no test file '{path}'.", next_step="memqos run --collect-only -q lists every test there is."
        )
    return word


def _pair(option: str, value: str | None) -> list[str]:
    return [] if value is None else [option, value]


_PYTEST_OPTIONS: Mapping[str, click.Option] = {
    "keyword": click.Option(["-k", "keyword"], metavar="EXPR", help="Only cases whose name matches."),
    "marks": click.Option(["-m", "marks"], metavar="EXPR", help="Only cases with these markers, such as 'behaviour'."),
    "exit_first": click.Option(["-x", "exit_first"], is_flag=True, help="Stop at the first failure or error."),
    "workers": click.Option(["-n", "workers"], metavar="N", help="Machines at a time, each with its own memory."),
}

_CODES = ", ".join(f"{code.value} {code.name.lower().replace('_', ' ')}" for code in ExitCode)
_EPILOG = f"Exit codes: {_CODES}."

command = click.Command(
    name="run",
    help=HELP,
    callback=_run,
    params=[
        *(setting_option(setting) for setting in SETTINGS),
        *_PYTEST_OPTIONS.values(),
        click.Option(["--json", "as_json"], is_flag=True, help="Print the bundle; everything else goes to stderr."),
        click.Argument(["words"], nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST ARGS]..."),
    ],
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
    epilog=_EPILOG,
)
