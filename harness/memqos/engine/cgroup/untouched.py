"""Files that nobody writes: what they show on a node, and the reason for that."""

from __future__ import annotations

from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input, Level, Reason
from memqos.engine.releases.table import Gate
from memqos.engine.ruling import Ruling, kernel_revision
from memqos.model.knob import ABSENT, Knob, KnobValue, Number, Text

__all__ = ["exists", "node_defaults", "untouched"]

_MEMORY_QOS_KNOBS = frozenset({Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH})
_WRITER = {
    Level.NODE: "the kubelet does not write it at this level",
    Level.RESERVED: "the kubelet does not write it at this level",
    Level.QOS: "the kubelet does not write it at this level",
    Level.POD: "the kubelet does not write it for this pod",
    Level.CONTAINER: "neither kubelet nor runtime writes it for this container",
}


def node_defaults(kubelet: Kubelet) -> dict[Knob, KnobValue]:
    """What files of cgroup v1 show that nobody wrote, where new cgroups take it over from their parents.

    libcontainer copies the parent's cpuset into a new cgroup of v1, which could run nothing without one.
    """
    zones = ",".join(str(zone.id) for zone in kubelet.node.zones)
    return {Knob.MEMORY_SWAPPINESS: Number(kubelet.node.swappiness), Knob.CPUSET_MEMS: Text(zones)}


def exists(knob: Knob, kubelet: Kubelet) -> bool:
    """Whether the kernel has the file: cgroup v1 counts memory and swap together only with swap accounting."""
    return kubelet.v2 or knob is not Knob.MEMORY_MEMSW_LIMIT_IN_BYTES or kubelet.node.swap_controller


def untouched(kubelet: Kubelet, knob: Knob, level: Level) -> Ruling:
    """A file that nobody writes; with memory QoS off, that is what the reason says of the files it is about."""
    text = _WRITER[level]
    source = f"kernel, Documentation/admin-guide/cgroup-{'v2.rst' if kubelet.v2 else 'v1'}"
    if knob is Knob.MEMORY_SWAPPINESS:
        return Ruling(ABSENT, lambda: _swappiness_reason(kubelet, source))
    inputs: tuple[Input, ...] = ()
    if knob in _MEMORY_QOS_KNOBS and not kubelet.memory_qos:
        gate = f"featureGates.{Gate.MEMORY_QOS}"
        inputs = (Input(gate, "false", kubelet.settings.origin.get(gate, f"default of {kubelet.release}")),)
        text = f"without memory QoS {text}"
    reason = Reason(
        rule=f"{text}: the kernel's default shows",
        revision=kernel_revision(kubelet.node.cgroup_version),
        source=source,
        inputs=inputs,
    )
    return Ruling(ABSENT, lambda: reason)


def _swappiness_reason(kubelet: Kubelet, source: str) -> Reason:
    rule = "nobody writes it: a new cgroup takes it over from its parent, and the root has vm.swappiness"
    return Reason(
        rule=rule,
        revision=kernel_revision(kubelet.node.cgroup_version),
        source=source,
        inputs=(kubelet.fact("vm.swappiness", kubelet.node.swappiness),),
    )
