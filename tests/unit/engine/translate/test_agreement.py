"""Plan and translation agree for every container and runtime: values, unwritten files, refusals."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.translate.container import translate
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.knob import ABSENT
from memqos.model.node import CgroupDriver, CgroupVersion, KubeletSettings, NodeFacts, SwapBehavior
from memqos.model.reading import read_back
from tests.unit.engine.anything import PODS, RELEASES
from tests.unit.engine.pods import container, pod

# Either side of every version that a table of runtimes names.
CRI = [
    *(("containerd", version) for version in ("1.6.12", "1.6.13", "1.7.24", "2.1.9")),
    *(("cri-o", version) for version in ("1.35.9", "1.36")),
]
OCI = [
    *(
        ("runc", version)
        for version in ("1.1.5", "1.1.6", "1.1.9", "1.1.10", "1.2.0", "1.2.1", "1.3.1", "1.3.2", "1.4.0")
    ),
    *(
        ("crun", version)
        for version in (
            "1.8.4",
            "1.8.5",
            "1.8.6",
            "1.10",
            "1.11",
            "1.12",
            "1.13",
            "1.15",
            "1.16",
            "1.18",
            "1.22",
            "1.23",
        )
    ),
]
TRIXIE_WITH_PAGES = replace(TRIXIE, hugetlb=True)
NODES = st.builds(
    NodeFacts,
    memory=st.just(64 << 30),
    swap=st.sampled_from([0, 4 << 30]),
    cpus=st.just(8),
    swap_controller=st.booleans(),
    cgroup_version=st.sampled_from(CgroupVersion),
    page_size=st.sampled_from([4096, 65536]),
)
CONFIGS = st.builds(
    KubeletSettings,
    feature_gates=st.sampled_from([{}, {"MemoryQoS": True}, {"NodeSwap": True}, {"MemoryQoS": True, "NodeSwap": True}]),
    cpu_cfs_quota=st.sampled_from([None, False]),
    swap_behavior=st.sampled_from([None, SwapBehavior.LIMITED]),
    fail_swap_on=st.just(False),
    fail_cgroup_v1=st.just(False),
)


def named(cri, oci, hugetlb=False):
    # They run pods of every RuntimeClass.
    return Runtimes(cri=traits_of(*cri), oci=traits_of(*oci), hugetlb=hugetlb, every_class=True)


def said(planned):
    """A planned container's refusal, and the texts of its written files."""
    files = {one.knob.value: str(one.value) for one in planned.cgroup.knobs.values() if one.written is not ABSENT}
    return planned.refusal, files


def translated(planned, kubelet, runtimes):
    """The same from its request's translation, for planned files."""
    found = translate(planned.resources, runtimes, kubelet.host)
    return found.refusal, {
        one.name: one.shows for one in found.files if one.name in {knob.value for knob in planned.cgroup.knobs}
    }


def kubelet_of(node, config, release, **more):
    """A kubelet that starts: swap is limited where the gate lets it be."""
    if not config.feature_gates.get("NodeSwap"):
        config = replace(config, swap_behavior=None)
    return Kubelet.of(node=node, settings=config, release=release, **more)


def planned_containers(pods, kubelet):
    return [one for planned in expect(pods, kubelet, reasons=False).pods for one in planned.containers]


@pytest.mark.parametrize("driver", CgroupDriver)
@pytest.mark.parametrize("oci", OCI, ids="@".join)
@settings(max_examples=20)
@given(pods=PODS, release=RELEASES, node=NODES, config=CONFIGS, cri=st.sampled_from(CRI), hugetlb=st.booleans())
def test_plan_and_translation_agree(*, pods, release, node, config, cri, hugetlb, oci, driver):
    runtimes = named(cri, oci, hugetlb)
    kubelet = kubelet_of(node, config, release, driver=driver, runtimes=runtimes)
    for one in planned_containers(pods, kubelet):
        refusal, files = said(one)
        # A refused container has no planned files, and its translation has none either.
        assert (refusal, files) == translated(one, kubelet, runtimes), one.name
        assert bool(refusal) is not bool(one.cgroup.knobs)


@given(pods=PODS, release=RELEASES, node=NODES, config=CONFIGS, driver=st.sampled_from(CgroupDriver))
def test_an_unknown_version_has_the_values_of_all_possible_versions(pods, release, node, config, driver):
    unknown = named(("containerd", ""), ("runc", ""))
    kubelet = kubelet_of(node, config, release, driver=driver, runtimes=unknown)
    versions = [named(cri, oci) for cri in CRI[:4] for oci in OCI[:9]]
    for one in planned_containers(pods, kubelet):
        each = [translated(one, kubelet, runtimes) for runtimes in versions]
        making = [files for refusal, files in each if not refusal]
        assert bool(one.refusal) is not bool(making)
        for knob, expected in one.cgroup.knobs.items():
            default = str(read_back(knob, knob.kernel_default, node.page_size))
            shown = {files.get(knob.value, default) for files in making}
            possible = {str(value) for value in expected.undecided or (expected.value,)}
            assert shown == possible, knob


def test_a_refusal_of_crio_is_in_both():
    runtimes = named(("cri-o", "1.36"), ("runc", "1.1.15"))
    kubelet = Kubelet.of(node=NodeFacts(memory=8 << 30, cpus=4), release="1.36", runtimes=runtimes)
    [one] = planned_containers([pod(container({}, {"memory": "8Mi"}))], kubelet)
    refusal = "set memory limit 8388608 too low; should be at least 12582912 bytes"
    assert said(one) == translated(one, kubelet, runtimes) == (refusal, {})
    crun = replace(kubelet, runtimes=replace(runtimes, oci=traits_of("crun", "1.21")))
    assert translate(one.resources, crun.runtimes, crun.host).refusal == ""


def test_limits_of_huge_pages_are_whole_pages_in_both():
    kubelet = Kubelet.of(
        node=NodeFacts(memory=8 << 30, cpus=4, hugepage_sizes=(2 << 20,)),
        release="1.36",
        runtimes=TRIXIE_WITH_PAGES,
    )
    [one] = planned_containers([pod(container({}, {"hugepages-2Mi": "5000000"}))], kubelet)
    assert (
        said(one)[1]["hugetlb.2MB.max"]
        == translated(one, kubelet, TRIXIE_WITH_PAGES)[1]["hugetlb.2MB.max"]
        == "4194304"
    )
