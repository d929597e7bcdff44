"""Isolation: how much of its pace a program keeps beside one that takes memory, by its class.

    cgroup                 protection, by the revision   before          in each turn
    kubepods, 208 Mi       the sum of what is below
      pod kept-guaranteed  64 Mi memory.min              48 Mi of cache  reads it, alone and beside the aggressor
      pod kept-burstable   64 Mi memory.min or low       48 Mi of cache  reads it, alone and beside the aggressor
      pod unguarded        nothing                       48 Mi of cache  reads it, alone and beside the aggressor
      pod aggressor        nothing                       nothing         takes what is left, and half of the memory that
                                                                         others can lose; gives it back. First as
                                                                         anonymous memory, then as page cache of a file
                                                                         that it reads again and again

A pace is how long it takes to read all of the 48 Mi once. What is judged is no time, but the part of its
own undisturbed pace that a program keeps: undisturbed and disturbed are measured in turns, on one machine. That one
keeps more than another is a claim about ranks: of all ways to deal the measured parts out to the two, no more than
one in forty may be as good (the rank sum test, exact). There are six turns of each, so that a busy host may spoil
one, and in each of them the quicker of two readings counts. Where they do not show it there are six more, and all
twelve are ranked: both looks together are wrong in no more than one in twenty. Where that does not show it either,
and would not show it of readings that nobody disturbed, each compared with the next one, the host hides what a loss
costs: nothing is judged.
The aggressor has a limit and requests nothing, so that no kubelet here lets it swap: without a limit one of 1.27
does, and the classic LRU takes from the aggressor then what others fetch, so that nobody loses anything for long.

What is read again after it was taken is counted by the kernel as well, in pages (memory.stat,
workingset_refault_file). What is protected whole may miss one batch of 64 pages, by which the kernel counts charges,
and so may have to read one again each time that it reads: six times in a turn.
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
"""By what the aggressor takes memory for, the claims that look at it."""


@pytest.fixture(scope="module")
def paces(qos_node, qos_scene, qos_kubelet, qos_catalog):
    """How long each victim took, alone and disturbed, in each turn.

    All pods are there, since kubepods has room for just these; the aggressor takes only what a selected test looks at.
    """
    pods = [qos_catalog.pod(name) for name in PODS]
    with (
        qos_scene(qos_kubelet) as scene,
        qos_node.watched_pods(pods, qos_node.tight(qos_kubelet, pods), rests_on=PREMISES, steered=True) as watch,
    ):
        beside = [taking for taking, claims in CLAIMS.items() if scene.shows(*claims)]
        yield watch.disturb("aggressor", *VICTIMS, beside=beside)


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27", "v1.36-tiered")
@pytest.mark.claim("isolation/guaranteed-keeps-its-pace")
def test_a_guaranteed_program_keeps_more_of_its_pace(paces, qos_evidence):
    """Its page cache stays, and what is read again is another's."""
    qos_evidence.settle(*paces.premises, paces.keeps_more("kept-guaranteed", than="unguarded", beside="anonymous"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27", "v1.36-tiered")
@pytest.mark.claim("isolation/burstable-keeps-its-pace")
def test_a_burstable_program_keeps_more_of_its_pace(paces, qos_evidence):
    """The same below its request, whichever of the two files holds that."""
    qos_evidence.settle(*paces.premises, paces.keeps_more("kept-burstable", than="unguarded", beside="anonymous"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27", "v1.36-tiered")
@pytest.mark.claim("isolation/guaranteed-beside-files")
def test_a_guaranteed_program_keeps_more_of_its_pace_beside_one_that_reads_files(paces, qos_evidence):
    """Page cache takes from page cache, and not from what is protected."""
    qos_evidence.settle(*paces.premises, paces.keeps_more("kept-guaranteed", than="unguarded", beside="files"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27", "v1.36-tiered")
@pytest.mark.claim("isolation/burstable-beside-files")
def test_a_burstable_program_keeps_more_of_its_pace_beside_one_that_reads_files(paces, qos_evidence):
    """The same below its request."""
    qos_evidence.settle(*paces.premises, paces.keeps_more("kept-burstable", than="unguarded", beside="files"))


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.27", "v1.36-tiered")
@pytest.mark.claim("isolation/what-is-kept-is-not-read-again")
def test_what_is_protected_is_not_read_again(paces, qos_evidence):
    """Why they keep their pace: the kernel counts no page of theirs that had to come back."""
    qos_evidence.settle(
        *paces.premises,
        paces.hardly_refaults("kept-guaranteed"),
        paces.hardly_refaults("kept-burstable"),
        paces.refaults("unguarded"),
    )
