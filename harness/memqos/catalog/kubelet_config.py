"""KubeletConfiguration files to settings: v1beta1, every field known, the ones that the rules read typed and placed.

What depends on the release (which policies, keys and gates there are) is checked by `engine.validation`, which names
the places kept here.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from memqos.catalog.kubelet_fields import KUBELET_FIELDS
from memqos.catalog.kubelet_overrides import overlaid
from memqos.catalog.pods import read_text
from memqos.catalog.schema import FieldPath, check, parse_fields
from memqos.catalog.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode, parse_documents
from memqos.errors import ManifestError
from memqos.model.node import CgroupDriver, KubeletSettings, ReservationPolicy, SwapBehavior
from memqos.model.quantity import ZERO, Quantity, QuantityError

__all__ = ["load_settings", "settings_of"]

_API = "kubelet.config.k8s.io/v1beta1"
_KIND = "KubeletConfiguration"
_EMPTY = f"apiVersion: {_API}\nkind: {_KIND}\n".encode()
_DURATION = re.compile(r"[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|ms|s|m|h))+|[-+]?0")
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_NANOSECONDS = {
    "ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
_PERCENT = re.compile(r"[0-9]{1,3}%", re.ASCII)
_WHOLE_PERCENT = 100
_LONGEST_FACTOR = 40
_FACTOR = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)

_RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")
_SIGNALS = (
    "memory.available", "allocatableMemory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available",
    "imagefs.inodesFree", "containerfs.available", "containerfs.inodesFree", "pid.available",
)  # fmt: skip
"""Source: kubelet `eviction.signalToResource`; that of containers' file systems came with 1.29."""

_E = TypeVar("_E", bound=StrEnum)


@functools.cache
def _fields() -> Mapping[str, Mapping[str, str]]:
    return parse_fields(KUBELET_FIELDS)


def load_settings(path: str | Path | None, overrides: Sequence[str] = ()) -> KubeletSettings:
    """The settings in a KubeletConfiguration file, with single fields (`key=value`) set on top of it.

    path None is a kubelet without a configuration file. Raises UsageError for a file that cannot be read or an override
    that is no key=value, ManifestError for what a kubelet would refuse.
    """
    if path is None:
        return settings_of(_EMPTY, "kubelet configuration", overrides)
    return settings_of(read_text(path, "a KubeletConfiguration"), str(path), overrides)


def settings_of(data: bytes, file: str, overrides: Sequence[str] = ()) -> KubeletSettings:
    """The settings in a KubeletConfiguration of one document, with single fields (`key=value`) set on top of it.

    Raises ManifestError naming file, line and field for an unknown field, a wrong type, or a value that no release
    takes.
    """
    documents = parse_documents(data, file)
    place = FieldPath(file)
    if len(documents) != 1 or not isinstance(documents[0], MappingNode):
        found = f"{len(documents)} documents" if len(documents) != 1 else "something else than a mapping of fields"
        raise place.error(f"expected one {_KIND}, got {found}.", 0)
    node = documents[0]
    for name, wanted in (("apiVersion", _API), ("kind", _KIND)):
        value = node.get(name)
        if not isinstance(value, ScalarNode) or value.value != wanted:
            got = value.text[:80] if isinstance(value, ScalarNode) else "nothing"
            raise place.child(name).error(
                f"expected '{wanted}', got '{got}'.", node.line_of(name), next_step=f"memqos reads {_API} {_KIND}."
            )
    check(node, _KIND, _fields(), place)
    node, overridden = overlaid(node, overrides, _fields(), _KIND)
    return _Reader(node, place, overridden).settings()


class _Reader:
    """Takes typed values out of a checked document, and remembers where they were."""

    def __init__(self, node: MappingNode, place: FieldPath, overridden: Mapping[str, str]) -> None:
        self._node = node
        self._place = place
        self._overridden = overridden
        self._origin: dict[str, str] = {}
        for entry in node.entries:
            self._keep(entry.key, entry.value, None)

    def _keep(self, name: str, node: Node, label: str | None) -> None:
        label = self._overridden.get(name, label)
        self._origin[name] = label or f"{self._place.file}:{node.line}"
        if isinstance(node, MappingNode):
            for entry in node.entries:
                self._keep(f"{name}.{entry.key}", entry.value, label)

    def settings(self) -> KubeletSettings:
        """Everything that the rules read."""
        for name in ("evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim"):
            self._thresholds(name)
        return KubeletSettings(
            feature_gates=self._gates(),
            cgroup_driver=self._choice("cgroupDriver", CgroupDriver),
            cgroup_root=self._text("cgroupRoot") or "",
            cgroups_per_qos=self._flag("cgroupsPerQOS"),
            cpu_cfs_quota=self._flag("cpuCFSQuota"),
            cpu_cfs_quota_period_us=self._microseconds("cpuCFSQuotaPeriod"),
            cpu_manager_policy=self._text("cpuManagerPolicy"),
            enforce_node_allocatable=self._list("enforceNodeAllocatable"),
            eviction_hard=self._thresholds("evictionHard"),
            fail_cgroup_v1=self._flag("failCgroupV1"),
            fail_swap_on=self._flag("failSwapOn"),
            kube_reserved=self._reserved("kubeReserved"),
            kube_reserved_cgroup=self._text("kubeReservedCgroup") or "",
            system_reserved=self._reserved("systemReserved"),
            system_reserved_cgroup=self._text("systemReservedCgroup") or "",
            memory_manager_policy=self._text("memoryManagerPolicy"),
            memory_reservation_policy=self._policy(),
            pod_pids_limit=self._whole("podPidsLimit"),
            qos_reserved=self._percentages("qosReserved"),
            reserved_memory=self._reserved_memory(),
            single_process_oom_kill=self._flag("singleProcessOOMKill"),
            swap_behavior=self._swap_behavior(),
            throttling_factor=self._factor("memoryThrottlingFactor"),
            topology_manager_policy=self._text("topologyManagerPolicy"),
            topology_manager_scope=self._text("topologyManagerScope"),
            topology_manager_policy_options=self._texts("topologyManagerPolicyOptions"),
            origin=self._origin,
        )

    def _error(self, name: str, what: str, *, got: object = None, next_step: str = "") -> ManifestError:
        # At most two deep, and a key of a map may have dots of its own.
        top, _, key = name.partition(".")
        node = self._node.get(top)
        node = (node.get(key) or node) if isinstance(node, MappingNode) else node
        line = node.line if node is not None else self._node.line
        origin = self._origin.get(name, "")
        file, line = (origin, 0) if origin.startswith("--") else (self._place.file, line)
        return FieldPath(file, name).error(what, line, got=got, next_step=next_step)

    def _scalar(self, name: str) -> ScalarNode | None:
        node = self._node.get(name)
        return node if isinstance(node, ScalarNode) and node.value is not None else None

    def _text(self, name: str) -> str | None:
        node = self._scalar(name)
        return node.value if node is not None and isinstance(node.value, str) else None

    def _flag(self, name: str) -> bool | None:
        node = self._scalar(name)
        return node.value if node is not None and isinstance(node.value, bool) else None

    def _whole(self, name: str) -> int | None:
        node = self._scalar(name)
        return node.value if node is not None and isinstance(node.value, int) else None

    def _list(self, name: str) -> tuple[str, ...] | None:
        node = self._node.get(name)
        if not isinstance(node, SequenceNode):
            return None
        return tuple(item.text for item in node.items if isinstance(item, ScalarNode))

    def _texts(self, name: str) -> dict[str, str] | None:
        node = self._node.get(name)
        if not isinstance(node, MappingNode):
            return None
        return {entry.key: entry.value.text for entry in node.entries if isinstance(entry.value, ScalarNode)}

    def _gates(self) -> dict[str, bool]:
        node = self._node.get("featureGates")
        if not isinstance(node, MappingNode):
            return {}
        return {
            entry.key: entry.value.value
            for entry in node.entries
            if isinstance(entry.value, ScalarNode) and isinstance(entry.value.value, bool)
        }

    def _choice(self, name: str, kind: type[_E]) -> _E | None:
        text = self._text(name)
        if not text:
            return None
        try:
            return kind(text)
        except ValueError:
            known = ", ".join(f"'{one}'" for one in kind if one)
            raise self._error(name, f"'{text[:80]}' is not one of {known}.", got=text[:80]) from None

    def _policy(self) -> ReservationPolicy | None:
        return self._choice("memoryReservationPolicy", ReservationPolicy)

    def _swap_behavior(self) -> SwapBehavior | None:
        node = self._node.get("memorySwap")
        value = node.get("swapBehavior") if isinstance(node, MappingNode) else None
        if not isinstance(value, ScalarNode) or not isinstance(value.value, str):
            return None
        try:
            return SwapBehavior(value.value)
        except ValueError:
            raise self._error(
                "memorySwap.swapBehavior",
                f"'{value.text[:80]}' is not one of 'NoSwap', 'LimitedSwap', 'UnlimitedSwap'.",
                got=value.text[:80],
            ) from None

    def _factor(self, name: str) -> Fraction | None:
        """The factor exactly as it is written; which range is allowed is the kubelet's own validation."""
        node = self._scalar(name)
        if node is None:
            return None
        if len(node.text) > _LONGEST_FACTOR or not _FACTOR.fullmatch(node.text):
            raise self._error(name, f"'{node.text[:80]}' is not a decimal number.", got=node.text[:80])
        return Fraction(node.text)

    def _known(self, name: str, known: Sequence[str], what: str) -> dict[str, str] | None:
        """The texts of a map whose keys the kubelet knows; `what` is what a key is."""
        texts = self._texts(name)
        for key in texts or {}:
            if key not in known:
                close = difflib.get_close_matches(key[:80], known, n=1, cutoff=0.6)
                step = f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(known)}."
                raise self._error(f"{name}.{key[:80]}", f"'{key[:80]}' is {what}.", got=key[:80], next_step=step)
        return texts

    def _thresholds(self, name: str) -> dict[str, str] | None:
        return self._known(name, _SIGNALS, "no eviction signal that a kubelet knows")

    def _reserved(self, name: str) -> dict[str, Quantity] | None:
        """A reservation. Source: kubelet `parseResourceList`, which refuses every other resource."""
        texts = self._known(name, _RESERVABLE, "no resource that a kubelet reserves")
        if texts is None:
            return None
        found = {}
        for resource, text in texts.items():
            try:
                found[resource] = Quantity.parse(text)
            except QuantityError as error:
                raise self._error(f"{name}.{resource}", f"{error}.", got=text[:80]) from None
            if found[resource] < ZERO:
                raise self._error(f"{name}.{resource}", f"a reservation must not be negative, got {text}.", got=text)
        return found

    def _percentages(self, name: str) -> dict[str, int] | None:
        texts = self._texts(name)
        if texts is None:
            return None
        found = {}
        for resource, text in texts.items():
            if resource != "memory":
                raise self._error(f"{name}.{resource}", "only memory can be reserved for QoS classes.", got=resource)
            if not _PERCENT.fullmatch(text) or int(text[:-1]) > _WHOLE_PERCENT:
                raise self._error(f"{name}.{resource}", f"'{text[:80]}' is not a percentage from 0% to 100%.", got=text)
            found[resource] = int(text[:-1])
        return found

    def _reserved_memory(self) -> tuple[tuple[int, dict[str, Quantity]], ...] | None:
        node = self._node.get("reservedMemory")
        if not isinstance(node, SequenceNode):
            return None
        found = []
        for item in node.items:
            zone = item.get("numaNode") if isinstance(item, MappingNode) else None
            limits = item.get("limits") if isinstance(item, MappingNode) else None
            amounts = {
                # Kubernetes decodes null as the zero quantity.
                entry.key: ZERO if entry.value.value is None else Quantity.parse(entry.value.text)
                for entry in (limits.entries if isinstance(limits, MappingNode) else ())
                if isinstance(entry.value, ScalarNode)
            }
            number = zone.value if isinstance(zone, ScalarNode) and isinstance(zone.value, int) else 0
            found.append((number, amounts))
        return tuple(found)

    def _microseconds(self, name: str) -> int | None:
        text = self._text(name)
        if text is None:
            return None
        if not _DURATION.fullmatch(text):
            raise self._error(name, f"'{text[:80]}' is not a duration such as \"100ms\".", got=text[:80])
        total = sum(Fraction(number.rstrip(".") or "0") * _NANOSECONDS[unit] for number, unit in _PART.findall(text))
        microseconds = int(total / 1000)
        return -microseconds if text.startswith("-") else microseconds
