"""`memqos audit PLACE…`: many nodes, their rows, their causes, and the formats of other programs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from memqos.audits.live import Course
from memqos.cli import audit_places
from memqos.cli.audit_places import AuditOrder
from memqos.cli.manifest_options import ManifestOptions
from memqos.cli.node_options import KubeletOptions, NodeOptions, RuntimeOptions
from memqos.errors import TargetError
from tests.recorded_nodes import recorded_node, write_fleet

Told = Callable[..., tuple[int, str, str]]


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    folder = tmp_path / "nodes"
    folder.mkdir()
    write_fleet(folder, nodes=4, pods=6, different=4)
    return folder


def spoil(path: Path, knob: str = "memory.high", text: str = "max") -> int:
    """Write this into the file of each container that has another finite value; how many."""
    document = json.loads(path.read_text())
    count = 0
    for files in document["cgroups"].values():
        if files.get("comm") == "app" and files[knob].isdigit() and files[knob] != "0":
            files[knob] = text
            count += 1
    path.write_text(json.dumps(document))
    return count


def test_a_row_for_each_node_and_one_cause_for_equal_deviations(told: Told, nodes: Path) -> None:
    count = spoil(nodes / "node-0001.json") + spoil(nodes / "node-0002.json")
    code, out, _ = told(nodes)
    assert code == 1
    rows = out.splitlines()[:5]
    assert [row.split()[2] for row in rows[1:]] == ["FULFILLED", "DRIFTED", "DRIFTED", "FULFILLED"]
    assert re.search(r"^memory.high at the level container deviates: \d+ pods on 2 nodes$", out, re.MULTILINE)
    counts = [int(one) for one in re.findall(r"deviates: (\d+) pods", out)]
    assert 0 < sum(counts) <= count
    assert out.endswith("4 nodes: 2 FULFILLED, 2 DRIFTED\n")


def test_one_recording_is_judged_as_with_tree(told: Told, nodes: Path) -> None:
    path = nodes / "node-0001.json"
    assert told(path) == told("--tree", path)
    assert told(path, "--json") == told("--tree", path, "--json")


def test_json_has_rows_and_causes(told: Told, nodes: Path) -> None:
    spoil(nodes / "node-0003.json")
    code, out, _ = told(nodes, "--json", "--jobs", "2")
    document = json.loads(out)
    assert (code, document["exit_code"]) == (1, 1)
    assert document["states"] == {"FULFILLED": 3, "DRIFTED": 1, "INSUFFICIENT_EVIDENCE": 0}
    assert [one["state"] for one in document["nodes"]] == ["FULFILLED"] * 3 + ["DRIFTED"]
    for cause in document["causes"]:
        assert (cause["knob"], cause["nodes"], cause["examples"][0]["node"]) == ("memory.high", 1, "node-3")
    assert len({cause["rule"] for cause in document["causes"]}) == len(document["causes"])


def damage(path: Path, how: str) -> None:
    text = path.read_text()
    path.write_bytes({
        "cut": text[: len(text) // 20].encode(), "binary": b"\x00\xff" * 100, "empty": b"", "list": b"[]",
        "no node": json.dumps({**json.loads(text), "node": None}).encode(),
        "pods": json.dumps({**json.loads(text), "pods": [{"kind": "Pod"}]}).encode(),
        "second look": json.dumps({**json.loads(text), "second_look": 7}).encode(),
        "daemons": json.dumps({**json.loads(text), "daemons": [{"name": 1}]}).encode(),
        "deep": b'{"cgroups": ' + b"[" * 100000,
    }[how])  # fmt: skip


@pytest.mark.parametrize("how", ["cut", "binary", "empty", "list", "no node", "pods", "second look", "daemons", "deep"])
def test_a_damaged_recording_is_a_row_and_the_others_are_judged(told: Told, nodes: Path, how: str) -> None:
    damage(nodes / "node-0002.json", how)
    code, out, err = told(nodes, "--jobs", "1")
    assert code == 4
    assert "Traceback" not in out + err
    assert "node-0002.json: not judged: " in out
    assert out.endswith("4 nodes: 3 FULFILLED, 1 not judged\n")
    code, out, err = told(nodes / "node-0002.json")
    assert (code, "Traceback" in out + err) == (4, False)


SLICE = "/kubepods.slice"
NESTED = "/kubelet/kubepods/burstable/pod123e4567-e89b-12d3-a456-426614174000"


FACTOR = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmemoryThrottlingFactor: "


def scope_of(document: dict[str, Any]) -> str:
    return next(path for path in document["cgroups"] if path.endswith(".scope"))


def every(document: dict[str, Any], **files: str) -> None:
    for one in document["cgroups"].values():
        one |= {name.replace("_", ".", 1): text for name, text in files.items()}


def moved(document: dict[str, Any]) -> None:
    cgroups = document["cgroups"].items()
    document["cgroups"] = {path.replace("/kubepods", "/kubelet.slice/kubelet-kubepods"): one for path, one in cgroups}


@pytest.mark.parametrize(("change", "code"), [
    (lambda one: one["cgroups"].update({scope_of(one) + NESTED: {"memory.min": "7", "memory.current": "1"}}), 0),
    (lambda one: one["cgroups"].update({"/custom.slice/foo-kubepods.slice": {"memory.min": "7"}}), 0),
    (lambda one: one["cgroups"].update({"/kubepods": {"memory.min": "7"}}), 0),
    (moved, 5),
    (lambda one: one.update(config=None, config_unread="gone"), 0),
    (lambda one: one.update(containers={}), 0),
    (lambda one: one.pop("pods"), 0),
    (lambda one: one.pop("kubelet"), 4),
    (lambda one: one.update(kubelet="v1.99.0"), 4),
    (lambda one: every(one, memory_high="\x1b[31m", memory_max="?", memory_min="-1", memory_low=""), 0),
    (lambda one: every(one, memory_current="9" * 30, memory_stat="anon -5", memory_pressure="full avg10=nan"), 0),
    (lambda one: every(one, memory_current=str(2**64 - 1)), 0),
    (lambda one: one.update(second_look={"gone": [SLICE], "counters": {SLICE: {"memory.stat": "?"}}}), 0),
    (lambda one: one.update(collected_at="never"), 0),
    (lambda one: one.update(collected_at="1970-01-01T00:00:00Z"), 0),
    (lambda one: one["cgroups"].update({"/a/../b": {}}), 4),
    (lambda one: one.update(cgroups=dict(list(one["cgroups"].items())[:6])), 0),
    (lambda one: one.update(configz={"kubeletconfig": {"memoryThrottlingFactor": "much"}}), 4),
    (lambda one: one.update(configz={"x": 1}), 4),
    (lambda one: one.update(configz={"kubeletconfig": {}}), 4),
    (lambda one: [one.pop(name) for name in ("config", "unread")], 0),
    (lambda one: one.update(drop_ins={"/d/20.conf": FACTOR + "0.9", "/d/10.conf": FACTOR + "0.5"}), 0),
    (lambda one: one.update(drop_ins={"/d/a/b.conf": FACTOR + "0.5", "/d/a-b.conf": FACTOR + "0.9"}), 0),
    (lambda one: one.update(drop_ins={"/d/20.conf": FACTOR + "0.9", "/d/30.yaml": FACTOR + "0.5"}), 0),
    (lambda one: one.update(runtime_pods=[{}]), 4),
    (lambda one: one.update(machine={"cgroup_mount": 7}), 4),
    (lambda one: one.update(notes={"a": 1}), 4),
])  # fmt: skip
def test_a_strange_recording_causes_no_wrong_verdict_and_no_traceback(
    told: Told, nodes: Path, change: Callable[[dict[str, Any]], object], code: int
) -> None:
    path = nodes / "node-0000.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    found, out, err = told(path, "--state", "--oom")
    assert found == code, out + err
    assert "Traceback" not in out + err
    assert "\x1b" not in out + err
    if code == 4:
        assert err.startswith("memqos: error: ")
    else:
        assert ", 0 deviate, " in out


def written_by_collect(document: dict[str, Any]) -> str:
    """With the cgroups last, as the program prints it."""
    return json.dumps(
        {**{name: one for name, one in document.items() if name != "cgroups"}, "cgroups": document["cgroups"]}
    )


@pytest.mark.parametrize("part", [0.5, 0.9, 0.99, 0.999])
def test_of_a_recording_that_ends_in_the_middle_the_rest_is_judged(told: Told, tmp_path: Path, part: float) -> None:
    text = written_by_collect(recorded_node("n1", pods=6, seed=1))
    start = text.index('"cgroups"')
    path = tmp_path / "n1.json"
    path.write_text(text[: start + int((len(text) - start) * part)])
    code, out, err = told(path)
    assert (code, "0 deviate" in out) == (3, True), out
    assert "the recording ends in the middle: missing values were not judged" in err


def test_a_scope_whose_container_may_follow_is_not_judged(told: Told, tmp_path: Path) -> None:
    """crun keeps a container's files in SCOPE/container, which a recording has after all scopes."""
    document = recorded_node("n1", pods=6, seed=1)
    document["node"] = {name: one for name, one in document["node"].items() if name != "runc"} | {"crun": "crun 1.21"}
    containers = {f"{path}/container": one for path, one in document["cgroups"].items() if one.get("comm") == "app"}
    for path in containers:
        document["cgroups"][path.removesuffix("/container")] |= {"memory.swap.max": "4096", "memory.oom.group": "0"}
    document["cgroups"] |= containers
    text = written_by_collect(document)
    (tmp_path / "n1.json").write_text(text[: text.index(".scope/container") + 9])
    code, out, _ = told(tmp_path / "n1.json")
    assert (code, " 0 deviate" in out) == (3, True), out
    assert "the recording ends in the middle" in out


def test_a_deviation_in_a_recording_that_ends_in_the_middle_is_still_one(told: Told, tmp_path: Path) -> None:
    document = recorded_node("n1", pods=6, seed=1)
    for files in document["cgroups"].values():
        if files.get("memory.high", "max").isdigit():
            files["memory.high"] = "4096"
    text = written_by_collect(document)
    (tmp_path / "n1.json").write_text(text[: int(len(text) * 0.95)])
    assert told(tmp_path / "n1.json")[0] == 1


def test_a_missing_place_is_reported_at_once(told: Told, nodes: Path, tmp_path: Path) -> None:
    code, _, err = told(nodes, tmp_path / "none.json")
    assert (code, "there is no recording" in err) == (4, True)
    (tmp_path / "empty").mkdir()
    code, _, err = told(tmp_path / "empty")
    assert (code, "has no recording (*.json)" in err) == (4, True)
    assert told("http://node7", nodes)[0] == 4


def test_metrics_are_prometheus_text(told: Told, nodes: Path, tmp_path: Path) -> None:
    document = json.loads((nodes / "node-0000.json").read_text())
    (nodes / "node-0000.json").write_text(json.dumps({**document, "source": 'a"b\\c\nd'}))
    spoil(nodes / "node-0001.json")
    assert told(nodes, "--metrics", tmp_path / "fleet.prom")[0] == 1
    lines = (tmp_path / "fleet.prom").read_text().splitlines()
    form = re.compile(r'[a-z_]+\{([a-z_]+="([^"\\\n]|\\["\\n])*",?)+\} -?\d+')
    assert all(line.startswith("# ") or form.fullmatch(line) for line in lines), [
        one for one in lines if not form.fullmatch(one)
    ]
    assert 'memqos_audit_judged{node="a\\"b\\\\c\\nd"} 1' in lines
    assert 'memqos_audit_pods{node="node-2",state="FULFILLED"} 6' in lines
    assert 'memqos_memory_qos_in_force{node="node-1",force="partly in force"} 0' in lines
    names = {line.split("{")[0] for line in lines if not line.startswith("#")}
    assert "memqos_container_effective_memory_high_bytes" in names
    assert all(lines.count(f"# TYPE {name} gauge") == 1 for name in names)


def test_metrics_of_one_node(told: Told, nodes: Path, tmp_path: Path) -> None:
    assert told(nodes / "node-0001.json", "--metrics", tmp_path / "m.prom", "--sarif", tmp_path / "m.sarif")[0] == 0
    assert 'memqos_audit_judged{node="node-1"} 1' in (tmp_path / "m.prom").read_text()
    code, _, err = told(nodes / "node-0001.json", "--metrics", tmp_path)
    assert (code, "--metrics: the file" in err) == (4, True)


def test_sarif_has_a_rule_for_each_cause(told: Told, nodes: Path, tmp_path: Path) -> None:
    count = spoil(nodes / "node-0001.json")
    damage(nodes / "node-0002.json", "empty")
    assert told(nodes, "--sarif", tmp_path / "m.sarif")[0] == 1
    [run] = json.loads((tmp_path / "m.sarif").read_text())["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert {one["ruleId"] for one in run["results"]} == {rule["id"] for rule in rules}
    assert len(run["results"]) == count
    assert {one["level"] for one in run["results"]} == {"error"}
    [notification] = run["invocations"][0]["toolExecutionNotifications"]
    assert "node-0002.json" in notification["message"]["text"]
    assert re.fullmatch(
        r"[A-Za-z0-9._~/%-]+", run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    )


def test_a_page_shows_the_fleet_or_one_node(told: Told, nodes: Path, tmp_path: Path) -> None:
    spoil(nodes / "node-0001.json")
    damage(nodes / "node-0002.json", "empty")
    page = tmp_path / "fleet.html"
    assert told(nodes, "--html", page)[0] == 1
    text = re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<[^>]*>", " ", page.read_text(), flags=re.DOTALL))
    assert "DRIFTED 1 DRIFTED 1 NOT JUDGED 2 FULFILLED MemoryQoS: 2 in force, 1 partly in force." in text
    assert "node-1 1.36 DRIFTED partly in force" in text
    assert told(nodes / "node-0000.json", "--html", page)[0] == 0
    assert "audit of 1 node, " in page.read_text()
    assert told(nodes / "node-0002.json", "--html", page)[0] == 4
    assert "1 NOT JUDGED" in page.read_text()
    code, _, err = told(nodes, "--html", tmp_path)
    assert (code, "--html: the file" in err) == (4, True)


@pytest.mark.parametrize("option", ["--html", "--metrics", "--sarif", "--junit"])
def test_a_watch_writes_no_files(told: Told, nodes: Path, tmp_path: Path, option: str) -> None:
    code, _, err = told(nodes / "node-0001.json", "--watch", "--looks", 1, option, tmp_path / "file")
    assert code == 4
    assert f"{option}: it cannot be combined with --watch." in err


def test_junit_has_a_case_for_each_pod_and_an_error_for_an_unjudged_node(
    told: Told, nodes: Path, tmp_path: Path
) -> None:
    spoil(nodes / "node-0001.json")
    damage(nodes / "node-0002.json", "empty")
    assert told(nodes, "--junit", tmp_path / "m.xml")[0] == 1
    suites = list(ElementTree.parse(tmp_path / "m.xml").getroot())  # noqa: S314 - our own
    assert [suite.get("tests") for suite in suites] == ["7", "7", "1", "7"]
    assert [suite.get("errors") for suite in suites] == ["0", "0", "1", "0"]
    failed = suites[1].findall("testcase/failure")
    assert len(failed) == int(suites[1].get("failures", "0")) > 0
    assert "memory.high of container" in failed[0].get("message", "")
    code, _, _ = told(nodes / "node-0002.json", "--junit", tmp_path / "one.xml")
    [suite] = ElementTree.parse(tmp_path / "one.xml").getroot()  # noqa: S314 - our own
    assert (code, suite.get("errors")) == (4, "1")


def test_names_in_a_recording_do_not_reach_the_terminal_as_they_are(told: Told, nodes: Path) -> None:
    path = nodes / "node-0001.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "source": "\x1b]0;owned\x07\nfake row", "notes": {"\x1b[2J": "x"}})
    )
    for words in ((nodes,), (path,), (path, "--state", "--oom")):
        code, out, err = told(*words)
        assert (code, "\x1b" in out + err, "\x07" in out) == (0, False, False)


def test_the_state_of_a_node_is_printed_if_it_is_wanted(told: Told, nodes: Path) -> None:
    path = nodes / "node-0001.json"
    _, out, _ = told(path, "--state", "--oom")
    assert "MemoryQoS: in force" in out
    assert "the kernel kills in this order" in out
    assert "MemoryQoS: in force" not in told(path)[1]
    assert told(nodes, "--state")[0] == 4


def test_what_if_lists_each_change_with_todays_use(told: Told, nodes: Path) -> None:
    path = nodes / "node-0001.json"
    code, out, _ = told(path, "--what-if", "--set", "memoryThrottlingFactor=0.1")
    assert code == 0
    assert "--set memoryThrottlingFactor=0.1: " in out
    assert "(when the pod is made again)" in out
    assert re.search(r"it uses \d+ MiB now, [\d.]+ MiB (above: it would be throttled|below)", out)
    code, out, _ = told(path, "--what-if", "--kubernetes", "1.36")
    assert (code, out) == (0, "Kubernetes 1.36: nothing changes on this node\n")
    document = json.loads(told(path, "--what-if", "--kubernetes", "1.35", "--json")[1])
    assert {"memory.min", "memory.low"} <= {one["what"] for one in document["changes"]}
    assert told(path, "--what-if")[0] == 4
    assert told(nodes, "--what-if", "--kubernetes", "1.37")[0] == 4


def test_a_watch_reports_drift_and_its_end(told: Told, nodes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = nodes / "node-0001.json"
    right, sleeps = path.read_text(), []

    class Clock:
        def now(self) -> float:
            return float(len(sleeps))

        def sleep(self, seconds: float) -> None:
            sleeps.append(seconds)
            if len(sleeps) == 2:
                spoil(path)
            if len(sleeps) == 4:
                path.write_text(right)

    clock = Clock()
    told_events: list[str] = []
    monkeypatch.setattr(audit_places, "say", lambda text, **_: told_events.append(text))
    monkeypatch.setattr(audit_places, "Course", lambda _: Course(clock))
    order = order_of(nodes)
    code = audit_places.drift_watched(order, [str(path)], every=1.0, looks=5, as_json=True, clock=clock)
    events = [json.loads(one) for one in told_events]
    assert code == 1
    assert {one["event"] for one in events[: len(events) // 2]} == {"drift"}
    assert {one["event"] for one in events[len(events) // 2 :]} == {"back"}
    assert told(path, "--watch", "--looks", "1")[0] == 0
    assert told(path, "--looks", "1")[0] == 4


def order_of(_: Path) -> AuditOrder:
    return AuditOrder(
        runtime=RuntimeOptions(), kubelet=KubeletOptions(), manifests=ManifestOptions(), node=NodeOptions()
    )


def test_a_watch_outlives_a_connection_that_breaks(
    nodes: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Clock:
        def now(self) -> float:
            return 0.0

        def sleep(self, seconds: float) -> None: ...

    found = order_of(nodes).audit_of(str(nodes / "node-0001.json"))
    answers: list[Any] = [TargetError("the connection was lost."), TargetError("the connection was lost."), found]

    def audit_of(*_: Any) -> Any:
        one = answers.pop(0)
        if isinstance(one, Exception):
            raise one
        return one

    monkeypatch.setattr(AuditOrder, "audit_of", audit_of)
    code = audit_places.drift_watched(
        order_of(nodes), ["ssh://root@n1"], every=1.0, looks=3, as_json=False, clock=Clock()
    )
    assert code == 0
    assert capsys.readouterr().err.count("cannot be read: the connection was lost.") == 1
    answers[:] = [TargetError("the connection was lost.")]
    assert (
        audit_places.drift_watched(order_of(nodes), ["ssh://n1"], every=1.0, looks=1, as_json=False, clock=Clock()) == 3
    )
