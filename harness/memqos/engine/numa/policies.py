"""The configuration of both managers in one release: policies, scope, options, revisions.

Sources: kubelet `apis/config/validation`, `topologymanager/policy_options.go`; KEP-1769, KEP-693, KEP-3545, KEP-4622.

The Memory Manager's first revision already reuses the memory of init containers; `releases.table` has later changes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import TypeVar

from memqos.engine.plan import Input
from memqos.engine.releases.gates import enabled
from memqos.engine.releases.release import Release, Variant, revisions
from memqos.engine.releases.table import OPTION_STAGES, Family, Gate, Novelty
from memqos.errors import ManifestError
from memqos.model.node import KubeletSettings

__all__ = [
    "DEFAULT_MAX_NUMA_NODES",
    "MemoryPolicy",
    "PodLevel",
    "Policies",
    "TopologyOptions",
    "TopologyPolicy",
    "TopologyScope",
    "configuration_error",
    "option_available",
    "topology_options",
]

DEFAULT_MAX_NUMA_NODES = 8
"""The most NUMA nodes that the Topology Manager accepts by default; also the least value of max-allowable-numa-nodes.
"""

_Named = TypeVar("_Named", bound=StrEnum)
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


class MemoryPolicy(StrEnum):
    """`memoryManagerPolicy`, on Linux."""

    NONE = "None"
    STATIC = "Static"


class TopologyPolicy(StrEnum):
    """`topologyManagerPolicy`."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class TopologyScope(StrEnum):
    """`topologyManagerScope`: whether hints are merged for each container or once for the pod."""

    CONTAINER = "container"
    POD = "pod"


class PodLevel(Enum):
    """The Memory Manager's treatment of a pod with `spec.resources`."""

    BY_CONTAINER = "its containers' own requests count"
    LEFT_ALONE = "it is left alone"
    MANAGED = "it is placed as a whole"


# The texts that Go's strconv.ParseBool accepts.
_BOOLS = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyOptions:
    """`topologyManagerPolicyOptions`, parsed. max_numa_nodes: the most NUMA nodes that a machine may have."""

    prefer_closest: bool = False
    max_numa_nodes: int = DEFAULT_MAX_NUMA_NODES


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The configuration and release for the rules of both managers.

    sidecars: whether the kubelet knows restartable init containers. pod_level_qos: whether `spec.resources` decides the
    QoS class. checks_groups: revision v1.32 of the Memory Manager. origin: field of the configuration to its place in
    the file, for reasons.
    """

    release: Release
    memory: MemoryPolicy
    topology: TopologyPolicy
    scope: TopologyScope
    options: TopologyOptions
    sidecars: bool
    pod_level_qos: bool
    pod_level: PodLevel
    checks_groups: bool
    origin: Mapping[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, settings: KubeletSettings, release: Release) -> Policies:
        """The policies in force; ManifestError for a name, option or value with which this kubelet refuses to start.

        With its gate off (before 1.32) the Memory Manager has the policy None.
        """
        gates = settings.feature_gates
        memory = _named(MemoryPolicy, settings, "memoryManagerPolicy", settings.memory_manager_policy)
        topology = _named(TopologyPolicy, settings, "topologyManagerPolicy", settings.topology_manager_policy)
        if topology is not TopologyPolicy.NONE and not enabled(Gate.TOPOLOGY_MANAGER, release, gates):
            raise configuration_error(
                settings,
                "topologyManagerPolicy",
                f"the policy {topology} needs the feature gate TopologyManager, which is off.",
                "Leave the gate on or the policy at none.",
            )
        pod_level = enabled(Gate.POD_LEVEL_RESOURCES, release, gates)
        return cls(
            release=release,
            memory=memory if enabled(Gate.MEMORY_MANAGER, release, gates) else MemoryPolicy.NONE,
            topology=topology,
            scope=_named(TopologyScope, settings, "topologyManagerScope", settings.topology_manager_scope),
            options=topology_options(settings, release),
            sidecars=enabled(Gate.SIDECARS, release, gates),
            pod_level_qos=pod_level,
            pod_level=_pod_level(release, on=pod_level, managed=enabled(Gate.POD_LEVEL_MANAGERS, release, gates)),
            checks_groups=release.has(Novelty.CHECKS_GROUPS),
            origin=settings.origin,
        )

    @property
    def up_to_need(self) -> bool:
        """Whether hints that are not preferred are merged as from 1.24 on."""
        return self.release.has(Novelty.MERGES_UP_TO_NEED)

    def setting(self, name: str, value: str) -> Input:
        """A field of the configuration as a rule's input."""
        return Input(name, value, self.origin.get(name, "default"))

    @property
    def memory_revision(self) -> str:
        """The Memory Manager's revision, in the words that reasons use."""
        return revisions(self.release, Variant.SHIPPED)[Family.MEMORY_MANAGER]

    @property
    def topology_revision(self) -> str:
        """The Topology Manager's revision, in the words that reasons use."""
        return revisions(self.release, Variant.SHIPPED)[Family.TOPOLOGY_MANAGER]


def configuration_error(settings: KubeletSettings, name: str, what: str, next_step: str = "") -> ManifestError:
    """An error at one field of the configuration, with its place in the file, if known."""
    origin = settings.origin.get(name) or settings.origin.get(name.partition(".")[0], "")
    file, _, line = origin.rpartition(":")
    if not (file and line.isdecimal()):
        # Not a line of a file: an option's name, or "".
        file, line = origin, "0"
    return ManifestError.at(
        what,
        file=file or "kubelet configuration",
        line=int(line),
        field=name,
        next_step=next_step,
    )


def option_available(option: str, release: Release, gates: Mapping[str, bool]) -> bool:
    """Whether a policy option may be set: the release knows it, and its gate, if any, is on."""
    hangs_on = [gate for since, gate in OPTION_STAGES.get(option, ()) if Release(since) <= release]
    return bool(hangs_on) and (hangs_on[-1] is None or enabled(hangs_on[-1], release, gates))


def topology_options(settings: KubeletSettings, release: Release) -> TopologyOptions:
    """`topologyManagerPolicyOptions`, parsed; ManifestError for one that is unknown, gated off or has a bad value."""
    given = settings.topology_manager_policy_options or {}
    name = "topologyManagerPolicyOptions"
    if given and not enabled(Gate.TOPOLOGY_OPTIONS, release, settings.feature_gates):
        raise configuration_error(
            settings, name, f"options need the feature gate {Gate.TOPOLOGY_OPTIONS}, which is off.", "Turn the gate on."
        )
    for option in given:
        if not option_available(option, release, settings.feature_gates):
            known = [one for one in OPTION_STAGES if option_available(one, release, settings.feature_gates)]
            raise configuration_error(
                settings,
                name,
                f"the option '{option}' is not available in {release} with these feature gates.",
                f"Available: {', '.join(known) or 'none'}.",
            )
    return TopologyOptions(
        prefer_closest=_flag(settings, name, given.get("prefer-closest-numa-nodes", "false")),
        max_numa_nodes=_numa_nodes(settings, name, given.get("max-allowable-numa-nodes", str(DEFAULT_MAX_NUMA_NODES))),
    )


def _pod_level(release: Release, *, on: bool, managed: bool) -> PodLevel:
    """The treatment of pods with `spec.resources`: 1.36 exempts them even with the gate off."""
    if release.has(Novelty.MANAGES_POD_LEVEL):
        return PodLevel.MANAGED if on and managed else PodLevel.LEFT_ALONE
    return PodLevel.LEFT_ALONE if on and release.has(Novelty.LEAVES_POD_LEVEL_ALONE) else PodLevel.BY_CONTAINER


def _named(kind: type[_Named], settings: KubeletSettings, name: str, given: str | None) -> _Named:
    names = [member.value for member in kind]
    if not given:
        return kind(names[0])
    if given not in names:
        raise configuration_error(settings, name, f"'{given}' is not a valid value.", f"Known: {', '.join(names)}.")
    return kind(given)


def _flag(settings: KubeletSettings, name: str, text: str) -> bool:
    if text not in _BOOLS:
        raise configuration_error(
            settings, name, f"prefer-closest-numa-nodes is '{text}', which is neither true nor false."
        )
    return _BOOLS[text]


def _numa_nodes(settings: KubeletSettings, name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise configuration_error(settings, name, f"max-allowable-numa-nodes is '{text}', which is not an integer.")
    if int(text) < DEFAULT_MAX_NUMA_NODES:
        raise configuration_error(
            settings, name, f"max-allowable-numa-nodes is {text}, and must be at least {DEFAULT_MAX_NUMA_NODES}."
        )
    return int(text)
