"""Containers of Docker: values that cannot be requested are named and not expected."""

import pytest

from memqos.engine.answer.document import expected_document
from memqos.engine.answer.finding import Setter, Verdict
from memqos.engine.answer.verdict import judge_cgroup
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.pod.cgroup import request_container
from memqos.engine.translate.container_files import made_files
from memqos.engine.translate.requested import oom_score_adj_of
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.pod import QosClass
from memqos.model.reading import CgroupReading, Reading
from tests.unit.engine.pods import NODE, ON, container, pod

DOCKER = Runtimes(cri=traits_of("docker", "26.1.5"), oci=TRIXIE.oci)
UNSURE = Runtimes(cri=traits_of("docker", "26.1"), oci=traits_of("runc", ""))
POD = pod(container({"memory": "128Mi"}, {"memory": "256Mi"}))


def planned(runtimes=DOCKER):
    kubelet = Kubelet.of(node=NODE, settings=ON, release="1.36", runtimes=runtimes)
    return expect([POD], kubelet).pods[0].containers[0].cgroup


@pytest.mark.parametrize("runtimes", [DOCKER, UNSURE], ids=str)
def test_values_without_a_field_of_docker_are_unasked(runtimes):
    knobs = planned(runtimes).knobs
    assert {knob.value: one.inexpressible for knob, one in knobs.items() if one.inexpressible} == {
        "memory.high": "HostConfig has no field for memory.high.",
        "memory.oom.group": "HostConfig has no field for memory.oom.group: OomKillDisable is ignored on cgroup v2.",
    }
    assert (str(knobs[Knob.MEMORY_HIGH].written), str(knobs[Knob.MEMORY_HIGH].value)) == ("absent", "max")
    assert (str(knobs[Knob.MEMORY_MAX].value), str(knobs[Knob.MEMORY_SWAP_MAX].value)) == ("268435456", "0")


def test_the_reason_has_the_wanted_value_and_the_cause():
    reason = planned().knobs[Knob.MEMORY_HIGH].reason
    assert reason.rule == (
        "memory.high should be 255012864, but is not written: HostConfig has no field for memory.high"
    )
    assert reason.revision == "docker 26.1.5 with runc 1.1.15"
    [wanted] = reason.because
    assert wanted.rule.startswith("memory.high is the request plus the throttling factor's share")
    assert "moby" in planned().knobs[Knob.MEMORY_SWAP_MAX].reason.source


def test_it_is_not_observable_and_the_rest_is_judged():
    own = planned()
    files = {"memory.high": "max\n", "memory.oom.group": "0\n", "memory.max": "268435456\n"}
    reading = Reading(source="r", at=0.0, cgroups={own.path: CgroupReading(path=own.path, files=files)})
    found = {one.knob: one for one in judge_cgroup(own, own.path, "c", reading, enacted_by=Setter.MEMQOS)}
    assert found["memory.high"].verdict is Verdict.NOT_OBSERVABLE
    assert found["memory.high"].why_not == "HostConfig has no field for memory.high."
    assert found["memory.high"].observed == "max"
    assert found["memory.high"].set_by is not Setter.RUNTIME
    assert found["memory.max"].verdict is Verdict.CONFORMS


def test_the_document_names_it():
    knobs = planned().knobs
    assert expected_document(knobs[Knob.MEMORY_HIGH])["inexpressible"] == "HostConfig has no field for memory.high."
    assert "inexpressible" not in expected_document(knobs[Knob.MEMORY_MAX])


@pytest.mark.parametrize("version", ["5.4.2", ""])
def test_podman_limits_the_processes_of_every_container(version):
    runtimes = Runtimes(cri=traits_of("podman", version), oci=traits_of("crun", "1.21"))
    assert planned(runtimes).knobs[Knob.MEMORY_MAX].reason.rule == "memory.max is the container's memory limit"
    kubelet = Kubelet.of(node=NODE, settings=ON, release="1.36", runtimes=runtimes)
    request = request_container(POD, POD.containers[0], QosClass.BURSTABLE, kubelet)
    pids = made_files(request, POD, kubelet).rulings[Knob.PIDS_MAX]
    assert str(pids.written) == "2048"
    assert pids.why().rule == "podman sets pids.max of every container"
    assert pids.why().source == "podman, defaults of a new container"


def test_huge_pages_do_not_reach_containers_of_docker():
    assert not DOCKER.passes_huge_pages


def test_the_score_of_a_request_in_both_forms():
    assert oom_score_adj_of(ContainerResources(oom_score_adj=5)) == 5
    assert (oom_score_adj_of({"OomScoreAdj": 6}), oom_score_adj_of({})) == (6, 0)
