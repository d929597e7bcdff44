"""A finding as JSON and back, with all that its reason says."""

import json

import pytest

from memqos.engine.answer.document import finding_document, finding_from
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.answer.setter import Setter
from memqos.engine.answer.verdict import judged_files
from memqos.engine.plan import Input, Reason
from memqos.model.node import CgroupVersion

REASON = Reason(
    rule="the limit",
    revision="memory-qos v1.27",
    source="KEP-2570",
    inputs=(Input("limits.memory", "4096", "pod.yaml:12"),),
    arithmetic="4096",
    rounding="down to whole pages",
    because=(Reason(rule="a pod's sum", revision="pod sums v1.27", source="kubelet"),),
)


@pytest.mark.parametrize("reason", [None, REASON], ids=["without a reason", "with one"])
def test_a_finding_survives_json(reason):
    found = Finding(
        verdict=Verdict.NOT_OBSERVABLE,
        subject="container c of pod default/p",
        cgroup="/kubepods/podp/c",
        knob="memory.max",
        set_by=Setter.OTHER,
        expected="4096",
        observed="",
        why_not="no such file",
        reason=reason,
        evidence={"memory.current": "0"},
    )
    assert finding_from(json.loads(json.dumps(finding_document(found)))) == found


def test_a_reading_that_is_to_be_judged_has_the_files_of_its_cgroup_version():
    v1, v2 = (set(judged_files(version)) for version in (CgroupVersion.V1, CgroupVersion.V2))
    assert {"memory.max", "memory.high", "cpu.weight"} <= v2
    assert {"memory.limit_in_bytes", "cpu.shares"} <= v1
    assert not {"memory.max", "cpu.weight"} & v1
    assert "memory.limit_in_bytes" not in v2
