"""What becomes of the tests after one in which a machine broke; the machines are made up, and nothing is booted."""

import json

pytest_plugins = ["pytester"]

CONFTEST = """
import contextlib
from types import SimpleNamespace

from memqos.errors import MachineError
from memqos.plugin import lane
from memqos.vm.qemu.state import MachineState


class Machine:
    def __init__(self, name):
        self.name, self.state, self.provenance = name, MachineState.READY, {}

    def check_alive(self, doing=""):
        if self.state is MachineState.BROKEN:
            raise MachineError(f"{self.name} does not answer any more.")

    def mark_dirty(self, reason):
        self.provenance.setdefault("dirty", reason)


@contextlib.contextmanager
def open_station(config, profile, topology):
    machine = Machine(profile)
    node = SimpleNamespace(machine=machine, leftovers=lambda: (), why_not=lambda need: None)
    print(f"opened {profile}")
    yield SimpleNamespace(
        id=profile, key=(profile, topology), machine=machine, node=node, log=None, folder=None,
        capture=lambda folder: None,
    )
    machine.check_alive()


lane.open_station = open_station
"""

BREAKS = """
from memqos.vm.qemu.state import MachineState

def test_before(qos_node):
    pass

def test_breaks(qos_node):
    if qos_node.machine.name == "trixie":
        qos_node.machine.state = MachineState.BROKEN
        qos_node.machine.check_alive()

def test_after(qos_node):
    pass
"""


def test_another_profile_and_another_module_get_another_machine(suite, run, pytester):
    suite(BREAKS, name="first")
    suite("def test_it(qos_node): pass", name="second")
    (pytester.path / "suites" / "conftest.py").write_text(CONFTEST)
    run("--memqos-profile=bookworm,trixie,forky")
    results = json.loads((pytester.path / "out/bundle.json").read_text())["results"]
    assert [result["id"].partition("::")[2] for result in results if result["outcome"] == "machinery"] == [
        "test_breaks[trixie]",
        "test_after[trixie]",
    ]
    assert [result["outcome"] for result in results].count("conforms") == 10
