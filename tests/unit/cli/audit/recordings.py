"""Recorded trees, and changes to them."""

import json
from pathlib import Path

TREES = Path(__file__).parents[3] / "trees"
TIERED = TREES / "v1.36.3.tiered-0.9-systemd-reserved.json"


def path_of(data, pod, container):
    [found] = [key for key, (name, own, _) in data["containers"].items() if (name, own) == (pod, container)]
    [path] = [path for path in data["cgroups"] if found in path]
    return path


def cluster(data):
    """An API server's list with these pods, and some of other nodes."""
    for pod in data["pods"]:
        pod["spec"]["nodeName"] = "n1"
    for name, node, phase in (("far", "n2", "Running"), ("waiting", "", "Pending"), ("done", "n1", "Succeeded")):
        pod = json.loads(json.dumps(data["pods"][0]))
        pod["metadata"]["name"], pod["spec"]["nodeName"], pod["status"] = name, node, {"phase": phase}
        data["pods"].append(pod)


ONE_NUMA_NODE = TREES / "v1.36.3.static-single-numa.json"


def scopes(data, below):
    """The tree as crun creates it: the files of each container in a cgroup below its scope."""
    data["cgroups"] = {
        f"{path}{below}" if path.endswith(".scope") else path: files for path, files in data["cgroups"].items()
    }
