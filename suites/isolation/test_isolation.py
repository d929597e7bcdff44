"""Isolation: how much of its speed a program keeps while a neighbour takes memory, by QoS class.

    cgroup                 protection, by the revision   before          in each turn
    kubepods, 208 Mi       the sum of what is below
      pod kept-guaranteed  64 Mi memory.min              48 Mi of cache  reads it, alone and beside the aggressor
      pod kept-burstable   64 Mi memory.min or low       48 Mi of cache  reads it, alone and beside the aggressor
      pod unguarded        nothing                       48 Mi of cache  reads it, alone and beside the aggressor
      pod aggressor        nothing                       nothing         takes what is left, and half of the memory that
                                                                         others can lose; gives it back. First as
                                                                         anonymous memory, then as page cache of a file
                                                                         that it reads again and again

The test measures how long a program takes to read all of its 48 Mi once. It judges no absolute time but the part of its
undisturbed speed that a program keeps; undisturbed and disturbed reads alternate on one machine. "Keeps more than
another" is an exact rank sum test: of all ways to assign the measurements to the two programs, at most one in forty may
be as extreme. Each program has six turns, so that a busy host may spoil one, and in each turn the faster of two reads
counts. If six turns show no difference, six more follow and all twelve are ranked; both tests together are wrong in at
most one case in twenty. If twelve turns show no difference either, and undisturbed reads compared with each other would
not show one, the host hides the cost of a loss, and nothing is judged.
The aggressor has a limit and no request, so no kubelet here lets it swap. Without a limit 1.27 would, and the classic
LRU would then reclaim from the aggressor what others fetch, so that no victim would lose anything for long.

The kernel also counts the reclaimed pages that are read again (memory.stat, workingset_refault_file). A fully protected
container may lose one batch of 64 pages, the unit in which the kernel counts charges, and may re-read it on each read:
six times per turn.
"""

import pytest

from memqos import Knob

PREMISES = [Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]
VICTIMS = ["kept-guaranteed", "kept-burstable", "unguarded"]
PODS = [*VICTIMS, "aggressor"]
CLAIMS = {
    "anonymous": [
        "isolation/guaranteed-keeps-its-pace",
        "isolation/burstable-keeps-its-pace",
        "isolation/what-is-kept-is-not-read-again",
    ],
    "files": [
        "isolation/guaranteed-beside-files",
        "isolation/burstable-beside-files",
        "isolation/what-is-kept-is-not-read-again",
    ],
}
"""The claims about each kind of memory that the aggressor takes."""


@pytest.fixture(scope="module")
def paces(qos_node, qos_scene, qos_kubelet, qos_catalog):
    """Read times of each victim, alone and disturbed, in each turn.

    All pods are there, since kubepods has room for just these; the aggressor takes only what a selected test looks at.
    """
    pods = [qos_catalog.pod(name) for name in PODS]
    with (
        qos_scene(qos_kubelet) as scene,
        qos_node.watched_pods(pods, qos_node.tight(qos_kubelet, pods), rests_on=PREMISES, steered=True) as watch,
    ):
        kinds = [taking for taking, claims in CLAIMS.items() if scene.shows(*claims)]
        yield watch.disturb("aggressor", *VICTIMS, taking=kinds)


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27", "v1.36-tiered")
@pytest.mark.claim("isolation/guaranteed-keeps-its-pace")
def test_a_guaranteed_program_keeps_more_of_its_speed(paces, qos_evidence):
    """Its page cache is protected; the kernel reclaims that of others."""
    qos_evidence.settle(*paces.premises, paces.keeps_more("kept-guaranteed", than="unguarded", taking="anonymous"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27", "v1.36-tiered")
@pytest.mark.claim("isolation/burstable-keeps-its-pace")
def test_a_burstable_program_keeps_more_of_its_speed(paces, qos_evidence):
    """The same for page cache up to its request, with memory.min and with memory.low."""
    qos_evidence.settle(*paces.premises, paces.keeps_more("kept-burstable", than="unguarded", taking="anonymous"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27", "v1.36-tiered")
@pytest.mark.claim("isolation/guaranteed-beside-files")
def test_a_guaranteed_program_keeps_more_of_its_speed_while_a_neighbour_reads_files(paces, qos_evidence):
    """New page cache replaces unprotected page cache, not the protected part."""
    qos_evidence.settle(*paces.premises, paces.keeps_more("kept-guaranteed", than="unguarded", taking="files"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27", "v1.36-tiered")
@pytest.mark.claim("isolation/burstable-beside-files")
def test_a_burstable_program_keeps_more_of_its_speed_while_a_neighbour_reads_files(paces, qos_evidence):
    """The same for page cache up to its request."""
    qos_evidence.settle(*paces.premises, paces.keeps_more("kept-burstable", than="unguarded", taking="files"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27", "v1.36-tiered")
@pytest.mark.claim("isolation/what-is-kept-is-not-read-again")
def test_protected_page_cache_is_not_read_again(paces, qos_evidence):
    """The reason for the speed: the kernel counts no refaults of their pages."""
    qos_evidence.settle(
        *paces.premises,
        paces.hardly_refaults("kept-guaranteed"),
        paces.hardly_refaults("kept-burstable"),
        paces.refaults("unguarded"),
    )
