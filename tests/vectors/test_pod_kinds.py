"""Upstream's tables of static and critical pods (kubelet 1.36.3, `types.pod_update_test`), by manifest."""

import json
from dataclasses import replace

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.model.node import NodeFacts
from memqos.model.pod import ContainerKind
from tests.manifests import pods_of
from tests.vectors.tables import pod, table

TABLES = table("kubelet_pod_update.v1.36.3")["tables"]
MIRROR = '{"$sel": "v1.MirrorPodAnnotationKey"}'


def each(name):
    return pytest.mark.parametrize("row", TABLES[name], ids=lambda row: row["name"])


def made_of(row):
    """The pod of a row: getTestPod(annotations, priority, priority class)."""
    annotations, priority, priority_class = row["pod"]["args"]
    named = {
        "kubernetes.io/config.mirror" if name == MIRROR else name: one for name, one in (annotations or {}).items()
    }
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"memory": "1Gi"}}}]}
    if priority is not None:
        spec["priority"] = priority
    if priority_class:
        spec["priorityClassName"] = priority_class
    meta = {"name": "p", "annotations": named}
    (found,) = pods_of(
        json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}).encode(), "p.json"
    )
    return found


@each("TestIsStaticPod")
def test_static(row):
    assert made_of(row).static is row["expected"]


@each("TestIsMirrorPod")
def test_a_mirror_is_the_static_pods_own(row):
    assert made_of(row).static is row["expected"]


@each("TestIsCriticalPod")
def test_critical(row):
    assert made_of(row).is_critical is row["expected"]


@each("TestIsNodeCriticalPod")
def test_node_critical_pods_are_killed_last(row):
    # A quarter of the memory of the machine makes 750; a node critical pod gets -997.
    # The kubelet sees stored pods: they passed admission, which accepts no pod with only a priority.
    stored = replace(made_of(row), submission=None)
    plan = expect([stored], Kubelet.of(node=NodeFacts(memory=4 << 30), release="1.36"))
    assert plan.pods[0].containers[0].oom_score_adj == (-997 if row["expected"] else 750)


@each("TestHasRestartableInitContainer")
def test_sidecars(row):
    found = pod(row["pod"]).init_containers
    assert any(one.kind is ContainerKind.SIDECAR for one in found) is row["expected"]
