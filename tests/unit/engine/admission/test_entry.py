"""The whole API server: the pods that it admits, and the order of its plugins."""

from dataclasses import replace

from memqos.engine.answer.document import plan_document
from memqos.engine.answer.explain import plan_tree
from memqos.engine.expect import expect
from memqos.model.cluster import NO_OBJECTS, ClusterObjects, Namespace, VerticalPodAutoscaler
from memqos.model.pod import ContainerKind, Controller
from tests.unit.engine.admission.pods import admit, kubelet, limits, message, new, quota
from tests.unit.engine.pods import container, pod, resources

LIMITED = ClusterObjects(limit_ranges=(limits(default={"memory": "512Mi"}, default_request={"memory": "256Mi"}),))


def test_stored_and_static_pods_do_not_change():
    stored, static = pod(), replace(new(cluster=LIMITED, name="s"), static=True)
    assert admit(stored).pods == (stored,)
    outcome = admit(stored, static, new(cluster=LIMITED, name="n"))
    assert outcome.pods[:2] == (stored, static)
    assert outcome.pods[2].containers[0].resources == resources({"memory": "256Mi"}, {"memory": "512Mi"})


def test_a_terminating_namespace_accepts_no_pods():
    ending = ClusterObjects(namespaces=(Namespace(name="other", terminating=True), Namespace(name="default")))
    assert admit(new(cluster=ending)).pods
    assert message(new(cluster=ending, namespace="other")) == (
        'pods "p" is forbidden: unable to create new content in namespace other because it is being terminated'
    )


def test_a_pod_is_admitted_once():
    (once,) = admit(new(cluster=LIMITED)).pods
    assert admit(once).pods == (once,)


def test_quotas_see_what_limit_ranges_added():
    objects = replace(LIMITED, resource_quotas=(quota({"limits.memory": "1Gi"}, {}),))
    assert admit(new(cluster=objects)).pods
    assert "must specify" in message(new(cluster=replace(objects, limit_ranges=())))


def test_the_plan_names_the_refusing_plugin():
    plan = expect([new(priority_class_name="none"), new(name="ok")], kubelet())
    assert [one.name for one in plan.pods] == ["ok"]
    assert plan_document(plan)["refusals"][0]["by"] == "API server"
    assert "pod default/p is refused by the API server: Forbidden: pods" in plan_tree(plan)


def test_huge_pages_need_cpu_or_memory():
    """Source: pkg/apis/core/validation `validateResourceRequirements`, after LimitRanges have added their defaults."""
    huge = {"hugepages-2Mi": "2Mi"}
    alone, ok = container(huge, huge, name="h"), container({"cpu": "1m"}, huge, name="c")
    assert message(new(ok, alone, cluster=NO_OBJECTS)) == (
        'Pod "p" is invalid: spec.containers[1].resources: Forbidden: HugePages require cpu or memory'
    )
    assert "initContainers[0]" in message(new(ok, init_containers=(alone,), cluster=NO_OBJECTS))
    assert admit(new(alone, cluster=LIMITED)).pods
    assert admit(new(ok, cluster=NO_OBJECTS)).pods
    assert admit(new(alone, resources=resources({"memory": "1Gi"}), cluster=NO_OBJECTS)).pods


def test_ephemeral_containers_come_later():
    debug = container(name="e", kind=ContainerKind.EPHEMERAL)
    (remark,) = admit(new(ephemeral_containers=(debug,), file="p.yaml")).remarks
    assert (remark.about, remark.origin) == ("pod default/p", "p.yaml")


def test_an_autoscaler_is_a_remark_once():
    one = VerticalPodAutoscaler(name="v", namespace="default", kind="Deployment", target="web", origin="v.yaml:4")
    other = replace(one, name="w", target="db")
    objects = ClusterObjects(autoscalers=(one, other))
    pods = [new(cluster=objects, name=name, controller=Controller("Deployment", "web")) for name in ("a", "b")]
    (remark,) = admit(*pods).remarks
    assert remark.about == "VerticalPodAutoscaler default/v"
    applied = replace(objects, recommendations=True)
    # There is nothing to apply, but the remark is needed.
    assert admit(new(cluster=applied, controller=Controller("Deployment", "web"))).remarks == (remark,)
