"""In-place resize: what a pod's cgroups hold while their memory is resized.

    pod resizable                     larger             smaller            shifted
      container one     memory.max    grows              shrinks            grows
      container other   memory.max    grows              shrinks            shrinks
      the pod           memory.max    first of all       last of all        stays

The plan of each kubelet has the steps in its order. The pod is read after every one of them, so that a limit that is
written too early or too late deviates. No tolerance: files hold what was written, in whole pages.
"""

import pytest

MORE = pytest.mark.more
"""What "shifted" shows as well, where one container grows and the other shrinks."""


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-tiered")
@pytest.mark.parametrize("size", [pytest.param("larger", marks=MORE), pytest.param("smaller", marks=MORE), "shifted"])
@pytest.mark.claim("resize/memory-step-by-step")
def test_memory_is_resized_step_by_step(qos_node, qos_kubelet, qos_catalog, size, qos_evidence):
    """After every step of the resize the pod and its containers hold what was set until then."""
    pod = qos_catalog.pod("resizable")
    with qos_node.admitted([pod], qos_kubelet) as population:
        resized = qos_node.resize(population, pod, qos_kubelet, to=qos_catalog.pod(f"resizable-{size}"))
        findings = resized.judge()

    qos_evidence.settle(findings)
