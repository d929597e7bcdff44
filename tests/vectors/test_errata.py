"""The corrections in the errata, shown by the engine and by the source tables of the numbers.

Not here: resize-reconciliation (tests/vectors/test_resize.py), livelock-5.9 (the claim throttling/text-is-thrashed) and
swap-test-names, which is only about a test's name.
"""

from fractions import Fraction

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.releases.errata import ERRATA
from memqos.engine.releases.release import Variant
from memqos.model.knob import ABSENT, MAX, Bytes, Knob
from memqos.model.node import KubeletSettings, NodeFacts, ReservationPolicy, SwapBehavior
from memqos.model.pod import QosClass
from tests.unit.engine.pods import container, pod, resources
from tests.vectors.tables import table

KEP = table("kep2570_tables")
SWAP = table("kep2400_examples")
MI = 1 << 20
ON = {"MemoryQoS": True}


def erratum(name):
    [found] = [one for one in ERRATA if one.id == name]
    return found


def releases(name):
    """The first and the last release of an erratum."""
    found = erratum(name)
    return [f"1.{found.first}", f"1.{found.last}"]


def planned(one, release, *, factor=None, node=None, variant=Variant.SHIPPED, **fields):
    given = {"feature_gates": ON, "throttling_factor": None if factor is None else Fraction(str(factor)), **fields}
    node = node or NodeFacts(memory=8 << 30, cpus=4)
    return expect([one], Kubelet.of(node=node, settings=KubeletSettings(**given), release=release, variant=variant))


def written(plan, knob=Knob.MEMORY_HIGH):
    """The written files of the plan's only container."""
    [own] = plan.pods[0].containers
    return own.cgroup.knobs[knob].written


def of(request, limit, *, page=MI):
    return pod(container({"memory": f"{request}Mi"}, {"memory": f"{limit}Mi"})), NodeFacts(
        memory=8 << 30, page_size=page
    )


def test_table_limit_1000():
    rows = KEP["v1_27_table_limit1000_factor0.9_page1Mi"]["rows"]
    wrong = {row["request"]: (row["kep_2023_seed"], row["formula"]) for row in rows
             if row["kep_2023_seed"] != row["formula"]}  # fmt: skip
    assert wrong == {800: (960, 980), 900: (980, 990)}
    one = erratum("table-limit-1000")
    for request, (said, right) in wrong.items():
        assert f"{said} for the request {request}" in one.says
        assert str(right) in one.holds
        web, node = of(request, 1000)
        assert {written(planned(web, release, factor=0.9, node=node)) for release in releases(one.id)} == {
            Bytes(right * MI)
        }


def test_table_request_is_limit():
    web, node = of(1000, 1000)
    for release in releases("table-request-is-limit"):
        assert written(planned(web, release, factor=0.9, node=node)) is ABSENT


def test_comparison_units():
    labelled = [row for row in KEP["comparison_limit1000Mi_page1Mi"]["rows"] if "seed_label" in row]
    assert [row["request"] for row in labelled] == [1000, 500]
    one = erratum("comparison-units")
    for row in labelled:
        assert row["seed_label"].partition(",")[0] in one.says
        assert f"{row['request']}Mi" in one.holds
    # 0.4 of 1000Mi is below the request of 500Mi: nothing is written in 1.22.
    web, node = of(500, 1000)
    assert written(planned(web, "1.22", factor=0.4, node=node)) is ABSENT


def test_high_equals_request():
    [row] = [row for row in KEP["prose_examples"] if row["code_high"] is None]
    assert (row["request"], row["limit"], row["factor"]) == (800, 1000, 0.8)
    web, node = of(800, 1000, page=4096)
    for release in releases("high-equals-request"):
        assert written(planned(web, release, factor=0.8, node=node)) is ABSENT


def test_compared_with_request_whatever_memory_min_is():
    """In 1.36 a Burstable container has a memory.min of 0; a memory.high at the request is still not written."""
    web = pod(container({"memory": "1000Mi"}, {"memory": str(1000 * MI + 1)}))
    plan = planned(web, "1.36", factor=0.9, memory_reservation_policy=ReservationPolicy.NONE)
    assert (written(plan, Knob.MEMORY_MIN), written(plan)) == (Bytes(0), ABSENT)


def test_brief_map_columns():
    web, node = of(100, 200)
    plan = planned(web, "1.27", factor=0.9, node=node)
    assert plan.node.knobs[Knob.MEMORY_MIN].written == Bytes(100 * MI)
    assert plan.node.knobs[Knob.MEMORY_HIGH].written is ABSENT


@pytest.mark.parametrize("release", releases("best-effort-high"))
def test_best_effort_high(release):
    assert written(planned(pod(), release, factor=0.9)) is ABSENT
    documented = written(planned(pod(), release, factor=0.9, variant=Variant.DOCUMENTED))
    assert documented == Bytes(int((8 << 30) * 0.9) // 4096 * 4096)
    assert written(planned(pod(), "1.37", factor=0.9)) == documented


@pytest.mark.parametrize("release", releases("limit-only"))
def test_limit_only(release):
    plan = planned(pod(container(limits={"memory": "200Mi"})), release, factor=0.9)
    assert written(plan) is ABSENT
    zero = planned(pod(container({"memory": "0"}, {"memory": "200Mi"})), release, factor=0.9)
    assert written(zero) == Bytes(180 * MI)


def test_default_factor():
    assert KEP["default_factor"]["1.37"] is None
    assert written(planned(of(100, 200)[0], "1.37")) is ABSENT
    assert written(planned(of(100, 200)[0], "1.36")) == Bytes(190 * MI)


def test_pod_level_high():
    whole = pod(container(), resources=resources({"memory": "100Mi"}, {"memory": "200Mi"}))
    assert planned(whole, "1.37", factor=0.9).pods[0].cgroup.knobs[Knob.MEMORY_HIGH].written == Bytes(190 * MI)
    assert planned(whole, "1.37").pods[0].cgroup.knobs[Knob.MEMORY_HIGH].written is ABSENT


@pytest.mark.parametrize("release", releases("e2e-label"))
def test_e2e_label(release):
    [one] = planned(of(100, 100)[0], release).pods
    assert one.qos is QosClass.BURSTABLE


def test_swap_unset():
    web, _ = of(100, 200)
    node = NodeFacts(memory=8 << 30, swap=4 << 30)
    swap = {"feature_gates": {"NodeSwap": True}, "fail_swap_on": False}
    found = [
        written(planned(web, release, node=node, **swap), Knob.MEMORY_SWAP_MAX) for release in ("1.28", "1.29", "1.30")
    ]
    assert found == [MAX, MAX, Bytes(0)]


def test_swap_example():
    """40 GB of each: 20 and 10 GB, not 19 and 9.5."""
    assert SWAP["kep_example"]["erratum"]
    rows = [row for row in SWAP["rows"] if row["capacity"] == row["swap"]]
    assert [(row["request"] >> 30, row["swap.max"] >> 30) for row in rows] == [(20, 20), (10, 10)]
    for row in rows:
        web = pod(container({"memory": str(row["request"])}))
        plan = planned(
            web, "1.30", node=NodeFacts(memory=row["capacity"], swap=row["swap"]), fail_swap_on=False,
            feature_gates={"NodeSwap": True}, swap_behavior=SwapBehavior.LIMITED,
        )  # fmt: skip
        assert written(plan, Knob.MEMORY_SWAP_MAX) == Bytes(row["swap.max"])


def test_every_erratum_is_shown_here_or_listed_as_missing():
    shown = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")}
    named = {one.id for one in ERRATA if any(name.startswith(one.id) for name in shown)}
    assert {one.id for one in ERRATA} - named == {"resize-reconciliation", "livelock-5.9", "swap-test-names"}
