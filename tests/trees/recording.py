"""A recorded tree as input of the engine: node, settings, pods, reading, container ids."""

from dataclasses import dataclass
from pathlib import Path

from memqos.catalog.recorded_contents import recognise
from memqos.catalog.recorded_trees import load_tree
from memqos.model.node import KubeletSettings, NodeFacts
from memqos.model.pod import Pod
from memqos.model.reading import Reading

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Recording:
    name: str
    release: str
    node: NodeFacts
    settings: KubeletSettings
    pods: tuple[Pod, ...]
    absent: tuple[Pod, ...]
    reading: Reading
    ids: dict[tuple[str, str], str]


def load(name: str) -> Recording:
    """The recording; pods: the running ones, as the kubelet knew them; absent: the others."""
    tree = load_tree(FOLDER / f"{name}.json")
    found = recognise(tree.pods, tree)
    assert found.strangers == ()
    assert all(pod.static for pod in found.present)
    return Recording(
        name=name,
        release=tree.release,
        node=tree.node,
        settings=tree.settings,
        pods=found.present,
        absent=found.absent,
        reading=tree.reading,
        ids=found.ids,
    )
