"""Reports of many cases: how long they take, how much memory, and how large they are.

The cases are recorded ones (tests/bundles) over and over, each under a name of its own, without their evidence.
"""

import json
import resource
import tempfile
from pathlib import Path

from memqos.bundles.reading import read_results
from memqos.page.building import page_html
from tests.bench.figures import Figure, processor_seconds
from tests.recorded import TRIXIE

CASES = 5000


def figures(rounds: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="memqos-bench-") as place:
        folder = Path(place)
        _write(folder)
        seconds = processor_seconds(lambda: page_html(read_results(folder)), min(rounds, 3))
        size = len(page_html(read_results(folder))) / (1 << 20)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [
        Figure(name=f"report of {CASES} cases", value=seconds, unit="s", to_hold=10),
        Figure(name=f"report of {CASES} cases: peak of memory so far", value=peak, unit="MiB", to_hold=500),
        Figure(name=f"report of {CASES} cases: its file", value=size, unit="MiB", to_hold=5),
    ]


def _write(folder: Path) -> None:
    bundle = json.loads((TRIXIE / "bundle.json").read_text())
    recorded = bundle["results"]
    cases = [
        {**recorded[number % len(recorded)], "id": f"{recorded[number % len(recorded)]['id']}#{number}", "folder": ""}
        for number in range(CASES)
    ]
    (folder / "bundle.json").write_text(json.dumps({**bundle, "results": cases}))
    (folder / "findings.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in cases))
