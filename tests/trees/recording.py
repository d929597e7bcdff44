"""A recorded tree as what the engine takes and judges: node, settings, pods, reading, container ids."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from memqos.catalog.kubelet_config import settings_of
from memqos.catalog.manifests import pods_of
from memqos.model.node import KubeletSettings, NodeFacts
from memqos.model.path import CgroupPath
from memqos.model.pod import Pod
from memqos.model.reading import CgroupReading, NoFile, Reading

FOLDER = Path(__file__).parent
SANDBOX = "(sandbox)"


@dataclass(frozen=True)
class Recording:
    name: str
    release: str
    node: NodeFacts
    settings: KubeletSettings
    pods: tuple[Pod, ...]
    reading: Reading
    ids: dict[tuple[str, str], str]


def load(name: str) -> Recording:
    data = json.loads((FOLDER / f"{name}.json").read_text())
    ids, uids = {}, {}
    for container_id, (pod, container, uid) in data["containers"].items():
        uids[pod] = uid
        if container != SANDBOX:
            ids[uid, container] = container_id
    node = data["node"]
    return Recording(
        name=name,
        release=data["kubelet"],
        node=NodeFacts(
            memory=int(node["mem_total_kib"]) * 1024,
            swap=int(node["swap_total_kib"]) * 1024,
            cpus=node["cpus"],
        ),
        settings=settings_of(json.dumps(data["config"]).encode(), f"{name}.json"),
        pods=tuple(admitted(data["pods"], uids, name)),
        reading=Reading(
            source=name, at=0.0, cgroups=dict(cgroup(path, files) for path, files in data["cgroups"].items())
        ),
        ids=ids,
    )


def admitted(manifests, uids, name):
    """The static pods that have containers in the tree, as the kubelet knew them."""
    for manifest in manifests:
        (pod,) = pods_of(json.dumps(manifest).encode(), f"{name}.json")
        if f"{pod.name}-n1" in uids:
            yield replace(pod, name=f"{pod.name}-n1", uid=uids[f"{pod.name}-n1"], static=True)


def cgroup(path, files):
    texts = {file: text for file, text in files.items() if file != "hugetlb"} | files.get("hugetlb", {})
    where = CgroupPath.parse(path)
    return where, CgroupReading(path=where, files={k: NoFile.NO_FILE if v is None else v for k, v in texts.items()})
