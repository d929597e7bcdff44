"""Where another host's evidence is when a run is interrupted: with the controller, or still on that host."""

from types import SimpleNamespace

import execnet
import pytest

from memqos.config.settings import resolve
from memqos.plugin.collection.workers import Hosts
from memqos.plugin.keys import HOST, RESULTS, SETTINGS_KEY

TEXT = "tests/demo/where.txt"


class Channel:
    """A worker's channel to its controller, as execnet has it.

    ends: the result of waiting for its end; None for an end.
    """

    TimeoutError = execnet.TimeoutError
    RemoteError = execnet.RemoteError

    def __init__(self, ends):
        self.ends = ends

    def waitclose(self, timeout):
        assert timeout == 0
        if self.ends is not None:
            raise self.ends


def worker(folder, ends):
    (folder / TEXT).parent.mkdir(parents=True)
    (folder / TEXT).write_text("there")
    plugins = [SimpleNamespace(), SimpleNamespace(channel=Channel(ends))]
    return SimpleNamespace(
        workerinput={HOST: "node1"},
        workeroutput={},
        stash={RESULTS: folder},
        pluginmanager=SimpleNamespace(get_plugins=lambda: plugins),
    )


def test_evidence_is_transferred_to_a_live_controller(tmp_path):
    config = worker(tmp_path / "results", execnet.TimeoutError("0 s"))

    Hosts(config).pytest_sessionfinish(pytest.ExitCode.OK)

    assert [*config.workeroutput["memqos_evidence"]] == [TEXT]
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("ends", [None, EOFError(), execnet.RemoteError("ended")])
def test_evidence_stays_where_it_is_when_the_controller_has_gone(tmp_path, ends):
    """A worker without cases left ended normally, and removed evidence that was not collected."""
    config = worker(tmp_path / "results", ends)

    Hosts(config).pytest_sessionfinish(pytest.ExitCode.OK)

    assert config.workeroutput == {}
    assert (tmp_path / "results" / TEXT).read_text() == "there"


def test_an_interrupted_controller_reads_what_workers_sent_meanwhile(tmp_path, capsys):
    """Its event loop had ended: the evidence was in its memory, and gone from the host."""
    given = worker(tmp_path / "there", execnet.TimeoutError("0 s"))
    Hosts(given).pytest_sessionfinish(pytest.ExitCode.OK)
    stash = {RESULTS: tmp_path / "here", SETTINGS_KEY: resolve({}, {})}
    hosts = Hosts(SimpleNamespace(stash=stash, pluginmanager=given.pluginmanager))
    gateway = SimpleNamespace(id="gw0", spec=execnet.XSpec("ssh=node1"))
    hosts.pytest_configure_node(SimpleNamespace(gateway=gateway, workerinput={}, workeroutput=given.workeroutput))

    hosts.pytest_sessionfinish(pytest.ExitCode.INTERRUPTED)

    assert (tmp_path / "here" / TEXT).read_text() == "there"
    assert "not transferred" not in capsys.readouterr().out
