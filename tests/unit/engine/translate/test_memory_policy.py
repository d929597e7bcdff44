"""linux.memoryPolicy and numa_maps. The lines are from Linux 6.12, of memload on two NUMA nodes."""

import pytest

from memqos.engine.translate.memory_policy import MemoryPolicy, policy_in

BIND = """\
00400000 bind:1 file=/memload mapped=12 N1=12
7ffd1000 bind:1 stack anon=3 dirty=3 N1=3 kernelpagesize_kB=4
7ffd9000 default
"""


@pytest.mark.parametrize(
    ("mode", "nodes", "flags", "shown"),
    [
        ("MPOL_DEFAULT", "", (), "default"),
        ("MPOL_LOCAL", "", (), "local"),
        ("MPOL_PREFERRED", "", (), "local"),
        ("MPOL_PREFERRED", "1", (), "prefer:1"),
        ("MPOL_PREFERRED_MANY", "0-1", (), "prefer (many):0-1"),
        ("MPOL_INTERLEAVE", "0-1", (), "interleave:0-1"),
        ("MPOL_WEIGHTED_INTERLEAVE", "0,2", (), "weighted interleave:0,2"),
        ("MPOL_BIND", "1", ("MPOL_F_STATIC_NODES",), "bind=static:1"),
        ("MPOL_BIND", "0", ("MPOL_F_RELATIVE_NODES",), "bind=relative:0"),
        ("MPOL_BIND", "0", ("MPOL_F_NUMA_BALANCING",), "bind:0"),
    ],
)
def test_a_policy_is_shown_in_the_kernels_words(mode, nodes, flags, shown):
    policy = MemoryPolicy(mode=mode, nodes=nodes, flags=flags)
    assert policy.shown == shown
    assert policy_in(f"00400000 {shown} file=/a\n7ff0 {shown} stack anon=1\n") == shown


def test_a_document_has_the_given_fields():
    assert MemoryPolicy(mode="MPOL_LOCAL").document() == {"mode": "MPOL_LOCAL"}
    assert MemoryPolicy(mode="MPOL_BIND", nodes="1", flags=("MPOL_F_STATIC_NODES",)).document() == {
        "mode": "MPOL_BIND",
        "nodes": "1",
        "flags": ["MPOL_F_STATIC_NODES"],
    }


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (MemoryPolicy(mode="MPOL_NEAREST", nodes="0"), "there is no memory policy MPOL_NEAREST"),
        (MemoryPolicy(mode="MPOL_BIND"), "MPOL_BIND needs at least one node"),
        (MemoryPolicy(mode="MPOL_BIND", nodes="0"), ""),
        (MemoryPolicy(mode="MPOL_PREFERRED"), ""),
    ],
)
def test_an_invalid_policy_has_a_reason(policy, words):
    assert policy.refusal == words


def test_the_policy_is_that_of_the_stack_or_of_the_first_mapping():
    assert policy_in(BIND) == "bind:1"
    assert policy_in("00400000 interleave:0-1 file=/a\n7ff0 default\n") == "interleave:0-1"
    assert policy_in("00400000 default\n7ff0 bind:0 stack\n") == "bind:0"


@pytest.mark.parametrize("text", ["", "\n", "00400000\n", "00400000 nearest:1 file=/a\n"])
def test_a_process_without_a_policy(text):
    assert policy_in(text) == ""
