"""A pytest plugin that collects the tests once, and runs them against each mutant in a process forked from there.

A mutant meets the tests that reach its function: first those that killed its neighbours, then the others, quick ones
first, until one fails. What is computed while tests are collected was computed without the mutant: the mutants of
functions that are called then, and survive, meet all tests once more in a fresh process.
"""

import gc
import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, is_hypothesis_test, settings
from mutmut.configuration import config
from mutmut.mutation import trampoline
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state
from mutmut.utils.format_utils import mangled_name_from_mutant_name

from tests.mutation.mutants import COLLECTING, RESULTS, SURVIVED, UNREACHED, WANTED

FOLDER = Path("..")
"""Where mutants and results are, from where the tests run."""
KILLED = 1
SLOWEST = 300
"""Seconds of a processor for all tests in a fresh process."""
FIRST_KILLERS = 12
"""So many tests of those that killed other mutants of the module go first."""
GIBIBYTE = 1 << 30

# Whether an example fails is asked, not which is the smallest that does; and few examples tell most changes.
settings.register_profile(
    "mutants", derandomize=True, database=None, deadline=None, max_examples=10, phases=[Phase.explicit, Phase.generate]
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=1, help="how many mutants at a time")
    parser.addoption("--patience", type=float, default=0, help="seconds of tests for each mutant; 0 for all tests")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if os.environ["MUTANT_UNDER_TEST"] != COLLECTING:
        return None
    at_import = frozenset(state()._stats)
    session.config.pluginmanager.unregister(name="terminalreporter")
    reach = Reach(session)
    set_mutant_under_test("")
    gc.freeze()
    with (FOLDER / RESULTS).open("a", buffering=1) as codes:
        run = Run(session, reach, at_import)
        for mutant, code in run.all((FOLDER / WANTED).read_text().split()):
            codes.write(json.dumps([mutant, code]) + "\n")
    if false := run.false_killers():
        sys.stderr.write(f"These tests killed mutants, but fail alone also without any: {', '.join(false)}\n")
        pytest.exit("some kills are none", 2)
    return True


class Reach:
    """Which tests reach a function, and how many seconds each takes; learnt in a child, kept in a file.

    What is kept of a test holds as long as its file and the code under test stay as they are.
    """

    def __init__(self, session: pytest.Session) -> None:
        self.seconds: dict[str, float] = {}
        self.tests: defaultdict[str, list[pytest.Item]] = defaultdict(list)
        files = sorted(Path("src/memqos/engine").rglob("*.py")) + sorted(Path("src/memqos/model").rglob("*.py"))
        code = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
        paths = {item.path for item in session.items}
        stamps = {path: f"{code} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in paths}
        kept = FOLDER / "reached.json"
        known = json.loads(kept.read_text()) if kept.exists() else {}
        missing = [item for item in session.items if known.get(item.nodeid, [""])[0] != stamps[item.path]]
        if missing:
            pid = os.fork()
            if not pid:
                learn(session, missing, stamps, known, kept)
            if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
                pytest.exit("no mutant was run", 2)
            known = json.loads(kept.read_text())
        for item in session.items:
            _, self.seconds[item.nodeid], reached = known[item.nodeid]
            for function in reached:
                self.tests[function].append(item)

    @lru_cache(maxsize=8)  # noqa: B019 - there is one for as long as the process lives
    def ranked(self, function: str) -> list[pytest.Item]:
        """The tests that reach a function: golden texts, then one case of each test, another of each, and so on.

        Those that are named after its module come before others; random examples come last.
        """
        module = function.split(".")[-2]
        rounds: Counter[str] = Counter()
        ranked = []
        for item in sorted(self.tests.get(function, ()), key=lambda item: self.seconds[item.nodeid]):
            case_of = item.nodeid.partition("[")[0]
            rounds[case_of] += 1
            golden, random = "is_golden" in item.name, is_hypothesis_test(getattr(item, "obj", None))
            ranked.append(((not golden, random, module not in item.path.stem, rounds[case_of]), item))
        return [item for _, item in sorted(ranked, key=lambda one: one[0])]


def learn(
    session: pytest.Session, items: list[pytest.Item], stamps: dict[Path, str], known: dict[str, list[Any]], kept: Path
) -> None:
    """Run tests without a mutant and write down what they reach; ends the process."""
    set_mutant_under_test(COLLECTING)
    for item in items:
        state()._stats.clear()
        start = time.process_time()
        if fails(session, item):
            sys.stderr.write(f"{item.nodeid} fails without any mutant\n")
            os._exit(1)
        known[item.nodeid] = [stamps[item.path], time.process_time() - start, sorted(state()._stats)]
    kept.write_text(json.dumps(known))
    os._exit(0)


def fails(session: pytest.Session, item: pytest.Item) -> bool:
    """Run one test, with its fixtures set up and torn down."""
    before = session.testsfailed
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    return session.testsfailed != before


class Run:
    """Mutants against tests, several at a time, each in its own process."""

    def __init__(self, session: pytest.Session, reach: Reach, at_import: frozenset[str]) -> None:
        self.session, self.reach, self.at_import = session, reach, at_import
        self.patience, self.processes = session.config.option.patience, session.config.option.processes
        self.kills: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.running: dict[int, tuple[str, list[pytest.Item], int]] = {}

    def all(self, mutants: list[str]) -> Iterator[tuple[str, int]]:
        """Name and exit code of every mutant, as they end."""
        for mutant in mutants:
            items = self.ordered(mutant)
            if not items:
                yield mutant, UNREACHED
                continue
            if len(self.running) == self.processes:
                yield self.ended()
            self.start(mutant, items)
        while self.running:
            yield self.ended()

    def false_killers(self) -> list[str]:
        """The tests that killed a mutant and fail also where there is none, since no other test ran before them."""
        killers = {test for kills in self.kills.values() for test in kills}
        found = []
        for item in (item for item in self.session.items if item.nodeid in killers):
            self.start(f"{item.nodeid}__mutmut_0", [item])
            if self.ended()[1] != SURVIVED:
                found.append(item.nodeid)
        return found

    def ordered(self, mutant: str) -> list[pytest.Item]:
        """The tests that reach a mutant's function, the likeliest to kill it soon first, as many as patience allows."""
        function = mangled_name_from_mutant_name(mutant)
        items = {item.nodeid: item for item in self.reach.ranked(function)}
        items = {test: items[test] for test in self.likely(function) if test in items} | items
        until = accumulate(self.reach.seconds[test] for test in items)
        enough = [item for item, spent in zip(items.values(), until, strict=True) if spent <= (self.patience or spent)]
        return enough or list(items.values())[:1]

    def likely(self, function: str) -> list[str]:
        """The tests that killed mutants of this function, then some of its module's; most kills in a second first."""
        found: dict[str, None] = {}
        for kills, most in ((self.kills[function], None), (self.kills[function.rpartition(".")[0]], FIRST_KILLERS)):
            found |= dict.fromkeys(sorted(kills, key=lambda test: self.reach.seconds[test] / kills[test])[:most])
        return list(found)

    def start(self, mutant: str, items: list[pytest.Item]) -> None:
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.close(read)
                os._exit(self.child(mutant, items, write))
            finally:  # whatever a mutant raises, this process goes no further
                os._exit(KILLED)
        os.close(write)
        self.running[pid] = mutant, items, read

    def child(self, mutant: str, items: list[pytest.Item], write: int) -> int:
        """Run the tests until one fails, and say which."""
        # A mutant may loop for ever, or build up a list for ever.
        limit(5 + 5 * sum(self.reach.seconds[item.nodeid] for item in items))
        resource.setrlimit(resource.RLIMIT_AS, (4 * GIBIBYTE, 4 * GIBIBYTE))
        set_mutant_under_test(mutant)
        trampoline.get_mutant_under_test = lambda: mutant  # as it is, it looks into the environment at every call
        for number, item in enumerate(items):
            if fails(self.session, item):
                os.write(write, str(number).encode())
                return KILLED
        imported = mangled_name_from_mutant_name(mutant) in self.at_import
        return KILLED if imported and not self.patience and freshly(mutant) else SURVIVED

    def ended(self) -> tuple[str, int]:
        pid, status = os.wait()
        mutant, items, read = self.running.pop(pid)
        with open(read, "rb") as pipe:  # noqa: PTH123 - a descriptor
            number = pipe.read()
        if number:
            function, killer = mangled_name_from_mutant_name(mutant), items[int(number)].nodeid
            self.kills[function][killer] += 1
            self.kills[function.rpartition(".")[0]][killer] += 1
        return mutant, os.waitstatus_to_exitcode(status)


def limit(seconds: float) -> None:
    """End this process, and those that it starts, when it has used so much more of a processor."""
    soft, hard = int(time.process_time() + seconds), resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def freshly(mutant: str) -> bool:
    """Whether a test fails in a process that imports everything with the mutant in place."""
    limit(SLOWEST)
    environment = os.environ | {"MUTANT_UNDER_TEST": mutant}
    return subprocess.run([*command(), "-x"], env=environment, capture_output=True, check=False).returncode != 0


def command() -> list[str]:
    """The tests that engine and model are held to, as `[tool.mutmut]` names them, without comparing long texts."""
    plugin = ["-p", "tests.mutation.loop", "--hypothesis-profile", "mutants", "-p", "no:cacheprovider"]
    own = [*config().pytest_add_cli_args_test_selection, *config().pytest_add_cli_args]
    return [sys.executable, "-m", "pytest", "-q", "-s", "--assert=plain", "--tb=no", *plugin, *own]
