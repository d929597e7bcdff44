"""Fields that a release does not know yet, in its kubelet and its API server."""

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.errors import ManifestError
from memqos.model.node import KubeletSettings, ReservationPolicy
from memqos.model.pod import ContainerKind, ResizePolicy
from tests.unit.engine.pods import NODE, container, pod, resources

TIERED = KubeletSettings(
    memory_reservation_policy=ReservationPolicy.TIERED,
    feature_gates={"MemoryQoS": True},
    origin={"memoryReservationPolicy": "kubelet.yaml:5", "featureGates": "kubelet.yaml:6"},
)


def ignored(*pods, release, settings=KubeletSettings()):  # noqa: B008 - a value that nobody changes
    return [
        (one.field, one.origin, one.what)
        for one in expect(pods, Kubelet.of(node=NODE, settings=settings, release=release)).ignored
    ]


def test_a_later_field_of_the_configuration():
    assert ignored(release="1.27", settings=TIERED) == [(
        "memoryReservationPolicy",
        "kubelet.yaml:5",
        (
            "the kubelet of 1.27 does not know this field, which came with 1.36: it logs "
            '"Using lenient decoding as strict decoding failed" and ignores it'
        ),
    )]  # fmt: skip
    assert ignored(release="1.36", settings=TIERED) == []


@pytest.mark.parametrize(("field", "before", "since"), [
    ("registerNode", "1.22", "1.23"),
    ("topologyManagerPolicyOptions", "1.25", "1.26"),
    ("failCgroupV1", "1.30", "1.31"),
    ("singleProcessOOMKill", "1.31", "1.32"),
    ("userNamespaces", "1.32", "1.33"),
    ("tlsCurvePreferences", "1.35", "1.36"),
])  # fmt: skip
def test_the_first_release_with_a_field(field, before, since):
    settings = KubeletSettings(origin={field: "k.yaml:3"})
    assert [name for name, _, _ in ignored(release=before, settings=settings)] == [field]
    assert ignored(release=since, settings=settings) == []


@pytest.mark.parametrize(("one", "field", "before", "since"), [
    (pod(container(), resources=resources({"memory": "1Gi"})), "spec.resources of pod default/p", "1.31", "1.32"),
    (pod(container(), init_containers=(container(name="s", kind=ContainerKind.SIDECAR),)),
     "restartPolicy of container s of pod default/p", "1.27", "1.28"),
    (pod(container(resize_policy={"memory": ResizePolicy.RESTART_CONTAINER})),
     "resizePolicy of container c of pod default/p", "1.26", "1.27"),
])  # fmt: skip
def test_a_later_field_of_a_pod(one, field, before, since):
    [(name, _, what)] = ignored(one, release=before)
    assert name == field
    assert what == f"Kubernetes {before} does not know this field, which came with {since}: it is dropped"
    assert ignored(one, release=since) == []


@pytest.mark.parametrize(("limit", "told"), [(None, []), (-1, []), (1, []), (0, ["0"]), (-7, ["-7"])])
def test_a_meaningless_limit_of_pids(limit, told):
    settings = KubeletSettings(pod_pids_limit=limit, origin={"podPidsLimit": "k.yaml:3"})
    found = ignored(release="1.36", settings=settings)
    assert [(field, origin) for field, origin, _ in found] == [("podPidsLimit", "k.yaml:3")] * len(told)
    assert [what.partition(" ")[0] for _, _, what in found] == told


def test_an_impossible_numa_node_is_ignored_without_the_memory_manager():
    reserved = ((0, {}), (-1, {}))
    (told,) = ignored(release="1.36", settings=KubeletSettings(reserved_memory=reserved))
    assert told[0] == "reservedMemory"
    assert told[2].startswith("no machine has a NUMA node -1;")
    static = KubeletSettings(reserved_memory=reserved, memory_manager_policy="Static")
    with pytest.raises(ManifestError, match="there is no NUMA node -1 on this machine"):
        ignored(release="1.36", settings=static)
