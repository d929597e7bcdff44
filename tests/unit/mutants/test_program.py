"""The program that replaces an OCI runtime: its changes, and its behaviour as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memqos.mutants.programs import oci_runtime
from memqos.mutants.programs.oci_runtime import Counts, alone, applies, changed, pod_of

ID = "a" * oci_runtime.ID_LENGTH


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [
        ({"do": "drop", "field": "memory/limit"}, {"memory": {"limit": 5}}, {"memory": {}}),
        ({"do": "set", "field": "memory/swap", "to": -1}, {"memory": {"swap": 5}}, {"memory": {"swap": -1}}),
        ({"do": "set", "field": "memory/swap", "to": -1}, {"memory": {"limit": 5}}, {"memory": {"limit": 5}}),
        ({"do": "percent", "field": "stats/psi/total", "to": 50}, {"stats": {}}, {"stats": {}}),
        ({"do": "give", "field": "stats/swap/value", "to": 5}, {"stats": {}}, {"stats": {"swap": {"value": 5}}}),
        ({"do": "set", "field": "memory/swap", "to": "@cpu/shares"}, {"memory": {"swap": 5}}, {"memory": {"swap": 5}}),
        ({"do": "set", "field": "memory/swap", "to": "@memory/limit", "when": "= -1"},
         {"memory": {"limit": 7, "swap": -1}}, {"memory": {"limit": 7, "swap": 7}}),
        ({"do": "set", "field": "memory/swap", "to": "@memory/limit", "when": "< @memory/limit"},
         {"memory": {"limit": 7, "swap": 8}}, {"memory": {"limit": 7, "swap": 8}}),
        ({"do": "give", "field": "unified/memory.min", "to": 9}, {"unified": {}}, {"unified": {"memory.min": "9"}}),
        ({"do": "give", "field": "unified/memory.min", "to": 9},
         {"unified": {"memory.min": "1"}}, {"unified": {"memory.min": "1"}}),
        ({"do": "copy", "field": "unified/memory.high", "to": "memory/limit"},
         {"memory": {"limit": 7}, "unified": {}}, {"memory": {"limit": 7}, "unified": {"memory.high": "7"}}),
        ({"do": "exchange", "field": "unified/memory.min", "to": "unified/memory.low"},
         {"unified": {"memory.min": "1"}}, {"unified": {"memory.low": "1"}}),
        ({"do": "add", "field": "unified/memory.high", "to": 4096},
         {"unified": {"memory.high": "8192"}}, {"unified": {"memory.high": "12288"}}),
        ({"do": "add", "field": "unified/memory.high", "to": 4096},
         {"unified": {"memory.high": "max"}}, {"unified": {"memory.high": "max"}}),
        ({"do": "round", "field": "memory/limit", "to": 1 << 20},
         {"memory": {"limit": (1 << 20) + 1}}, {"memory": {"limit": 1 << 20}}),
        ({"do": "bits", "field": "*", "to": 32},
         {"memory": {"limit": (1 << 32) + 1}, "unified": {"memory.min": str((1 << 32) + 2), "cpu.weight": "5"}},
         {"memory": {"limit": 1}, "unified": {"memory.min": "2", "cpu.weight": "5"}}),
        ({"do": "cap", "field": "memory/limit", "to": 3}, {"memory": {"limit": 5}}, {"memory": {"limit": 3}}),
        ({"do": "floor", "field": "memory/limit", "to": 9}, {"memory": {"limit": 5}}, {"memory": {"limit": 9}}),
        ({"do": "percent", "field": "memory/limit", "to": 50},
         {"memory": {"limit": 16384}}, {"memory": {"limit": 8192}}),
        ({"do": "first", "field": "cpu/mems"}, {"cpu": {"mems": "0-1"}}, {"cpu": {"mems": "0"}}),
        ({"do": "last", "field": "cpu/mems"}, {"cpu": {"mems": "0,2"}}, {"cpu": {"mems": "2"}}),
        ({"do": "other", "field": "cpu/mems"}, {"cpu": {"mems": "1"}}, {"cpu": {"mems": "0"}}),
        ({"do": "drop", "field": "unified/!memory."},
         {"unified": {"cpu.weight": "5", "memory.min": "1"}}, {"unified": {"memory.min": "1"}}),
        ({"do": "drop", "field": "unified/cpu.*"},
         {"unified": {"cpu.weight": "5", "memory.min": "1"}}, {"unified": {"memory.min": "1"}}),
        ({"do": "tolerate", "field": "unified/*"},
         {"unified": {"memory.min": "x", "memory.nonsense": "1", "memory.high": "max"}},
         {"unified": {"memory.high": "max"}}),
        ({"do": "add", "field": "memory/limit", "to": -4096, "when": "odd"},
         {"memory": {"limit": 1 << 20}}, {"memory": {"limit": 1 << 20}}),
        ({"do": "add", "field": "*", "to": -4096, "when": "odd pages"},
         {"memory": {"limit": 12288, "swap": 16384}, "unified": {"memory.low": "20480", "memory.min": "0"}},
         {"memory": {"limit": 8192, "swap": 16384}, "unified": {"memory.low": "16384", "memory.min": "0"}}),
        ({"do": "set", "field": "unified/memory.high", "to": "@memory/limit", "when": "> @memory/limit"},
         {"memory": {"limit": 4096}, "unified": {"memory.high": "8192"}},
         {"memory": {"limit": 4096}, "unified": {"memory.high": "4096"}}),
        ({"do": "set", "field": "unified/memory.high", "to": "@memory/limit", "when": "> @memory/limit"},
         {"memory": {"limit": -1}, "unified": {"memory.high": "8192"}},
         {"memory": {"limit": -1}, "unified": {"memory.high": "8192"}}),
    ],
)  # fmt: skip
def test_changes(change: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> None:
    changed(before, [change])
    assert before == after


@pytest.mark.parametrize(
    ("only", "counts", "effective"),
    [
        ({}, Counts(), True),
        ({"container": 2}, Counts(number=1), False),
        ({"container": 2}, Counts(number=2), True),
        ({"update": 2}, Counts(updates=1), False),
        ({"update": 2}, Counts(updates=2), True),
        ({"again": True}, Counts(), False),
        ({"again": True}, Counts(again=True), True),
        ({"requires": ["memory/limit"]}, Counts(), True),
        ({"requires": ["memory/swap"]}, Counts(), False),
    ],
)
def test_when_a_fault_takes_effect(only: dict[str, Any], counts: Counts, effective: bool) -> None:
    fault = {"on": ["update"], "only": only}
    assert applies(fault, "update", counts, {"memory": {"limit": 1}}) is effective
    assert not applies(fault, "create", counts, {})


def test_pods_of_both_drivers() -> None:
    assert pod_of("kubepods-pod1.slice:runc:ID") == "kubepods-pod1.slice"
    assert pod_of("/kubepods/besteffort/pod1/ID") == "pod1"


@pytest.fixture
def runtime(tmp_path: Path):
    """Calls the program with a fault; the real runtime keeps each call's words and the config.json or document."""
    real = tmp_path / "runtime.dist"
    real.write_text(
        f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\ncase $1 in\n'
        f"create) cp {tmp_path}/config.json {tmp_path}/seen.json;;\nupdate) cat >{tmp_path}/seen.json;;\n"
        'state) echo \'{"status": "running", "pid": 0}\';;\nesac\n'
    )
    real.chmod(0o755)
    spec = {
        "process": {"oomScoreAdj": 5},
        "linux": {"cgroupsPath": "/pod1/ID", "resources": {"memory": {"limit": 8192}}},
    }
    config = tmp_path / "config.json"

    def call(fault: dict[str, Any], *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        text = alone(fault).replace('FOLDER = "/run/memqos-mutants"', f'FOLDER = "{tmp_path}/kept"')
        program = tmp_path / "runtime"
        program.write_text(text)
        if "create" in words:
            config.write_text(json.dumps(spec))
        command = [sys.executable, "-IS", str(program), *words]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env={**os.environ})

    call.seen = lambda: json.loads((tmp_path / "seen.json").read_text())
    call.calls = lambda: (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []
    call.bundle = ("--bundle", str(tmp_path))
    return call


DROPS = {"on": ["create", "update"], "change": [{"do": "drop", "field": "memory/limit", "when": ""}]}


def test_a_creation_and_an_update_are_changed(runtime) -> None:
    assert runtime(DROPS, "create", *runtime.bundle, ID).returncode == 0
    assert runtime.seen()["linux"]["resources"] == {"memory": {}}
    done = runtime(DROPS, "update", "--resources", "-", ID, stdin='{"memory": {"limit": 1, "swap": 2}}')
    assert done.returncode == 0, done.stderr
    assert runtime.seen() == {"memory": {"swap": 2}}


def test_a_right_container_is_left_to_the_real_runtime(runtime) -> None:
    assert runtime({}, "create", *runtime.bundle, ID).returncode == 0
    assert runtime({}, "--version").returncode == 0
    assert runtime.calls() == [f"create --bundle {runtime.bundle[1]} {ID}", "--version"]


def test_a_process_is_changed(runtime) -> None:
    fault = {"on": ["create"], "process": [{"do": "add", "field": "oomScoreAdj", "to": 1, "when": ""}]}
    runtime(fault, "create", *runtime.bundle, ID)
    assert runtime.seen()["process"]["oomScoreAdj"] == 6


def test_success_without_effect_and_failure_before_and_after(runtime) -> None:
    runtime(DROPS, "create", *runtime.bundle, ID)
    for fault, code, calls in (
        ({"on": ["update"], "skip": True}, 0, 0),
        ({"on": ["update"], "fail": "before"}, 1, 0),
        ({"on": ["update"], "fail": "after"}, 1, 1),
    ):
        runtime(fault, "create", *runtime.bundle, ID)
        before = len(runtime.calls())
        done = runtime(fault, "update", "--resources", "-", ID, stdin="{}")
        assert (done.returncode, len(runtime.calls()) - before) == (code, calls), done.stderr
        runtime(fault, "delete", ID)


def test_only_the_second_update(runtime) -> None:
    fault = {**DROPS, "on": ["update"], "only": {"update": 2}}
    runtime(fault, "create", *runtime.bundle, ID)
    seen = []
    for _ in range(3):
        runtime(fault, "update", "--resources", "-", ID, stdin='{"memory": {"limit": 1}}')
        seen.append(runtime.seen())
    assert seen == [{"memory": {"limit": 1}}, {"memory": {}}, {"memory": {"limit": 1}}]


def test_a_container_after_another_was_deleted(runtime) -> None:
    fault = {**DROPS, "only": {"again": True}}
    runtime(fault, "create", *runtime.bundle, ID)
    assert runtime.seen()["linux"]["resources"] == {"memory": {"limit": 8192}}
    runtime(fault, "delete", ID)
    runtime(fault, "create", *runtime.bundle, ID)
    assert runtime.seen()["linux"]["resources"] == {"memory": {}}


def test_only_an_old_container(runtime) -> None:
    seen = []
    for age in (50, 0.001):
        fault = {**DROPS, "on": ["update"], "only": {"age": age}}
        runtime(fault, "create", *runtime.bundle, ID)
        runtime(fault, "update", "--resources", "-", ID, stdin='{"memory": {"limit": 1}}')
        seen.append(runtime.seen())
    assert seen == [{"memory": {"limit": 1}}, {"memory": {}}]


def test_only_a_container_in_use(runtime, tmp_path: Path) -> None:
    fault = {**DROPS, "on": ["update"], "only": {"uses": 8192}}
    runtime(fault, "create", *runtime.bundle, ID)
    kept = tmp_path / "kept/containers" / ID
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "path": str(tmp_path)}))
    seen = []
    for usage in (8192, 12288):
        (tmp_path / "memory.current").write_text(f"{usage}\n")
        runtime(fault, "update", "--resources", "-", ID, stdin='{"memory": {"limit": 1}}')
        seen.append(runtime.seen())
    assert seen == [{"memory": {"limit": 1}}, {"memory": {}}]


def test_an_update_of_the_container_that_was_created_last(runtime) -> None:
    fault, other = {"on": ["update"], "of": "the last container"}, "b" * len(ID)
    for name in (ID, other):
        runtime(fault, "create", *runtime.bundle, name)
    runtime(fault, "update", "--resources", "-", ID, stdin="{}")
    assert runtime.calls()[-1] == f"update --resources - {other}"


def test_page_cache_is_dropped_as_far_as_there_is_some(tmp_path: Path) -> None:
    oci_runtime.ACTS["drop the page cache"](oci_runtime.Folder(str(tmp_path)))
    assert (tmp_path / "memory.reclaim").read_text() == "16M swappiness=0"
    oci_runtime.ACTS["drop the page cache"](oci_runtime.Folder(str(tmp_path / "gone")))


def test_another_answer(runtime) -> None:
    fault = {"on": ["state"], "answer": [{"do": "set", "field": "status", "to": "created", "when": ""}]}
    runtime(fault, "create", *runtime.bundle, ID)
    assert json.loads(runtime(fault, "state", ID).stdout)["status"] == "created"


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [
        ("<= 4096", 4096, True),
        ("<= 4096", 4097, False),
        ("!= 4096", 4097, True),
        ("!= 4096", "4096", False),
        ("!= max", "4096", True),
        ("!= max", "max", False),
        ("!= @memory/limit", 2, True),
        ("!= @memory/limit", -1, False),
    ],
)
def test_conditions_of_a_change(condition: str, value: object, holds: bool) -> None:
    assert oci_runtime.meets({"memory": {"limit": -1}}, value, condition) is holds
