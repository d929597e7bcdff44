"""A kubelet's configuration (v1beta1) to settings: knows every field, and gives those of the rules types and places.

`engine.node.validation` checks against the release (its policies, keys and gates), with the places kept here.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from memqos.catalog.fields import KUBELET_FIELDS, overlaid
from memqos.catalog.kubelet_flags import Flag, flag_words, flagged
from memqos.catalog.kubelet_sources import (
    API,
    FORMS,
    KIND,
    Source,
    source_of,
    sources_at,
    sources_of_flags,
    with_defaults,
)
from memqos.catalog.schema import FieldPath, UnknownField, check, parse_fields, without_unknown
from memqos.catalog.yaml_nodes import MappingEntry, MappingNode, Node, ScalarNode, SequenceNode
from memqos.errors import ManifestError, UsageError
from memqos.model.node import CgroupDriver, KubeletSettings, ReservationPolicy, SettingsNote, SwapBehavior
from memqos.model.quantity import ZERO, Quantity, QuantityError

__all__ = ["load_settings", "settings_of"]

_API, _KIND = API, KIND
_NO_FILE = "kubelet configuration"
_BY_DEFAULT = "default"
_DEFAULT_THRESHOLDS = {
    "memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}  # fmt: skip
"""Source: kubelet `eviction.DefaultEvictionHard`."""
_DURATION = re.compile(r"[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|ms|s|m|h))+|[-+]?0")
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_NANOSECONDS = {
    "ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
_CPUS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", re.ASCII)
_PERCENT = re.compile(r"[0-9]{1,3}%", re.ASCII)
_WHOLE_PERCENT = 100
_LONGEST_FACTOR = 40
_FACTOR = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)

_RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")
_SIGNALS = (
    "memory.available", "allocatableMemory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available",
    "imagefs.inodesFree", "containerfs.available", "containerfs.inodesFree", "pid.available",
)  # fmt: skip
"""Source: kubelet `eviction.signalToResource`; the one of containers' file systems came with 1.29."""

_E = TypeVar("_E", bound=StrEnum)


@functools.cache
def _fields() -> Mapping[str, Mapping[str, str]]:
    return parse_fields(KUBELET_FIELDS)


def load_settings(
    path: str | Path | Sequence[str | Path] | None, overrides: Sequence[str] = (), flags: Sequence[str] = ()
) -> KubeletSettings:
    """The settings of a kubelet: files of its configuration, then flags, then single fields (`key=value`).

    path: one file or folder, or several, merged in order as the kubelet merges --config-dir: RFC 7386, so maps merge,
    lists are replaced, and null removes a field. None: a kubelet without a configuration file. flags: texts or files of
    command line flags, which win over files. docs/reference/kubelet-configuration.md lists the forms.

    Raises UsageError for an unreadable file or an override that is not key=value, ManifestError for a configuration
    that a kubelet would refuse.
    """
    paths = [] if path is None else [path] if isinstance(path, str | Path) else list(path)
    sources = [source for one in paths for source in sources_at(one)]
    return _combined([*sources, *sources_of_flags(flags)], overrides)


def settings_of(
    data: bytes | None,
    file: str,
    overrides: Sequence[str] = (),
    flags: Sequence[str] = (),
    *,
    words: Sequence[str] = (),
    drop_ins: Sequence[tuple[str, bytes]] | None = None,
    unread: Mapping[str, str] | None = None,
) -> KubeletSettings:
    """The settings in a configuration of any form of `load_settings`, overridden by flags and fields.

    data: None for a kubelet without a configuration file. words: the words of the kubelet's own command line, below
    `flags`. drop_ins: the files of its --config-dir, by name, in the kubelet's order; None if the folder was not read.
    unread: the unreadable ones, with the reason.

    Raises ManifestError naming file, line and field for a field that looks like a slip of a known one, a wrong type, or
    a value that no release accepts.
    """
    own, notes = flag_words(words, file)
    sources = [] if data is None else [source_of(data, file)]
    sources += [source_of(text, name) for name, text in drop_ins or ()]
    if drop_ins is not None:
        own = tuple(flag for flag in own if flag.name != "config-dir")
    for name, why in (unread or {}).items():
        what = f"{why}: its settings are not known here; give the whole configuration with --kubelet-config"
        notes = (*notes, SettingsNote(name, file, what))
    return _combined([*sources, Source(file=file, flags=own, notes=notes), *sources_of_flags(flags)], overrides)


def _combined(sources: Sequence[Source], overrides: Sequence[str]) -> KubeletSettings:
    """All sources merged: configurations, then flags, then overrides."""
    layers: list[Source] = []
    for source in sources:
        # The defaults of a tool are below every file.
        one = source if layers else with_defaults(source)
        layers += [one] if one.config is not None else []
    node = MappingNode((), 0)
    origin: dict[str, str] = {}
    unknown: list[SettingsNote] = []
    for index, source in enumerate(layers):
        config, place = source.config or node, FieldPath(source.file)
        if source.headed:
            _check_head(config, place)
        config, found = without_unknown(config, _KIND, _fields(), place)
        unknown += [_unknown_field(one, source) for one in found]
        check(config, _KIND, _fields(), place)
        if index == 1:
            node = _with_default_thresholds(node)
        node = _merged(node, config) if index else config
        origin |= _origins(config, source.file)
        origin |= {name: why for name, _, why in source.defaults if origin.get(name, ":0").endswith(":0")}
    given = [flag for source in sources for flag in source.flags]
    node, by_flag, notes = flagged(node, given)
    node, overridden = overlaid(node, overrides, _fields(), _KIND)
    by_flag = {name: label for name, label in by_flag.items() if not any(_within(name, key) for key in overridden)}
    notes = (*(note for source in sources for note in source.notes), *unknown, *_files_named(given, layers), *notes)
    reader = _Reader(node, FieldPath(layers[0].file if layers else _NO_FILE), by_flag | overridden, origin)
    return replace(
        reader.settings(),
        kubernetes=next((source.release for source in sources if source.release), ""),
        effective=len(layers) == 1 and layers[0].effective,
        drop_ins=tuple(source.file for source in layers[1:]),
        notes=notes,
    )


def _check_head(node: MappingNode, place: FieldPath) -> None:
    for name, wanted in (("apiVersion", _API), ("kind", _KIND)):
        value = node.get(name)
        if not isinstance(value, ScalarNode) or value.value != wanted:
            got = value.text[:80] if isinstance(value, ScalarNode) else "nothing"
            raise place.child(name).error(f"expected '{wanted}', got '{got}'.", node.line_of(name), next_step=FORMS)


def _unknown_field(field: UnknownField, source: Source) -> SettingsNote:
    """The note on a field that a kubelet ignores, such as one of releases before 1.22; ManifestError for a slip.

    Source: kubelet `DecodeKubeletConfiguration`; `mergeKubeletConfigurations`, whose decoding has no strict mode.
    """
    if source.effective:
        what = "memqos does not know this field of a running kubelet, and assumes that it changes nothing"
    elif field.meant:
        raise field.place.error(
            f"unknown field '{field.shown}'.", field.line, got=field.name, next_step=f"Did you mean '{field.meant}'?"
        )
    else:
        what = "no kubelet that memqos knows has this field: kubelets log a warning at most, and ignore it"
    return SettingsNote(field.place.field, f"{source.file}:{field.line}", what)


def _within(name: str, key: str) -> bool:
    """Whether a field equals another, or is below it."""
    return name == key or name.startswith(f"{key}.")


def _files_named(flags: Sequence[Flag], layers: Sequence[Source]) -> Iterator[SettingsNote]:
    """Files named in flags: UsageError for a missing configuration, a note for missing drop-ins."""
    for flag in flags:
        if flag.name == "config" and flag.value and not layers:
            raise UsageError(
                f"the kubelet has its configuration in {flag.value[:200]}, which memqos does not read from here.",
                where=flag.origin,
                next_step="Give that file with --kubelet-config.",
            )
        if flag.name == "config-dir" and flag.value and len(layers) < len(("file", "drop-in")):
            what = f"the drop-ins in {flag.value[:200]} are not read from here: give them as a further --kubelet-config"
            yield SettingsNote("--config-dir", flag.place, what)


def _origins(node: MappingNode, file: str, above: str = "") -> dict[str, str]:
    """Dotted field to its place, at every level."""
    found: dict[str, str] = {}
    for entry in node.entries:
        name = f"{above}{entry.key}"
        found[name] = f"{file}:{entry.value.line}"
        if isinstance(entry.value, MappingNode):
            found |= _origins(entry.value, file, f"{name}.")
    return found


def _merged(node: MappingNode, patch: MappingNode, above: str = "") -> MappingNode:
    """RFC 7386, as `server.mergeKubeletConfigurations` applies it: null removes, mappings merge, all else replaces.

    A removed evictionHard means no thresholds, not the default, which is filled in before the merge.
    """
    entries = {entry.key: entry for entry in node.entries}
    for entry in patch.entries:
        before = entries[entry.key].value if entry.key in entries else None
        value = entry.value
        if isinstance(value, ScalarNode) and value.value is None:
            entries.pop(entry.key, None)
            if not above and entry.key == "evictionHard":
                entries[entry.key] = MappingEntry(entry.key, entry.line, MappingNode((), entry.line))
        elif isinstance(value, MappingNode):
            base = before if isinstance(before, MappingNode) else MappingNode((), value.line)
            inner = _merged(base, value, f"{above}{entry.key}.")
            entries[entry.key] = MappingEntry(entry.key, entry.line, inner)
        else:
            entries[entry.key] = entry
    return MappingNode(tuple(entries.values()), node.line)


def _with_default_thresholds(node: MappingNode) -> MappingNode:
    """A first file before the merge: with the default of evictionHard if it has none."""
    given = node.get("evictionHard")
    if isinstance(given, MappingNode):
        return node
    entries = tuple(entry for entry in node.entries if entry.key != "evictionHard")
    return MappingNode((*entries, MappingEntry("evictionHard", 0, _thresholds(_DEFAULT_THRESHOLDS))), node.line)


def _thresholds(amounts: Mapping[str, str]) -> MappingNode:
    return MappingNode(tuple(MappingEntry(name, 0, ScalarNode(text, text, 0)) for name, text in amounts.items()), 0)


class _Reader:
    """Reads typed values from a checked document, and keeps their places."""

    def __init__(
        self, node: MappingNode, place: FieldPath, overridden: Mapping[str, str], written: Mapping[str, str]
    ) -> None:
        self._node = node
        self._place = place
        self._overridden = overridden
        self._written = written
        self._origin: dict[str, str] = {}
        for entry in node.entries:
            self._keep(entry.key, entry.value, None)

    def _keep(self, name: str, node: Node, label: str | None) -> None:
        label = self._overridden.get(name, label)
        self._origin[name] = label or self._written.get(name, _BY_DEFAULT)
        if isinstance(node, MappingNode):
            for entry in node.entries:
                self._keep(f"{name}.{entry.key}", entry.value, label)

    def settings(self) -> KubeletSettings:
        """All fields that rules use."""
        for name in ("evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim"):
            self._thresholds(name)
        cpus = self._reserved_cpus()
        return KubeletSettings(
            feature_gates=self._gates(),
            cgroup_driver=self._choice("cgroupDriver", CgroupDriver),
            cgroup_root=self._text("cgroupRoot") or "",
            cgroups_per_qos=self._flag("cgroupsPerQOS"),
            cpu_cfs_quota=self._flag("cpuCFSQuota"),
            cpu_cfs_quota_period_us=self._microseconds("cpuCFSQuotaPeriod"),
            cpu_manager_policy=self._text("cpuManagerPolicy"),
            enforce_node_allocatable=self._list("enforceNodeAllocatable"),
            eviction_hard=self._hard_thresholds(),
            fail_cgroup_v1=self._flag("failCgroupV1"),
            fail_swap_on=self._flag("failSwapOn"),
            kube_reserved=self._without_cpu(self._reserved("kubeReserved"), cpus),
            kube_reserved_cgroup=self._text("kubeReservedCgroup") or "",
            system_reserved=self._with_cpus(self._reserved("systemReserved"), cpus),
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
        origin = self._origin.get(name) or self._origin.get(name.partition(".")[0], self._place.file)
        file, _, line = origin.rpartition(":")
        if origin.startswith("--") or not line.isdecimal():
            file, line = origin, "0"
        return FieldPath(file, name).error(what, int(line), got=got, next_step=next_step)

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
                f"'{value.text[:80]}' is not one of 'NoSwap', 'LimitedSwap', 'UnlimitedSwap', "
                "'WorkloadControlledSwap'.",
                got=value.text[:80],
            ) from None

    def _factor(self, name: str) -> Fraction | None:
        """The exact factor; its range is checked in the kubelet's validation."""
        node = self._scalar(name)
        if node is None:
            return None
        if len(node.text) > _LONGEST_FACTOR or not _FACTOR.fullmatch(node.text):
            raise self._error(name, f"'{node.text[:80]}' is not a decimal number.", got=node.text[:80])
        return Fraction(node.text)

    def _known(self, name: str, known: Sequence[str], what: str) -> dict[str, str] | None:
        """The texts of a map with known keys; `what` describes a key."""
        texts = self._texts(name)
        for key in texts or {}:
            if key not in known:
                close = difflib.get_close_matches(key[:80], known, n=1, cutoff=0.6)
                step = f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(known)}."
                raise self._error(f"{name}.{key[:80]}", f"'{key[:80]}' is {what}.", got=key[:80], next_step=step)
        return texts

    def _thresholds(self, name: str) -> dict[str, str] | None:
        return self._known(name, _SIGNALS, "not an eviction signal of the kubelet")

    def _hard_thresholds(self) -> dict[str, str] | None:
        """evictionHard, with the defaults that mergeDefaultEvictionSettings keeps (1.33)."""
        given = self._thresholds("evictionHard")
        if given is None or self._flag("mergeDefaultEvictionSettings") is not True:
            return given
        return {**_DEFAULT_THRESHOLDS, **given}

    def _reserved_cpus(self) -> int:
        """The number of CPUs in reservedSystemCPUs, 0 if it is missing.

        Source: kubelet `getReservedCPUs`, `ValidateKubeletConfiguration`, k8s.io/utils `cpuset.Parse`.
        """
        name = "reservedSystemCPUs"
        text = self._text(name)
        if not text:
            return 0
        found: set[int] = set()
        for part in text.split(","):
            match = _CPUS.fullmatch(part.strip())
            if match is None or int(match[2] or match[1]) < int(match[1]):
                raise self._error(name, f"'{text[:80]}' is not a list of CPUs such as 0-3,8.", got=text[:80])
            found |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
        for other in ("systemReservedCgroup", "kubeReservedCgroup"):
            if self._text(other):
                raise self._error(name, f"it cannot be used with {other}.", next_step="Leave one of them out.")
        return len(found)

    @staticmethod
    def _with_cpus(given: dict[str, Quantity] | None, cpus: int) -> dict[str, Quantity] | None:
        """systemReserved, with cpu overwritten by reservedSystemCPUs."""
        return {**(given or {}), "cpu": Quantity.parse(str(cpus))} if cpus else given

    @staticmethod
    def _without_cpu(given: dict[str, Quantity] | None, cpus: int) -> dict[str, Quantity] | None:
        """kubeReserved, without cpu if reservedSystemCPUs is given."""
        return {name: one for name, one in given.items() if name != "cpu"} if given and cpus else given

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
            numa = item.get("numaNode") if isinstance(item, MappingNode) else None
            limits = item.get("limits") if isinstance(item, MappingNode) else None
            amounts = {
                # Kubernetes decodes null as the zero quantity.
                entry.key: ZERO if entry.value.value is None else Quantity.parse(entry.value.text)
                for entry in (limits.entries if isinstance(limits, MappingNode) else ())
                if isinstance(entry.value, ScalarNode)
            }
            number = numa.value if isinstance(numa, ScalarNode) and isinstance(numa.value, int) else 0
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
