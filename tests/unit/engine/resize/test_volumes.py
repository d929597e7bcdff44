"""Memory-backed volumes whose size differs in a resize (KEP-6030): named, and not modelled."""

from dataclasses import replace

import pytest

from memqos.engine.kubelet import Kubelet
from memqos.engine.resize import ResizeOutcome, resize_pods
from memqos.engine.resize.outcome import resize_document, resize_text
from memqos.model.node import KubeletSettings
from memqos.model.quantity import Quantity
from tests.unit.engine.pods import NODE, container, pod

GATE = "InPlacePodVerticalScalingMemoryBackedVolumes"


def sized(limit="128Mi", **volumes):
    """A pod with this memory limit and volumes; None for a volume without a sizeLimit."""
    sizes = {name: None if size is None else Quantity.parse(size) for name, size in volumes.items()}
    return replace(pod(container({"memory": "64Mi"}, {"memory": limit})), memory_volumes=sizes)


def planned(old, new, release="1.37", **gates):
    settings = KubeletSettings(feature_gates=gates)
    return resize_pods([old], [new], Kubelet.of(node=NODE, settings=settings, release=release))


@pytest.mark.parametrize("gates", [{GATE: True}, {"AllAlpha": True}])
def test_with_the_gate_another_size_is_not_modelled(gates):
    plan = planned(sized("128Mi", cache="64Mi", big="1Gi"), sized("256Mi", cache="32Mi", big="1Gi"), **gates)

    [one] = plan.resizes
    assert one.volumes.startswith("volume cache (64Mi to 32Mi): resizes of memory-backed volumes are not modelled")
    assert f"\n  {one.volumes}\n" in resize_text(plan)
    assert resize_document(plan)["resizes"][0]["volumes"] == one.volumes


def test_resources_that_stay_are_unchanged_and_the_volume_is_named():
    [one] = planned(sized(a="64Mi", b=None), sized(a="128Mi", b="1Gi"), **{GATE: True}).resizes

    assert one.outcome is ResizeOutcome.UNCHANGED
    assert one.volumes.startswith("volumes a (64Mi to 128Mi), b (no limit to 1Gi): resizes of memory-backed")


@pytest.mark.parametrize(
    ("release", "why"),
    [("1.36", "no resize changes a volume in 1.36"), ("1.37", f"the feature gate {GATE} is off")],
)
def test_without_the_gate_the_size_stays(release, why):
    [one] = planned(sized("128Mi", cache="64Mi"), sized("256Mi", cache="128Mi"), release).resizes

    assert one.volumes == f"volume cache (64Mi to 128Mi): the size stays, since {why}"


@pytest.mark.parametrize("new", [sized("256Mi", cache="65536Ki"), sized("256Mi"), sized("256Mi", other="1Gi")])
def test_equal_sizes_and_volumes_of_one_pod_only_are_left_out(new):
    plan = planned(sized("128Mi", cache="64Mi"), new, **{GATE: True})

    assert plan.resizes[0].volumes == ""
    assert "volume" not in resize_text(plan)
