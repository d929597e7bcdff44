"""The order of OOM kills, with literal badness on a node of 2 GiB with 512 MiB of swap, half of it for pods.

Below kubepods' limit of 1 GiB: 262144 pages and 131072 of swap, 393216; a thousandth is 393. For the machine: 524288
and 131072, 655360; a thousandth is 655.
"""

from dataclasses import replace

import pytest

from memqos.engine.cgroup.victims import badness, shortages, shortages_document, shortages_text, total_pages
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.model.knob import MAX, Bytes
from memqos.model.node import CgroupDriver, KubeletSettings, NodeFacts
from memqos.model.pod import ContainerKind
from tests.unit.engine.pods import amounts, container, equal, pod

GIB, MIB = 1 << 30, 1 << 20
SMALL = NodeFacts(memory=2 * GIB, swap=512 * MIB, cpus=2)
HALF = KubeletSettings(system_reserved=amounts({"memory": "1Gi"}))
WEB = pod(container({"memory": "128Mi"}, name="app"), container({"memory": "64Mi"}, name="side"), name="web")
BATCH = pod(container(name="app"), name="batch")
DB = pod(equal("1", "64Mi", name="app"), name="db")
USAGE = {("uid-web", "app"): 96 * MIB, ("uid-web", "side"): 4 * MIB, ("uid-batch", "app"): 128 * MIB}


def found(*pods, release="1.36", usage=None):
    kubelet = Kubelet.of(node=SMALL, settings=HALF, release=release, driver=CgroupDriver.CGROUPFS)
    return {str(one.subject): one for one in shortages(expect(pods, kubelet), kubelet, usage)}


@pytest.mark.parametrize(
    ("limit", "swap_limit", "expected"),
    [(MAX, MAX, 655360), (Bytes(GIB), MAX, 393216), (Bytes(GIB), Bytes(0), 262144), (Bytes(MIB), Bytes(GIB), 131328)],
)
def test_the_total_below_a_limit(limit, swap_limit, expected):
    assert total_pages(limit, swap_limit, memory=2 * GIB, swap=512 * MIB) == expected


@pytest.mark.parametrize(
    ("pages", "adj", "total", "expected"),
    [(0, 0, 655360, 0), (100, 1000, 655360, 655100), (100, -997, 655360, -652935), (7, 1, 999, 7), (7, -1, 1999, 6)],
)
def test_a_score_counts_in_whole_thousandths_of_the_total(pages, adj, total, expected):
    assert badness(pages, adj, total=total) == expected


def test_with_a_small_total_size_outweighs_the_class():
    """At 393 pages a point, 62 points are 24366 pages: the Burstable pod's larger usage exceeds that."""
    kubepods = found(WEB, BATCH, DB, usage=USAGE)["kubepods"]
    assert kubepods.total == 393216 * 4096
    assert [(str(one.subject), one.badness) for one in kubepods.victims] == [
        ("container app of pod default/batch", 425768),
        ("container app of pod default/web", 393210),
        ("container side of pod default/web", 381841),
        ("container app of pod default/db", -375437),
    ]
    greedy = {**USAGE, ("uid-web", "app"): 400 * MIB}
    first = found(WEB, BATCH, DB, usage=greedy)["kubepods"].victims[0]
    assert (str(first.subject), first.badness) == ("container app of pod default/web", 471034)


def test_the_machine_is_always_listed_and_limits_with_one_container_are_not():
    assert list(found(DB)) == ["the machine"]
    assert list(found(WEB, BATCH, DB)) == ["the machine", "kubepods"]
    limited = pod(equal("1", "64Mi", name="a"), equal("1", "32Mi", name="b"), name="two")
    two = found(limited)["pod default/two"]
    assert (two.total, [str(one.subject) for one in two.victims]) == (
        (24576 + 131072) * 4096,
        ["container a of pod default/two", "container b of pod default/two"],
    )


def test_an_ended_container_is_no_victim():
    init = replace(container(name="first"), kind=ContainerKind.INIT)
    [machine] = found(pod(container(name="app"), name="p", init_containers=(init,))).values()
    assert [str(one.subject) for one in machine.victims] == ["container app of pod default/p"]


def test_whole_groups_from_1_28_on():
    assert not found(BATCH, release="1.27")["the machine"].victims[0].group
    assert found(BATCH, release="1.28")["the machine"].victims[0].group


def test_usage_of_an_unknown_container_is_an_error():
    with pytest.raises(KeyError, match="uid-db/none"):
        found(DB, usage={("uid-db", "none"): 1})


def test_text_and_document_agree():
    kubelet = Kubelet.of(node=SMALL, settings=HALF, release="1.28", driver=CgroupDriver.CGROUPFS)
    rows = shortages(expect([BATCH], kubelet), kubelet, {("uid-batch", "app"): 128 * MIB})
    assert shortages_text(rows).splitlines()[2:] == [
        "the machine runs out of its 2684354560 bytes of memory and swap:",
        "  1. container app of pod default/batch, with all of its processes",
        "     uses 134217728 (given), oom_score_adj 1000",
        "     badness 687768 pages",
    ]
    assert shortages_document(rows) == [
        {
            "subject": "the machine",
            "total": 2684354560,
            "victims": [
                {
                    "subject": "container app of pod default/batch",
                    "usage": 134217728,
                    "use": "given",
                    "oomScoreAdj": 1000,
                    "badness": 687768,
                    "group": True,
                }
            ],
        }
    ]
