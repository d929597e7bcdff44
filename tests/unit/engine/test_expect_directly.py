"""Containers of directly driven OCI runtimes: runc, and runsc, which does not read all of a bundle."""

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.translate.runtimes import BUNDLES, TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.knob import Knob
from tests.unit.engine.pods import NODE, ON, container, pod

RUNC = Runtimes(cri=BUNDLES, oci=TRIXIE.oci, hugetlb=True)
RUNSC = Runtimes(cri=BUNDLES, oci=traits_of("runsc", "0.0~20240729.0"), hugetlb=True)
POD = pod(container({"memory": "128Mi"}, {"memory": "256Mi"}))


def planned(runtimes, release="1.36"):
    kubelet = Kubelet.of(node=NODE, settings=ON, release=release, runtimes=runtimes)
    return expect([POD], kubelet).pods[0].containers[0].cgroup.knobs


def test_no_swap_has_its_reason_with_bundles_too():
    swap = planned(RUNC, "1.22")[Knob.MEMORY_SWAP_MAX]
    assert str(swap.value) == "0"
    assert swap.reason.source == "as containerd WithResources; runc ConvertMemorySwapToCgroupV2Value"


def test_values_that_runsc_does_not_read_are_unasked():
    knobs = planned(RUNSC)
    assert {knob.value for knob, one in knobs.items() if one.inexpressible} == {"memory.high", "memory.oom.group"}
    high = knobs[Knob.MEMORY_HIGH]
    assert (str(high.written), str(high.value)) == ("absent", "max")
    assert high.inexpressible == "runsc reads no linux.resources.unified before 20260413."
    assert high.reason.source == "gVisor runsc/cgroup"
    assert (str(knobs[Knob.MEMORY_MAX].value), str(knobs[Knob.MEMORY_SWAP_MAX].value)) == ("268435456", "0")
