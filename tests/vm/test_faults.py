"""Runtimes and daemons that fail in the middle of a case: each ends in its time, and the next case is right again."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.vm.runs import bundle, memqos_run, program

pytestmark = [pytest.mark.vm, pytest.mark.wrappers]

FAULTY = """\
#!/usr/bin/python3 -IS
# An OCI runtime with a fault for each of some requests, told apart by what they ask for.
import json, os, sys, time

def prints():
    for _ in range(100):
        os.write(2, b"many words\\n" * 95325)

def fails():
    prints()
    sys.exit(1)

def stays():
    if not os.fork():
        time.sleep(3600)

def leaves_zombies():
    for _ in range(50):
        if not os.fork():
            os._exit(0)

def hangs():
    time.sleep(3600)

def kills_its_daemon():
    os.system("systemctl kill --signal=KILL --kill-whom=main containerd")

FAULTS = {"unified-min": stays, "unified-low": leaves_zombies, "unified-oom-group": hangs}

def request_of(resources):
    unified = resources.get("unified") or {}
    return "unified-" + [*unified][0].removeprefix("memory.").replace(".", "-") if len(unified) == 1 else ""

words = sys.argv[1:]
if "create" in words:
    with open(words[words.index("--bundle") + 1] + "/config.json") as file:
        spec = json.load(file)
    request = request_of(spec["linux"].get("resources") or {})
    if request == "unified-high":
        open("/run/kill-at-start-of-" + words[-1], "w").close()
    FAULTS.get(request, lambda: None)()
if "update" in words:
    fails()
if "start" in words and os.path.exists("/run/kill-at-start-of-" + words[-1]):
    kills_its_daemon()
os.execv(sys.argv[0] + ".dist", [sys.argv[0] + ".dist", *words])
"""


NAMES = ("unified-min", "unified-low", "unified-high", "unified-oom-group", "everything", "update-limit", "limit")
CASES = tuple(f"requests/test_requests.py::test_request[{name}]" for name in NAMES)


def results(folder: Path) -> dict[str, dict[str, Any]]:
    """What a run wrote, by the request that a case is about."""
    return {one["claim"].partition("/")[2]: one for one in bundle(folder)["results"]}


def calls(folder: Path) -> list[dict[str, Any]]:
    """What was said to the runtime in a case, also where its folder was compressed."""
    plain, compressed = folder / "requests.jsonl", folder / "requests.jsonl.gz"
    text = plain.read_bytes() if plain.exists() else gzip.decompress(compressed.read_bytes())
    return [json.loads(line) for line in text.splitlines()]


def test_a_runtime_that_fails_costs_its_case_and_no_other(tmp_path: Path) -> None:
    wrapper, folder = program(tmp_path / "my-runc", FAULTY), tmp_path / "results"

    done = memqos_run(folder, *CASES, "--runtime-binary", str(wrapper))

    assert "Traceback" not in done.stdout + done.stderr
    found = results(folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert {name: one["outcome"] for name, one in found.items()} == {
        "unified-min": "machinery",
        "unified-low": "conforms",
        "unified-high": "machinery",
        "unified-oom-group": "machinery",
        "everything": "conforms",
        "update-limit": "deviates",
        "limit": "conforms",
    }
    for name in ("unified-min", "unified-high", "unified-oom-group"):
        assert len(found[name]["reason"]) < 2000
        assert calls(folder / found[name]["folder"])[0]["method"] == "CreateContainer"
    for name in ("unified-high", "unified-oom-group"):
        assert any(one["error"] for one in calls(folder / found[name]["folder"]))
    refused = [one for one in found["update-limit"]["findings"] if one["verdict"] == "deviates"]
    assert {one["knob"] for one in refused} == {"update"}
    assert all(len(one["observed"]) < 10_000 for one in refused)
