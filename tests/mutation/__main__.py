"""Changes the engine in thousands of small ways, one at a time, and counts the changes that its tests notice.

    python -m tests.mutation                      # everything: hours
    python -m tests.mutation memory_qos swap      # these modules of engine and model
    python -m tests.mutation --survivors swap     # what was not noticed in the last run, as differences

mutmut does the work; `[tool.mutmut]` in pyproject.toml says with which tests. It wants a `src` folder, so it works on a
copy; what it found is kept there.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("docs", "fixtures", "suites", "tests", "vm", "README.md", "pyproject.toml")
UNNOTICED = {0: "survived", 33: "no test reaches it"}
"""mutmut's exit codes of mutants that no test killed; None is a mutant that was not run."""


def prepare(folder: Path) -> None:
    """A copy of the project with the package below `src`."""
    for name in COPIED:
        source, copy = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    package = ROOT / "harness" / "memqos"
    shutil.copytree(
        package, folder / "src" / "memqos", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )


def results(folder: Path, wanted: list[str]) -> Iterator[tuple[str, Path, dict[str, int | None]]]:
    """The modules whose names begin with one of the wanted ones: name, mutated file, exit code by mutant."""
    base = folder / "mutants" / "src" / "memqos"
    for path in sorted(base.rglob("*.meta")):
        name = ".".join(path.relative_to(base).with_suffix("").with_suffix("").parts[1:])
        if not wanted or name.startswith(tuple(wanted)):
            yield name, path.with_suffix(""), json.loads(path.read_text())["exit_code_by_key"]


def table(folder: Path, wanted: list[str]) -> None:
    """Killed mutants by module."""
    rows = [("module", "mutants", "run", "killed", "")]
    sums = [0, 0, 0]
    for name, _, codes in results(folder, wanted):
        run = [code for code in codes.values() if code is not None]
        counts = [len(codes), len(run), sum(code not in UNNOTICED for code in run)]
        sums = [one + other for one, other in zip(sums, counts, strict=True)]
        rows.append((name, *map(str, counts), f"{100 * counts[2] / counts[1]:.1f} %" if counts[1] else "not run"))
    rows.append(("all", *map(str, sums), f"{100 * sums[2] / sums[1]:.1f} %" if sums[1] else "not run"))
    for name, *counts in rows:
        sys.stdout.write(f"{name:32} {' '.join(f'{count:>8}' for count in counts)}\n")


def survivors(folder: Path, wanted: list[str]) -> None:
    """What each mutant that no test noticed changed."""
    for name, path, codes in results(folder, wanted):
        bodies = functions(path.read_text())
        for mutant in (key.rpartition(".")[2] for key, code in codes.items() if code in UNNOTICED):
            original = bodies[re.sub(r"__mutmut_\d+$", "__mutmut_orig", mutant)]
            changed = list(unified_diff(original, bodies[mutant], lineterm="", n=0))[3:]
            sys.stdout.write("\n".join([f"{name}: {mutant}", *(f"  {line}" for line in changed), ""]))


def functions(text: str) -> dict[str, list[str]]:
    """The lines of every function in a mutated module, which holds all mutants side by side."""
    found: dict[str, list[str]] = {}
    body: list[str] = []
    for line in text.splitlines():
        head = re.match(r" *def (\w+__mutmut_\w+)\(", line)
        if head:
            body = found.setdefault(head[1], [])
        elif not line.startswith((" ", ")")) and line:
            body = []
        else:
            body.append(line.replace("# type: ignore # mutmut generated", "").rstrip())
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation", description="Mutation testing of engine and model"
    )
    parser.add_argument("modules", nargs="*", help="names such as memory_qos, numa.static; all of them without any")
    parser.add_argument("--folder", type=Path, default=ROOT / ".mutation", help="where the copy is and stays")
    parser.add_argument("--processes", type=int, default=1, help="how many mutants at a time")
    parser.add_argument("--survivors", action="store_true", help="show what was not noticed; run nothing")
    given = parser.parse_args()
    if given.survivors:
        survivors(given.folder, given.modules)
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    prepare(given.folder)
    patterns = [f"memqos.{package}.{name}*" for name in given.modules for package in ("engine", "model")]
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(given.processes), *patterns]
    # Hypothesis then repeats its examples, and takes the time that it needs.
    status = subprocess.run(command, cwd=given.folder, env=os.environ | {"CI": "true"}, check=False).returncode
    table(given.folder, given.modules)
    return status


if __name__ == "__main__":
    sys.exit(main())
