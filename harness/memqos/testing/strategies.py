"""Hypothesis strategies of what memqos judges: pods, kubelets, nodes, requests, resizes and lifecycles.

They need hypothesis: `pip install 'memqos[explore]'`. Amounts are in bytes and thousandths of a CPU.
"""

try:
    import hypothesis  # noqa: F401 - for the error alone
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "memqos.testing.strategies needs hypothesis: pip install 'memqos[explore]'", name="hypothesis"
    ) from error

from memqos.exploration.amounts import byte_counts, cpu_counts, spellings, spelt
from memqos.exploration.configurations import (
    configurations,
    feature_gates,
    kubelet_settings,
    nodes,
    placing,
    releases,
    throttling_factors,
)
from memqos.exploration.examples import ConfiguredKubelet, pod_of
from memqos.exploration.strategies import (
    ANY_POD,
    RUNNABLE,
    PodShape,
    Situation,
    admission_objects,
    cri_requests,
    lifecycles,
    manifests,
    pods,
    pods_together,
    requests,
    resizes,
    situations,
)

__all__ = [
    "ANY_POD",
    "RUNNABLE",
    "ConfiguredKubelet",
    "PodShape",
    "Situation",
    "admission_objects",
    "byte_counts",
    "configurations",
    "cpu_counts",
    "cri_requests",
    "feature_gates",
    "kubelet_settings",
    "lifecycles",
    "manifests",
    "nodes",
    "placing",
    "pod_of",
    "pods",
    "pods_together",
    "releases",
    "requests",
    "resizes",
    "situations",
    "spellings",
    "spelt",
    "throttling_factors",
]
