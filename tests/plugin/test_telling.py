import json
from types import SimpleNamespace

import pytest

from memqos.plugin.face.messages import Messenger

pytest_plugins = ["pytester"]


def test_a_note_is_printed_once_per_run():
    told = []
    reporter = SimpleNamespace(ensure_newline=lambda: None, write_line=told.append)
    manager = SimpleNamespace(get_plugin={"terminalreporter": reporter}.get)
    config = SimpleNamespace(stash=pytest.Stash(), pluginmanager=manager, get_verbosity=lambda: 0)
    for _ in range(2):
        telling = Messenger(config)
        telling.note("KVM does not run a guest here.")
        telling.note("the checkpoint 'a' is made again.")
    assert told == ["· KVM does not run a guest here.", "· the checkpoint 'a' is made again."]


TELLS = """
from memqos.plugin.face.messages import Messenger

@pytest.fixture(scope="module")
def slow(request):
    Messenger(request.config).line("17 pods ...")
    Messenger(request.config).note("machines run under software emulation.")

@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("number", range(2))
def test_it(slow, qos_evidence, number):
    qos_evidence.settle(finding("conforms"))
"""


def test_lines_of_workers_reach_the_terminal_and_are_no_outcomes(suite, run, pytester):
    suite(TELLS)

    result = run("-n", "2", "--dist=load", "--durations=0", "--junitxml=own.xml")

    assert result.ret == 0
    said = sorted(line for line in result.outlines if line.startswith("· "))
    assert said == ["· [gw0] 17 pods ...", "· [gw1] 17 pods ...", "· machines run under software emulation."]
    result.stdout.fnmatch_lines(["demo: 2 conform, in *"])
    bundle = json.loads((pytester.path / "out/bundle.json").read_text())
    assert [one["outcome"] for one in bundle["results"]] == ["conforms", "conforms"]


def test_a_quiet_run_has_no_lines_of_workers(suite, run):
    suite(TELLS)
    assert not [line for line in run("-q", "-n", "2", "--dist=load").outlines if line.startswith("· ")]
