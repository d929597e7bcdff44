"""Pods that no Linux node matches."""

import json

import pytest

from tests.manifests import pods_of


def excluded(**spec):
    document = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], **spec},
    }  # fmt: skip
    (pod,) = pods_of(json.dumps(document).encode(), "p.json")
    return pod.not_on_linux


def affinity(*terms):
    required = {"nodeSelectorTerms": [{"matchExpressions": list(term)} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def on(operator, *values, key="kubernetes.io/os"):
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize("label", ["kubernetes.io/os", "beta.kubernetes.io/os"])
def test_node_selectors(label):
    assert excluded(nodeSelector={label: "windows"}) == f"spec.nodeSelector {label}=windows"
    assert excluded(nodeSelector={label: "linux"}) == excluded(nodeSelector={"disk": "ssd"}) == excluded() == ""


@pytest.mark.parametrize(
    ("terms", "found"),
    [
        ([[on("In", "windows")]], "kubernetes.io/os In windows"),
        ([[on("NotIn", "linux")]], "kubernetes.io/os NotIn linux"),
        ([[on("DoesNotExist")]], "kubernetes.io/os DoesNotExist"),
        ([[on("Exists")]], ""),
        ([[on("In", "windows", "linux")]], ""),
        ([[on("In", "a", key="zone"), on("In", "windows")]], "kubernetes.io/os In windows"),
        ([[on("In", "windows")], [on("In", "a", key="zone")]], ""),
        ([], ""),
    ],
)
def test_required_affinity(terms, found):
    assert excluded(affinity=affinity(*terms)) == (f"spec.affinity.nodeAffinity {found}" if found else "")
