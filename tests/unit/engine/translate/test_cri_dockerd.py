"""cri-dockerd: the part of a request that reaches Docker, and the lost part."""

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.translate.oci import oci_for_create, oci_for_update
from memqos.engine.translate.resources import OciResources
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, Bytes, Knob
from memqos.model.node import CgroupDriver, KubeletSettings, SwapBehavior
from tests.unit.engine.pods import NODE, container, pod

CRI = traits_of("cri-dockerd", "0.3.15")
MI = 1 << 20


def lost(found):
    return {one.knob: one.value for one in found.unsayable}


@pytest.mark.parametrize(("sent", "unsaid"), [
    (ContainerResources(memory_limit_in_bytes=64 * MI), {}),
    (ContainerResources(memory_limit_in_bytes=64 * MI, memory_swap_limit_in_bytes=64 * MI), {}),
    (ContainerResources(memory_limit_in_bytes=64 * MI, memory_swap_limit_in_bytes=96 * MI),
     {"memory.swap.max": str(32 * MI)}),
    (ContainerResources(memory_limit_in_bytes=64 * MI, memory_swap_limit_in_bytes=-1), {"memory.swap.max": "max"}),
    (ContainerResources(memory_limit_in_bytes=64 * MI, unified={"memory.swap.max": "0", "memory.high": "max"}), {}),
    (ContainerResources(unified={"memory.swap.max": "0", "memory.high": "4096"}),
     {"memory.swap.max": "0", "memory.high": "4096"}),
    (ContainerResources(hugepage_limits=(("2MB", 0),)), {"hugetlb.2MB.max": "0"}),
])  # fmt: skip
def test_lost_values(sent, unsaid):
    found = oci_for_create(sent, CRI)
    assert lost(found) == unsaid
    assert not any(one.wordless for one in found.unsayable)


def test_no_swap_ever():
    sent = ContainerResources(
        memory_limit_in_bytes=64 * MI, memory_swap_limit_in_bytes=96 * MI, cpu_shares=2, cpu_quota=5000,
        cpu_period=100000, cpuset_cpus="0", cpuset_mems="0", oom_score_adj=5,
    )  # fmt: skip
    found = oci_for_create(sent, CRI)
    assert found.resources == OciResources(
        memory_limit=64 * MI, memory_swap=64 * MI, cpu_shares=2, cpu_quota=5000, cpu_period=100000, cpus="0", mems="0"
    )
    assert found.oom_score_adj == 5
    again = oci_for_update(OciResources(), sent, CRI)
    assert (again.resources, again.oom_score_adj) == (found.resources, None)
    assert "oom_score_adj" in lost(again)


def test_docker_refuses_less_than_six_mib():
    found = oci_for_create(ContainerResources(memory_limit_in_bytes=MI, oom_score_adj=5), CRI)
    assert (found.refusal, found.oom_score_adj) == ("Minimum memory limit allowed is 6MB", None)


def test_limited_swap_and_oom_group_are_lost_in_a_plan():
    """kubernetes#124096: a Burstable container has no swap below cri-dockerd, whatever its kubelet requests."""
    of = Kubelet.of(
        node=NODE,
        release="1.34",
        driver=CgroupDriver.SYSTEMD,
        settings=KubeletSettings(swap_behavior=SwapBehavior.LIMITED),
        runtimes=Runtimes(cri=CRI, oci=traits_of("runc", "1.3.6")),
    )
    [planned] = expect([pod(container({"memory": "64Mi"}, {"memory": "128Mi"}))], of).pods
    own = planned.containers[0].cgroup.knobs
    assert planned.containers[0].resources.unified["memory.swap.max"] == "33554432"
    assert own[Knob.MEMORY_SWAP_MAX].value == Bytes(0)
    assert own[Knob.MEMORY_OOM_GROUP].written is ABSENT
    assert "cri-dockerd drops unified entries" in own[Knob.MEMORY_OOM_GROUP].reason.rule
