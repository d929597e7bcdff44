"""memory.high: rows derived from the documented arithmetic, tables of KEP-2570 with their errata, upstream's cases."""

from fractions import Fraction

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.memory_qos.v1_27 import memory_high as memory_high_b
from memqos.engine.plan import Plan
from memqos.engine.releases.release import Variant
from memqos.model.knob import ABSENT, Bytes, Knob
from memqos.model.node import KubeletSettings, NodeFacts, ReservationPolicy
from memqos.model.pod import Container, Pod, Resources
from memqos.model.quantity import Quantity
from tests.vectors.tables import table

DERIVED = table("derived_memory_high")
KEP = table("kep2570_tables")
CASES = table("memory_qos_container_cases")
MI = 1 << 20


def planned(request, limit, factor, release, *, page=4096, memory=DERIVED["allocatable"], variant=Variant.SHIPPED):
    """The written memory.high of a container with these bytes, None for none."""
    resources = Resources(
        # With a zero request the limit does not become the request.
        requests={"memory": Quantity.of_bytes(request)},
        limits={"memory": Quantity.of_bytes(limit)} if limit else {},
    )
    plan = expect(
        [Pod(name="p", uid="u", containers=(Container(name="c", resources=resources),))],
        Kubelet.of(
            node=NodeFacts(memory=memory, page_size=page),
            settings=KubeletSettings(feature_gates={"MemoryQoS": True}, throttling_factor=Fraction(str(factor))),
            release=release,
            variant=variant,
        ),
        reasons=False,
    )
    return high_of(plan)


def high_of(plan: Plan):
    written = plan.pods[0].containers[0].cgroup.knobs[Knob.MEMORY_HIGH].written
    return None if written is ABSENT else written.count


@pytest.mark.parametrize(
    ("key", "release"),
    [
        ("v1_22", "1.22"),
        ("v1_22", "1.26"),
        ("v1_27", "1.27"),
        ("v1_27", "1.35"),
        ("v1_27", "1.36"),
        ("v1_37", "1.37"),
    ],
)
def test_derived_rows(key, release):
    wrong = [
        (row, found)
        for row in DERIVED["rows"]
        if (found := planned(row["request"], row["limit"], row["factor"], release)) != row[key]
    ]
    assert wrong == []


@pytest.mark.parametrize(("key", "page"), [("v1_37_page16k", 16384), ("v1_37_page64k", 65536)])
def test_derived_rows_with_larger_pages(key, page):
    wrong = [
        (row, found)
        for row in DERIVED["rows"]
        if (found := planned(row["request"], row["limit"], row["factor"], "1.37", page=page)) != row[key]
    ]
    assert wrong == []


def test_floats_not_decimals():
    # Exact decimal arithmetic would give one page more.
    assert memory_high_b(63488000, 1594572800, 0.29, 4096) == 507498496
    exact = (63488000 + (1594572800 - 63488000) * Fraction("0.29")) // 4096 * 4096
    assert exact == 507502592


@pytest.mark.parametrize(
    "row", KEP["v1_27_table_limit1000_factor0.9_page1Mi"]["rows"], ids=lambda row: f"request {row['request']}"
)
def test_kep_table_of_127(row):
    formula = memory_high_b(row["request"] * MI, 1000 * MI, 0.9, MI)
    assert formula == row["formula"] * MI == row["kep_2026"] * MI
    written = planned(row["request"] * MI, 1000 * MI, 0.9, "1.27", page=MI)
    assert written == (None if row["kubelet_sets"] is None else row["kubelet_sets"] * MI)


def test_kep_table_of_127_has_errata_in_the_copies_of_2023():
    rows = KEP["v1_27_table_limit1000_factor0.9_page1Mi"]["rows"]
    assert [row["request"] for row in rows if row["kep_2023_seed"] != row["formula"]] == [800, 900]


@pytest.mark.parametrize(
    "row", KEP["comparison_limit1000Mi_page1Mi"]["rows"], ids=lambda row: f"{row['request']}-{row['factor']}"
)
def test_kep_comparison(row):
    for key, release in (("v1_22", "1.22"), ("v1_27", "1.27")):
        written = planned(row["request"] * MI, 1000 * MI, row["factor"], release, page=MI)
        assert written == (None if row[key] is None else row[key] * MI)


@pytest.mark.parametrize("row", KEP["prose_examples"], ids=lambda row: str(row["kep_high"]))
def test_kep_prose(row):
    written = planned(row["request"] * MI, row["limit"] * MI, row["factor"], row["version"])
    assert written == (None if row["code_high"] is None else row["code_high"] * MI)


@pytest.mark.parametrize(
    ("releases", "factor"),
    [(("1.22", "1.26"), 0.8), (("1.27", "1.36"), 0.9), (("1.37",), None)],
)
def test_default_factor(releases, factor):
    assert KEP["default_factor"] == {"1.22-1.26": 0.8, "1.27-1.36": 0.9, "1.37": None}
    resources = Resources(
        requests={"memory": Quantity.of_bytes(100 * MI)}, limits={"memory": Quantity.of_bytes(1000 * MI)}
    )
    for release in releases:
        plan = expect(
            [Pod(name="p", uid="u", containers=(Container(name="c", resources=resources),))],
            Kubelet.of(
                node=NodeFacts(memory=8 << 30),
                settings=KubeletSettings(feature_gates={"MemoryQoS": True}),
                release=release,
            ),
        )
        expected = None if factor is None else planned(100 * MI, 1000 * MI, factor, release, memory=8 << 30)
        assert high_of(plan) == expected
        assert (expected is None) is (release == "1.37")


@pytest.mark.parametrize("row", [row for row in CASES["unit"] + CASES["e2e"] + CASES["docs"] if "memory.high" in row],
                         ids=lambda row: f"{row['request']}-{row['limit']}")  # fmt: skip
def test_upstream_cases(row):
    for release in ("1.27", "1.36", "1.37"):
        assert planned(row["request"], row["limit"], row["factor"], release) == row["memory.high"]


def test_best_effort_is_throttled_as_documented_and_from_137_on():
    # KEP-2570: floor(factor * allocatable); kubernetes issue 137685.
    documented = 14700064768
    assert planned(0, 0, 0.9, "1.27") is None
    assert planned(0, 0, 0.9, "1.36") is None
    assert planned(0, 0, 0.9, "1.27", variant=Variant.DOCUMENTED) == documented
    assert planned(0, 0, 0.9, "1.36", variant=Variant.DOCUMENTED) == documented
    assert planned(0, 0, 0.9, "1.37") == documented
    assert documented == int(16333406208 * 0.9) // 4096 * 4096


def pod_level(release, resources, overhead=None, containers=({},), **settings):
    """The pod's planned cgroup for pod-level resources."""

    def amounts(node):
        return {name: Quantity.parse(text) for name, text in (node or {}).items()}

    def lists(node):
        return Resources(requests=amounts(node.get("requests")), limits=amounts(node.get("limits")))

    plan = expect(
        [
            Pod(
                name="p",
                uid="u",
                containers=tuple(
                    Container(name=f"c{index}", resources=lists(one)) for index, one in enumerate(containers)
                ),
                resources=lists(resources),
                overhead=amounts(overhead),
            )
        ],
        Kubelet.of(
            node=NodeFacts(memory=8 << 30),
            settings=KubeletSettings(feature_gates={"MemoryQoS": True}, **settings),
            release=release,
        ),
    )
    return plan.pods[0].cgroup.knobs


def test_pod_level_memory_high_from_137_on():
    both = {"requests": {"memory": "128Mi"}, "limits": {"memory": "256Mi"}}
    derived = {case["case"]: case["memory.high"] for case in CASES["pod_level_1_37"] if "memory.high" in case}
    factor = Fraction(9, 10)
    plain = pod_level("1.37", both, throttling_factor=factor)[Knob.MEMORY_HIGH].written
    more = pod_level("1.37", both, {"memory": "64Mi"}, throttling_factor=factor)[Knob.MEMORY_HIGH].written
    assert plain == Bytes(derived["pod-level req 128Mi limit 256Mi, no overhead, f 0.9"]) == Bytes(255012864)
    assert more == Bytes(derived["pod-level req 128Mi limit 256Mi + overhead 64Mi, f 0.9"]) == Bytes(322121728)
    assert pod_level("1.37", both)[Knob.MEMORY_HIGH].written is ABSENT
    assert pod_level("1.36", both, throttling_factor=factor)[Knob.MEMORY_HIGH].written is ABSENT
    cpu_only = pod_level(
        "1.37",
        {"limits": {"cpu": "1"}},
        containers=(
            {"requests": {"memory": "100Mi"}, "limits": {"memory": "200Mi"}},
            {"requests": {"memory": "100Mi"}},
        ),
        throttling_factor=factor,
    )
    assert cpu_only[Knob.MEMORY_HIGH].written is ABSENT


def test_request_after_a_resize_of_137():
    (case,) = CASES["resize_1_37"]
    knobs = pod_level(
        "1.37",
        {},
        containers=({"requests": {"memory": "400Mi"}},),
        memory_reservation_policy=ReservationPolicy.TIERED,
    )
    assert knobs[Knob.MEMORY_LOW].written == Bytes(int(case["unified"]["memory.low"])) == Bytes(419430400)


@pytest.mark.parametrize(
    ("releases", "high"),
    [
        # 200Mi: times 0.8; the way from 100Mi with 0.9, to whole pages; not written without a factor.
        ("1.22-1.26", 167772160),
        ("1.27-1.36", 199229440),
        ("1.37", None),
    ],
)
def test_the_default_factor_by_release(releases, high):
    factor = KEP["default_factor"][releases]
    for release in releases.split("-"):
        found = [
            high_of(
                expect(
                    [
                        Pod(
                            name="p",
                            uid="u",
                            containers=(
                                Container(
                                    name="c",
                                    resources=Resources(
                                        requests={"memory": Quantity.parse("100Mi")},
                                        limits={"memory": Quantity.parse("200Mi")},
                                    ),
                                ),
                            ),
                        )
                    ],
                    Kubelet.of(
                        node=NodeFacts(memory=8 << 30),
                        settings=KubeletSettings(feature_gates={"MemoryQoS": True}, throttling_factor=given),
                        release=release,
                    ),
                )
            )
            for given in (None, None if factor is None else Fraction(str(factor)))
        ]
        assert found == [high, high]
