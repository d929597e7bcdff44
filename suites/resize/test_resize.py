"""In-place resize: a pod's cgroups after each step of a resize of its memory.

    pod resizable                     larger             smaller            shifted
      container one     memory.max    grows              shrinks            grows
      container other   memory.max    grows              shrinks            shrinks
      the pod           memory.max    first of all       last of all        stays

Each kubelet's plan has the steps in its order. The test reads the pod after every step, so a limit that is written too
early or too late deviates. No tolerance: files have the written values, in whole pages.
"""

import pytest

MORE = pytest.mark.more
"""Also covered by "shifted", in which one container grows and the other shrinks."""


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-tiered")
@pytest.mark.parametrize("size", [pytest.param("larger", marks=MORE), pytest.param("smaller", marks=MORE), "shifted"])
@pytest.mark.claim("resize/memory-step-by-step")
def test_memory_is_resized_step_by_step(qos_node, qos_kubelet, qos_catalog, size, qos_evidence):
    """After every step the pod and its containers have the values set so far."""
    pod = qos_catalog.pod("resizable")
    with qos_node.admitted([pod], qos_kubelet) as population:
        resized = qos_node.resize(population, pod, qos_kubelet, to=qos_catalog.pod(f"resizable-{size}"))
        findings = resized.judge()

    qos_evidence.settle(findings)
