"""Pods to resize, the plans of their resizes, and their steps."""

from memqos.engine.kubelet import Kubelet
from memqos.engine.resize import StepKind, resize_pods
from memqos.model.node import KubeletSettings
from memqos.model.pod import ResizePolicy
from tests.unit.engine.pods import NODE, container, pod

MI = 1 << 20
ON = KubeletSettings(feature_gates={"InPlacePodVerticalScaling": True}, fail_cgroup_v1=False)
RESTART = ResizePolicy.RESTART_CONTAINER


def one(name, cpu, memory, **more):
    """A container of (request, limit) pairs."""
    return container({"cpu": cpu[0], "memory": memory[0]}, {"cpu": cpu[1], "memory": memory[1]}, name=name, **more)


def planned(old, new, release="1.36", *, settings=ON, node=NODE, usage=None, **more):
    kubelet = Kubelet.of(node=node, settings=settings, release=release, **more)
    return resize_pods([old], [new], kubelet, usage=usage or {})


def told(plan):
    """(kind, resource, container) of every step, without the calls about the whole pod."""
    return [
        (step.kind.value, step.resource, step.container)
        for step in plan.resizes[0].steps if step.kind is not StepKind.UPDATE_SANDBOX
    ]  # fmt: skip


def wrote(step, *knobs):
    return {knob.value: str(step.knobs[knob].written) for knob in knobs if knob in step.knobs}


UPDATE, POD, SANDBOX = "UpdateContainerResources", "pod cgroup", "UpdatePodSandboxResources"
OLD = pod(one("a", ("100m", "200m"), ("64Mi", "128Mi")), one("b", ("100m", "200m"), ("64Mi", "128Mi")))
GROWN = pod(one("a", ("200m", "400m"), ("96Mi", "256Mi")), one("b", ("100m", "200m"), ("64Mi", "128Mi")))
