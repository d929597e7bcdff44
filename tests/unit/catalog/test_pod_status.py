"""`status` of a Pod, as an API server prints it (core/v1 PodStatus)."""

import json

import pytest

from memqos.errors import ManifestError
from memqos.model.pod import ContainerState
from memqos.model.quantity import Quantity
from tests.manifests import pods_of


def pod_of(status=None, **meta):
    """The pod of a manifest with this status."""
    spec = {"nodeName": "n", "restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "x"}]}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **meta}, "spec": spec}
    if status is not None:
        document["status"] = status
    [pod] = pods_of(json.dumps(document, indent=1).encode(), "p.json")
    return pod


FULL = {
    "phase": "Running",
    "reason": "x",
    "resize": "InProgress",
    "observedGeneration": 3,
    "conditions": [
        {"type": "Ready", "status": "True"},
        {"type": "PodResizePending", "status": "True", "reason": "Deferred", "observedGeneration": 4},
        {
            "type": "PodResizeInProgress", "status": "True", "lastTransitionTime": "2026-06-01T00:00:00Z",
            "message": "cannot decrease memory limits",
        },
    ],
    "allocatedResources": {"memory": "1Gi"},
    "resources": {"limits": {"memory": "2Gi"}},
    "initContainerStatuses": [
        {"name": "i", "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "resources": None},
    ],
    "containerStatuses": [
        {
            "name": "c", "state": {"running": {"startedAt": "2026-06-02T00:00:00Z"}},
            "allocatedResources": {"cpu": "100m", "memory": "1Gi"},
            "resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "512Mi"}},
        },
    ],
    "ephemeralContainerStatuses": [{"name": "e", "state": {"terminated": {"reason": "OOMKilled"}}}],
}  # fmt: skip


def test_all_of_it():
    pod = pod_of(FULL, generation=5, deletionTimestamp="2026-06-03T00:00:00Z")
    assert (pod.phase, pod.generation, pod.deleted, pod.restart_policy) == ("Running", 5, True, "OnFailure")
    status = pod.status
    assert (status.reason, status.resize, status.pending, status.in_progress) == ("x", "InProgress", "Deferred", True)
    assert (status.since, status.error) == ("2026-06-01T00:00:00Z", "cannot decrease memory limits")
    assert (status.observed_generation, status.pending_generation) == (3, 4)
    assert status.allocated == {"memory": Quantity.parse("1Gi")}
    assert status.resources.limits == {"memory": Quantity.parse("2Gi")}
    assert list(status.containers) == ["i", "c", "e"]
    init, app, ephemeral = status.containers.values()
    assert (init.state, init.reason, init.restarts) == (ContainerState.WAITING, "CrashLoopBackOff", 2)
    assert (init.allocated, init.resources) == (None, None)
    assert (app.state, app.started) == (ContainerState.RUNNING, "2026-06-02T00:00:00Z")
    assert app.allocated == {"cpu": Quantity.parse("100m"), "memory": Quantity.parse("1Gi")}
    assert app.resources.limits["memory"] == Quantity.parse("512Mi")
    assert app.origin["allocated.memory"].startswith("p.json:")
    assert (ephemeral.state, ephemeral.reason) == (ContainerState.TERMINATED, "OOMKilled")


@pytest.mark.parametrize("status", [None, {}, [], "x"])
def test_no_status(status):
    pod = pod_of(status)
    assert (pod.status, pod.phase, pod.generation, pod.deleted) == (None, "", None, False)


def test_conditions_that_are_not_true_are_ignored():
    conditions = [
        {"type": "PodResizePending", "status": "False", "reason": "Deferred"},
        {"type": "PodResizeInProgress", "status": "Unknown"},
        "x",
    ]
    status = pod_of({"conditions": conditions, "containerStatuses": [{"name": "c"}]}).status
    assert (status.pending, status.in_progress, status.since) == ("", False, "")
    assert status.containers["c"].state is None
    pending = pod_of({"conditions": [{"type": "PodResizePending", "status": "True"}]}).status
    assert pending.pending == "Pending"


def test_an_invalid_amount_is_refused_with_its_place():
    with pytest.raises(ManifestError) as caught:
        pod_of({"containerStatuses": [{"name": "c", "allocatedResources": {"memory": "much"}}]})
    assert "status.containerStatuses[0].allocatedResources.memory" in str(caught.value)


# The mirror of a static pod has another uid in the API server; its cgroup has the uid of the static pod.
@pytest.mark.parametrize(("mirror", "uid"), [
    ("0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"), ("../x", "u-1"),
])  # fmt: skip
def test_a_mirror_has_the_uid_of_its_static_pod(mirror, uid):
    annotations = {"kubernetes.io/config.mirror": mirror, "kubernetes.io/config.source": "file"}
    pod = pod_of({"phase": "Running"}, uid="u-1", annotations=annotations)
    assert (pod.uid, pod.static) == (uid, True)
