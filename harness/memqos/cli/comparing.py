"""`memqos run --compare NAME`: the same cases with another runtime first, then what is worse with this one."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from memqos.bundles.files import write
from memqos.cli.own_process import run_alone
from memqos.cli.terminal import say, say_document
from memqos.clock import utc_now
from memqos.config.kinds import PREFIX
from memqos.config.runtimes import RUNTIMES, oci_runtime, offered_name
from memqos.config.settings import Settings
from memqos.errors import ExitCode, UnknownNameError, UsageError
from memqos.report.support import support_lines, support_of

__all__ = ["OPTION", "run_compared"]

OPTION = "--compare"
_OWN_BUILD = ".dist"
_BROUGHT = ("runtime_binary", "runtime_deb", "runtime_version")
"""Settings that replace the machine's own runtime."""
_UNDER_TEST = "under-test"
_JUDGED = frozenset({ExitCode.CONFORMS, ExitCode.DEVIATES})


def run_compared(settings: Settings, words: Sequence[str], *, against: str, as_json: bool) -> int:
    """Run twice, and compare. words: the arguments of `memqos run`. against: runc.dist, or a runtime's name.

    The exit code is 1 only for deviations of the runtime under test that the other does not have. If a run could not be
    judged, its exit code is returned. `--last-failed` has no effect. Raises UsageError for a runtime that cannot be
    compared with.
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
    return "" if same else name


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
