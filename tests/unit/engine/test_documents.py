"""Findings as JSON, and back."""

import json

import pytest

from memqos.engine.answer.document import finding_document, finding_from
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.engine.plan import Input, Level, Reason

REASON = Reason(
    rule="a rule",
    revision="memory-qos v1.27 shipped",
    source="KEP-2570",
    inputs=(Input("limits.memory", "64Mi", "pod.yaml:12"),),
    arithmetic="1 + 1 = 2",
    because=(Reason(rule="another", revision="", source=""),),
)


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize(
    "reason", [REASON, Reason(rule="", revision="", source=""), None], ids=["full", "bare", "none"]
)
def test_findings_survive_json(reason, measured):
    finding = Finding(
        verdict=Verdict.NOT_OBSERVABLE, subject=Subject.of_machine("s"), cgroup="/c", knob="memory.high",
        set_by=Setter.RUNTIME,
        expected="1", observed="", why_not="gone", reason=reason, evidence={"oom_kill": "1"},
        measured=measured,
    )  # fmt: skip
    assert finding_from(json.loads(json.dumps(finding_document(finding)))) == finding


def test_a_reason_leaves_out_empty_fields():
    finding = Finding(
        verdict=Verdict.DEVIATES, subject=Subject.of_machine("s"), cgroup="/c", knob="k",
        set_by=Setter.KERNEL, expected="1",
        observed="2",
        reason=REASON,
    )  # fmt: skip
    document = finding_document(finding)["reason"]
    assert "rounding" not in document
    assert document["because"] == [{"rule": "another"}]


@pytest.mark.parametrize(
    ("verdict", "line"),
    [
        (Verdict.CONFORMS, "conforms: memory.high of pod web is 1"),
        (Verdict.DEVIATES, "deviates: memory.high of pod web is 1, expected 2"),
        (Verdict.KNOWN, "known: memory.high of pod web is 1, expected 2"),
        (Verdict.NOT_OBSERVABLE, "not observable: memory.high of pod web: no such file"),
    ],
)
def test_a_finding_is_one_line(verdict, line):
    finding = Finding(
        verdict=verdict, subject=Subject(level=Level.POD, pod="web"), cgroup="/c", knob="memory.high",
        set_by=Setter.RUNTIME,
        expected="2",
        observed="1", why_not="no such file",
    )  # fmt: skip
    assert str(finding) == line
