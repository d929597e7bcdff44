"""Each hop's own document: the expected and the observed text for an interface file."""

import pytest

from memqos.engine.answer.finding import Hop
from memqos.engine.translate.hops import ShownHops, held_at
from memqos.engine.translate.requested import requested, requested_again
from memqos.engine.translate.resources import RuntimeHost
from memqos.engine.translate.runtimes import BUNDLES, TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver

MI = 1 << 20
DIRECT = Runtimes(cri=BUNDLES, oci=TRIXIE.oci)
FIRST = ContainerResources(
    memory_limit_in_bytes=64 * MI,
    memory_swap_limit_in_bytes=80 * MI,
    cpu_shares=1024,
    cpu_quota=150000,
    cpu_period=100000,
    cpuset_cpus="0-1,3",
    cpuset_mems="0",
    oom_score_adj=981,
    hugepage_limits=(("2MB", 4 * MI),),
    unified={"memory.min": "8388608", "memory.high": "50000000"},
)
SPEC = {
    "process": {"oomScoreAdj": 981},
    "linux": {
        "resources": {
            "devices": [{"allow": False, "access": "rwm", "type": "c"}],
            "memory": {"limit": 67108864, "swap": 83886080, "reservation": 0},
            "cpu": {"shares": 1024, "quota": 150000, "period": 100000, "cpus": "0-1,3", "mems": "0"},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 4194304}],
            "unified": {"memory.min": "8388608", "memory.high": "50000000"},
        }
    },
}
STATE = {
    "config": {
        "oom_score_adj": 981,
        "cgroups": {
            "memory": 67108864,
            "memory_swap": 83886080,
            "memory_reservation": 0,
            "cpu_shares": 1024,
            "cpu_weight": 39,
            "cpu_quota": 150000,
            "cpu_period": 100000,
            "cpuset_cpus": "0-1,3",
            "cpuset_mems": "0",
            "hugetlb_limit": [{"page_size": "2MB", "limit": 4194304}],
            "unified": {"memory.min": "8388608", "memory.high": "50000000"},
        },
    }
}
UNIT = {
    "MemoryMin": "8388608",
    "MemoryHigh": "50000000",
    "MemoryMax": "67108864",
    "MemorySwapMax": "16777216",
    "CPUWeight": "39",
    "CPUQuotaPerSecUSec": "1.5s",
    "AllowedCPUs": "0-1 3",
    "AllowedMemoryNodes": "0",
}
ALL = {Hop.SPEC: SPEC, Hop.CONFIG: SPEC, Hop.STATE: STATE, Hop.UNIT: UNIT}
KNOBS = (
    "memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max", "cpu.weight", "cpu.max", "cpuset.cpus",
    "cpuset.mems", "hugetlb.2MB.max", "oom_score_adj",
)  # fmt: skip


def created(sent=FIRST, runtimes=DIRECT, **host):
    return requested(sent, runtimes, RuntimeHost(**host))


def at(hop, knob, *, container=None, documents=ALL, missing=None):
    shown = ShownHops(documents=documents, missing=missing or {})
    return {one.hop: one for one in held_at(container or created(), knob, shown)}[hop]


@pytest.mark.parametrize("knob", KNOBS)
def test_right_documents_lose_nothing(knob):
    hops = held_at(created(), knob, ShownHops(documents=ALL))
    assert [(one.hop, one.asked, one.held) for one in hops if one.is_lost] == []
    assert [one.hop for one in hops if not one.why_not][:3] == [Hop.SPEC, Hop.CONFIG, Hop.STATE]


@pytest.mark.parametrize(
    ("hop", "knob", "held"),
    [
        (Hop.CONFIG, "memory.max", "memory.limit = 67108864"),
        (Hop.CONFIG, "memory.swap.max", "memory.limit = 67108864; memory.swap = 83886080"),
        (Hop.STATE, "memory.swap.max", "memory.limit = 67108864; memory.swap = 83886080"),
        (Hop.SPEC, "memory.high", "unified memory.high = 50000000"),
        (Hop.STATE, "memory.high", "unified memory.high = 50000000"),
        (Hop.STATE, "cpu.max", "cpu.period = 100000; cpu.quota = 150000"),
        (Hop.STATE, "hugetlb.2MB.max", "hugepageLimits 2MB = 4194304"),
        (Hop.CONFIG, "hugetlb.2MB.max", "hugepageLimits 2MB = 4194304"),
        (Hop.STATE, "oom_score_adj", "process.oomScoreAdj = 981"),
        (Hop.UNIT, "memory.high", "MemoryHigh=50000000"),
        (Hop.UNIT, "cpu.max", "CPUQuotaPerSecUSec=1500000"),
        (Hop.UNIT, "cpuset.cpus", "AllowedCPUs=0-1,3"),
        (Hop.CONFIG, "memory.low", ""),
    ],
)
def test_the_form_of_a_value_in_each_hop(hop, knob, held):
    assert at(hop, knob).held == held


def test_a_hop_with_another_value_has_lost_it():
    less = {**SPEC, "linux": {"resources": {**SPEC["linux"]["resources"], "unified": {"memory.min": "0"}}}}
    documents = {**ALL, Hop.CONFIG: less}
    assert at(Hop.CONFIG, "memory.high", documents=documents).is_lost
    found = at(Hop.CONFIG, "memory.min", documents=documents)
    assert (found.asked, found.held, found.is_lost) == (
        ("unified memory.min = 8388608",), "unified memory.min = 0", True,
    )  # fmt: skip
    assert not at(Hop.CONFIG, "memory.max", documents=documents).is_lost


@pytest.mark.parametrize(
    ("span", "held"),
    [
        ("500ms", "500000"), ("12.5ms", "12500"), ("1min 30s", "90000000"), ("infinity", "infinity"), ("", ""),
        ("250us", "250"), ("1h", "3600000000"), ("2 s", "2 s"),
    ],
)  # fmt: skip
def test_time_spans_are_read_as_systemd_prints_them(span, held):
    unit = {**UNIT, "CPUQuotaPerSecUSec": span}
    found = at(Hop.UNIT, "cpu.max", documents={**ALL, Hop.UNIT: unit})
    assert found.held == f"CPUQuotaPerSecUSec={held.replace(' ', ',')}"


@pytest.mark.parametrize("wrong", [None, [], "text", 7, {"linux": []}, {"linux": {"resources": "none"}}])
def test_a_malformed_document_has_no_value(wrong):
    documents = dict.fromkeys(ALL, wrong)
    for hop in (Hop.SPEC, Hop.CONFIG, Hop.STATE):
        assert at(hop, "memory.high", documents=documents).held == ""
    assert at(Hop.UNIT, "memory.high", documents=documents).held == "MemoryHigh="


@pytest.mark.parametrize(
    "resources",
    [
        {"memory": [], "cpu": 5, "unified": "memory.high", "hugepageLimits": {"2MB": 1}},
        {"hugepageLimits": ["2MB", {"pageSize": "1GB"}]},
    ],
)
def test_malformed_sections_have_no_value(resources):
    found = at(Hop.CONFIG, "hugetlb.2MB.max", documents={Hop.CONFIG: {"linux": {"resources": resources}}})
    assert (found.held, found.is_lost) == ("", True)


def test_an_unobservable_hop_has_its_reason():
    assert at(Hop.UNIT, "memory.oom.group").why_not == "the runtime sets no unit property for it"
    files = created(driver=CgroupDriver.CGROUPFS)
    assert at(Hop.UNIT, "memory.high", container=files).why_not == (
        "the container has no systemd unit with properties of its own"
    )
    assert at(Hop.STATE, "memory.high", documents={}).why_not == "not read"
    assert at(Hop.STATE, "memory.high", documents={}, missing={Hop.STATE: "crun keeps none"}).why_not == (
        "crun keeps none"
    )


def test_after_an_update_config_json_counts_only_for_other_values():
    container = requested_again(created(), ContainerResources(unified={"memory.high": "60000000"}))
    assert at(Hop.CONFIG, "memory.high", container=container).why_not == (
        "it was written when the container was created, before an update set the value"
    )
    assert not at(Hop.CONFIG, "memory.min", container=container).why_not
    assert at(Hop.SPEC, "memory.high", container=container).is_lost
    assert at(Hop.STATE, "memory.high", container=container).asked == ("unified memory.high = 60000000",)
    assert at(Hop.UNIT, "memory.high", container=container).asked == ("MemoryHigh=60000000",)
    assert at(Hop.STATE, "hugetlb.2MB.max", container=container).why_not == "no update changes limits of huge pages"


def test_unknown_values_of_cri_o_after_an_update_are_left_out():
    runtimes = Runtimes(cri=traits_of("cri-o", "1.36.0"), oci=TRIXIE.oci)
    first = created(runtimes=runtimes)
    assert at(Hop.SPEC, "memory.high", container=first).why_not == ""
    again = requested_again(first, ContainerResources(unified={"memory.high": "60000000"}))
    why = "which part of an update CRI-O stores is not modelled"
    assert {at(hop, "memory.min", container=again).why_not for hop in (Hop.SPEC, Hop.STATE)} == {why}


def test_a_request_that_must_be_refused_has_no_hops():
    refused = created(ContainerResources(memory_limit_in_bytes=64 * MI, memory_swap_limit_in_bytes=MI))
    assert {one.why_not for one in held_at(refused, "memory.max", ShownHops(documents=ALL))} == {
        "the runtime must refuse the request"
    }


def test_differing_versions_have_several_expected_texts():
    unknown = created(runtimes=Runtimes(cri=BUNDLES, oci=traits_of("runc", "")))
    assert at(Hop.UNIT, "cpu.weight", container=unknown).asked == ("CPUWeight=100", "CPUWeight=39")
    assert not at(Hop.UNIT, "cpu.weight", container=unknown).is_lost


@pytest.mark.parametrize(("policy", "lost"), [("kill", False), ("stop", True)])
def test_oom_group_is_the_oom_policy_of_the_scope(policy, lost):
    sent = ContainerResources(unified={"memory.oom.group": "1"})
    container = created(sent, Runtimes(cri=BUNDLES, oci=traits_of("runc", "1.6.0")))
    found = at(Hop.UNIT, "memory.oom.group", container=container, documents={Hop.UNIT: {"OOMPolicy": policy}})
    assert (found.asked, found.held, found.is_lost) == (("OOMPolicy=kill",), f"OOMPolicy={policy}", lost)
