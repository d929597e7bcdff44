"""Workers on other hosts, by xdist's own gateways: here through an ssh that goes to another folder of this host."""

import json
import os
import sys

import pytest

pytest_plugins = ["pytester"]

CASES = """
import os

@pytest.mark.claim("demo/one")
@pytest.mark.xdist_group("first")
def test_one(qos_evidence):
    qos_evidence.settle(finding("conforms", evidence={"host": os.getcwd()}))

@pytest.mark.claim("demo/one")
@pytest.mark.xdist_group("second")
def test_two(qos_evidence):
    qos_evidence.settle(finding("deviates", evidence={"host": os.getcwd()}))
"""

ELSEWHERE = """
import json
from pathlib import Path

from memqos.plugin.keys import RESULTS

def pytest_sessionstart(session):
    # Another host has another disk, on which its machines' folders are.
    if hasattr(session.config, "workerinput"):
        session.config.stash[RESULTS] = Path.cwd() / "its-own"
        name = session.config.workerinput["workerid"] + "-0"
        folder = Path.cwd() / "its-own" / "machines" / name
        folder.mkdir(parents=True)
        said = {"id": name, "kernel": "6.1", "runtimes": ["containerd 1.6.20", "runc 1.1.5"]}
        (folder / "machine.json").write_text(json.dumps(said))
        (folder / "timing.json").write_text(json.dumps({"create": {"median": 0.1}}))
"""

SSH = """#!/bin/sh
# ssh [-C] HOST COMMAND
while [ $# -gt 2 ]; do shift; done
mkdir -p "$HOSTS/$1" && cd "$HOSTS/$1" && exec sh -c "$2"
"""


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "ssh").write_text(SSH)
    (programs / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOSTS", str(tmp_path / "hosts"))
    monkeypatch.setenv("MEMQOS_CACHE", str(tmp_path / "cache"))


def test_hosts_share_the_cases_and_one_bundle_has_what_they_found(suite, pytester, hosts):
    suite(CASES)
    (pytester.path / "suites" / "conftest.py").write_text(ELSEWHERE)
    places = [f"ssh=node{number}//python={sys.executable}" for number in (1, 2)]
    words = [word for place in places for word in ("--tx", place)]
    suites = str(pytester.path / "suites")
    result = pytester.runpytest_subprocess(
        suites, "--memqos-results=out", "--dist=loadgroup", *words, f"--rsyncdir={suites}"
    )

    assert result.ret == 1
    bundle = json.loads((pytester.path / "out/bundle.json").read_text())
    seen = {one["findings"][0]["evidence"]["host"].split("/hosts/")[1].split("/")[0] for one in bundle["results"]}
    assert (seen, bundle["counts"]["not_run"]) == ({"node1", "node2"}, 0)
    assert [(one["id"], one["kernel"], one["timing"]["create"]["median"]) for one in bundle["machines"]] == [
        ("gw0-0", "6.1", 0.1), ("gw1-0", "6.1", 0.1)
    ]  # fmt: skip
    result.stdout.fnmatch_lines(["2 cases in 1 chapter on trixie/two-zones, 2 at a time; *", "verdict: deviates*"])


def test_a_folder_that_is_not_copied_to_the_hosts_is_refused_before_any_is_asked(suite, pytester, hosts, tmp_path):
    """xdist takes every word that is a path for tests, and ended with an error of its own."""
    suite(CASES)
    suites, place = str(pytester.path / "suites"), f"ssh=node1//python={sys.executable}"
    out = tmp_path / "elsewhere"

    result = pytester.runpytest_subprocess(
        suites, "--memqos-results", str(out), "--dist=loadgroup", "--tx", place, f"--rsyncdir={suites}"
    )

    assert result.ret == 4
    said = result.stderr.str() + result.stdout.str()
    assert f"'{out}' is in no folder that is copied to the hosts." in said
    assert "--memqos-results=FOLDER" in said
    assert not (tmp_path / "hosts").exists()
