"""Changes the engine in thousands of small ways, one at a time, and counts the changes that its tests notice.

    python -m tests.mutation                      # everything: an hour or more
    python -m tests.mutation memory_qos swap      # these modules of engine and model
    python -m tests.mutation --sample 1500        # so many of all: the score within two or three points, in minutes
    python -m tests.mutation --only unkilled swap # only what survived before, or has not been run
    python -m tests.mutation --survivors swap     # what was not noticed in the last run, as differences; runs nothing

mutmut makes the mutants; `[tool.mutmut]` in pyproject.toml says with which tests. It wants a `src` folder, so it works
on a copy; what became of each mutant is kept there, until its function changes.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tests.mutation.loop import command
from tests.mutation.mutants import (
    COLLECTING,
    RESULTS,
    ROOT,
    SURVIVED,
    UNREACHED,
    WANTED,
    Modules,
    interval,
    prepare,
    sample,
)

ONLY = {"unrun": (None,), "unkilled": (None, SURVIVED, UNREACHED)}
"""Which of the mutants to run, by the exit codes that are known."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation", description="Mutation testing of engine and model"
    )
    parser.add_argument("modules", nargs="*", help="names such as memory_qos, numa.static; all of them without any")
    parser.add_argument("--folder", type=Path, default=ROOT / ".mutation", help="where the copy is and stays")
    parser.add_argument("--processes", type=int, default=1, help="how many mutants at a time")
    parser.add_argument("--patience", type=float, default=0, help="seconds of tests for each mutant; 0 for all tests")
    parser.add_argument("--sample", type=int, metavar="N", help="run N of them, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="which N; the same for the same seed")
    parser.add_argument("--only", choices=ONLY, help="run only those that no run has reached, or none has killed")
    parser.add_argument("--survivors", action="store_true", help="show what was not noticed; run nothing")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    if given.survivors:
        for one in Modules(given.folder, given.modules).survivors():
            sys.stdout.write(one + "\n")
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    prepare(given.folder, given.processes)
    Modules(given.folder, []).keep(given.folder / RESULTS)  # of a run that was broken off
    modules = Modules(given.folder, given.modules)
    codes = modules.codes()
    wanted = sample(codes, given.sample, given.seed) if given.sample else list(codes)
    if given.only:
        wanted = [mutant for mutant in wanted if codes[mutant] in ONLY[given.only]]
    status = run(given.folder, wanted, given.processes, given.patience)
    modules.keep(given.folder / RESULTS)
    for line in modules.table():
        sys.stdout.write(line + "\n")
    if given.sample:
        sys.stdout.write(score(modules, sample(codes, given.sample, given.seed)) + "\n")
    return status


def run(folder: Path, mutants: list[str], processes: int, patience: float) -> int:
    """Run mutants in the copy; their exit codes are written down there as they end."""
    (folder / WANTED).write_text("\n".join(mutants))
    (folder / RESULTS).write_text("")
    environment = os.environ | {"CI": "true", "PYTHONPATH": "src", "MUTANT_UNDER_TEST": COLLECTING}
    try:
        return subprocess.run(
            [*command(), f"--processes={processes}", f"--patience={patience}"],
            cwd=folder / "mutants",
            env=environment,
            check=False,
        ).returncode
    except KeyboardInterrupt:
        return 130


def score(modules: Modules, drawn: list[str]) -> str:
    """What a sample says of all mutants."""
    codes = modules.codes()
    run = [codes[mutant] for mutant in drawn if codes[mutant] is not None]
    if not run:
        return "not one of the sample has been run"
    killed = sum(code not in (SURVIVED, UNREACHED) for code in run)
    low, high = interval(killed, len(run))
    return (
        f"sample of {len(run)} out of {len(codes)}: {killed} killed, {100 * killed / len(run):.1f} %"
        f" (95 % interval {100 * low:.1f} to {100 * high:.1f} %)"
    )


if __name__ == "__main__":
    sys.exit(main())
