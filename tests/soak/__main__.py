"""Run each behaviour case again and again, and count what became of it: `tox -e soak -- --times 100 protection node`.

Each time is a run of its own, on a machine of its own; with `--rounds 10` each case is carried out ten times on it.
`--busy 2` does so beside two programs that take all they can of the host's processors. With `--counts soak.json` what
was counted is kept, and the next soak adds to it.

Nothing is tried again, and nothing is forgiven: a case that ended in two ways is told with both counts. The results of
a run in which a case neither conformed nor was not observable stay in `--results`, with all its evidence.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from memqos.ownership import ProcessGroup
from tests.soak.counting import Counts, is_explained, outcomes, summary, table

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
    words.add_argument("--counts", type=Path, help="a file of counts to add to")
    words.add_argument(
        "--results", type=Path, default=Path("results/soak"), help="a folder for results of runs that need explaining"
    )
    words.add_argument("-k", dest="chosen", default="", help="only the cases whose name matches, as pytest takes it")
    words.add_argument("--profile", default="trixie")
    words.add_argument("--runtime", default="containerd+runc")
    return words


def main(words: Sequence[str]) -> int:
    """0 if every case conformed each time, or was not observable each time, or deviated as it is known to."""
    given = parser().parse_args(words)
    counts = Counts(given.counts)
    system = f"{given.profile} {given.runtime} {f'beside {given.busy} busy programs' if given.busy else 'quiet'}"
    command = [sys.executable, "-m", "memqos", "run", *given.chapters, "-m", "behaviour"]
    command += ["--profile", given.profile, "--runtime", given.runtime]
    command += ["-p", "tests.soak.rounds", "--rounds", str(given.rounds)]
    command += ["-k", given.chosen] if given.chosen else []
    with ProcessGroup() as neighbours:
        for _ in range(given.busy):
            neighbours.start(BUSY)
        for time in range(1, given.times + 1):
            results = given.results / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}"
            subprocess.run([*command, "--results", str(results)], check=False)
            found = list(outcomes(results))
            counts.add(system, found)
            print(f"run {time} of {given.times}: {len(found)} cases, {kept(results, found)}", flush=True)  # noqa: T201
    counted = counts.by_system.get(system, {})
    print(table(counted))  # noqa: T201
    print(f"{system}: {summary(counted)}" if counted else f"{system}: nothing was carried out")  # noqa: T201
    return 0 if counted and all(map(is_explained, counted.values())) else 1


def kept(results: Path, found: Sequence[tuple[str, str]]) -> str:
    """What becomes of a run's results, which stay where they have something to explain, or where there are none."""
    if found and all(is_explained([outcome]) for _, outcome in found):
        shutil.rmtree(results)
        return "all explained"
    return f"see {results}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
