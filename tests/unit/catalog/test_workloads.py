"""Pods from the templates of objects."""

import io
import json
import textwrap

import pytest

from memqos.catalog.manifests import Manifest, PassedOver, manifests_in
from memqos.catalog.workloads import Replicas
from memqos.errors import ManifestError
from memqos.model.pod import Controller
from tests.manifests import pods_of

TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": "64Mi"}}}]},
}
ONCE = {"metadata": {}, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
SELECTOR = {"matchLabels": {"app": "web"}}
VERSIONS = {"Job": "batch/v1", "CronJob": "batch/v1", "PodTemplate": "v1", "ReplicationController": "v1"}


def workload(kind, name="web", namespace=None, **spec):
    """An object of this kind with these fields in addition to the required ones."""
    template = ONCE if kind in {"Job", "CronJob"} else TEMPLATE
    body = {"template": template, **spec}
    if kind in {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"}:
        body = {"selector": SELECTOR, **body}
    whole = {"spec": {"jobTemplate": {"spec": body}, "schedule": "@daily"}} if kind == "CronJob" else {"spec": body}
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": VERSIONS.get(kind, "apps/v1"), "kind": kind, "metadata": meta} | (
        body if kind == "PodTemplate" else whole
    )


def read(document, replicas=None, *, strict=True):
    stream = io.BytesIO(json.dumps(document, indent=1).encode())
    return list(manifests_in(stream, "w.json", replicas or Replicas(), strict=strict))


def names(document, replicas=None):
    return [pod.name for one in read(document, replicas) for pod in one.pods]


@pytest.mark.parametrize(("document", "pods"), [
    (workload("Deployment"), ["web-1"]),
    (workload("Deployment", replicas=3), ["web-1", "web-2", "web-3"]),
    (workload("Deployment", replicas=0), []),
    (workload("ReplicaSet", replicas=2), ["web-1", "web-2"]),
    (workload("ReplicationController", replicas=2), ["web-1", "web-2"]),
    (workload("StatefulSet", replicas=2), ["web-0", "web-1"]),
    (workload("StatefulSet", replicas=2, ordinals={"start": 5}), ["web-5", "web-6"]),
    (workload("DaemonSet"), ["web-1"]),
    (workload("PodTemplate"), ["web-1"]),
    (workload("Job"), ["web-1"]),
    (workload("Job", parallelism=3), ["web-1", "web-2", "web-3"]),
    (workload("Job", parallelism=3, completions=2), ["web-1", "web-2"]),
    (workload("Job", completions=9), ["web-1"]),
    (workload("CronJob", parallelism=2), ["web-1", "web-2"]),
])  # fmt: skip
def test_each_kind_has_the_pods_of_one_node(document, pods):
    assert names(document) == pods


def test_the_fields_of_an_invented_pod():
    (one,) = read(workload("Deployment", namespace="team", replicas=2))
    first, second = one.pods
    assert (first.namespace, first.controller) == ("team", Controller("Deployment", "web"))
    assert first.containers is second.containers
    assert first.containers[0].resources.limits["memory"].value == 64 << 20
    assert first.uid != second.uid
    assert [pod.uid for pod in read(workload("Deployment", namespace="team", replicas=2))[0].pods] == [
        first.uid, second.uid
    ]  # fmt: skip
    line = json.dumps(workload("Deployment", namespace="team", replicas=2), indent=1).splitlines()
    number = next(index for index, text in enumerate(line, 1) if '"memory"' in text)
    assert first.containers[0].origin["limits.memory"] == f"w.json:{number}"


@pytest.mark.parametrize(("replicas", "pods"), [
    (Replicas(every=2), ["web-1", "web-2"]),
    (Replicas(every=2, named={("default", "web"): 1}), ["web-1"]),
    (Replicas(named={("default", "other"): 1}), ["web-1", "web-2", "web-3"]),
])  # fmt: skip
def test_given_replicas_win(replicas, pods):
    assert names(workload("Deployment", replicas=3), replicas) == pods


@pytest.mark.parametrize("kind", ["DaemonSet", "Job", "CronJob", "PodTemplate"])
def test_replicas_of_kinds_without_them_are_ignored(kind):
    assert names(workload(kind), Replicas(every=5)) == ["web-1"]


def test_a_long_name_is_cut_before_its_number():
    (name,) = names(workload("Deployment", name="w" * 251 + ".x"))
    assert name == "w" * 251 + "-1"


def test_other_objects_are_skipped():
    parts = read({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": 1}},
        {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress"},
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {}},
        workload("Job"),
    ]})  # fmt: skip
    assert parts[:3] == [PassedOver("ConfigMap"), PassedOver("Ingress"), PassedOver("Job of batch.volcano.sh/v1alpha1")]
    assert [pod.name for pod in parts[3].pods] == ["web-1"]


@pytest.mark.parametrize("kind_first", [True, False])
def test_a_list_of_one_kind(kind_first):
    bare = {name: value for name, value in workload("Deployment").items() if name in {"metadata", "spec"}}
    head = {"kind": "DeploymentList", "apiVersion": "apps/v1"}
    if kind_first:
        assert names({**head, "items": [bare]}) == ["web-1"]
    else:
        assert names({"items": [{**head, "kind": "Deployment", **bare}], **head}) == ["web-1"]


def test_lists_in_lists_and_empty_lists():
    inner = {"apiVersion": "v1", "kind": "List", "items": [workload("Job")]}
    assert names({"apiVersion": "v1", "kind": "List", "items": [inner]}) == ["web-1"]
    assert read({"apiVersion": "v1", "kind": "List", "items": None}) == []
    assert read({"kind": "ServiceList", "apiVersion": "v1", "items": [{"metadata": {}}]}) == [PassedOver("Service")]
    assert read({"kind": "Widget", "apiVersion": "x/v1", "items": [7]}) == [PassedOver("Widget")]


@pytest.mark.parametrize(
    "document", [{"a": 1}, [1], {"items": [{"a": 1}]}, {"items": [3]}, {"kind": "Config"}, {"kind": 7, "apiVersion": 1}]
)
def test_a_document_in_a_folder_need_not_be_an_object(document):
    assert read(document, strict=False) == [PassedOver("")]
    with pytest.raises(ManifestError):
        read(document)


def without(document, *path):
    """The document without one field."""
    *above, last = path
    changed = json.loads(json.dumps(document))
    place = changed
    for name in above:
        place = place[name]
    del place[last]
    return changed


def within(template_change, kind="Deployment"):
    document = json.loads(json.dumps(workload(kind)))
    template_change(document["spec"]["template"])
    return document


@pytest.mark.parametrize(("document", "where", "says"), [
    (without(workload("Deployment"), "spec"), "spec", "a Deployment needs spec."),
    (without(workload("Deployment"), "spec", "template"), "spec.template", "needs a template of its pods."),
    (without(workload("CronJob"), "spec", "jobTemplate"), "spec.jobTemplate", "a CronJob needs jobTemplate."),
    (without(workload("Job"), "metadata", "name"), "metadata.name", "a Job needs a name."),
    (workload("Deployment", selector={}), "spec.selector", "must not be empty"),
    (without(workload("DaemonSet"), "spec", "selector"), "spec.selector", "a selector is needed"),
    (workload("Deployment", selector={"matchLabels": {"app": "api"}}), "spec.template.metadata.labels", "app=api."),
    (workload("Deployment", selector={"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}),
     "spec.template.metadata.labels", "app NotIn web."),
    (workload("Deployment", selector={"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}),
     "spec.template.metadata.labels", "app DoesNotExist."),
    (workload("Deployment", replicas=-1), "spec.replicas", "-1 is negative."),
    (workload("Job", parallelism=-1), "spec.parallelism", "-1 is negative."),
    (workload("StatefulSet", ordinals={"start": 2**63}), "spec.ordinals.start", "5808 is not a number that"),
    (workload("Deployment", replicas=2_000_000_000), "spec.replicas", "--replicas"),
    (workload("Job", parallelism=10_001, completions=20_000), "spec.parallelism", "(10000)"),
    (workload("Deployment", replica=1), "spec.replica", "Did you mean 'replicas'?"),
    (within(lambda one: one["spec"].update(restartPolicy="Never")), "spec.template.spec.restartPolicy", "Deployment"),
    (within(lambda one: one["spec"].pop("restartPolicy"), "Job"), "spec.template.spec.restartPolicy",
     "'Always' is not a restart policy of a Job's pods: OnFailure or Never."),
    (within(lambda one: one.pop("spec")), "spec.template.spec", "a Pod needs spec."),
    (within(lambda one: one["spec"].update(ephemeralContainers=[{"name": "e"}])),
     "spec.template.spec.ephemeralContainers", "no ephemeral containers"),
    (within(lambda one: one["spec"].update(containers=[])), "spec.template.spec.containers", "at least one"),
    (within(lambda one: one["spec"]["containers"][0]["resources"]["limits"].update(memory="much")),
     "spec.template.spec.containers[0].resources.limits.memory", "'much'"),
    (workload("CronJob", template={"spec": {"restartPolicy": "Never", "containers": [{"name": "C"}]}}),
     "spec.jobTemplate.spec.template.spec.containers[0].name", "'C' is not a name"),
    (without(workload("PodTemplate"), "template"), "template", "a PodTemplate needs a template"),
    ({**workload("Deployment"), "apiVersion": "extensions/v1beta1"}, "kind", "API version of a Deployment is apps/v1"),
    ({**workload("Deployment"), "kind": "Deploy"}, "kind", "Did you mean 'Deployment'?"),
])  # fmt: skip
def test_objects_that_the_api_server_refuses(document, where, says):
    with pytest.raises(ManifestError) as caught:
        read(document)
    assert caught.value.data["field"] == where
    assert says in str(caught.value)


@pytest.mark.parametrize("expressions", [
    [{"key": "app", "operator": "In", "values": ["api", "web"]}, {"key": "app", "operator": "Exists"}],
    [{"key": "tier", "operator": "DoesNotExist"}, {"key": "tier", "operator": "NotIn", "values": ["x"]}],
])  # fmt: skip
def test_a_selector_of_expressions(expressions):
    assert names(workload("Deployment", selector={"matchExpressions": expressions})) == ["web-1"]


def test_several_documents_and_comments():
    text = """\
        # what kustomize prints
        apiVersion: v1
        kind: Namespace
        metadata: {name: once}
        ---
        ---
        apiVersion: batch/v1
        kind: Job
        metadata: {generateName: once-}
        spec: {template: {spec: {restartPolicy: OnFailure, containers: [{name: c}]}}}
        """
    assert [pod.name for pod in pods_of(textwrap.dedent(text).encode(), "w.yaml")] == ["once-00000-1"]


def test_the_controller_of_an_object():
    document = workload("ReplicaSet")
    document["metadata"]["ownerReferences"] = [
        {"kind": "Node", "name": "n"},
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": True},
    ]
    (one,) = read(document)
    assert isinstance(one, Manifest)
    assert str(one.owner) == "Deployment default/web"
