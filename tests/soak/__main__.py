"""Run each behaviour case again and again, and count what became of it: `tox -e soak -- --times 100 protection node`.

Each time is a run of its own, on a machine of its own; with `--rounds 10` each case is carried out ten times on it.

Nothing is tried again, and nothing is forgiven: a case that ended in two ways is told with both counts.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

CHAPTERS = ("protection", "throttling", "limits", "swap", "numa", "node", "isolation")

ROUND = re.compile(r"-?round\d+")
"""How a case is told that `rounds` has carried out several times."""


def outcomes(results: Path) -> Iterator[tuple[str, str]]:
    """The id and the outcome of each case of a run; none of one that wrote no bundle."""
    bundle = results / "bundle.json"
    if bundle.exists():
        for one in json.loads(bundle.read_text(encoding="utf-8"))["results"]:
            yield ROUND.sub("", one["id"]).replace("[]", ""), one["outcome"]


def table(counts: Mapping[str, Counter[str]]) -> str:
    """One line a case: how often it ended in which way, and `!` before one that ended in more than one."""
    lines = []
    for case, counted in sorted(counts.items()):
        mark = "!" if len(counted) > 1 else " "
        told = ", ".join(f"{number} {outcome}" for outcome, number in counted.most_common())
        lines.append(f"{mark} {case}: {told}")
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    """0 if every case that was observed ended in one way, each time."""
    parser = argparse.ArgumentParser(prog="tox -e soak --", description="Run each behaviour case again and again.")
    parser.add_argument(
        "chapters", nargs="*", default=CHAPTERS, help="chapters; all that show behaviour if none is named"
    )
    parser.add_argument("--times", type=int, default=3, help="how often")
    parser.add_argument("--rounds", type=int, default=1, help="how often on each of the machines")
    parser.add_argument("-k", dest="chosen", default="", help="only the cases whose name matches, as pytest takes it")
    parser.add_argument("--profile", default="trixie")
    given = parser.parse_args(words)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for time in range(1, given.times + 1):
        with tempfile.TemporaryDirectory(prefix="memqos-soak-") as folder:
            results = Path(folder) / "results"
            command = [sys.executable, "-m", "memqos", "run", *given.chapters, "-m", "behaviour"]
            command += ["--profile", given.profile, "-p", "tests.soak.rounds", "--rounds", str(given.rounds)]
            command += ["-k", given.chosen] if given.chosen else []
            subprocess.run([*command, "--results", str(results)], check=False)
            found = list(outcomes(results))
        for case, outcome in found:
            counts[case][outcome] += 1
        print(f"run {time} of {given.times}: {len(found)} cases", flush=True)  # noqa: T201
    print(table(counts))  # noqa: T201
    return 0 if counts and all(len(counted) == 1 for counted in counts.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
