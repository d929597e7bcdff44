"""What a node lacks for a claim, and a fitting topology."""

import dataclasses

import pytest

from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from tests.unit.node.fakes import FACTS, Bench


@pytest.mark.parametrize(
    ("facts", "need", "why"),
    [
        ({}, "swap", ""),
        ({}, "NUMA nodes", ""),
        ({}, "psi", ""),
        ({}, "unified", ""),
        ({"pressure": False}, "psi", "the kernel has no PSI of cgroups"),
        ({}, "no zswap", ""),
        (
            {"zswap_is_on": True},
            "no zswap",
            "zswap is on: what it holds stays charged to the swapped-out cgroup, so swapping may make no room",
        ),
        (
            {"delegated": "/user.slice/user-1000.slice/user@1000.service"},
            "own machine",
            (
                "the pods are an ordinary user's, below /user.slice/user-1000.slice/user@1000.service: what is above "
                "it stays as it is"
            ),
        ),
    ],
)
def test_what_a_node_lacks_has_a_reason(facts, need, why):
    assert Bench(**facts).node.why_not(need) == why


@pytest.mark.parametrize(
    ("oci", "version", "why"),
    [
        ("runc", "1.1.15", "fake puts no containers below a scope without protection"),
        ("crun", "1.17", ""),
        ("crun", "1.18", "fake puts no containers below a scope without protection"),
    ],
)
def test_scopes_are_bare_below_an_old_crun(oci, version, why):
    node = Bench(runtimes=Runtimes(cri=TRIXIE.cri, oci=traits_of(oci, version))).node
    assert node.why_not("bare scope") == why
    other = "" if why else "fake puts containers below a scope without protection"
    assert node.why_not("no bare scope") == other


def test_a_small_node_lacks_swap_and_numa_nodes():
    node = Bench(node=dataclasses.replace(FACTS, swap=0, numa_nodes=FACTS.numa_nodes[:1])).node

    assert node.why_not("swap") == "the machine has no swap"
    assert node.why_not("NUMA nodes") == "the machine has one NUMA node"


@pytest.mark.parametrize(
    ("need", "topology"),
    [
        ("swap", "two-numa-nodes"),
        ("small swap", "small-swaps"),
        ("NUMA nodes", "two-numa-nodes"),
        ("far NUMA node", "far-memory"),
        ("three NUMA nodes", "four-numa-nodes"),
        ("roomy shares", "two-numa-nodes"),
        ("two NUMA nodes", "two-numa-nodes"),
    ],
)
def test_for_a_machine_of_memqos_a_fitting_topology_is_named(need, topology):
    small = dataclasses.replace(FACTS, swap=0, numa_nodes=FACTS.numa_nodes[:1])
    there, own = Bench(node=small).node, Bench(node=small, disposable=True).node

    assert own.why_not(need) == f"{there.why_not(need)}: try --topology {topology}"
    assert "topology" not in there.why_not(need)


@pytest.mark.parametrize(
    ("swap", "roomy", "scant"),
    [
        (409 << 20, "containers' shares are too small with 409 MiB of swap on a machine with 2048 MiB of memory", ""),
        (410 << 20, "", ""),
        (3 << 30, "", ""),
        (
            (3 << 30) + 4096,
            "",
            "no program of this claim fills its share of 3072 MiB of swap on a machine with 2048 MiB of memory",
        ),
    ],
)
def test_shares_of_the_swap_are_of_use_where_swap_and_memory_fit(swap, roomy, scant):
    node = Bench(node=dataclasses.replace(FACTS, swap=swap)).node

    assert (node.why_not("roomy shares"), node.why_not("scant shares")) == (roomy, scant)


@pytest.mark.parametrize(("zones", "why"), [(1, "1"), (2, ""), (3, "3")])
def test_two_numa_nodes_are_neither_one_nor_three(zones, why):
    node = Bench(node=dataclasses.replace(FACTS, numa_nodes=(FACTS.numa_nodes * 2)[:zones])).node

    assert node.why_not("two NUMA nodes") == (f"the machine has {why} NUMA nodes, not two" if why else "")
