"""Builders of new pods, and an API server that admits them."""

from memqos.engine.admission.entry import admitted
from memqos.engine.kubelet import Kubelet
from memqos.model.cluster import ClusterObjects, LimitRange, LimitRangeItem, LimitType, ResourceQuota
from memqos.model.node import KubeletSettings
from memqos.model.pod import Submission
from tests.unit.engine.pods import NODE, amounts, pod


def kubelet(release="1.36", **gates):
    return Kubelet.of(node=NODE, release=release, settings=KubeletSettings(feature_gates=gates))


def new(*containers, cluster=None, name="p", **more):
    """A pod that the API server has not stored yet, with these objects."""
    submission = {key: more.pop(key) for key in ("preemption_policy", "has_deadline", "counted") if key in more}
    return pod(*containers, name=name, submission=Submission(cluster=cluster or ClusterObjects(), **submission), **more)


def limits(kind="Container", *, name="lr", namespace="default", **fields):
    """A LimitRange of one item; fields as in the model, amounts as text."""
    item = LimitRangeItem(type=LimitType(kind), **{field: amounts(given) for field, given in fields.items()})
    return LimitRange(name=name, namespace=namespace, limits=(item,))


def quota(hard, used=None, *, name="q", scopes=()):
    known = None if used is None else amounts(used)
    return ResourceQuota(
        name=name, namespace="default", hard=amounts(hard), used=known, scopes=scopes, origin="q.yaml:4"
    )


def admit(*pods, release="1.36", **gates):
    return admitted(pods, kubelet(release, **gates))


def message(*pods, **more):
    """The API server's message about the only refused pod."""
    (refusal,) = admit(*pods, **more).refusals
    return refusal.message
