"""Run each behaviour case again and again, and count what became of it: `tox -e soak -- --times 100 protection node`.

Each time is a run of its own, on a machine of its own; with `--rounds 10` each case is carried out ten times on it.
`--busy 2` does so beside two programs that take all they can of the host's processors, and `--at-once 2` has two runs
at a time, each on its own machine, so that each is a busy neighbour of the other, of its processors and of its disk.
With `--counts soak.json` what was counted is kept, and the next soak adds to it.

Nothing is tried again, and nothing is forgiven: a case that ended in two ways is told with both counts. The results of
a run in which a case neither conformed nor was not observable, or ended otherwise than it mostly does, now and in all
that was counted before (docs/explanation/repeatability.json), stay in `--results`, with all its evidence.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from memqos.ownership import ProcessGroup
from tests.soak.counting import PUBLISHED, Counts, by_chapter, is_explained, outcomes, summary, table

CHAPTERS = ("protection", "throttling", "limits", "swap", "numa", "node", "isolation")

BUSY = ("sh", "-c", "while :; do :; done")


def parser() -> argparse.ArgumentParser:
    """The words of this command."""
    words = argparse.ArgumentParser(prog="tox -e soak --", description="Run each behaviour case again and again.")
    words.add_argument(
        "chapters", nargs="*", default=CHAPTERS, help="chapters; all that show behaviour if none is named"
    )
    words.add_argument("--times", type=int, default=3, help="how often")
    words.add_argument("--rounds", type=int, default=1, help="how often on each of the machines")
    words.add_argument("--busy", type=int, default=0, help="programs that take the host's processors meanwhile")
    words.add_argument("--at-once", type=int, default=1, help="how many runs at a time, each on its own machine")
    words.add_argument("--counts", type=Path, help="a file of counts to add to")
    words.add_argument(
        "--results", type=Path, default=Path("results/soak"), help="a folder for results of runs that need explaining"
    )
    words.add_argument("-k", dest="chosen", default="", help="only the cases whose name matches, as pytest takes it")
    words.add_argument("--profile", default="trixie")
    words.add_argument("--topology", default="", help="NUMA nodes and swap of the machines, if not the usual ones")
    words.add_argument("--runtime", default="containerd+runc")
    return words


def main(words: Sequence[str]) -> int:
    """0 if every case conformed each time, or was not observable each time, or deviated as it is known to."""
    given = parser().parse_args(words)
    counts = Counts(given.counts, earlier=PUBLISHED)
    system = system_of(given)
    folders = [given.results / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}-{time}" for time in range(1, given.times + 1)]
    with ProcessGroup() as neighbours, at_once(given.at_once) as runs:
        for _ in range(given.busy):
            neighbours.start(BUSY)
        command = command_of(given)
        begun = {runs.submit(carry_out, command, folder, beside=given.at_once > 1): folder for folder in folders}
        for number, run in enumerate(as_completed(begun), start=1):
            run.result()
            found = list(outcomes(begun[run]))
            counts.add(system, found)
            told = kept(begun[run], odd=not found or not all(counts.is_usual(system, *one) for one in found))
            print(f"run {number} of {given.times}: {len(found)} cases, {told}", flush=True)  # noqa: T201
    counted = counts.by_system.get(system, {})
    print(table(counted))  # noqa: T201
    for chapter, cases in by_chapter(counted).items():
        print(f"{chapter}: {summary(cases)}")  # noqa: T201
    print(f"{system}: {summary(counted)}" if counted else f"{system}: nothing was carried out")  # noqa: T201
    return 0 if counted and all(map(is_explained, counted.values())) else 1


@contextmanager
def at_once(number: int) -> Iterator[ThreadPoolExecutor]:
    """So many at a time; whoever stops it starts no further one."""
    with ThreadPoolExecutor(number) as runs:
        try:
            yield runs
        finally:
            runs.shutdown(cancel_futures=True)


def command_of(given: argparse.Namespace) -> list[str]:
    """What carries out each case that was asked for, but for the folder of its results."""
    command = [sys.executable, "-m", "memqos", "run", *given.chapters, "-m", "behaviour"]
    command += ["--profile", given.profile, "--runtime", given.runtime]
    command += ["-p", "tests.soak.rounds", "--rounds", str(given.rounds)]
    command += ["--topology", given.topology] if given.topology else []
    return command + (["-k", given.chosen] if given.chosen else [])


def system_of(given: argparse.Namespace) -> str:
    """What counts are kept by: the machine, with its topology if that is not the usual one, and what else there is."""
    machine = f"{given.profile}/{given.topology}" if given.topology else given.profile
    return f"{machine} {given.runtime} {surroundings(given.busy, given.at_once)}"


def surroundings(busy: int, runs: int) -> str:
    """What else the host does meanwhile, as counts are kept by it."""
    told = [f"beside {busy} busy programs"] if busy else []
    told += [f"{runs} runs at once"] if runs > 1 else []
    return ", ".join(told) or "quiet"


def carry_out(command: Sequence[str], results: Path, *, beside: bool) -> None:
    """One run. beside: what it says goes to a file beside its results, since another one speaks meanwhile."""
    whole = [*command, "--results", str(results)]
    if not beside:
        subprocess.run(whole, check=False)
        return
    results.parent.mkdir(parents=True, exist_ok=True)
    with said(results).open("wb") as file:
        subprocess.run(whole, check=False, stdout=file, stderr=subprocess.STDOUT)


def said(results: Path) -> Path:
    """Where a run says what it says, if it is one of several at once."""
    return results.with_name(f"{results.name}.log")


def kept(results: Path, *, odd: bool) -> str:
    """What becomes of a run's results, which stay where they have something to explain, or where there are none."""
    if odd:
        return f"see {results}"
    shutil.rmtree(results)
    said(results).unlink(missing_ok=True)
    return "all explained"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
