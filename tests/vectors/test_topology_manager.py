"""Upstream's own tables for the Topology Manager (kubelet 1.32 to 1.36), row by row.

Not used, and why:
- TestPolicyRestrictedName: one row, a constant of the Go program (it is the value of an enum member here, and used).
- TestPolicyOptionsAvailable and TestNewTopologyManagerOptions, rows with "fancy-…" options: options that the Go test
  adds to a kubelet under test; no kubelet has them.
- TestNUMAInfo, the row with an error: memqos reads no files there; what it says without distances is in the unit tests.
- TestIterateBitMasks has no expected masks in its rows: upstream counts them, and so does the test here.
Expected errors are those of the Go program; here each must be a ManifestError that names the option.
"""

import pytest

from memqos.engine.numa.policies import Policies, TopologyPolicy, option_available, topology_options
from memqos.engine.numa.reservation import first_table
from memqos.engine.numa.topology_manager import (
    EMPTY,
    FULL,
    Hint,
    Mask,
    Merger,
    admits,
    filter_hints,
    masks_of,
    neediest_width,
    single_node_hints,
)
from memqos.engine.releases.release import Release
from memqos.errors import ManifestError
from memqos.model.node import KubeletSettings, NodeFacts, NumaNode
from tests.unit.engine.numa.walking import better
from tests.vectors.tables import table

BITMASK = table("topology_bitmask.v1.36.3")["tables"]
NUMA_INFO = table("topology_numa_info.v1.36.3")["tables"]
POLICY = table("topology_policy.v1.36.3")["tables"]


def each(rows):
    return pytest.mark.parametrize("row", rows, ids=lambda row: str(row.get("name", row.get("description")))[:90])


def mask(zones):
    return Mask.of(zones or ())


def added(start, zones):
    """The mask with these NUMA nodes added; unchanged if one is out of range."""
    try:
        return start | Mask.of(zones)
    except ValueError:
        return start


@each([*BITMASK["TestNewEmptyiBitMask"], *BITMASK["TestNewBitMask"], *BITMASK["TestAdd"]])
def test_new_masks(row):
    assert str(added(EMPTY, row.get("bits", []))) == row["expectedMask"]


@each(BITMASK["TestRemove"])
def test_masks_without_some_numa_nodes(row):
    start = mask(row["bitsSet"])
    try:
        left = start - Mask.of(row["bitsRemove"])
    except ValueError:
        left = start
    assert str(left) == row["expectedMask"]


@each(BITMASK["TestAnd"])
def test_shared_numa_nodes(row):
    found = FULL
    for zones in row["masks"]:
        found &= mask(zones)
    assert str(found) == row["andMask"]


@each(BITMASK["TestOr"])
def test_joined_numa_nodes(row):
    found = EMPTY
    for zones in row["masks"]:
        found |= mask(zones)
    assert str(found) == row["orMask"]


@each(BITMASK["TestClear"])
def test_nothing_is_left_of_a_mask_without_itself(row):
    assert str(mask(row["mask"]) - mask(row["mask"])) == row["clearedMask"]


@each(BITMASK["TestFill"])
def test_the_full_mask(row):
    assert str(mask(row["mask"]) | FULL) == row["filledMask"]


@each(BITMASK["TestIsEmpty"])
def test_emptiness(row):
    assert (not mask(row["mask"])) is row["expectedEmpty"]


@each(BITMASK["TestIsSet"])
def test_membership(row):
    assert (row["checkBit"] in mask(row["mask"])) is row["expectedSet"]


@each(BITMASK["TestAnySet"])
def test_membership_of_any(row):
    assert any(zone in mask(row["mask"]) for zone in row["checkBits"]) is row["expectedSet"]


@each(BITMASK["TestIsEqual"])
def test_equality(row):
    assert (mask(row["firstMask"]) == mask(row["secondMask"])) is row["expectedEqual"]


@each(BITMASK["TestCount"])
def test_width(row):
    assert mask(row["bits"]).count == row["expectedCount"]


@each(BITMASK["TestGetBits"])
def test_numa_nodes(row):
    assert list(mask(row["bits"]).numa_nodes) == (row["expectedBits"] or [])


@each(BITMASK["TestIsNarrowerThan"])
def test_narrowness(row):
    """A merge takes the narrower of two common sets of NUMA nodes."""
    first, second = (Hint(mask(row[name]), preferred=True) for name in ("firstMask", "secondMask"))
    chosen = Merger(numa_nodes=Mask.of(range(64))).merge([[second, first]])
    assert (chosen == first != second) is row["expectedFirstNarrower"]


@each(BITMASK["TestIsLessThan"])
def test_lower_numa_nodes(row):
    assert (mask(row["firstMask"]).bits < mask(row["secondMask"]).bits) is row["expectedFirstLower"]


@each(BITMASK["TestIsGreaterThan"])
def test_higher_numa_nodes(row):
    assert (mask(row["firstMask"]).bits > mask(row["secondMask"]).bits) is row["expectedFirstGreater"]


@each(BITMASK["TestIterateBitMasks"])
def test_every_mask_once(row):
    found = masks_of(tuple(range(row["numbits"])))
    assert len(found) == len(set(found)) == 2 ** row["numbits"] - 1


@each(NUMA_INFO["TestCalculateAvgDistanceFor"])
def test_average_distance(row):
    """A merge compares only sets of equal size, so sums are enough."""
    distances = {int(zone): row_of for zone, row_of in row["distance"].items()}
    zones = mask(row["bm"])
    total = Merger(numa_nodes=zones, closest=True, distances=distances).distance(zones)
    assert total == row["expectedAvg"] * zones.count**2


@each(NUMA_INFO["TestClosest"])
def test_the_closest_of_two(row):
    distances = {int(zone): row_of for zone, row_of in row["numaInfo"]["NUMADistances"].items()}
    merger = Merger(numa_nodes=Mask.of(distances), closest=True, distances=distances)
    current, candidate = (Hint(mask(row[name]), preferred=True) for name in ("current", "candidate"))
    assert better(merger, current, candidate, 0) == {"current": current, "candidate": candidate}[row["expected"]]


@each([row for row in NUMA_INFO["TestNUMAInfo"] if not row.get("expectedErr")])
def test_numa_nodes_and_their_distances(row):
    settings = KubeletSettings(
        topology_manager_policy="best-effort",
        topology_manager_policy_options={
            "prefer-closest-numa-nodes": str(row.get("opts", {}).get("PreferClosestNUMA", False)).lower()
        },
    )
    zones = tuple(
        NumaNode(id=node["Id"], memory=1 << 30, distances=tuple(node.get("Distances", ()))) for node in row["topology"]
    )
    facts = NodeFacts(memory=sum(zone.memory for zone in zones), numa_nodes=zones, hugepage_sizes=())
    found = first_table(facts, settings, Policies.of(settings, Release(36)))
    expected = row["expectedNUMAInfo"]
    assert list(found.ids) == expected["Nodes"]
    assert found.distances == {
        int(zone): tuple(distances or ()) for zone, distances in expected["NUMADistances"].items()
    }


def hint(given):
    """A hint from upstream's pair or record; None for a nil pointer."""
    if given is None:
        return None
    affinity, preferred = (
        (given.get("NUMANodeAffinity"), given.get("Preferred", False)) if isinstance(given, dict) else given
    )
    if isinstance(affinity, dict):  # the call of a constructor of an empty mask
        affinity = []
    return Hint(None if affinity is None else Mask.of(affinity), preferred)


@pytest.mark.parametrize("row", POLICY["TestMaxOfMinAffinityCounts"], ids=str)
def test_the_need_of_the_neediest_resource(row):
    lists, expected = row
    assert neediest_width([[hint(one) for one in hints] for hints in lists]) == expected


@pytest.mark.parametrize("row", POLICY["TestCompareHintsNarrowest"], ids=lambda row: row[0])
def test_the_better_of_two_hints(row):
    _name, width, current, candidate, expected = row
    current, candidate = hint(current), hint(candidate)
    found = better(Merger(numa_nodes=Mask.of(range(4))), current, candidate, width)
    assert found is {"current": current, "candidate": candidate}[expected]


ADMISSION = [
    (TopologyPolicy(policy), row)
    for policy, file, name in (
        ("best-effort", "topology_policy_best_effort.v1.36.3", "TestPolicyBestEffortCanAdmitPodResult"),
        ("restricted", "topology_policy_restricted.v1.36.3", "TestPolicyRestrictedCanAdmitPodResult"),
        ("single-numa-node", "topology_policy_single.v1.36.3", "TestPolicySingleNumaNodeCanAdmitPodResult"),
    )
    for row in table(file)["tables"][name]
]


@pytest.mark.parametrize(("policy", "row"), ADMISSION, ids=lambda one: str(one)[:80])
def test_admission(policy, row):
    assert admits(policy, hint(row["hint"])) is row["expected"]


@each(table("topology_policy_single.v1.36.3")["tables"]["TestPolicySingleNumaNodeFilterHints"])
def test_hints_of_one_numa_node(row):
    found = single_node_hints([[hint(one) for one in hints] for hints in row["allResources"]])
    assert found == [[hint(one) for one in hints or ()] for hints in row["expectedResources"]]


SCOPE_POD = table("topology_scope_pod.v1.36.3")["tables"]


@each([*SCOPE_POD["TestPodCalculateAffinity"], *SCOPE_POD["TestPodAccumulateProvidersHints"]])
def test_hints_of_each_provider_are_kept(row):
    """Upstream queries each provider once and keeps its hints: here the caller passes the hints."""

    def answers(given):
        return [
            {kind: None if hints is None else [hint(one) for one in hints] for kind, hints in (answer or {}).items()}
            for answer in given
        ]

    given = answers(provider[0] for provider in row["hp"])
    assert given == answers(row["expected"] or ())
    # A provider without resources counts as one list without a preference.
    assert len(filter_hints(given)) == sum(max(len(answer), 1) for answer in given)


OPTION_FILES = [(minor, f"topology_policy_options.v1.{minor}") for minor in ("32.13", "34.9", "36.3")]
OPTIONS = [
    pytest.param(int(minor.split(".")[0]), row, id=f"1.{minor}-{row['description'].replace(' ', '-')}")
    for minor, file in OPTION_FILES
    for row in table(file)["tables"]["TestNewTopologyManagerOptions"]
    if not any(option.startswith("fancy") for option in row.get("policyOptions", {}))
]


def gates(row):
    if "featureGate" not in row:
        return {}
    return {row["featureGate"]["$sel"].split(".")[1]: row.get("featureGateEnable", False)}


@pytest.mark.parametrize(("minor", "row"), OPTIONS)
def test_policy_options(minor, row):
    settings = KubeletSettings(feature_gates=gates(row), topology_manager_policy_options=row.get("policyOptions"))
    if row.get("expectedErr"):
        [option] = row["policyOptions"]
        with pytest.raises(ManifestError, match=option):
            topology_options(settings, Release(minor))
        return
    found = topology_options(settings, Release(minor))
    assert found.prefer_closest is row["expectedOptions"].get("PreferClosestNUMA", False)
    assert found.max_numa_nodes == row["expectedOptions"]["MaxAllowableNUMANodes"]


AVAILABLE = [
    pytest.param(int(minor.split(".")[0]), row, id=f"1.{minor}-{row['option']}-{gates(row)}")
    for minor, file in OPTION_FILES
    for name in ("TestPolicyDefaultsAvailable", "TestPolicyOptionsAvailable")
    for row in table(file)["tables"].get(name, ())
    if not row["option"].startswith("fancy")
]


@pytest.mark.parametrize(("minor", "row"), AVAILABLE)
def test_available_options(minor, row):
    assert option_available(row["option"], Release(minor), gates(row)) is row["expectedAvailable"]
