"""Objects for admission: their values with places, and the API server's errors."""

import textwrap

import pytest

from memqos.catalog.pods import load_manifests
from memqos.errors import ManifestError
from memqos.model.cluster import LimitType, QuotaScope, UpdateMode
from tests.unit.engine.pods import amounts

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n"


@pytest.fixture
def beside(tmp_path):
    def load(text, **more):
        path = tmp_path / "all.yaml"
        path.write_text(f"{textwrap.dedent(text)}---\n{POD}")
        return load_manifests([path], **more).cluster

    return load


def test_a_limit_range_has_its_own_defaults(beside, tmp_path):
    (found,) = beside("""\
        apiVersion: v1
        kind: LimitRange
        metadata: {name: lr, namespace: team}
        spec:
          limits:
          - type: Container
            max: {memory: 1Gi, cpu: "2"}
            min: {memory: 1Mi, ephemeral-storage: 5Mi}
            default: {memory: 512Mi}
          - type: Pod
            max: {memory: 4Gi}
          - type: PersistentVolumeClaim
            min: {storage: 1Gi}
        """).limit_ranges
    container, pod = found.limits
    assert (found.name, found.namespace, container.type, pod.type) == ("lr", "team", LimitType.CONTAINER, LimitType.POD)
    assert container.default == amounts({"memory": "512Mi", "cpu": "2"})
    assert container.default_request == amounts({"memory": "512Mi", "cpu": "2", "ephemeral-storage": "5Mi"})
    assert container.origin["defaultRequest.cpu"] == container.origin["max.cpu"] == f"{tmp_path}/all.yaml:7"
    assert (pod.default, pod.default_request, pod.max) == ({}, {}, amounts({"memory": "4Gi"}))


def limit_range(item):
    return f"apiVersion: v1\nkind: LimitRange\nmetadata: {{name: lr}}\nspec: {{limits: [{item}]}}\n"


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("{type: Pot}", "spec.limits[0].type: 'Pot' is not one of Container, Pod, PersistentVolumeClaim."),
        ("{max: {cpu: 1}}", "spec.limits[0].type: type is not set."),
        ("{type: Pod}, {type: Pod}", "spec.limits[1].type: another item has the type Pod."),
        ("{type: Pod, default: {cpu: 1}}", "spec.limits[0].default: may not be specified when `type` is 'Pod'."),
        ("{type: Container, min: {cpu: 2}, max: {cpu: 1}}", "min value 2 is greater than max value 1."),
        ("{type: Container, default: {cpu: 2}, max: {cpu: 1}}", "default value 2 is greater than max value 1."),
        (
            "{type: Container, default: {cpu: 1}, defaultRequest: {cpu: 2}}",
            "defaultRequest value 2 is greater than default value 1.",
        ),
        ("{type: Container, min: {cpu: 2}, default: {cpu: 1}}", "min value 2 is greater than default value 1."),
        ("{type: Pod, maxLimitRequestRatio: {cpu: 0.5}}", "ratio 0.5 is less than 1."),
        (
            "{type: Pod, min: {cpu: 1}, max: {cpu: 2}, maxLimitRequestRatio: {cpu: 3}}",
            "ratio 3 is greater than max/min = 2.000000.",
        ),
        ("{type: Pod, mox: {cpu: 1}}", "unknown field 'mox'. Did you mean 'max'?"),
        ("{type: Pod, max: {memori: 1}}", "'memori' is not a resource of containers. Did you mean 'memory'?"),
    ],
)
def test_invalid_limit_ranges(beside, tmp_path, item, said):
    with pytest.raises(ManifestError) as raised:
        beside(limit_range(item))
    assert str(raised.value).startswith(f"{tmp_path}/all.yaml:4: spec.limits[")
    assert said in str(raised.value)


def priority_class(name, value, more=""):
    head = f"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\n"
    return f"{head}{f'value: {value}' if value is not None else ''}\n{more}\n"


def test_priority_classes(beside, tmp_path):
    text = priority_class("high", 1000, "globalDefault: true\npreemptionPolicy: Never")
    one, system = beside(f"{text}---\n{priority_class('system-node-critical', 2000001000)}").priority_classes
    assert (one.value, one.global_default, one.preemption_policy) == (1000, True, "Never")
    assert one.origin == f"{tmp_path}/all.yaml:4 (PriorityClass high)"
    assert (system.value, system.global_default) == (2000001000, False)


@pytest.mark.parametrize(
    ("name", "value", "more", "said"),
    [
        ("high", None, "", "a PriorityClass needs a value."),
        ("high", 1000000001, "", "the maximum allowed value of a user defined priority is 1000000000."),
        ("system-mine", 5, "", "priority class names with 'system-' prefix are reserved for system use only."),
        ("system-node-critical", 5, "", "'system-' prefix are reserved"),
        ("high", 5, "preemptionPolicy: Sometimes", "'Sometimes' is not one of PreemptLowerPriority, Never."),
    ],
)
def test_invalid_priority_classes(beside, name, value, more, said):
    with pytest.raises(ManifestError) as raised:
        beside(priority_class(name, value, more))
    assert said in str(raised.value)


def test_runtime_classes(beside):
    head = "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: kata}\n"
    text = f"{head}handler: kata-fc\noverhead: {{podFixed: {{memory: 120Mi}}}}\n"
    scheduling = "scheduling: {nodeSelector: {kubernetes.io/os: windows}}\n"
    (found,) = beside(text + scheduling).runtime_classes
    assert (found.handler, found.overhead) == ("kata-fc", amounts({"memory": "120Mi"}))
    assert found.not_on_linux == "scheduling.nodeSelector kubernetes.io/os=windows"
    (bare,) = beside(f"{head}handler: runc\n").runtime_classes
    assert (bare.overhead, bare.not_on_linux) == (None, "")
    with pytest.raises(ManifestError, match="a RuntimeClass needs a handler"):
        beside(head)


def test_resource_quotas(beside):
    (found,) = beside("""\
        apiVersion: v1
        kind: ResourceQuota
        metadata: {name: q}
        spec:
          hard: {requests.memory: 1Gi, pods: 4}
          scopes: [NotBestEffort]
          scopeSelector:
            matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]
        status: {hard: {requests.memory: 2Gi}, used: {requests.memory: 1Mi}}
        """).resource_quotas
    assert (found.hard, found.used) == (amounts({"requests.memory": "2Gi"}), amounts({"requests.memory": "1Mi"}))
    assert found.scopes == (QuotaScope("NotBestEffort"), QuotaScope("PriorityClass", "In", ("high",)))
    with pytest.raises(ManifestError, match="'Best' is not one of Terminating"):
        beside("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {scopes: [Best]}\n")
    with pytest.raises(ManifestError, match="must not be negative"):
        beside("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {cpu: -1}}\n")


@pytest.mark.parametrize("more", ["status: {phase: Terminating}", "spec: {}"])
def test_namespaces(beside, more):
    (found,) = beside(f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: team}}\n{more}\n").namespaces
    assert (found.name, found.terminating) == ("team", more.startswith("status"))


VPA = """\
    apiVersion: autoscaling.k8s.io/v1
    kind: VerticalPodAutoscaler
    metadata: {name: v}
    spec:
      targetRef: {kind: Deployment, name: web}
      updatePolicy: {updateMode: InPlaceOrRecreate}
      resourcePolicy:
        containerPolicies:
        - {containerName: c, mode: "Off", minAllowed: {memory: 1Mi}, controlledValues: RequestsOnly, startupBoost: {}}
    status: {recommendation: {containerRecommendations: [{containerName: c, target: {memory: 2Mi}}]}}
    """


def test_autoscalers(beside, tmp_path):
    (found,) = beside(VPA).autoscalers
    assert (found.kind, found.target, found.update_mode) == ("Deployment", "web", UpdateMode.IN_PLACE_OR_RECREATE)
    policy = found.policy("c")
    assert (policy.off, policy.controls_limits, policy.min_allowed) == (True, False, amounts({"memory": "1Mi"}))
    assert (found.policy("d"), found.boosts) == (None, True)
    (recommendation,) = found.recommendations
    assert recommendation.target == amounts({"memory": "2Mi"})
    assert recommendation.origin == {"memory": f"{tmp_path}/all.yaml:10"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kind: Deployment, ", "", "targetRef needs a kind and a name."),
        ("InPlaceOrRecreate", "Now", "'Now' is not one of Off, Initial"),
        ("RequestsOnly", "Limits", "'Limits' is not one of RequestsAndLimits, RequestsOnly."),
    ],
)
def test_invalid_autoscalers(beside, old, new, said):
    with pytest.raises(ManifestError) as raised:
        beside(VPA.replace(old, new))
    assert said in str(raised.value)


def test_an_object_may_be_given_twice_if_it_is_the_same(beside):
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"
    assert len(beside(f"{namespace}---\n{namespace}").namespaces) == 1
    with pytest.raises(ManifestError, match="another PriorityClass high is already defined in"):
        beside(f"{priority_class('high', 1)}---\n{priority_class('high', 2)}")


def test_namespace_of_objects_without_one(beside):
    (found,) = beside(limit_range("{type: Pod}"), namespace="team").limit_ranges
    assert found.namespace == "team"
    assert beside(priority_class("high", 1), namespace="team").priority_classes[0].name == "high"
