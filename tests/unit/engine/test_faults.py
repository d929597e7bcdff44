"""The table of faults: programs, versions and upstream reports.

Versions, by the tags of these repositories: cri-o pull request 9820 is in v1.36.0 and not in v1.35.9; runc's updates
keep limits from 1.2.0; crun's scopes have MemoryMax from 1.16 and the other limits from 1.18.
"""

import pytest

from memqos.engine.faults import FAULTS, FOUND, KUBELET, LINUX, YOUKI
from memqos.engine.translate.versions import FEATURES, Feature, Row, RuntimeName, traits_of


def test_a_fault_is_named_after_its_runtime():
    for name, fault in FAULTS.items():
        assert name.partition("/")[0] == fault.runtime
        assert fault.runtime in {*RuntimeName, KUBELET, LINUX, YOUKI}
        assert fault.sentence.endswith(".")
        assert fault.upstream


@pytest.mark.parametrize(("name", "since", "fixed"), [
    ("cri-o/update-drops-unified", "", "1.36"),
    ("cri-o/update-lifts-no-memory-limit", "1.33.4", ""),
    ("runc/no-swap-is-lost-in-an-update", "", "1.2"),
    ("runc/oom-group-is-lost-in-an-update", "", "1.6"),
    ("runc/oom-group-is-lost-in-an-empty-update", "1.2", "1.6"),
    ("runc/oom-group-is-lost-in-a-refused-update", "1.1", "1.2"),
    ("crun/scope-is-limited-before-the-check", "1.16", ""),
    ("crun/scope-is-protected-before-the-refusal", "1.18", ""),
    ("crun/scope-limits-unlimited-swap", "1.18", ""),
    ("crun/scope-keeps-the-memory-limit", "1.16", ""),
    ("linux/mglru-kills-where-all-is-dirty", "6.12.95", "6.12.107"),
    ("kubelet/resize-leaves-pod-protection", "1.27", "1.37"),
    ("kubelet/resize-of-a-request-leaves-pod-protection", "1.37", ""),
])  # fmt: skip
def test_the_versions_of_a_fault(name, since, fixed):
    assert (FAULTS[name].since, FAULTS[name].fixed) == (since, fixed)


def test_faults_without_an_upstream_report_are_on_the_page_of_found_faults():
    assert FAULTS["crun/exec-has-no-score"].upstream == FOUND == "found by memqos: docs/explanation/found.md"


def test_every_row_of_a_feature_has_a_source():
    rows = [row for features in FEATURES.values() for row in features.values()]
    assert all(row.upstream for row in rows)
    assert all(row.before == "" or row.before.endswith(".") for row in rows)
    assert not [row for row in rows if row.before and not row.release]


@pytest.mark.parametrize(
    ("since", "release"), [((0,), ""), ((1, 36), "1.36"), ((1, 6, 13), "1.6.13"), ((20260202,), "20260202")]
)
def test_the_first_release_as_text(since, release):
    assert Row(since, "a#1").release == release


@pytest.mark.parametrize(
    ("version", "drops"), [("1.32.13", True), ("1.35.9", True), ("1.36.0", False), ("1.37", False)]
)
def test_a_fault_ended_by_a_feature_has_the_range_without_it(version, drops):
    fault, row = FAULTS["cri-o/update-drops-unified"], FEATURES[RuntimeName.CRIO][Feature.UPDATE_KEEPS_UNIFIED]
    assert (fault.sentence, fault.upstream, fault.fixed) == (row.before, row.upstream, "1.36")
    assert traits_of("cri-o", version).has(Feature.UPDATE_KEEPS_UNIFIED) is not drops
