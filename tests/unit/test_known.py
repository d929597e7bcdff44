"""The list of known deviations: what it is of, how little it hides, and what is told of an entry that is gone."""

from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from memqos import claims
from memqos.catalog.data import data_root
from memqos.engine.answer.finding import Verdict
from memqos.errors import ManifestError, UsageError
from memqos.known import KnownDeviation, amended, left_by_kubelet, load_all, load_known, runtime_versions
from memqos.model.knob import Knob
from memqos.node.requests.surroundings import SCOPE_FILES
from memqos.plugin.collection.known_deviations import known_gone
from memqos.report import ci_results, summary
from memqos.report.bundle import Bundle
from memqos.report.matrix import matrix_lines, matrix_of
from memqos.report.outcome import Outcome, exit_code, outcome_of
from tests.documents import misfits
from tests.unit.report.sample import finding, result

CLAIM = "lifecycle/swap-stays"
ENTRY = KnownDeviation(
    name="swap-is-back",
    runtime="runc",
    claim=CLAIM,
    knob="memory.swap.max",
    sentence="Swap is back.",
    upstream="runc issue 1",
    since="1.1",
    fixed="1.3.2",
    driver="systemd",
    observed="max",
)
RUNTIMES = {"containerd": "1.7.24", "runc": "1.1.15+ds1-2+b4"}
DEVIATING = finding(Verdict.DEVIATES, knob="memory.swap.max", expected="0", observed="max")


def verdict(one=DEVIATING, claim=CLAIM, runtimes=RUNTIMES, driver="systemd", entry=ENTRY):
    return amended(one, claim, [entry], runtimes=runtimes, driver=driver).verdict


def test_a_listed_deviation_is_known_and_says_which_it_is():
    found = amended(DEVIATING, CLAIM, [ENTRY], runtimes=RUNTIMES, driver="systemd")
    assert found.verdict is Verdict.KNOWN
    assert found.evidence == {"known": "swap-is-back: Swap is back. (runc issue 1)"}
    assert (found.expected, found.observed, found.reason) == ("0", "max", DEVIATING.reason)


@pytest.mark.parametrize(
    "changes",
    [
        {"one": replace(DEVIATING, knob="memory.max")},
        {"one": replace(DEVIATING, observed="4096")},
        {"claim": "lifecycle/other"},
        {"driver": "cgroupfs"},
        {"runtimes": {"containerd": "1.7.24", "crun": "1.1.15"}},
        {"runtimes": {"runc": "1.0.3"}},
        {"runtimes": {"runc": "1.3.2"}},
        {"runtimes": {"runc": "v1.4.0-rc.1"}},
        {"runtimes": {"runc": ""}},
    ],
)
def test_an_entry_hides_nothing_else(changes):
    assert verdict(**changes) is Verdict.DEVIATES


@pytest.mark.parametrize("version", ["1.1", "1.1.0", "v1.2.9", "1.3.1+ds1"])
def test_every_version_between_the_first_and_the_one_that_mends_it_is_meant(version):
    assert verdict(runtimes={"runc": version}) is Verdict.KNOWN


def test_what_takes_two_runtimes_is_known_of_both_together():
    both = changed(ENTRY, other_runtime="containerd")
    assert verdict(entry=both) is Verdict.KNOWN
    assert verdict(entry=both, runtimes={"cri-o": "1.32.13", "runc": "1.1.15"}) is Verdict.DEVIATES


def test_entries_for_all_versions_apply_to_an_unknown_version():
    assert verdict(runtimes={"runc": ""}, entry=changed(ENTRY, since="", fixed="")) is Verdict.KNOWN


@pytest.mark.parametrize("other", [Verdict.CONFORMS, Verdict.NOT_OBSERVABLE])
def test_what_does_not_deviate_stays_what_it_is(other):
    assert verdict(replace(DEVIATING, verdict=other)) is other


def test_names_and_versions_are_read_as_machines_tell_them():
    told = [
        "containerd 1.7.24~ds1",
        "runc of unknown version (a given file)",
        "crun 1.21 (a given file in runc's place)",
    ]
    assert runtime_versions(told, kernel="") == {"containerd": "1.7.24~ds1", "runc": "", "crun": "1.21"}


def test_the_kernel_is_told_as_linux():
    told = runtime_versions(["runc 1.1.15"], kernel="6.12.95+deb12-amd64")
    assert told == {"linux": "6.12.95+deb12-amd64", "runc": "1.1.15"}


@pytest.mark.parametrize(
    ("kernel", "is_of"),
    [("6.11.9", False), ("6.12.95+deb12-amd64", True), ("7.2.8-cloud-amd64", True), ("7.3.0-rc1", False), ("", False)],
)
def test_an_entry_may_be_of_releases_of_the_kernel(kernel, is_of):
    entry = changed(ENTRY, runtime="linux", since="6.12", fixed="7.3")
    assert entry.is_of(runtime_versions(["runc 1.1.15"], kernel=kernel), "systemd") is is_of


def ran(machine, *findings, claim=CLAIM, driver="systemd", name="one"):
    return result(name, outcome_of(findings), claim=claim, machine=machine, driver=driver, findings=findings)


KNOWN = amended(DEVIATING, CLAIM, [ENTRY], runtimes=RUNTIMES, driver="systemd")
RIGHT = replace(DEVIATING, verdict=Verdict.CONFORMS, observed="0")
MACHINES = (
    {"id": "old", "kernel": "6.12.95", "runtimes": ["containerd 1.7.24", "runc 1.1.15"]},
    {"id": "new", "runtimes": ["runc 1.3.1"]},
    {"id": "mended", "runtimes": ["runc 1.3.2"]},
    {"id": "?"},
)


def test_an_entry_that_does_not_deviate_any_more_is_told_by_version():
    results = [ran("old", KNOWN), ran("new", RIGHT), ran("mended", RIGHT), ran("?", RIGHT)]
    assert known_gone(results, MACHINES, [ENTRY]) == (
        "runc 1.3.1 sets memory.swap.max correctly in lifecycle/swap-stays: swap-is-back: Swap is back. (runc issue 1)",
    )


@pytest.mark.parametrize(
    "results",
    [
        [],
        [ran("new", RIGHT), ran("new", KNOWN)],
        [ran("new", RIGHT), ran("new", DEVIATING)],
        [ran("new", RIGHT, claim="lifecycle/other")],
        [ran("new", RIGHT, driver="cgroupfs")],
        [ran("new", replace(RIGHT, knob="memory.max"), replace(RIGHT, verdict=Verdict.NOT_OBSERVABLE))],
        [ran("new", replace(RIGHT, verdict=Verdict.NOT_OBSERVABLE))],
    ],
)
def test_nothing_is_told_of_an_entry_that_no_case_could_tell(results):
    assert known_gone(results, MACHINES, [ENTRY]) == ()


def test_an_entry_of_the_kernel_that_does_not_deviate_any_more_is_told_by_its_release():
    entry = changed(ENTRY, runtime="linux", since="6.12", fixed="")
    [line] = known_gone([ran("old", RIGHT), ran("new", RIGHT)], MACHINES, [entry])
    assert line.startswith("linux 6.12.95 sets memory.swap.max correctly in lifecycle/swap-stays")


def test_a_knob_that_the_claim_says_nothing_of_is_told():
    [line] = known_gone([ran("new", replace(RIGHT, knob="memory.max"))], MACHINES, [ENTRY])
    assert line == (
        "lifecycle/swap-stays conforms without a finding about memory.swap.max: "
        "swap-is-back: Swap is back. (runc issue 1)"
    )


def test_what_deviates_only_sometimes_is_never_gone():
    assert known_gone([ran("new", RIGHT)], MACHINES, [changed(ENTRY, sometimes=True)]) == ()


@pytest.mark.parametrize(("kubelets", "lines"), [(["v1.36.2"], 1), (["v1.32.13"], 0), (["v1.36.2", "v1.37.0"], 0)])
def test_a_kubelet_s_deviation_is_gone_if_one_kubelet_alone_was_under_test(kubelets, lines):
    entry = changed(ENTRY, runtime="kubelet", since="1.33", fixed="", driver="", observed="")
    machines = [{**one, "kubelets": kubelets} for one in MACHINES]
    assert len(known_gone([ran("new", RIGHT)], machines, [entry])) == lines


def test_known_is_an_outcome_of_its_own_in_every_rendering():
    known, right = ran("old", KNOWN, RIGHT, name="two"), ran("old", RIGHT)
    assert (known.outcome, exit_code([known])) == (Outcome.KNOWN, 0)
    told = replace(known, reason=summary.known_line(KNOWN), profile="trixie", runtime="containerd+runc")
    results = (told, replace(right, profile="trixie", runtime="oci:runc"))
    bundle = Bundle(started="", ended="", exit_code=0, results=results, machines=MACHINES[:1], known_gone=("one",))
    document = bundle.to_json()
    assert misfits({**document, "machines": []}, "bundle") == []
    assert document["counts"]["tests"]["known"] == 1
    assert document["counts"]["findings"] == {"conforms": 2, "deviates": 0, "known": 1, "not observable": 0}
    text = ci_results.junit_xml(bundle)
    assert 'failures="0"' in text
    assert 'name="known" value="memory.swap.max of container app of pod default/web is max, expected 0' in text
    assert f"{CLAIM}  known 1          conforms 1" in list(matrix_lines(matrix_of(results)))
    lines = list(summary.summary_lines(bundle, results_folder="r"))
    assert lines[lines.index("known deviations:") + 1].endswith("(runc issue 1)")
    assert lines[lines.index("known deviations that were not observed:") + 1] == "  one"
    assert lines[-1] == (
        "verdict: conforms (2 cases observed, 0 deviate, 1 known; 3 findings about containerd+runc, 0 deviate, 1 known)"
    )


def test_a_deviation_beside_a_known_one_decides():
    assert ran("old", KNOWN, replace(DEVIATING, knob="memory.max")).outcome is Outcome.DEVIATES


def test_every_entry_that_is_shipped_is_of_a_claim_and_a_knob():
    entries = load_known(data_root() / "vm" / "known.toml")
    known = claims.load(data_root() / "suites")
    for entry in entries:
        assert entry.claim in known or (entry.runtime, entry.claim) == ("kubelet", ""), entry.name
        others = {"create", "update", "reason", "cgroup", "state", "report", "memory.events", "memory.events oom_kill"}
        others |= {"oom_score_adj of exec", "drift", "exit code"}
        others |= {f"cpu.pressure {line} in /stats/summary" for line in ("some", "full")}
        others |= {f"swapUsageBytes in {source}" for source in ("/metrics/resource", "/stats/summary")}
        of_scope = {f"{knob} of the scope" for knob in SCOPE_FILES}
        assert entry.knob in {*Knob, *others, *of_scope} or entry.knob.startswith("ContainerStatus."), entry.name
        assert entry.sentence.endswith("."), entry.name
    assert len({(one.name, one.claim, one.knob, one.other_runtime, one.driver) for one in entries}) == len(entries) >= 2
    assert {entry.cause for entry in entries} == {None, "stopped-container", "pod-memory-qos", "high-at-limit"}


WHOLE = '[a]\nruntime="r"\nclaim="c/d"\nknob="k"\nsentence="s"\nupstream="u"\n'


KUBELET = '[a]\nruntime="kubelet"\nknob="memory.high"\nsentence="s"\nupstream="u"\n'


OF_FAULT = '[a]\nfault = "cri-o/update-drops-unified"\nclaim="c/d"\nknob="k"\n'


def test_an_entry_of_a_fault_has_its_runtime_versions_sentence_and_link(tmp_path):
    (tmp_path / "known.toml").write_text(OF_FAULT)
    [entry] = load_known(tmp_path / "known.toml")
    assert (entry.fault, entry.runtime, entry.since, entry.fixed) == ("cri-o/update-drops-unified", "cri-o", "", "1.36")
    assert (entry.claim, entry.knob, entry.upstream) == ("c/d", "k", "cri-o#9816, cri-o#9820")
    assert entry.sentence.startswith("An update drops unified: ")


def test_each_place_is_entries_of_its_own_on_top_of_the_table(tmp_path):
    places = 'where = [{ claim = ["c/e", "c/f"] }, { knob = ["l", "m"], driver = "systemd", observed = "1" }]\n'
    (tmp_path / "known.toml").write_text(f"{OF_FAULT}sometimes = true\n{places}")
    entries = load_known(tmp_path / "known.toml")
    assert [(one.claim, one.knob, one.driver, one.observed) for one in entries] == [
        ("c/e", "k", "", ""), ("c/f", "k", "", ""), ("c/d", "l", "systemd", "1"), ("c/d", "m", "systemd", "1"),
    ]  # fmt: skip
    assert {(one.name, one.runtime, one.sometimes) for one in entries} == {("a", "cri-o", True)}


def test_a_list_of_knobs_is_an_entry_for_each(tmp_path):
    file = tmp_path / "known.toml"
    file.write_text(KUBELET.replace('"memory.high"', '["memory.max", "cpu.max"]') + 'cause="stopped-container"')
    assert [(one.knob, one.claim, one.cause) for one in load_known(file)] == [
        ("memory.max", "", "stopped-container"), ("cpu.max", "", "stopped-container"),
    ]  # fmt: skip


HIGH = KnownDeviation(
    name="high", runtime="kubelet", cause="high-at-limit", knob="memory.high", sentence="It stays.", upstream="k#1",
    since="1.27",
)  # fmt: skip


@pytest.mark.parametrize(("version", "cause", "knob", "verdict"), [
    ("v1.37.0", "high-at-limit", "memory.high", Verdict.KNOWN), ("1.27", "high-at-limit", "memory.high", Verdict.KNOWN),
    ("v1.26.4", "high-at-limit", "memory.high", Verdict.DEVIATES),
    ("v1.37.0", "pod-memory-qos", "memory.high", Verdict.DEVIATES), ("v1.37.0", "", "memory.high", Verdict.DEVIATES),
    ("v1.37.0", "high-at-limit", "memory.low", Verdict.DEVIATES),
])  # fmt: skip
def test_what_a_kubelet_leaves_behind_is_known_by_its_cause(version, cause, knob, verdict):
    one = finding(Verdict.DEVIATES, knob=knob, expected="max", observed="510025728")
    found = left_by_kubelet(one, cause, [ENTRY, HIGH], version=version, driver="systemd")
    assert found.verdict is verdict
    if verdict is Verdict.KNOWN:
        assert (found.evidence, found.set_by.value) == ({"known": "high: It stays. (k#1)"}, "the kubelet")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = 1", "known.toml:1: a: it must be a table, not 1"),
        ("# one\n[a\n", r"known.toml:2: the file is not TOML"),
        ('# two\n\n["a"]\nruntime = "runc"', r"known.toml:3: a: missing required field 'knob'"),
        (
            '[a]\n\nruntim = "runc"',
            r"known.toml:3: a: unknown field 'runtim'. Known: fault, runtime, knob, sentence.*sometimes, where",
        ),
        (
            f'{KUBELET}claim="c/d"\ncause="high-at-limit"',
            r"known.toml:7: a: 'cause' does not apply: an entry has one of both",
        ),
        (
            f'{WHOLE}cause="high-at-limit"',
            r"known.toml:7: a: 'cause' does not apply: deviations of r are known by their claim",
        ),
        (KUBELET, r"known.toml:1: a: missing required field 'cause'"),
        (
            f'{KUBELET}cause="rain"',
            r"known.toml:6: a: 'cause' must be one of .*stopped-container.*, not 'rain'",
        ),
        ('[a]\nname = "b"', r"known.toml:2: a: unknown field 'name'"),
        ('[a]\nsometimes = "yes"', r"known.toml:2: a: 'sometimes' must be true or false, not 'yes'"),
        ("[a]\nclaim = []", r"known.toml:2: a: 'claim' must be a string, not \[\]"),
        ('[a]\nclaim = ["b", 1]', r"known.toml:1: a: missing required field 'runtime'"),
        ("[a]\nsince = 1.2", r"known.toml:2: a: 'since' must be a release such as 1.2, not 1.2"),
        (f'{WHOLE}since="newest"', r"known.toml:7: a: 'since' must be a release such as 1.2, not 'newest'"),
        (f'{WHOLE}driver="system"', r"known.toml:7: a: 'driver' must be one of cgroupfs, systemd, not 'system'"),
        (
            f'{WHOLE}since="1.2"\nfixed="1.2"',
            r"known.toml:8: a: it is fixed in 1.2, which is not after 1.2: it is known of no version",
        ),
        (
            f'{OF_FAULT}since = "1.2"',
            r"known.toml:5: a: 'since' comes from the fault 'cri-o/update-drops-unified': leave it out",
        ),
        (f"{OF_FAULT}where = 1", r"known.toml:5: a.where: it must be a list of tables, not 1"),
        (f"{OF_FAULT}where = []", r"known.toml:5: a.where: it must be a list of tables, not \[\]"),
        (f"{OF_FAULT}where = [{{}}, 1]", r"known.toml:5: a.where: '\[1\]' must be a table, not 1"),
        (
            f'{OF_FAULT}where = [{{}}, {{ fixed = "1" }}]',
            r"known.toml:5: a.where\[1\]: unknown field 'fixed'. Known: claim, cause, knob, other_runtime",
        ),
        ("[a]\nfault = 1", "known.toml:2: a: 'fault' must be a string, not 1"),
        ('[a]\nfault = ""', "known.toml:1: a: missing required field 'runtime'"),
        (
            '[a]\nfault = "cri-o/update-drops-unifed"\n',
            "known.toml:2: a: there is no fault 'cri-o/update-drops-unifed'.*Did you mean 'cri-o/update-drops-unified'",
        ),
    ],
)
def test_what_is_no_entry_is_told_with_its_line(tmp_path, text, words):
    (tmp_path / "known.toml").write_text(text)
    with pytest.raises(ManifestError, match=f"(?s){words}"):
        load_known(tmp_path / "known.toml")


def test_a_list_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(UsageError, match=r"mine.toml: the list of known deviations cannot be read: No such file"):
        load_known(tmp_path / "mine.toml")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load_known(tmp_path)
    (tmp_path / "latin").write_bytes(b"[caf\xe9]")
    with pytest.raises(ManifestError, match="the file is not TOML: it is not UTF-8"):
        load_known(tmp_path / "latin")


def test_the_entries_of_several_lists_have_names_of_their_own(tmp_path):
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    one.write_text(WHOLE)
    two.write_text(WHOLE.replace("[a]", "[b]"))
    assert [entry.name for entry in load_all([one, two])] == ["a", "b"]
    two.write_text("\n" + WHOLE)
    with pytest.raises(ManifestError, match=r"two.toml:2: a: .*one.toml has an entry of this name"):
        load_all([one, two])


def test_a_list_of_claims_is_an_entry_for_each(tmp_path):
    (tmp_path / "known.toml").write_text(WHOLE.replace('"c/d"', '["c/one", "c/two"]'))
    one, two = load_all([tmp_path / "known.toml"])
    assert (one.name, one.claim, two.name, two.claim) == ("a", "c/one", "a", "c/two")
    assert changed(one, claim=two.claim) == two
