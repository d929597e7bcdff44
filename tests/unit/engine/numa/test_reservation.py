"""`reservedMemory` and its required sum."""

from fractions import Fraction

import pytest

from memqos.engine.numa.reservation import (
    by_numa_node,
    check_fields,
    check_sums,
    hard_eviction,
    in_words,
    node_reservation,
)
from memqos.errors import ManifestError
from memqos.model.node import KubeletSettings
from memqos.model.quantity import Quantity
from tests.unit.engine.numa.builders import GIB, MIB, amounts


@pytest.mark.parametrize(
    ("amount", "words"),
    [(0, "0"), (1023, "1023"), (1024, "1Ki"), (1124 * MIB, "1124Mi"), (1 << 70, "1024Ei"), (Fraction(3, 2), "1.5")],
)
def test_amounts_in_words(amount, words):
    assert in_words(amount) == words


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ([(0, {"memory": "0"})], "memory of NUMA node 0 is 0, and must be more than zero"),
        ([(0, {"memory": "-1"})], "must be more than zero"),
        ([(0, {"memory": "100m"})], "memory of NUMA node 0 is 100m, which is not a whole number of bytes"),
        ([(0, {"cpu": "1"})], "'cpu' of NUMA node 0 is not a type of memory. Use memory or hugepages-"),
        ([(1, {"hugepages-2Mi": "2Mi"}), (1, {"hugepages-2Mi": "2Mi"})], "hugepages-2Mi of NUMA node 1 is given twice"),
    ],
)
def test_invalid_fields(limits, words):
    given = tuple((zone, {kind: Quantity.parse(text) for kind, text in of.items()}) for zone, of in limits)
    with pytest.raises(ManifestError, match=words):
        check_fields(KubeletSettings(reserved_memory=given))


def test_the_same_type_in_two_numa_nodes_is_fine():
    check_fields(KubeletSettings(reserved_memory=((0, amounts(memory="1Gi")), (1, amounts(memory="1Gi")))))
    check_fields(KubeletSettings())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, 100 * MIB),
        ({}, 0),
        ({"nodefs.available": "10%"}, 0),
        ({"memory.available": "0%"}, 0),
        ({"memory.available": "100%"}, 0),
        ({"memory.available": "50Mi"}, 50 * MIB),
        ({"memory.available": "1"}, 1),
        ({"memory.available": "0.0%"}, 0),
        ({"memory.available": "100.0%"}, 8 * GIB),
        ({"memory.available": "10%"}, 858993472),
        ({"memory.available": "12.5%"}, GIB),
        ({"memory.available": "7%"}, 601295424),
    ],
)
def test_the_hard_eviction_threshold(given, expected):
    """Percentages are float32 in the kubelet: 10 % of 8 GiB is 858993472 bytes there, not 858993459."""
    assert hard_eviction(KubeletSettings(eviction_hard=given), 8 * GIB).value == expected


@pytest.mark.parametrize("text", ["-5%", "101%", "0", "-1Mi", "lots", "5Mi%", "%"])
def test_thresholds_that_a_kubelet_refuses(text):
    with pytest.raises(ManifestError) as caught:
        hard_eviction(KubeletSettings(eviction_hard={"memory.available": text}), 8 * GIB)
    assert caught.value.data["field"] == "evictionHard"


def test_the_example_of_the_documentation():
    """512Mi + 512Mi + the default 100Mi: 1124Mi."""
    settings = KubeletSettings(
        kube_reserved=amounts(cpu="1", memory="512Mi"),
        system_reserved=amounts(memory="512Mi", hugepages_1Gi="1Gi"),
    )
    found = node_reservation(settings, 8 * GIB)
    assert {kind: amount.value for kind, amount in found.items()} == {"memory": 1124 * MIB, "hugepages-1Gi": GIB}


def test_a_node_that_reserves_nothing():
    assert node_reservation(KubeletSettings(eviction_hard={}), 8 * GIB) == {}


def test_different_sums_are_both_in_the_error():
    settings = KubeletSettings(
        reserved_memory=((0, amounts(memory="512Mi")), (1, amounts(memory="512Mi"))),
        origin={"reservedMemory": "kubelet.yaml:12"},
    )
    with pytest.raises(ManifestError) as caught:
        check_sums(settings, amounts(memory="1124Mi"), {0: None, 1: None})
    assert str(caught.value) == (
        "kubelet.yaml:12: reservedMemory: the NUMA nodes reserve 1Gi of memory together (1073741824 bytes), but the "
        "node "
        "reserves 1124Mi (1178599424 bytes). Both must be equal: systemReserved + kubeReserved + evictionHard "
        "memory.available (100Mi by default)."
    )
    assert (caught.value.data["numa_nodes"], caught.value.data["node"]) == (1073741824, 1178599424)


def test_a_type_that_only_one_side_has_differs():
    settings = KubeletSettings(reserved_memory=((0, amounts(hugepages_2Mi="2Mi")),))
    with pytest.raises(ManifestError, match=r"2Mi of hugepages-2Mi together .* but the node reserves 0 "):
        check_sums(settings, {}, {0: None})
    with pytest.raises(ManifestError, match="reserve 0 of memory together"):
        check_sums(KubeletSettings(), amounts(memory="1Gi"), {0: None})
    with pytest.raises(ManifestError, match="reserve 0 of memory together"):
        check_sums(settings, amounts(memory="1Gi"), {0: None})
    check_sums(KubeletSettings(), {}, {0: None})


def test_a_numa_node_that_the_machine_lacks():
    settings = KubeletSettings(reserved_memory=((2, amounts(memory="1Gi")),))
    with pytest.raises(ManifestError, match=r"there is no NUMA node 2 on this machine\. It has 0, 1\."):
        check_sums(settings, amounts(memory="1Gi"), {1: None, 0: None})


def test_reserved_by_numa_node():
    settings = KubeletSettings(reserved_memory=((0, amounts(memory="1Gi")), (0, amounts(hugepages_2Mi="4Mi"))))
    assert by_numa_node(settings, {0: None, 1: None}) == {0: {"memory": GIB, "hugepages-2Mi": 4 * MIB}, 1: {}}
