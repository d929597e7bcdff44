"""From OCI linux.resources to files: the common part of all runtimes."""

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.translate.oci import oci_for_create
from memqos.engine.translate.resources import OciResources, RuntimeHost
from memqos.engine.translate.runtime_rules import files_held, runtime_writes, values
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver
from tests.unit.engine.pods import NODE, ON, container, equal, pod
from tests.unit.engine.translate.samples import CGROUPFS, CRUN_1_8_1, RUNC, RUNC_1_3_6, TYPICAL


def test_a_text_that_the_kernel_refuses_is_named():
    found = runtime_writes(OciResources(memory_limit=-2), CRUN_1_8_1, CGROUPFS)
    with pytest.raises(ValueError, match=r"memory\.max: the kernel refuses '-2'"):
        files_held(found)


@pytest.mark.parametrize(("page_size", "high"), [(4096, "248303616"), (16384, "248299520"), (65536, "248250368")])
def test_page_sizes(page_size, high):
    found = runtime_writes(OciResources(unified={"memory.high": "248304500"}), RUNC, CGROUPFS)
    assert files_held(found, page_size=page_size) == {"memory.high": high}


def test_only_oci_runtimes_write_files():
    with pytest.raises(ValueError, match="cri-o writes no interface files"):
        runtime_writes(TYPICAL, traits_of("cri-o", "1.36.3"))


PODS = [
    pod(equal("1", "256Mi"), name="guaranteed"),
    pod(container({"cpu": "250m", "memory": "128Mi"}, {"cpu": "333m", "memory": "256Mi"}), name="burstable"),
    pod(container({"memory": "128Mi"}), name="requests-only"),
    pod(container({}, {"memory": "1234567"}), name="odd"),
    pod(name="besteffort"),
]


@pytest.mark.parametrize("release", ["1.22", "1.27", "1.30", "1.36"])
@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize(("cri", "oci"), [(("containerd", "1.7.24"), RUNC), (("containerd", "2.1.9"), RUNC_1_3_6)])
def test_files_agree_with_the_plan(release, driver, cri, oci):
    cri = traits_of(*cri)
    plan = expect(
        PODS,
        Kubelet.of(
            node=NODE, settings=ON, release=release, driver=driver, runtimes=Runtimes(cri=cri, oci=oci, hugetlb=True)
        ),
    )
    assert len(plan.pods) == 5
    for planned in plan.pods:
        for one in planned.containers:
            translated = oci_for_create(one.resources, cri, hugetlb=True)
            files = files_held(runtime_writes(translated.resources, oci, RuntimeHost(driver=driver)))
            for knob, expected in one.cgroup.knobs.items():
                assert files.get(knob, str(knob.kernel_default)) == str(expected.value), (planned.name, knob)
            assert set(files) - set(one.cgroup.knobs) <= {"hugetlb.2MB.rsvd.max", "hugetlb.1GB.rsvd.max"}
            assert translated.oom_score_adj == one.oom_score_adj
            assert Knob.MEMORY_MAX in one.cgroup.knobs


def test_a_text_that_the_kernel_refuses_is_named_in_plans():
    found = runtime_writes(OciResources(memory_limit=-2), CRUN_1_8_1, CGROUPFS)
    with pytest.raises(ValueError, match=r"memory\.max: the kernel refuses '-2'"):
        values(found.files)
