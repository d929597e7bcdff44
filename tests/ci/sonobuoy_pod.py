"""`python -m tests.ci.sonobuoy_pod`: prints the pod that Sonobuoy makes of our plug-in, for a check against the API.

Source: sonobuoy, pkg/plugin/driver/daemonset: the plug-in's container and Sonobuoy's own worker in its podSpec, with
the volume `results` of both.
"""

import sys
from pathlib import Path
from typing import Any

import yaml

PLUGIN = Path(__file__).parents[2] / "ci/kubernetes/sonobuoy-plugin.yaml"


def pod() -> dict[str, Any]:
    plugin = yaml.safe_load(PLUGIN.read_text())
    spec = plugin["podSpec"]
    worker = {
        "name": "sonobuoy-worker",
        "image": "sonobuoy/sonobuoy",
        "volumeMounts": plugin["spec"]["volumeMounts"][-1:],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "sonobuoy-memqos-audit", "namespace": "sonobuoy"},
        "spec": {
            **spec,
            "containers": [*spec["containers"], plugin["spec"], worker],
            "volumes": [*spec["volumes"], {"name": "results", "emptyDir": {}}],
        },
    }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(yaml.safe_dump(pod()))
