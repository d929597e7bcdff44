"""Upstream's table of configurations that the kubelet accepts or refuses, 1.32.13 to 1.36.3.

Used are the rows about fields that rules read. The others (ports, images, logs, tracing, shutdown, crash loops,
reservedSystemCPUs, systemCgroups …) decide no cgroup value. A factor of null needs an object that was never defaulted:
a file without one has the default.
"""

import json

import pytest

from memqos.catalog.kubelet_config import settings_of
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.errors import ManifestError
from memqos.model.node import NodeFacts
from tests.vectors.reading import used
from tests.vectors.tables import table

READ = {
    "cgroupsPerQOS", "enforceNodeAllocatable", "systemReservedCgroup", "kubeReservedCgroup", "cpuCFSQuotaPeriod",
    "memorySwap", "memoryThrottlingFactor", "memoryReservationPolicy", "topologyManagerPolicy", "topologyManagerScope",
    "featureGates",
}  # fmt: skip
NAMES = {
    "CgroupsPerQOS": "cgroupsPerQOS",
    "CPUCFSQuotaPeriod": "cpuCFSQuotaPeriod",
    "MemorySwap.SwapBehavior": "memorySwap",
}
KEYS = {
    "kubetypes.SystemReservedCompressibleEnforcementKey": "system-reserved-compressible",
    "kubetypes.KubeReservedCompressibleEnforcementKey": "kube-reserved-compressible",
    "kubetypes.NodeAllocatableNoneKey": "none",
}
RELEASES = ("1.32.13", "1.33.13", "1.34.9", "1.35.6", "1.36.3")


def configuration(assigned):
    """The document of these assignments to Go fields, None if it has a field that no rule uses."""
    document = {}
    for target, value in assigned.items():
        field = target.removeprefix("conf.")
        name = NAMES.get(field, field[:1].lower() + field[1:])
        if name not in READ or value is None:
            return None
        document[name] = written(name, value)
    return document if set(document) - {"featureGates"} else None


def written(name, value):
    """A Go value in the configuration file's spelling."""
    if name == "cpuCFSQuotaPeriod":
        return f"{value['Duration']}ns"
    if name == "memorySwap":
        return {"swapBehavior": value}
    if name == "enforceNodeAllocatable":
        return [KEYS[key["$sel"]] if isinstance(key, dict) else key for key in value]
    return value


def rows():
    for release in RELEASES:
        for row in table(f"kubelet_config_validation.v{release}")["tables"]["TestValidateKubeletConfiguration"]:
            assigned = row["configure"].get("$assign")
            document = configuration(assigned) if assigned else None
            if document is not None:
                yield pytest.param(document, used(row)["errMsg"], release, id=f"{release}-{row['name']}")


ROWS = list(rows())


def test_there_are_enough_rows():
    assert len(ROWS) >= 45
    assert all(message for _, message, _ in (row.values for row in ROWS))


@pytest.mark.parametrize(("document", "message", "release"), ROWS)
def test_refused(document, message, release):
    # Upstream's base configuration names the reserved cgroups, unless a row empties them.
    base = {"systemReservedCgroup": "/system.slice", "kubeReservedCgroup": "/system.slice",
            "systemReserved": {"memory": "1Gi"}, "kubeReserved": {"memory": "1Gi"}}  # fmt: skip
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    text = json.dumps(head | base | document).encode()
    with pytest.raises(ManifestError) as caught:
        expect([], Kubelet.of(node=NodeFacts(memory=8 << 30), settings=settings_of(text, "k.json"), release=release))
    # The error here names the same field as upstream's.
    assert caught.value.data["field"].split(".")[0].lower() in message.lower()


@pytest.mark.parametrize("release", ["1.22", "1.32", "1.36", "1.37"])
def test_the_base_is_accepted(release):
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    settings = settings_of(json.dumps(head).encode(), "k.json")
    assert expect([], Kubelet.of(node=NodeFacts(memory=8 << 30), settings=settings, release=release)).pods == ()
