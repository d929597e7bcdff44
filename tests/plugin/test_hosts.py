"""Workers on other hosts, through xdist's own gateways: here an ssh that goes to another folder of this host."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memqos.version import __version__
from tests.documents import assert_fits

pytest_plugins = ["pytester"]

CASES = """
import json
import os
from pathlib import Path
from memqos.plugin.keys import RESULTS

@pytest.fixture(autouse=True)
def machine(request):
    # A machine's folder is on the disk of the host that it is on.
    config = request.config
    name = config.workerinput["workerid"] + "-0"
    folder = config.stash[RESULTS] / "machines" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "machine.json").write_text(json.dumps({"id": name, "profile": "", "topology": "", "kernel": "6.1"}))

@pytest.mark.claim("demo/one")
@pytest.mark.xdist_group("first")
def test_one(qos_evidence):
    qos_evidence.settle(finding("conforms", evidence={"host": os.getcwd()}))

@pytest.mark.claim("demo/one")
@pytest.mark.xdist_group("second")
def test_two(qos_evidence, request):
    qos_evidence.attach("where.txt", str(request.config.stash[RESULTS]))
    qos_evidence.settle(finding("deviates", evidence={"host": os.getcwd()}))
"""

PARALLEL = """
from memqos.plugin.keys import SETTINGS_KEY

@pytest.mark.claim("demo/one")
def test_one(qos_evidence, request):
    qos_evidence.settle(finding("conforms", evidence={"host": str(request.config.stash[SETTINGS_KEY].parallel)}))
"""

WAITS = """
import time
from pathlib import Path
from memqos.plugin.keys import RESULTS

@pytest.mark.claim("demo/one")
@pytest.mark.xdist_group("first")
def test_one(qos_evidence):
    qos_evidence.settle(finding("conforms"))

@pytest.mark.claim("demo/one")
@pytest.mark.xdist_group("second")
def test_two(qos_evidence, request):
    qos_evidence.attach("where.txt", str(request.config.stash[RESULTS]))
    try:
        Path("two").touch()
        time.sleep(60)
    finally:
        Path("torn-down").touch()
"""

FILES = """
from pathlib import Path
from memqos.plugin.keys import SETTINGS_KEY

@pytest.mark.claim("demo/one")
def test_one(qos_evidence, request):
    settings = request.config.stash[SETTINGS_KEY]
    [binary] = [one.path for one in settings.runtime_binary]
    qos_evidence.attach("where.txt", str(binary))
    qos_evidence.settle(finding("conforms", evidence={
        "binary": binary.read_text(), "mode": oct(binary.stat().st_mode & 0o777), "name": binary.name,
        "topology": Path(settings.topology).read_text(),
        "placed": " ".join(f"{one.source.read_text()} at {one.destination}" for one in settings.guest_file),
    }))
"""

SSH = """#!/bin/sh
# ssh [-C] HOST COMMAND
while [ $# -gt 2 ]; do shift; done
case "$1" in away*) exit 255;; esac
mkdir -p "$HOSTS/$1" && cd "$HOSTS/$1" && PYTHONPATH="$HOSTS/$1/lib" exec env -u MEMQOS_PARALLEL sh -c "$2"
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


@pytest.fixture
def run_on(suite, pytester, hosts):
    """Run the cases on hosts by these names, with further words."""

    def go(*names, more=("--dist=loadgroup",), cases=CASES):
        suite(cases)
        suites = str(pytester.path / "suites")
        words = [word for name in names for word in ("--tx", f"ssh={name}//python={sys.executable}")]
        return pytester.runpytest_subprocess(suites, "--memqos-results=out", f"--rsyncdir={suites}", *more, *words)

    return go


def has_memqos(tmp_path, host, version, more=""):
    """On this host Python finds another memqos first."""
    package = tmp_path / "hosts" / host / "lib" / "memqos"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "version.py").write_text(f'__version__ = "{version}"\n' if version else "")


@pytest.mark.parametrize("more", [("--dist=loadgroup",), ()], ids=["as the manual says", "with --tx alone"])
def test_hosts_share_the_cases_and_one_bundle_has_all_findings(run_on, pytester, more):
    result = run_on("node1", "node2", more=more)

    assert result.ret == 1
    bundle = json.loads((pytester.path / "out/bundle.json").read_text())
    assert_fits(pytester.path / "out")
    seen = {one["findings"][0]["evidence"]["host"].split("/hosts/")[1].split("/")[0] for one in bundle["results"]}
    assert (seen, bundle["counts"]["not_run"]) == ({"node1", "node2"}, 0)
    assert [(one["id"], one["kernel"]) for one in bundle["machines"]] == [("gw0-0", "6.1"), ("gw1-0", "6.1")]
    result.stdout.fnmatch_lines(["2 cases in 1 chapter on trixie/two-numa-nodes, 2 at a time; *", "verdict: deviates*"])


def test_each_case_names_its_host(run_on, pytester):
    result = run_on("node1", "node2")

    bundle = json.loads((pytester.path / "out/bundle.json").read_text())
    for one in bundle["results"]:
        assert one["findings"][0]["evidence"]["host"].split("/hosts/")[1].startswith(f"{one['host']}/")
    assert re.search(r"^    host     node[12]$", result.stdout.str(), re.MULTILINE)
    assert re.search(r'<property name="host" value="node[12]" */>', (pytester.path / "out/junit_01.xml").read_text())


def test_evidence_of_another_host_is_moved_to_the_results(run_on, pytester):
    """It stayed on its host, under the results' path, where later runs found it."""
    run_on("node1", "node2")

    there = (pytester.path / "out/tests/demo_test_demo.py_test_two/where.txt").read_text()
    assert re.fullmatch(r"/var/tmp/memqos-results-[0-9a-f]{8}-gw[01]", there)
    assert not Path(there).exists()


def test_a_host_uses_the_runs_settings_and_not_its_own_environment(run_on, pytester, monkeypatch):
    """A worker resolved them itself: a variable set where the run was started was ignored."""
    monkeypatch.setenv("MEMQOS_PARALLEL", "7")

    run_on("node1", cases=PARALLEL)

    bundle = json.loads((pytester.path / "out/bundle.json").read_text())
    assert bundle["settings"]["parallel"]["value"] == 7
    assert {one["findings"][0]["evidence"]["host"] for one in bundle["results"]} == {"7"}


def test_files_that_settings_name_are_carried_to_each_host_and_leave_it_again(run_on, pytester):
    """They had to exist there, under the same paths."""
    binary = pytester.path / "my-runc"
    binary.write_text("#!ours")
    binary.chmod(0o750)
    (pytester.path / "own.conf").write_text("own = true")
    topology = json.dumps({"purpose": "One of our own.", "cpus": 1, "numaNodes": [{"memoryMiB": 1024, "cpus": [0]}]})
    (pytester.path / "own.json").write_text(topology)

    words = ("--memqos-runtime-binary=my-runc", "--memqos-topology=own.json", "--memqos-guest-file=own.conf:/etc/own")
    run_on("node1", more=("--dist=loadgroup", *words), cases=FILES)

    [one] = json.loads((pytester.path / "out/bundle.json").read_text())["results"]
    evidence = one["findings"][0]["evidence"]
    assert (evidence["binary"], evidence["mode"], evidence["name"]) == ("#!ours", "0o750", "my-runc")
    assert (evidence["topology"], evidence["placed"]) == (topology, "own = true at /etc/own")
    there = Path((pytester.path / "out" / one["folder"] / "where.txt").read_text())
    assert there.is_absolute()
    assert not there.parent.parent.exists()


def test_a_host_with_another_memqos_is_named_with_both_versions_before_anything_runs(run_on, pytester, tmp_path):
    has_memqos(tmp_path, "node2", "0.9.7")

    result = run_on("node1", "node2")

    assert result.ret == 4
    [said] = [line for line in result.stdout.lines + result.errlines if line.startswith("ERROR: --tx")]
    assert f"node2 has memqos 0.9.7; this host has memqos {__version__} on Python" in said
    assert not list((tmp_path / "hosts" / "node1").glob("**/test_demo.py"))


@pytest.mark.parametrize(
    ("version", "said"),
    [(__version__, f"node2 has another build of memqos {__version__}"), ("", "node2 has no memqos in its Python")],
)
def test_a_host_with_another_build_or_none_is_refused(run_on, tmp_path, version, said):
    """Without memqos a worker refused the options, and the run waited forever."""
    has_memqos(tmp_path, "node2", version)

    result = run_on("node1", "node2")

    assert result.ret == 4
    assert said in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("ssh=away//python=python3", "--tx away: the Python 'python3' of this host cannot be reached: ssh, or"),
        ("ssh=node2//python=/nowhere", "--tx node2: the Python '/nowhere' of this host cannot be reached: ssh, or"),
    ],
)
def test_an_unreachable_host_is_reported_as_such(run_on, pytester, place, said):
    result = run_on("node1", more=("--tx", place))

    assert result.ret == 3
    assert f"memqos: error: {said}" in result.stderr.str()
    assert not (pytester.path / "out/crash.txt").exists()


def test_a_folder_that_is_not_copied_is_rejected_before_any_host_is_contacted(suite, pytester, hosts, tmp_path):
    """xdist takes every word that is a path for tests, and ended with an error of its own."""
    suite(CASES)
    suites, place = str(pytester.path / "suites"), f"ssh=node1//python={sys.executable}"
    out = tmp_path / "elsewhere"

    result = pytester.runpytest_subprocess(
        suites, "--memqos-results", str(out), "--dist=loadgroup", "--tx", place, f"--rsyncdir={suites}"
    )

    assert result.ret == 4
    said = result.stderr.str() + result.stdout.str()
    assert f"'{out}' is outside of the folders that are copied to the hosts." in said
    assert "--memqos-results=FOLDER" in said
    assert not (tmp_path / "hosts").exists()


def test_each_shard_has_its_part_of_the_cases_whichever_hosts_share_it(run_on, pytester):
    seen = []
    for part in ("1/2", "2/2"):
        run_on("node1", "node2", more=("--dist=loadgroup", f"--memqos-shard={part}"))
        seen.append([one["id"] for one in json.loads((pytester.path / "out/bundle.json").read_text())["results"]])

    assert sorted(map(len, seen)) == [1, 1]
    assert {case.partition("::")[2] for part in seen for case in part} == {"test_one", "test_two"}


def test_what_failed_on_hosts_is_run_again_on_them_alone(run_on, pytester):
    run_on("node1", "node2")

    result = run_on("node1", "node2", more=("--dist=loadgroup", "--memqos-last-failed"))

    assert result.ret == 1
    bundle = json.loads((pytester.path / "out/bundle.json").read_text())
    assert [(one["id"].partition("::")[2], one["outcome"]) for one in bundle["results"]] == [("test_two", "deviates")]


def appear(tmp_path, *names):
    """Wait until files of these names are in a folder of some host."""
    for name in names:
        come_true(lambda name=name: list((tmp_path / "hosts").glob(f"**/{name}")), name)


def come_true(is_so, what):
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def is_heard(results):
    """Whether the controller knows of a case: its worker may still be reporting it after its end."""
    told = results / "findings.jsonl"
    return told.exists() and "demo/one" in told.read_text()


def test_an_interrupted_run_has_its_hosts_findings_and_names_the_remaining_evidence(suite, pytester, hosts, tmp_path):
    suite(WAITS)
    suites = str(pytester.path / "suites")
    places = [word for name in ("node1", "node2") for word in ("--tx", f"ssh={name}//python={sys.executable}")]
    words = [suites, "--memqos-results=out", f"--rsyncdir={suites}", "--dist=loadgroup", *places]
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *words],
        cwd=pytester.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        appear(tmp_path, "two")
        come_true(lambda: is_heard(pytester.path / "out"), "a case that the controller has heard of")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)

    assert process.returncode == 2, out
    bundle = json.loads((pytester.path / "out/bundle.json").read_text())
    assert_fits(pytester.path / "out")
    assert (bundle["interrupted"], bundle["counts"]["not_run"]) == (True, 1)
    assert [one["outcome"] for one in bundle["results"]] == ["conforms"]
    assert "Traceback" not in out
    appear(tmp_path, "torn-down")
    # It was lost with the worker, which had lost its controller.
    there = re.findall(r"evidence was not transferred: it is in (\S+) on node[12]$", out, re.MULTILINE)
    kept = [file for folder in there for file in Path(folder).glob("tests/*_test_two/where.txt")]
    assert [file.read_text() for file in kept] == [str(file.parents[2]) for file in kept] != []
    for folder in there:
        shutil.rmtree(folder)
