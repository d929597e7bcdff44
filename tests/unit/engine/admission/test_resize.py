"""A resize passes LimitRanger and ResourceQuota as a new pod does."""

from memqos.engine.resize import ResizeOutcome, resize_pods
from memqos.model.cluster import ClusterObjects
from tests.unit.engine.admission.pods import kubelet, limits, new
from tests.unit.engine.pods import container, pod


def sized(amount):
    return container({"memory": "64Mi"}, {"memory": amount})


def test_a_resize_beyond_a_limit_range_is_forbidden():
    cluster = ClusterObjects(limit_ranges=(limits(max={"memory": "1Gi"}),))
    (found,) = resize_pods([pod(sized("512Mi"))], [new(sized("2Gi"), cluster=cluster)], kubelet()).resizes
    assert (found.outcome, found.steps) == (ResizeOutcome.FORBIDDEN, ())
    assert found.message == 'pods "p" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi'
    (found,) = resize_pods([pod(sized("512Mi"))], [new(sized("1Gi"), cluster=cluster)], kubelet()).resizes
    assert found.outcome is ResizeOutcome.IN_PROGRESS
