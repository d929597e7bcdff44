"""One upstream fact stands in one place: its link in one data file, its versions in a row of features or of faults."""

import re
from collections import defaultdict
from pathlib import Path

import pytest
from msgspec.structs import replace

from memqos.catalog.data import data_root
from memqos.engine.faults import FAULTS, Fault
from memqos.engine.translate.versions import FEATURES, RuntimeName, traits_of
from memqos.known import load_known
from memqos.runtime.base import Capability, RuntimeVersion
from memqos.runtime.cri_wire import capabilities_of

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "harness" / "memqos" / "engine"
DATA = sorted(
    [
        *(ROOT / "vm").glob("*.toml"),
        *(ROOT / "suites").glob("*/claims.toml"),
        *(ENGINE / name for name in ("faults.py", "translate/versions.py", "resize/leftovers.py", "releases/table.py")),
    ]
)
LINK = re.compile(
    r"(?:#|\b(?:issues?|pull requests?) )(\d{1,6})\b|\band (\d{3,6})\b|@([0-9a-f]{9,40})\b|commit ([0-9a-f]{9,40})\b"
)
KNOWN = load_known(data_root() / "vm" / "known.toml")
RANGES = re.compile(r"(?m)^(?:since|fixed|upstream|sentence|runtime) *=")


def links(text: str) -> set[str]:
    """The numbers and commits of upstream links, without docstrings, which explain the code."""
    return {"".join(found) for found in LINK.findall(re.sub(r'(?s)""".*?"""', "", text))}


def test_links_are_found_in_every_spelling():
    text = "cri-o issue 9816, pull request 9820; k#7; issues 4382 and 6580; a/b@2e81f834af0b; commit e4bf49ff2"
    assert links(text) == {"9816", "9820", "7", "4382", "6580", "2e81f834af0b", "e4bf49ff2"}
    assert "9816" in links((ENGINE / "translate/versions.py").read_text())
    assert links('"""Source: k#1."""') == set()


def test_no_upstream_link_stands_in_two_data_files():
    places: dict[str, set[str]] = defaultdict(set)
    for path in DATA:
        for link in links(path.read_text()):
            places[link].add(str(path.relative_to(ROOT)))
    assert {link: sorted(found) for link, found in places.items() if len(found) > 1} == {}


def test_the_shipped_list_takes_facts_from_the_table_of_faults_alone():
    assert not RANGES.search((data_root() / "vm" / "known.toml").read_text())
    assert {entry.fault for entry in KNOWN} == {*FAULTS}, "every fault shows somewhere, and every entry has a fault"


@pytest.mark.parametrize("entry", KNOWN, ids=lambda entry: f"{entry.fault} {entry.claim or entry.cause} {entry.knob}")
def test_an_entry_is_of_the_versions_of_its_fault(entry):
    fault = FAULTS[entry.fault]
    assert (entry.runtime, entry.since, entry.fixed) == (fault.runtime, fault.since, fault.fixed)
    assert (entry.sentence, entry.upstream) == (fault.sentence, fault.upstream)


def _has_begun(fault: Fault, version: str) -> bool:
    since, reached = ([int(part) for part in text.split(".")] for text in (fault.since or "0", version))
    return reached >= since


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_with_the_link_of_a_feature_is_of_the_versions_without_it(name):
    fault = FAULTS[name]
    rows = FEATURES[RuntimeName(fault.runtime)] if fault.runtime in {*RuntimeName} else {}
    entries = [replace(one, other_runtime="", driver="") for one in KNOWN if one.fault == name]
    for feature in (one for one, row in rows.items() if links(fault.upstream) & links(row.upstream)):
        for version in [one for one in ("1.0", "1.32.13", "1.35.9", "1.36", "1.36.3", "99") if _has_begun(fault, one)]:
            deviates = {one.is_of({fault.runtime: version}, "systemd") for one in entries}
            assert deviates == {not traits_of(fault.runtime, version).has(feature)}


@pytest.mark.parametrize("version", ["1.24.6", "1.32.13", "1.35.9", "1.36.0", "1.36.3", "1.37.1"])
def test_what_cri_o_says_it_can_is_what_is_not_known_of_it(version):
    able = capabilities_of(RuntimeVersion(name="cri-o", version=version, api_version="v1"), reports_driver=True)
    known = [one for one in KNOWN if one.fault == "cri-o/update-drops-unified"]
    assert any(one.is_of({"cri-o": version, "crun": "1.21"}, "systemd") for one in known) is (
        Capability.UPDATE_UNIFIED not in able
    )
