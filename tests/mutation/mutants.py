"""The mutants: made by mutmut in a copy of the project, each with what became of it.

mutmut writes all mutants of a module side by side into one file, and picks one by name when the function is called;
beside the file it keeps the exit code of each mutant's tests, and forgets it when the function changes.
"""

import contextlib
import json
import random
import re
import shutil
from collections.abc import Iterator
from difflib import unified_diff
from math import sqrt
from pathlib import Path

from mutmut.__main__ import copy_also_copy_files, copy_src_dir, create_mutants
from mutmut.mutation.data import SourceFileMutationData
from mutmut.utils.file_utils import walk_mutatable_files

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("docs", "fixtures", "suites", "tests", "vm", "README.md", "pyproject.toml")
WANTED, RESULTS = "wanted.txt", "results.jsonl"
"""Files in the folder: the names of the mutants to run, and a line of JSON for each that was run: name, exit code."""
COLLECTING = "stats"
"""mutmut's name for no mutant, while the functions that are called are noted down."""
SURVIVED, UNREACHED = 0, 33
"""mutmut's exit codes of mutants that no test noticed; None is a mutant that was not run, others are killed."""


def prepare(folder: Path, processes: int) -> None:
    """A copy of the project with the package below `src`, and below `mutants` one with all mutants in it."""
    for gone in ("src", "tests", "mutants/tests"):
        shutil.rmtree(folder / gone, ignore_errors=True)
    skipped = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        source, copy = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, copy, dirs_exist_ok=True, ignore=skipped)
        else:
            shutil.copy(source, copy)
    shutil.copytree(ROOT / "harness" / "memqos", folder / "src" / "memqos", dirs_exist_ok=True, ignore=skipped)
    with contextlib.chdir(folder), contextlib.redirect_stdout(None):
        copy_src_dir()
        copy_also_copy_files()
        create_mutants(processes)


class Modules:
    """What is known of the mutants of engine and model in the folder.

    Only modules whose name below the package begins with one of `wanted` (`memory_qos`, `numa.static`), or all.
    """

    def __init__(self, folder: Path, wanted: list[str]) -> None:
        self.folder = folder
        self.by_name: dict[str, SourceFileMutationData] = {}
        with contextlib.chdir(folder):
            for path in sorted(walk_mutatable_files()):
                data = SourceFileMutationData(path=path)
                data.load()
                name = ".".join(path.with_suffix("").parts[3:])
                if not wanted or name.startswith(tuple(wanted)):
                    self.by_name[name] = data

    def codes(self) -> dict[str, int | None]:
        """The exit code by mutant, in the order of the modules."""
        return {key: code for data in self.by_name.values() for key, code in data.exit_code_by_key.items()}

    def keep(self, results: Path) -> None:
        """Keep what a run wrote down, one mutant per line."""
        if not results.exists():
            return
        found = dict(json.loads(line) for line in results.read_text().splitlines())
        with contextlib.chdir(self.folder):
            for data in self.by_name.values():
                data.exit_code_by_key.update((key, found[key]) for key in data.exit_code_by_key if key in found)
                data.save()

    def table(self) -> Iterator[str]:
        """Killed mutants by module, and the score of all."""
        yield row("module", "mutants", "run", "killed", "")
        for name, data in self.by_name.items():
            if data.exit_code_by_key:
                yield row(name, *counts(list(data.exit_code_by_key.values())))
        yield row("all", *counts(list(self.codes().values())))

    def survivors(self) -> Iterator[str]:
        """What each mutant that no test noticed changed."""
        for name, data in self.by_name.items():
            bodies = functions((self.folder / "mutants" / data.path).read_text())
            for key, code in data.exit_code_by_key.items():
                if code in (SURVIVED, UNREACHED):
                    mutant = key.rpartition(".")[2]
                    original = bodies[re.sub(r"__mutmut_\d+$", "__mutmut_orig", mutant)]
                    changed = list(unified_diff(original, bodies[mutant], lineterm="", n=0))[3:]
                    yield "\n".join([f"{name}: {mutant}", *(f"  {line}" for line in changed)])


def counts(codes: list[int | None]) -> tuple[str, ...]:
    run = [code for code in codes if code is not None]
    killed = sum(code not in (SURVIVED, UNREACHED) for code in run)
    return str(len(codes)), str(len(run)), str(killed), f"{100 * killed / len(run):.1f} %" if run else "not run"


def row(name: str, *cells: str) -> str:
    return f"{name:32} {' '.join(f'{cell:>8}' for cell in cells)}"


def sample(codes: dict[str, int | None], size: int, seed: int) -> list[str]:
    """That many of the mutants, each as likely as any other; the same for the same seed."""
    keys = sorted(codes)
    return sorted(random.Random(seed).sample(keys, min(size, len(keys))))  # noqa: S311 - nothing secret


def interval(killed: int, run: int) -> tuple[float, float]:
    """The 95 % interval (Wilson's) of the share that is killed of all mutants, from those of a sample."""
    z = 1.96
    middle = (killed + z * z / 2) / (run + z * z)
    half = z / (run + z * z) * sqrt(killed * (run - killed) / run + z * z / 4)
    return middle - half, middle + half


def functions(text: str) -> dict[str, list[str]]:
    """The lines of every function in a mutated module."""
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
