"""`memqos mutants`: systems made wrong on purpose, and which claims of the suites notice each of them."""

from __future__ import annotations

import contextlib
import datetime
import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from memqos.cli.progress import shown_progress
from memqos.cli.settings import MACHINE, setting_options, settings_from
from memqos.cli.terminal import say
from memqos.clock import SYSTEM_CLOCK
from memqos.config.settings import Settings
from memqos.errors import ExitCode, UsageError
from memqos.mutants.fakes import FakeRig
from memqos.mutants.programs.oci_runtime import alone
from memqos.mutants.rigs import Catalogue
from memqos.mutants.session import DEFAULT_RUNTIMES, need_runtimes_of_images, open_rigs
from memqos.mutants.table import Mutant, load_mutants, select_mutants
from memqos.mutants.trial import Fate, Outcome, Rig, outcome_line, score_document, score_lines, try_mutants_on_rigs

__all__ = ["command"]

HELP = """Make systems wrong on purpose, and see which claims notice: proof that the suites can fail.

A mutant is an OCI runtime, a CRI server, an enforcement, a systemd unit, another writer or a kernel condition that is
wrong in one way. For each mutant memqos runs the cases that can notice it, fastest first, and stops at the first kill.
It prints the claim that killed the mutant, and whether the claim named the right interface file of the right cgroup.

The mutants are rows of data in vm/mutants. --mutants adds your own: see docs/how-to/mutants.md.

\b
Examples:
  memqos mutants                                   all mutants, on one machine
  memqos mutants --list                            the mutants, and the claims that can notice each
  memqos mutants -k memory-min                     mutants whose name contains memory-min
  memqos mutants --runtime oci:crun                crun made wrong, without a daemon
  memqos mutants --mutants mine.toml               your own mutants as well
  memqos mutants --default                         what the default run would find
  memqos mutants --count 10                        ten mutants, drawn by today's date
  memqos mutants --fake                            in memory, within a minute, without a machine
  memqos mutants --json score.json                 the score as JSON; `memqos report --mutants` shows it with a run
  memqos mutants -k no-zswap-w --write ./my-runc   a runtime that is always wrong in this way

The exit code is 1 if a mutant survived or a claim named a wrong file, and 0 if none did.
"""

_LEFT_OUT = {"runtime-binary", "guest-file", "guest-unit", "containerd-binary", "containerd-config"}
"""Settings of a machine that conflict with the wrong programs."""
OPTIONS = ("profile", "driver", *(name for name in MACHINE if name not in _LEFT_OUT))
_SHOWN = 6
"""The most claims on a line of the list."""


@setting_options(OPTIONS)
@click.command(name="mutants", help=HELP)
@click.option("-k", "keyword", default="", metavar="NAME",
              help="Only mutants whose name contains this, or either of two: 'A or B'.")  # fmt: skip
@click.option("--mutants", "files", multiple=True, type=click.Path(path_type=Path), metavar="FILE|DIR",
              help="Also the mutants of this TOML file, or of all in this folder. May be repeated.")  # fmt: skip
@click.option("--only-mine", is_flag=True, help="Leave out memqos's own mutants.")
@click.option("--default", "default_run", is_flag=True,
              help="Try only the cases of the default run: which mutants it would find.")  # fmt: skip
@click.option("--count", type=click.IntRange(1), metavar="N", help="Try only N mutants, drawn anew each day.")
@click.option("--seed", metavar="TEXT", help="Draw by this text instead of today's date, with --count.")
@click.option("--fake", is_flag=True, help="Try mutants on the fake runtime in memory, without a machine.")
@click.option("--list", "as_list", is_flag=True, help="List the mutants and the claims that can notice them.")
@click.option("--write", "program", metavar="FILE",
              help="Write the selected OCI runtime as a program for `memqos run --runtime-binary`.")  # fmt: skip
@click.option(
    "--json", "json_file", metavar="FILE", help="Write the outcomes and the score as JSON; - is standard output."
)
def command(
    *,
    keyword: str,
    files: Sequence[Path],
    only_mine: bool,
    default_run: bool,
    count: int | None,
    seed: str | None,
    fake: bool,
    as_list: bool,
    json_file: str | None,
    program: str | None,
    **given: Any,
) -> int:
    """The page of `memqos mutants`."""
    if only_mine and not files:
        raise UsageError("there are no mutants of yours.", where="--only-mine", next_step="Add --mutants FILE.")
    mutants = _drawn(select_mutants(load_mutants(files, shipped=not only_mine), keyword), count, seed)
    if program is not None:
        return _written(mutants, Path(program))
    settings = settings_from(given)
    catalogue = Catalogue(default_run=default_run)
    if as_list:
        return _listed(mutants, settings, catalogue)
    trial = _Trial(mutants, settings, catalogue, json_file)
    return trial.in_memory() if fake else trial.on_a_machine()


def _drawn(mutants: Sequence[Mutant], count: int | None, seed: str | None) -> Sequence[Mutant]:
    """`count` of the mutants that are not equivalent, in their order; all without a count."""
    if count is None:
        return mutants
    by = seed or datetime.datetime.now(datetime.UTC).date().isoformat()
    able = [one for one in mutants if not one.equivalent]
    drawn = random.Random(by).sample(able, min(count, len(able)))  # noqa: S311 - a draw, not a secret
    return [one for one in mutants if one in drawn]


def _written(mutants: Sequence[Mutant], path: Path) -> int:
    """A program that is always wrong in one mutant's way. UsageError for several, and for one of another kind."""
    faults = [one.oci for one in mutants if one.oci is not None and not one.oci.program]
    if len(faults) != 1 or len(mutants) != 1:
        names = ", ".join(one.name for one in mutants[:_SHOWN])
        raise UsageError(f"one OCI runtime is needed, and -k selects {names}.", where="--write", next_step="Name one.")
    try:
        path.write_text(alone(faults[0].document()), encoding="utf-8")
        path.chmod(0o755)
    except OSError as error:
        raise UsageError(
            f"'{path}' cannot be written: {(error.strerror or str(error)).lower()}.", where="--write"
        ) from None
    say(f"{path}: {mutants[0].wrong}")
    return ExitCode.CONFORMS


def _listed(mutants: Sequence[Mutant], settings: Settings, catalogue: Catalogue) -> int:
    """Each mutant with its fault, and the claims that are tried."""
    rig = FakeRig(_runtimes(settings)[0], settings.driver[0], catalogue)
    case_choice = catalogue.case_choice(rig.case_choice.runtimes)
    for mutant in mutants:
        say(f"{mutant.name}: {mutant.kind}. {mutant.wrong}")
        if mutant.equivalent:
            say(f"  equivalent: {mutant.equivalent}")
            continue
        claims = [case.claim.id for case in case_choice.candidates(mutant)]
        say(f"  names    {', '.join(mutant.knobs)} of the {' or '.join(mutant.levels)}")
        more = f" and {len(claims) - _SHOWN} more" if len(claims) > _SHOWN else ""
        say(f"  claims   {', '.join(claims[:_SHOWN]) or 'none'}{more}")
    say(f"{len(mutants)} mutants, {sum(bool(one.equivalent) for one in mutants)} equivalent")
    return ExitCode.CONFORMS


def _runtimes(settings: Settings) -> tuple[str, ...]:
    """The runtimes of the settings, or the default ones for mutants, driven directly if possible."""
    return tuple(settings.runtime) if settings.origins["runtime"] != "default" else DEFAULT_RUNTIMES


class _Trial:
    """One trial of these mutants: prints each outcome as it is known, and the score at the end.

    json_file: where the document goes, also after an interrupt; None for nowhere.
    """

    def __init__(
        self, mutants: Sequence[Mutant], settings: Settings, catalogue: Catalogue, json_file: str | None
    ) -> None:
        self._mutants, self._settings, self._catalogue, self._json_file = mutants, settings, catalogue, json_file
        self._outcomes: list[Outcome] = []
        self._began = SYSTEM_CLOCK.now()

    def in_memory(self) -> int:
        """On the fakes."""
        chosen = _runtimes(self._settings)
        need_runtimes_of_images(self._settings, chosen)
        rigs = [FakeRig(runtime, self._settings.driver[0], self._catalogue) for runtime in chosen]
        return self._tried("in memory", iter([contextlib.nullcontext(rig) for rig in rigs]))

    def on_a_machine(self) -> int:
        """On a machine of the settings, with each of its runtimes in turn."""
        chosen = _runtimes(self._settings)
        with (
            shown_progress() as progress,
            open_rigs(self._settings, chosen, self._catalogue, progress=progress) as (system, rigs),
        ):
            self._began = SYSTEM_CLOCK.now()
            return self._tried(system, rigs)

    def _tried(self, system: str, rigs: Iterator[contextlib.AbstractContextManager[Rig]]) -> int:
        complete = False
        total = len(self._mutants)
        try:
            for outcome in try_mutants_on_rigs(rigs, self._mutants):
                self._outcomes.append(outcome)
                self._say(f"[{len(self._outcomes)}/{total}] {outcome_line(outcome)}")
            complete = True
        finally:
            self._end(system, complete=complete)
        return _code(self._outcomes)

    def _end(self, system: str, *, complete: bool) -> None:
        """The score of the mutants tried."""
        seconds = SYSTEM_CLOCK.now() - self._began
        for one in score_lines(self._outcomes, seconds):
            self._say(one)
        if not complete:
            self._say(f"not complete: {len(self._mutants) - len(self._outcomes)} mutants were not reached")
        if self._json_file is None:
            return
        default_run = self._catalogue.default_run
        score = score_document(
            self._outcomes, system=system, complete=complete, seconds=seconds, default_run=default_run
        )
        text = json.dumps(score, indent=1, ensure_ascii=False)
        if self._json_file == "-":
            say(text)
            return
        try:
            Path(self._json_file).write_text(f"{text}\n", encoding="utf-8")
        except OSError as error:
            what = f"'{self._json_file}' cannot be written: {(error.strerror or str(error)).lower()}."
            raise UsageError(what, where="--json") from None

    @property
    def _say(self) -> Callable[[str], None]:
        """To standard error if standard output has the JSON document."""
        return lambda text: say(text, err=self._json_file == "-")


def _code(outcomes: Sequence[Outcome]) -> int:
    tried = [one for one in outcomes if one.fate in {Fate.KILLED, Fate.SURVIVED}]
    if not tried:
        return ExitCode.NOTHING_OBSERVED
    return ExitCode.CONFORMS if all(one.is_right for one in tried) else ExitCode.DEVIATES
