"""Measures what users of the engine wait for, and prints it beside what it has to hold. It asserts nothing.

    python -m tests.bench [--rounds 7] [--json]

Figures are medians of several rounds of processor time, so that a host that does other things as well measures nearly
the same; they belong to the host all the same. `tests.bench.machines` measures machines.
"""

import argparse
import dataclasses
import json
import os
import platform
import sys

from tests.bench import answering, auditing, numa, planning, reporting
from tests.bench.figures import Figure


def line(one: Figure) -> str:
    bound = "" if one.to_hold is None else f"  {'at most' if one.at_most else 'at least'} {one.to_hold:g}"
    value = f"{one.value:12.3f}" if one.value < 100 else f"{one.value:12.0f}"
    return f"{one.name:92}{value} {one.unit:12}{bound}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure what users wait for")
    parser.add_argument("--rounds", type=int, default=7, help="rounds that each figure is the median of")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args()
    # Planning first: the peak memory that it reports is the process's so far.
    found = [one for bench in (planning, numa, answering, reporting, auditing) for one in bench.figures(given.rounds)]
    if given.json:
        host = {"python": platform.python_version(), "processors": os.cpu_count(), "load": os.getloadavg()[0]}
        document = {"host": host, "rounds": given.rounds, "figures": [dataclasses.asdict(one) for one in found]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    for one in found:
        sys.stdout.write(line(one) + "\n")


if __name__ == "__main__":
    main()
