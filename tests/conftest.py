"""How every test runs: properties with the same examples each time, and signals as in a terminal.

So a red test comes from the change, not from chance or a busy host. Chance has its own run, `tox -e explore`: with
MEMQOS_TEST_EXAMPLES=N a property is tried with N new ones, or with as many new ones as it sets itself.

Whoever runs the tests may ignore signals, as nohup does and a shell for what is in its background; programs would
inherit that, and go on through the interrupts that tests send them.
"""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
EXAMPLES = os.environ.get("MEMQOS_TEST_EXAMPLES")

settings.register_profile("same", parent=UNTIMED, derandomize=True)
settings.register_profile("explore", parent=UNTIMED, derandomize=False, max_examples=int(EXAMPLES or 100))
settings.load_profile("explore" if EXAMPLES else "same")

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

TABLES = "tests/vectors/"


class ByFile(LoadScopeScheduling):
    """Gives the tests of a file to one process, and those of all tables: they share an account of their rows."""

    def _split_scope(self, nodeid: str) -> str:
        return TABLES if nodeid.startswith(TABLES) else nodeid.split("::", maxsplit=1)[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile | None:
    return ByFile(config, log) if config.option.dist == "loadfile" else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    node.workerinput["by_file"] = node.config.option.dist == "loadfile"
