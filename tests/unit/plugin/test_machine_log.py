"""The plans in a machine's log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memqos.laboratory.evidence import Folder, MachineLog, Sink
from tests.documents import assert_fits
from tests.unit.node.asked import CATALOGUE, kept_of


def test_a_requested_container_is_in_its_cases_plan(tmp_path: Path) -> None:
    kept = kept_of(lambda requests: requests.judge(CATALOGUE.request("limit")))
    log = MachineLog(Sink(Folder(tmp_path)))

    log.plan(kept.plans[-1], requested=kept.requested[-1])

    planned: list[dict[str, Any]] = json.loads((tmp_path / "plan.json").read_text())["cgroups"]
    assert planned[-1]["container"] == "requested"
    assert planned[-1]["knobs"]["memory.max"]["value"] == "67108864"
    assert [one["container"] for one in planned[:-1] if one["container"]] == ["app"]
    assert assert_fits(tmp_path) == {"plan"}
    assert not (tmp_path / "manifests.yaml").exists()
