"""A bundle with one result of each outcome, for goldens and renderers."""

from __future__ import annotations

from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.engine.plan import Input, Reason
from memqos.report.bundle import Bundle, LeftOut
from memqos.report.outcome import Outcome, TestResult

REASON = Reason(
    rule="memory.high lies between request and limit",
    revision="memory-qos v1.27 shipped",
    source="KEP-2570, Alpha v1.27",
    inputs=(Input("limits.memory", "64Mi", "pod.yaml:12"), Input("memoryThrottlingFactor", "0.9", "default")),
    arithmetic="33554432 + 0.9 * (67108864 - 33554432) = 63753420.8",
    rounding="down to whole pages of 4096 bytes",
    because=(Reason(rule="the request is the limit if none is given", revision="pod sums v1.22", source="API"),),
)


def finding(verdict: Verdict, **changes: object) -> Finding:
    fields: dict[str, object] = {
        "verdict": verdict,
        "subject": Subject.of_container("app", "default/web"),
        "cgroup": "/kubepods.slice/app.scope",
        "knob": "memory.high",
        "set_by": Setter.RUNTIME,
        "expected": "63750144",
        "observed": "63750144" if verdict is Verdict.CONFORMS else "max",
        "reason": REASON,
    }
    return Finding(**{**fields, **changes})  # type: ignore[arg-type]


def result(name: str, outcome: Outcome, **changes: object) -> TestResult:
    fields: dict[str, object] = {
        "id": f"values/test_values.py::test_pod[{name}]",
        "claim": "values/pod",
        "chapter": "values",
        "outcome": outcome,
        "seconds": 1.5,
        "machine": "main-0",
    }
    return TestResult(**{**fields, **changes})  # type: ignore[arg-type]


RESULTS = (
    result(
        "good",
        Outcome.CONFORMS,
        findings=(
            finding(Verdict.CONFORMS),
            finding(Verdict.CONFORMS, subject=Subject.of_pod("default", "web"), set_by=Setter.MEMQOS),
            finding(
                Verdict.CONFORMS,
                subject=Subject.of_pod("default", "web"),
                knob="memory.swap.max",
                set_by=Setter.SYSTEMD,
            ),
        ),
    ),
    result(
        "bad",
        Outcome.DEVIATES,
        reason="memory.high of container app of pod default/web is max, expected 63750144",
        text="memory.high of container app of pod default/web is max, expected 63750144\n  cgroup   /kubepods.slice",
        error_code=1,
        findings=(finding(Verdict.CONFORMS), finding(Verdict.DEVIATES)),
        folder="tests/values_test_values.py_test_pod_bad",
    ),
    result(
        "hidden",
        Outcome.NOT_OBSERVABLE,
        reason="container app: the file is missing",
        findings=(finding(Verdict.NOT_OBSERVABLE, observed="", why_not="the file is missing"),),
    ),
    result("broken", Outcome.MACHINERY, reason="QEMU ended \x1b[31mbadly\x00", text="QEMU ended", error_code=3),
    result("broken-too", Outcome.MACHINERY, reason="QEMU ended \x1b[31mbadly\x00", text="QEMU ended", error_code=3),
    result("unknown", Outcome.USAGE, chapter="swap", claim="", machine="", reason="there is no pod 'x'.", error_code=4),
)

BUNDLE = Bundle(
    started="2026-01-02T03:04:05+00:00",
    ended="2026-01-02T03:14:05+00:00",
    exit_code=1,
    versions={"memqos": "0.1.0", "python": "3.11.2"},
    host={"system": "Linux", "kernel": "6.1", "architecture": "x86_64", "cpus": 2},
    settings={
        "profile": {"value": "trixie", "origin": "default"},
        "runtime": {"value": "crun", "origin": "--runtime"},
        "runtime_binary": {"value": "/tmp/my runc", "origin": "--runtime-binary"},
        "kubernetes": {"value": ["1.27"], "origin": "--kubernetes"},
        "keep_vm": {"value": False, "origin": "default"},
        "results": {"value": "out", "origin": "--results"},
    },
    machines=(
        {
            "id": "main-0",
            "profile": "trixie",
            "topology": "two-numa-nodes",
            "kernel": "6.12.107",
            "runtimes": ["containerd 1.7.24", "crun 1.21"],
            "qemu": "10.0.2",
            "accelerator": "tcg",
        },
    ),
    results=RESULTS,
    not_run=2,
    left_out=LeftOut(claims=3, cases=9),
)
