"""The API objects of pods that a kubelet under test gets."""

import dataclasses

import pytest

from memqos.enactor.base import MemoryVolume
from memqos.enactor.kubelet.documents import pod_manifest
from memqos.model.pod import ContainerKind, Resources
from memqos.model.quantity import Quantity
from tests.unit.enactor.kubelets import TIERED, WEB, enactor_on, order_of, wrong_files
from tests.unit.node.fakes import Bench, kubelet, pod


def test_a_memory_backed_volume_is_mounted_by_all_containers():
    volumes = [
        MemoryVolume(name="one", container_path="/one"),
        MemoryVolume(name="two", container_path="/two", size_limit="8Mi"),
    ]
    under = Bench().node.kubelet(kubelet("1.36", **TIERED))
    found = pod_manifest(pod("web", init=True), under, {}, volumes)["spec"]
    assert found["volumes"] == [
        {"name": "one", "emptyDir": {"medium": "Memory"}},
        {"name": "two", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}},
    ]
    mounts = [{"name": "one", "mountPath": "/one"}, {"name": "two", "mountPath": "/two"}]
    assert [one["volumeMounts"] for one in (*found["initContainers"], *found["containers"])] == [mounts, mounts]


@pytest.mark.parametrize(
    ("release", "stored"),
    [
        ("1.27", [("s", ["hold", "5"], None), ("i", ["hold", "3"], None)]),
        ("1.36", [("s", ["hold"], "Always"), ("i", ["hold", "3"], None)]),
    ],
)
def test_a_sidecar_ends_under_a_kubelet_that_takes_it_for_an_init_container(release, stored):
    given = pod("web", init=True)
    [init] = given.init_containers
    init = dataclasses.replace(init, name="i", args=("hold", "3"))
    sidecar = dataclasses.replace(init, name="s", args=("hold",), kind=ContainerKind.SIDECAR)
    given = dataclasses.replace(given, init_containers=(sidecar, init))
    found = pod_manifest(given, Bench().node.kubelet(kubelet(release)), {})["spec"]["initContainers"]
    assert [(one["name"], one["args"], one.get("restartPolicy")) for one in found] == stored


def test_a_pod_has_the_requests_that_an_api_server_derives_from_limits():
    """A kubelet derives none: without them the oom_score_adj of its containers is 999; the stand-in fails it."""
    bench = Bench()
    limit = Resources(requests={}, limits={"memory": Quantity.parse("64Mi")})
    [container] = WEB.containers
    bare = dataclasses.replace(WEB, resources=limit, containers=(dataclasses.replace(container, resources=limit),))
    order = order_of(bench, pods=(bare,))
    with enactor_on(bench) as enactor:
        pods = enactor.begin("test")
        pods.bring(order)
        admitted = pods.admit(order, appears=lambda _: None)
        assert admitted[WEB.uid].failure is None
        assert not wrong_files(bench, order, admitted)
    stored = {"requests": {"memory": "64Mi"}, "limits": {"memory": "64Mi"}}
    found = pod_manifest(bare, order.kubelet, {})
    assert [found["spec"]["resources"], found["spec"]["containers"][0]["resources"]] == [stored, stored]
    assert found["status"]["qosClass"] == "Burstable"
