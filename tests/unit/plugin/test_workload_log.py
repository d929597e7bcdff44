"""A run's record of commands to workloads and their answers."""

import json

from memqos.laboratory.evidence import Folder, MachineLog, Sink
from memqos.probe.sampler import Spoken
from tests.documents import misfits


def test_commands_and_reports_are_kept_in_order_and_match_the_schema(tmp_path):
    log = MachineLog(Sink(Folder(tmp_path / "machine")))
    log.spoken(Spoken(at=1.5, container="web/app", told=True, text="anon 4096"))
    log.spoken(Spoken(at=1.75, container="web/app", told=False, text="… stdout F {}\n"))

    lines = (tmp_path / "machine" / "workloads.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"at": 1.5, "container": "web/app", "told": True, "text": "anon 4096"},
        {"at": 1.75, "container": "web/app", "told": False, "text": "… stdout F {}\n"},
    ]
    assert [misfits(json.loads(line), "spoken") for line in lines] == [[], []]
    assert misfits({"at": 1.5, "container": "web/app", "text": "anon 4096"}, "spoken")
