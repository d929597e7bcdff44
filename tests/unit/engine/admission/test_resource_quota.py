"""The plugin ResourceQuota. Rows: kubernetes pkg/quota/v1/evaluator/core `TestPodConstraintsFunc`, v1.36.2."""

import pytest

from memqos.model.cluster import ClusterObjects, QuotaScope
from memqos.model.pod import ContainerKind
from tests.unit.engine.admission.pods import admit, message, new, quota
from tests.unit.engine.pods import container, pod, resources

CPU = {"cpu": "1m"}, {"cpu": "2m"}


def beside(*quotas):
    return ClusterObjects(resource_quotas=quotas)


def named(*names, kind=ContainerKind.APP, given=CPU):
    return tuple(container(*given, name=name, kind=kind) for name in names)


@pytest.mark.parametrize(
    ("apps", "init", "hard", "said"),
    [
        ((), named("dummy", kind=ContainerKind.INIT), {"memory": "1Gi"}, "must specify memory for: dummy"),
        ((), named("foo", "bar", kind=ContainerKind.INIT), {"memory": "1Gi"}, "must specify memory for: bar,foo"),
        (named("dummy"), (), {"memory": "1Gi"}, "must specify memory for: dummy"),
        (named("foo", "bar"), (), {"memory": "1Gi"}, "must specify memory for: bar,foo"),
        (
            named("foo", "bar", given=()),
            (),
            {"memory": "1Gi", "cpu": "1"},
            "must specify cpu for: bar,foo; memory for: bar,foo",
        ),
        (named("c"), (), {"limits.memory": "1Gi", "pods": "9"}, "must specify limits.memory for: c"),
    ],
)
def test_resources_that_containers_must_name(apps, init, hard, said):
    full = () if apps else (container({"memory": "1", "cpu": "1"}, {"memory": "1"}, name="full"),)
    one = new(*(apps or full), init_containers=init, cluster=beside(quota(hard)))
    assert message(one) == f'pods "p" is forbidden: failed quota: q: {said}'


def test_pod_level_resources_are_enough():
    own = resources({"cpu": "1m"})
    one = new(*named("foo", given=()), resources=own, cluster=beside(quota({"memory": "1Gi", "cpu": "1"})))
    assert admit(one, release="1.34").pods
    assert "must specify" in message(one, release="1.33")


def scoped(name, operator="Exists", *values):
    return beside(quota({"memory": "1Gi"}, scopes=(QuotaScope(name, operator, values),)))


@pytest.mark.parametrize(
    ("objects", "more", "counts"),
    [
        (scoped("BestEffort"), {}, True),
        (scoped("NotBestEffort"), {}, False),
        (scoped("Terminating"), {}, False),
        (scoped("Terminating"), {"has_deadline": True}, True),
        (scoped("NotTerminating"), {}, True),
        (scoped("PriorityClass"), {}, False),
        (scoped("PriorityClass"), {"priority_class_name": "system-node-critical"}, True),
        (scoped("PriorityClass", "DoesNotExist"), {}, True),
        (
            scoped("PriorityClass", "In", "a", "system-node-critical"),
            {"priority_class_name": "system-node-critical"},
            True,
        ),
        (scoped("PriorityClass", "NotIn", "a"), {}, True),
        (scoped("CrossNamespacePodAffinity"), {}, False),
        (scoped("VolumeAttributesClass"), {}, False),
    ],
)
def test_scopes(objects, more, counts):
    assert bool(admit(new(cluster=objects, **more)).refusals) is counts


def test_pods_beyond_the_quota_are_refused_in_their_order():
    objects = beside(
        quota({"limits.memory": "2Gi", "pods": "9", "requests.example.com/x": "1"}, {"limits.memory": "512Mi"})
    )
    full = container(
        {"memory": "1Gi", "hugepages-2Mi": "2Mi", "example.com/x": "0"}, {"memory": "1Gi", "hugepages-2Mi": "2Mi"}
    )
    outcome = admit(new(full, name="a", cluster=objects), new(full, name="b", cluster=objects))
    assert [one.name for one in outcome.pods] == ["a"]
    assert outcome.refusals[0].message == (
        'pods "b" is forbidden: exceeded quota: q, requested: limits.memory=1Gi, used: limits.memory=1536Mi, '
        "limited: limits.memory=2Gi"
    )
    assert outcome.remarks == ()


def test_a_counted_pod_is_not_counted_again():
    full = container({"memory": "1Gi"}, {"memory": "1Gi"})
    known = beside(quota({"limits.memory": "1Gi"}, {"limits.memory": "1Gi"}))
    assert admit(new(full, cluster=known, counted=True)).pods
    assert admit(new(full, cluster=known)).refusals


def test_without_a_status_only_the_given_pods_count():
    full = container({"memory": "1Gi"}, {"memory": "1Gi"})
    objects = beside(quota({"limits.memory": "1Gi"}))
    outcome = admit(new(full, cluster=objects))
    assert [one.what for one in outcome.remarks] == [
        "it has no status.used: the usage of pods that are not given does not count"
    ]
    assert admit(new(full, name="a", cluster=objects), new(full, name="b", cluster=objects)).refusals


def test_an_affinity_scope_is_named():
    (remark,) = admit(new(cluster=scoped("CrossNamespacePodAffinity"))).remarks
    assert "its scope CrossNamespacePodAffinity is not evaluated" in remark.what


def test_a_stored_pod_is_counted_if_the_usage_is_unknown():
    full = container({"memory": "1Gi"}, {"memory": "1Gi"})
    stored = pod(full, name="stored")
    objects = beside(quota({"limits.memory": "1Gi"}), quota({"limits.memory": "9Gi"}, {}, name="known"))
    assert admit(stored, new(full, cluster=objects)).refusals
    assert admit(pod(full, name="other", namespace="shop"), new(full, cluster=objects)).refusals == ()
