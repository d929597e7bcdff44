"""What a node lacks for a claim, and the topology that would do."""

import dataclasses

import pytest

from memqos.engine.translate.versions import TRIXIE, Runtimes, traits_of
from tests.unit.node.fakes import FACTS, Bench


@pytest.mark.parametrize(
    ("facts", "need", "why"),
    [
        ({}, "swap", ""),
        ({}, "zones", ""),
        ({}, "psi", ""),
        ({}, "unified", ""),
        ({"pressure": False}, "psi", "the kernel does not measure the pressure of cgroups"),
    ],
)
def test_what_a_node_lacks_has_a_reason(facts, need, why):
    assert Bench(**facts).node.why_not(need) == why


@pytest.mark.parametrize(
    ("oci", "version", "why"),
    [
        ("runc", "1.1.15", "fake keeps no containers below a scope without protection"),
        ("crun", "1.17", ""),
        ("crun", "1.18", "fake keeps no containers below a scope without protection"),
    ],
)
def test_scopes_are_bare_below_an_old_crun(oci, version, why):
    node = Bench(runtimes=Runtimes(cri=TRIXIE.cri, oci=traits_of(oci, version))).node
    assert node.why_not("bare scope") == why
    other = "" if why else "fake keeps containers below a scope without protection"
    assert node.why_not("no bare scope") == other


def test_a_small_node_lacks_swap_and_zones():
    node = Bench(node=dataclasses.replace(FACTS, swap=0, zones=FACTS.zones[:1])).node

    assert node.why_not("swap") == "the machine has no swap"
    assert node.why_not("zones") == "the machine has one NUMA zone"


@pytest.mark.parametrize(
    ("need", "topology"),
    [
        ("swap", "two-zones"),
        ("small swap", "small-swaps"),
        ("zones", "two-zones"),
        ("far zone", "far-memory"),
        ("three zones", "four-zones"),
    ],
)
def test_a_machine_of_our_own_says_the_topology_that_would_do(need, topology):
    small = dataclasses.replace(FACTS, swap=0, zones=FACTS.zones[:1])
    there, own = Bench(node=small).node, Bench(node=small, disposable=True).node

    assert own.why_not(need) == f"{there.why_not(need)}: try --topology {topology}"
    assert "topology" not in there.why_not(need)
