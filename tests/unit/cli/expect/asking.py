"""Arguments and answers of the tests of `memqos expect`."""

import json

from memqos.catalog.data import data_root

FIXTURES = data_root() / "fixtures"
BURSTABLE = str(FIXTURES / "pods" / "burstable.yaml")
TIERED = str(FIXTURES / "kubelet" / "v1.36-tiered.yaml")
EMPTY_CONFIG = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
QOS_ON = ("--set", "featureGates.MemoryQoS=true")


def kubepods_max(out):
    [node] = [one for one in json.loads(out)["cgroups"] if one["level"] == "node"]
    return int(node["knobs"]["memory.max"]["written"])


STATIC = (
    "--set", "memoryManagerPolicy=Static", "--set", "topologyManagerPolicy=single-numa-node",
    "--set", "systemReserved.memory=100Mi", "--set", "evictionHard={}",
    "--set", "reservedMemory=[{numaNode: 0, limits: {memory: 100Mi}}]",
)  # fmt: skip
