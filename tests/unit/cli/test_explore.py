"""`memqos explore` on the command line: its options, and its output without a machine."""

import contextlib
import importlib.util
import json

import pytest

from memqos.cli.explore import KINDS
from memqos.cli.main import run
from memqos.engine.translate.runtimes import TRIXIE
from memqos.errors import MachineError
from memqos.exploration import explore
from memqos.exploration.examples import Kind
from memqos.exploration.judge import Judge
from memqos.model.node import CgroupDriver
from memqos.node.connection import node_on
from memqos.node.fake import FAKE_FACTS, NoRecorder
from memqos.place.fake import FakePlace
from tests.documents import misfits


@pytest.fixture
def told(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def tell(*arguments):
        code = run(["explore", *map(str, arguments)])
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return tell


def test_the_engine_alone(told, tmp_path):
    code, out, err = told("--expect", "--minutes", "0.005", "--seed", "1", "--json", "report.json")
    assert code == 0
    assert "files conform, 0 refused, 0 wrong (seed 1)" in out
    assert "Traceback" not in err
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"], "hypothesis left something"


def test_its_json_fits_the_schema(told, tmp_path):
    code, *_ = told("--expect", "--minutes", "0.005", "--seed", "2", "--kubernetes", "1.36", "--json", "report.json")
    assert code == 0
    document = json.loads((tmp_path / "report.json").read_text())
    assert misfits(document, "engine_exploration") == []
    assert document["seed"] == 2
    assert document["counts"]["files"] > 0


class DiesLater:
    """Runs a first batch of examples in memory; the machine is gone at the second one."""

    def __init__(self):
        place = FakePlace()
        runtime = place.runtime(CgroupDriver.SYSTEMD)
        node = node_on(place, runtime, recorder=NoRecorder(), driver=CgroupDriver.SYSTEMD, runtimes=TRIXIE)
        self._judge, self._batches = Judge(node), 0

    def try_all(self, examples, *, alone=False):
        self._batches += 1
        if self._batches > 1:
            raise MachineError("the machine ended.")
        return self._judge.try_all(examples, alone=alone)


def test_an_error_loses_nothing_that_was_found(told, tmp_path, monkeypatch):
    @contextlib.contextmanager
    def opened(settings, **_):
        yield explore.OpenedSystem(
            tries=DiesLater(),
            known=lambda one: one,
            system=["a machine in memory"],
            node=FAKE_FACTS,
            driver=CgroupDriver.SYSTEMD,
        )

    monkeypatch.setattr(explore, "opened_system", opened)
    code, out, err = told("--kind", "lifecycle", "--seed", "7", "--kubernetes", "1.36", "--json", "report.json")
    assert code == 3
    assert "the machine ended." in err
    assert "interrupted after" in out
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["interrupted"]
    assert document["counts"]["containers"] > 0


def test_without_hypothesis_one_line_says_what_to_install(told, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "hypothesis" else found(name))
    code, out, err = told("--expect")
    assert (code, out) == (6, "")
    assert "memqos explore needs hypothesis, which is not installed." in err
    assert err.rstrip().endswith("pip install 'memqos[explore]'")


@pytest.mark.parametrize(("arguments", "says"), [
    (["--expect", "--replay", "x.json"], "--expect uses no machine: leave out --replay and --against."),
    (["--replay", "none.json"], "none.json: no such file or directory."),
    (["--minutes", "0"], "--minutes"),
    (["--runtime", "runc,crun"], "memqos explore runs on one system: one profile, one runtime and one driver."),
    (["--against", "containerd+runc"], "--against names the runtime itself, containerd+runc."),
    (["--kubernetes", "1.99"], "1.99"),
    (["--enactor", "somebody"], "somebody"),
    (["--kubelet-config", "pod.yaml"], "pod.yaml"),
])  # fmt: skip
def test_what_it_refuses_before_a_machine_boots(told, tmp_path, arguments, says):
    (tmp_path / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\n")
    code, out, err = told(*arguments)
    assert (code, out) == (4, "")
    assert says in err
    assert "Traceback" not in err


@pytest.mark.parametrize(("text", "says"), [
    ("[]", "it is not an object."),
    ("{", "it is not JSON"),
    ("{}", "it is not an example of memqos explore"),
    ('{"example": 5}', "it is not an example of memqos explore"),
    ('{"kubernetes": "1.36", "config": {"kind": "Pod"}, "steps": [{"create": {}}]}', "KubeletConfiguration"),
])  # fmt: skip
def test_a_file_that_is_not_an_example(told, tmp_path, text, says):
    (tmp_path / "example.json").write_text(text)
    code, out, err = told("--replay", "example.json")
    assert (code, out) == (4, "")
    assert says in err
    assert "Traceback" not in err


def test_the_kinds_are_those_of_examples():
    assert tuple(kind.value for kind in Kind) == KINDS


@pytest.mark.parametrize(("options", "says"), [
    (("--kernel", "--kind", "pods"), "--kernel draws trees of cgroups alone: leave out --kind."),
    (("--kernel", "--expect"), "--expect uses no machine, and --kernel needs one."),
])  # fmt: skip
def test_the_kernel_alone_is_explored_on_a_machine_and_without_other_kinds(told, options, says):
    code, out, err = told(*options)
    assert (code, out) == (4, "")
    assert says in err
