"""Known deviations in a run: how they are reported, what does not fail, and what still does."""

import json

import pytest

from memqos.known import known_deviations

pytest_plugins = ["pytester"]

KNOWN = """
[high-is-max]
runtime = "runc"
claim = "demo/one"
knob = "memory.high"
observed = "max"
sentence = "memory.high is not written."
upstream = "runc issue 1"
"""

CONFTEST = """
import contextlib
from pathlib import Path
from types import SimpleNamespace

from memqos.place.fake import FakePlace
from memqos.plugin.machines import lane

MACHINE = '{"id": "main-0", "profile": "trixie", "topology": "two-numa-nodes", "runtimes": ["runc 1.1"]}'


@contextlib.contextmanager
def open_station(config, key):
    folder = Path("out/machines/main-0")
    folder.mkdir(parents=True)
    (folder / "machine.json").write_text(MACHINE)
    place = FakePlace()
    yield SimpleNamespace(
        id="main-0", key=key, place=place, folder=None, capture=lambda folder: None, runtimes=["runc 1.1"],
        versions_behind=lambda _: {"runc": "1.1"}, driver=key.driver,
        node=SimpleNamespace(place=place, facts=place.facts.node, leftovers=lambda: (), why_not=lambda need: None),
        log=SimpleNamespace(to=lambda sink: contextlib.nullcontext()),
    )


lane.open_station = open_station
"""

CASE = """
@pytest.mark.claim("demo/one")
def test_it(qos_node, qos_evidence):
    qos_evidence.settle(finding("conforms", knob="memory.max"), {finding})
"""


@pytest.fixture(autouse=True)
def anew():
    """A process has one run, and reads the lists once; here it has several."""
    known_deviations.cache_clear()


@pytest.fixture
def ran(suite, run, pytester):
    """Run one case with this finding and a right one, with these options."""

    def go(finding, *options):
        suite(CASE.replace("{finding}", finding))
        (pytester.path / "suites/conftest.py").write_text(CONFTEST)
        (pytester.path / "mine.toml").write_text(KNOWN)
        result = run("--memqos-known=mine.toml", *options)
        return result, json.loads((pytester.path / "out/bundle.json").read_text())

    return go


def test_a_known_deviation_is_reported_and_does_not_fail_the_run(ran, pytester):
    result, bundle = ran('finding("deviates")')
    assert result.ret == 0
    [entry] = bundle["results"]
    assert entry["outcome"] == "known"
    assert entry["reason"].endswith("high-is-max: memory.high is not written. (runc issue 1)")
    assert bundle["counts"]["findings"] == {"conforms": 1, "deviates": 0, "known": 1, "not observable": 0}
    result.stdout.fnmatch_lines(
        ["known deviations:", "*(runc issue 1)", "verdict: conforms (1 case observed, 0 deviate, 1 known; *"]
    )
    junit = (pytester.path / "out/junit_01.xml").read_text()
    assert 'failures="0" errors="0" skipped="0"' in junit
    assert 'name="known"' in junit


@pytest.mark.parametrize(
    "finding",
    ['finding("deviates", knob="memory.low")', 'finding("deviates", observed="8192")'],
    ids=["another knob", "another value"],
)
def test_an_unlisted_deviation_fails_the_run_as_well(ran, finding):
    result, bundle = ran(f'finding("deviates"), {finding}')
    assert result.ret == 1
    assert bundle["counts"]["findings"] == {"conforms": 1, "deviates": 1, "known": 1, "not observable": 0}
    result.stdout.fnmatch_lines(["known deviations:", "  memory.high of *(runc issue 1)", "verdict: deviates (*"])


REFUSED = """
from memqos.errors import NonconformanceError

def refused():
    raise NonconformanceError("create is refused", data={"finding": {finding}})

@pytest.fixture(scope="module")
def pods(qos_node):
    refused()

@pytest.mark.claim("demo/one")
def test_of_a_fixture(pods, qos_evidence):
    qos_evidence.settle(finding("conforms"))

@pytest.mark.claim("demo/one")
def test_of_the_same_fixture(pods, qos_evidence):
    qos_evidence.settle(finding("conforms"))

@pytest.mark.claim("demo/one")
def test_of_its_own(qos_node, qos_evidence):
    refused()
"""


@pytest.mark.parametrize(
    ("finding", "outcome"),
    [('finding("deviates")', "known"), ('finding("deviates", observed="8192")', "deviates")],
    ids=["known", "another value"],
)
def test_a_refusal_before_anything_is_settled_is_known_as_well(suite, run, pytester, finding, outcome):
    suite(REFUSED.replace("{finding}", finding))
    (pytester.path / "suites/conftest.py").write_text(CONFTEST)
    (pytester.path / "mine.toml").write_text(KNOWN)
    result = run("--memqos-known=mine.toml")
    bundle = json.loads((pytester.path / "out/bundle.json").read_text())
    assert [entry["outcome"] for entry in bundle["results"]] == [outcome] * 3
    assert [[one["verdict"] for one in entry["findings"]] for entry in bundle["results"]] == [[outcome]] * 3
    assert result.ret == (0 if outcome == "known" else 1)


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--memqos-strict-known",), 1)], ids=["told", "strict"])
def test_a_known_deviation_that_is_gone_is_reported_and_fails_a_strict_run(ran, options, code):
    result, bundle = ran('finding("conforms")', *options)
    assert (result.ret, bundle["exit_code"]) == (code, code)
    [line] = bundle["known_gone"]
    assert line.startswith("runc 1.1 sets memory.high correctly in demo/one: high-is-max: ")
    said = "known deviations were not observed" if code else "conforms"
    head = "known deviations that were not observed:"
    result.stdout.fnmatch_lines([head, f"  {line}", f"verdict: {said} (1 case observed*"])


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ("demo/on", "*mine.toml:4: high-is-max: there is no claim 'demo/on'. Did you mean 'demo/one'*"),
        ("requests/limit", "verdict: conforms *"),
    ],
    ids=["of nobody", "of ours"],
)
def test_an_entry_needs_an_existing_claim(suite, run, pytester, claim, words):
    suite(CASE.replace("{finding}", 'finding("conforms")'))
    (pytester.path / "suites/conftest.py").write_text(CONFTEST)
    (pytester.path / "mine.toml").write_text(KNOWN.replace("demo/one", claim))
    result = run("--memqos-known=mine.toml")
    assert result.ret == (0 if claim == "requests/limit" else 4)
    (result.stdout if claim == "requests/limit" else result.stderr).fnmatch_lines([words])


def test_an_unknown_claim_in_an_entrys_places_is_rejected_with_its_line(suite, run, pytester):
    suite(CASE.replace("{finding}", 'finding("conforms")'))
    text = '[ours]\nfault = "cri-o/update-drops-unified"\nwhere = [{ claim = ["demo/one", "demo/on"], knob = "k" }]\n'
    (pytester.path / "mine.toml").write_text(text)
    result = run("--memqos-known=mine.toml")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*mine.toml:3: ours: there is no claim 'demo/on'. Did you mean 'demo/one'*"])


def test_a_malformed_list_is_rejected_before_anything_else(suite, run, pytester):
    suite(CASE.replace("{finding}", 'finding("conforms")'))
    (pytester.path / "mine.toml").write_text("[high-is-max]\nruntime = 1\n")
    result = run("--memqos-known=mine.toml")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*mine.toml:2: high-is-max: 'runtime' must be a string that is not empty, not 1.*"])
    assert not (pytester.path / "out").exists()
