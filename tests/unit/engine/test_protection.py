"""The kernel's effective protection: by hand, the selftests' model, and properties of any tree."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memqos.engine.cgroup.effective_protection import Effective, Protected, ProtectionKind, effective, settled
from memqos.model.knob import MAX, Bytes
from memqos.model.path import ROOT, CgroupPath

MIB = 1 << 20
PAGE = 4096


def at(text):
    return CgroupPath.parse(text)


def asks(usage, *, low=0, min=0):  # noqa: A002 - the knob's own name
    def amount(mib):
        return MAX if mib == "max" else Bytes(mib * MIB)

    return Protected(usage=usage * MIB, low=amount(low), min=amount(min))


def tree(**cgroups):
    """Cgroups by path, "_" for "/"; usage in MiB, and configured protection."""
    return {at(name.replace("_", "/")): asks(usage, **asked) for name, (usage, asked) in cgroups.items()}


def lows(found):
    return {str(path): one.low.count for path, one in found.items()}


# The tree of the kernel's test_memcg_protection: page cache everywhere, pressure from a sibling of B, limit at A.
#
#        asks   uses   left
#   A    0      150M
#   B    50M    150M   ~50M
#   C    75M    50M    ~29M
#   D    25M    50M    ~21M
#   E    0      50M    ~0
#   F    500M   0      0
SELFTEST = tree(
    A=(150, {}),
    A_B=(150, {"low": 50}),
    A_B_C=(50, {"low": 75}),
    A_B_D=(50, {"low": 25}),
    A_B_E=(50, {}),
    A_B_F=(0, {"low": 500}),
)


@pytest.mark.parametrize("recursive", [True, False])
def test_claims_beyond_the_parents_are_reduced_in_proportion(recursive):
    # C claims 50M, D 25M, 75M together of B's 50M: 12800 pages * 12800 / 19200 = 8533, 6400 * 12800 / 19200 = 4266.
    found = effective(SELFTEST, root=at("A"), recursive=recursive)
    assert lows(found) == {
        "/A/B": 50 * MIB,
        "/A/B/C": 8533 * PAGE,
        "/A/B/D": 4266 * PAGE,
        "/A/B/E": 0,
        "/A/B/F": 0,
    }
    assert [one.protection for one in found.values()] == [
        ProtectionKind.PARTIAL,
        ProtectionKind.PARTIAL,
        ProtectionKind.PARTIAL,
        ProtectionKind.NONE,
        ProtectionKind.NONE,
    ]


@pytest.mark.parametrize("recursive", [True, False])
@pytest.mark.parametrize("knob", ["low", "min"])
def test_the_selftests_tree_settles_as_in_its_model(recursive, knob):
    asked = {"A/B": 50, "A/B/C": 75, "A/B/D": 25, "A/B/F": 500}
    cgroups = {path: asks(one.usage // MIB, **{knob: asked.get(str(path)[1:], 0)}) for path, one in SELFTEST.items()}
    left = settled(cgroups, root=at("A"), recursive=recursive)
    assert {str(path): round(count / MIB) for path, count in left.items()} == {
        "/A/B": 50,
        "/A/B/C": 29,
        "/A/B/D": 21,
        "/A/B/E": 0,
        "/A/B/F": 0,
    }


def test_a_parent_without_protection_leaves_its_children_none():
    found = effective(SELFTEST)
    assert set(lows(found).values()) == {0}
    assert set(settled(SELFTEST).values()) == {0}


def test_a_limits_reclaim_begins_below_the_limit():
    # A container's min counts in full, though its pod has none: reclaim began at the pod.
    cgroups = tree(kubepods=(300, {}), kubepods_pod=(200, {}), kubepods_pod_app=(100, {"min": 100}))
    assert effective(cgroups)[at("kubepods/pod/app")].min == Bytes(0)
    within = effective(cgroups, root=at("kubepods/pod"))
    assert list(within) == [at("kubepods/pod/app")]
    assert within[at("kubepods/pod/app")] == Effective(usage=100 * MIB, min=Bytes(100 * MIB), low=Bytes(0))
    assert within[at("kubepods/pod/app")].protection is ProtectionKind.HARD
    assert settled(cgroups, root=at("kubepods/pod")) == {at("kubepods/pod/app"): 100 * MIB}


def test_a_child_of_the_root_gets_its_configured_protection():
    found = effective(tree(a=(10, {"low": 100, "min": 50})))
    assert found[at("a")] == Effective(usage=10 * MIB, min=Bytes(50 * MIB), low=Bytes(100 * MIB))


def test_recursive_protection_gives_the_rest_to_cgroups_above_their_claim():
    # 100M at the slice, 20M claimed below; 80M are left for 60M and 100M of unclaimed use: 30M and 50M.
    cgroups = tree(s=(180, {"low": 100}), s_a=(80, {"low": 20}), s_b=(100, {}))
    assert lows(effective(cgroups)) == {"/s": 100 * MIB, "/s/a": 50 * MIB, "/s/b": 50 * MIB}
    assert lows(effective(cgroups, recursive=False)) == {"/s": 100 * MIB, "/s/a": 20 * MIB, "/s/b": 0}


def test_nothing_unclaimed_goes_to_a_cgroup_within_its_claim():
    cgroups = tree(s=(180, {"low": 200}), s_a=(80, {"low": 90}), s_b=(100, {"low": 10}))
    # a claims its 80M, b 10M; 110M of 200M are left for b's 90M beyond: all of them, 110 * 90 / 90, and more.
    assert lows(effective(cgroups)) == {"/s": 200 * MIB, "/s/a": 80 * MIB, "/s/b": 120 * MIB}


def test_readings_of_different_moments_do_not_break_the_shares():
    # The parent was read before its children grew: it uses less than they claim, and nothing more is distributed.
    cgroups = tree(s=(90, {"low": 200}), s_a=(80, {"low": 80}), s_b=(40, {"low": 10}))
    assert lows(effective(cgroups))["/s/b"] == 10 * MIB


def test_max_wraps_in_the_kernels_words_below_a_parent():
    # s has 2^51 - 1 pages; times b's 25600 that is beyond 64 bits and leaves 2^61 - 25600, 90071992547408 * 25600.
    found = effective(tree(s=(100, {"low": "max"}), s_b=(100, {})))
    assert found[at("s")].low is MAX
    assert found[at("s")].protection is ProtectionKind.SOFT
    assert found[at("s/b")].low == Bytes(90071992547408 * PAGE)
    assert effective(tree(s=(100, {"min": "max"})))[at("s")].protection is ProtectionKind.HARD


@pytest.mark.parametrize(("page_size", "counted"), [(4096, 122880), (16384, 114688), (65536, 65536)])
def test_amounts_are_whole_pages(page_size, counted):
    found = effective({at("a"): Protected(usage=1 << 20, min=Bytes(123456))}, page_size=page_size)
    assert found[at("a")].min == Bytes(counted)


def test_a_cgroups_own_memory_shares_its_protection():
    # s keeps 64M: half of it is a's by claim; its own 96M shrink until its usage is protected.
    left = settled(tree(s=(128, {"low": 64}), s_a=(32, {"low": 32})), recursive=False)
    assert left[at("s/a")] == 32 * MIB
    assert 63 * MIB < left[at("s")] <= 64 * MIB


def test_the_last_pass_takes_a_whole_cluster():
    # 100 pages, 50 of them protected: passes take at least 32 pages, so 68 are left, then 36: within the 50.
    left = settled({at("a"): Protected(usage=100 * PAGE, low=Bytes(50 * PAGE))})
    assert left == {at("a"): 36 * PAGE}
    assert settled({at("a"): Protected(usage=50 * PAGE, low=Bytes(50 * PAGE))}) == {at("a"): 50 * PAGE}


def test_a_cgroup_without_protection_has_none_whatever_its_siblings_have():
    found = effective({at("a"): Protected(usage=PAGE), at("b"): asks(1, low="max", min="max")})
    assert found[at("a")] == Effective(usage=PAGE, min=Bytes(0), low=Bytes(0))
    assert (found[at("b")].min, found[at("b")].low) == (MAX, MAX)


@pytest.mark.parametrize(("count", "counted"), [(2**63 - 4097, Bytes(2**63 - 8192)), (2**63 - 4096, MAX)])
def test_from_the_largest_amount_on_it_is_max(count, counted):
    assert effective({at("a"): Protected(usage=PAGE, min=Bytes(count))})[at("a")].min == counted


def test_a_gap_in_the_tree_is_named():
    with pytest.raises(KeyError, match="/a/b"):
        effective(tree(a=(1, {}), a_b_c=(1, {})))
    with pytest.raises(KeyError, match="/a/b"):
        settled(tree(a=(1, {}), a_b_c=(1, {})))


AMOUNTS = st.integers(min_value=0, max_value=1 << 20).map(lambda pages: Bytes(pages * PAGE))
LEAVES = st.lists(st.tuples(st.integers(min_value=0, max_value=1 << 18), AMOUNTS, AMOUNTS), min_size=1, max_size=5)


@st.composite
def trees(draw):
    """Three levels whose usage adds up, without own memory above the leaves."""
    cgroups = {}
    total = 0
    for name in draw(st.lists(st.sampled_from("xyz"), min_size=1, unique=True)):
        inside = 0
        for index, (pages, low, hard) in enumerate(draw(LEAVES)):
            cgroups[at(f"top/{name}/{index}")] = Protected(usage=pages * PAGE, low=low, min=hard)
            inside += pages
        cgroups[at(f"top/{name}")] = Protected(usage=inside * PAGE, low=draw(AMOUNTS), min=draw(AMOUNTS))
        total += inside
    cgroups[at("top")] = Protected(usage=total * PAGE, low=draw(AMOUNTS), min=draw(AMOUNTS))
    return cgroups


def children(found, path):
    return [one for other, one in found.items() if other.parent == path]


@given(trees(), st.booleans())
def test_children_never_have_more_than_their_parent_or_than_they_use(cgroups, recursive):
    found = effective(cgroups, recursive=recursive)
    for path, one in found.items():
        below = children(found, path)
        if below:
            assert sum(child.low.count for child in below) <= one.low.count
            assert sum(child.min.count for child in below) <= one.min.count


@given(trees())
def test_without_recursion_protection_is_within_the_claim(cgroups):
    for path, one in effective(cgroups, recursive=False).items():
        if path.parent != ROOT:
            assert one.low.count <= min(cgroups[path].low.count, cgroups[path].usage)


@given(trees())
def test_recursion_distributes_all_of_the_usage(cgroups):
    found = effective(cgroups)
    for path, one in found.items():
        below = children(found, path)
        used = [child for child in below if child.usage]
        if used:
            handed = sum(child.low.count for child in used)
            # Each share is rounded down to a page.
            assert handed > min(one.low.count, one.usage) - (len(used) + 1) * PAGE


@given(trees())
def test_no_protection_above_means_none_below(cgroups):
    top = at("top")
    cgroups[top] = Protected(usage=cgroups[top].usage)
    assert all(one.low == one.min == Bytes(0) for one in effective(cgroups).values())


@settings(max_examples=30)
@given(trees(), st.booleans())
def test_reclaim_ends_when_every_leaf_is_within_its_protection(cgroups, recursive):
    left = settled(cgroups, recursive=recursive)
    after = {path: Protected(usage=count, low=cgroups[path].low, min=cgroups[path].min) for path, count in left.items()}
    for path, one in effective(after, recursive=recursive).items():
        assert left[path] <= cgroups[path].usage
        if len(path.parts) == 3 and one.usage:
            assert one.protection in {ProtectionKind.HARD, ProtectionKind.SOFT}


@pytest.mark.parametrize(
    ("usage", "least", "low", "parts"),
    [
        (48, 0, 0, (0, 0, 48)),
        (48, 8, 0, (8, 0, 40)),
        (48, 8, 20, (8, 12, 28)),
        (48, 20, 8, (20, 0, 28)),
        (48, 16, "max", (16, 32, 0)),
        (48, "max", 0, (48, 0, 0)),
        (48, 64, 80, (48, 0, 0)),
        (48, 0, 80, (0, 48, 0)),
        (0, 8, "max", (0, 0, 0)),
    ],
)
def test_a_usage_is_hard_soft_or_exposed(usage, least, low, parts):
    asked = asks(usage, low=low, min=least)
    one = Effective(usage=usage * MIB, min=asked.min, low=asked.low)

    assert (one.hard, one.soft, one.exposed) == tuple(part * MIB for part in parts)
