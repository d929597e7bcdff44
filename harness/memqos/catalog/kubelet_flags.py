"""A kubelet's command line, in its usual forms, to fields of its configuration.

Forms: a bare line of flags, /proc/PID/cmdline (NUL between words), a systemd unit or drop-in, a file of environment
variables (KUBELET_EXTRA_ARGS=…), the output of `ps`, one flag a line, and lists in YAML or JSON of k3s and RKE2
(kubelet-arg) and kubeadm (kubeletExtraArgs).

Source: kubelet `options.AddKubeletConfigFlags`, `server.kubeletConfigFlagPrecedence`; component-base
`cli/flag`; pflag.

The kubelet's command line flags by name: the field that each sets, and those without effect here.

The union over the releases 1.22 to 1.37. Source: kubelet `options.AddFlags`, `options.AddKubeletConfigFlags`,
`options.AddGlobalFlags`.
"""

from __future__ import annotations

import difflib
import itertools
import re
import shlex
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from memqos.catalog.yaml_nodes import MappingEntry, MappingNode, Node, ScalarNode, SequenceNode
from memqos.errors import ManifestError
from memqos.model.node import SettingsNote

__all__ = [
    "FIELD_FLAGS",
    "K3S_SETTINGS",
    "Flag",
    "environment_in",
    "flag_words",
    "flagged",
    "flags_in",
    "is_command_line",
    "variables_used",
]


class FlagKind(Enum):
    """The form of a flag's value.

    MAP: a=b,c=d. BELOW: a<b,c<d. GATES: a MAP of true and false. PAIR: one a=b whose value may hold commas.
    MEMORY: 0:memory=1Gi. LIST: a,b.
    """

    BOOL = auto()
    INT = auto()
    TEXT = auto()
    LIST = auto()
    MAP = auto()
    BELOW = auto()
    GATES = auto()
    PAIR = auto()
    MEMORY = auto()


_BOOL, _INT, _TEXT, _LIST = FlagKind.BOOL, FlagKind.INT, FlagKind.TEXT, FlagKind.LIST

FIELD_FLAGS: Mapping[str, tuple[str, FlagKind]] = {
    "cgroup-driver": ("cgroupDriver", _TEXT),
    "cgroup-root": ("cgroupRoot", _TEXT),
    "cgroups-per-qos": ("cgroupsPerQOS", _BOOL),
    "cpu-cfs-quota": ("cpuCFSQuota", _BOOL),
    "cpu-cfs-quota-period": ("cpuCFSQuotaPeriod", _TEXT),
    "cpu-manager-policy": ("cpuManagerPolicy", _TEXT),
    "cpu-manager-policy-options": ("cpuManagerPolicyOptions", FlagKind.PAIR),
    "enforce-node-allocatable": ("enforceNodeAllocatable", _LIST),
    "eviction-hard": ("evictionHard", FlagKind.BELOW),
    "eviction-max-pod-grace-period": ("evictionMaxPodGracePeriod", _INT),
    "eviction-minimum-reclaim": ("evictionMinimumReclaim", FlagKind.MAP),
    "eviction-pressure-transition-period": ("evictionPressureTransitionPeriod", _TEXT),
    "eviction-soft": ("evictionSoft", FlagKind.BELOW),
    "eviction-soft-grace-period": ("evictionSoftGracePeriod", FlagKind.MAP),
    "fail-swap-on": ("failSwapOn", _BOOL),
    "feature-gates": ("featureGates", FlagKind.GATES),
    "kube-reserved": ("kubeReserved", FlagKind.MAP),
    "kube-reserved-cgroup": ("kubeReservedCgroup", _TEXT),
    "kubelet-cgroups": ("kubeletCgroups", _TEXT),
    "max-pods": ("maxPods", _INT),
    "memory-manager-policy": ("memoryManagerPolicy", _TEXT),
    "oom-score-adj": ("oomScoreAdj", _INT),
    "pod-manifest-path": ("staticPodPath", _TEXT),
    "pod-max-pids": ("podPidsLimit", _INT),
    "pods-per-core": ("podsPerCore", _INT),
    "protect-kernel-defaults": ("protectKernelDefaults", _BOOL),
    "qos-reserved": ("qosReserved", FlagKind.MAP),
    "reserved-cpus": ("reservedSystemCPUs", _TEXT),
    "reserved-memory": ("reservedMemory", FlagKind.MEMORY),
    "system-cgroups": ("systemCgroups", _TEXT),
    "system-reserved": ("systemReserved", FlagKind.MAP),
    "system-reserved-cgroup": ("systemReservedCgroup", _TEXT),
    "topology-manager-policy": ("topologyManagerPolicy", _TEXT),
    "topology-manager-policy-options": ("topologyManagerPolicyOptions", FlagKind.PAIR),
    "topology-manager-scope": ("topologyManagerScope", _TEXT),
}
"""Flags that set a field about cgroups, memory or CPUs."""

_NO_THRESHOLD = (
    "hard eviction thresholds do not count in the node's allocatable with this flag, which memqos does not model: "
    "set evictionHard's memory.available to 0 with --set"
)
_OTHERS = """
address allowed-unsafe-sysctls authentication-token-webhook-cache-ttl authorization-mode
authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl bootstrap-kubeconfig
cadvisor-port cert-dir client-ca-file cloud-config cloud-provider cluster-dns cluster-domain cni-bin-dir
cni-cache-dir cni-conf-dir config config-dir container-hints container-log-max-files container-log-max-size
container-runtime container-runtime-endpoint containerd containerd-namespace cpu-manager-reconcile-period docker
docker-endpoint docker-env-metadata-whitelist docker-only docker-root docker-tls docker-tls-ca docker-tls-cert
docker-tls-key dockershim-checkpoint-dir dynamic-config-dir event-burst event-qps event-storage-age-limit
event-storage-event-limit experimental-bootstrap-kubeconfig experimental-mounter-path file-check-frequency
global-housekeeping-interval hairpin-mode healthz-bind-address healthz-port hostname-override
housekeeping-interval http-check-frequency image-credential-provider-bin-dir image-credential-provider-config
image-gc-high-threshold image-gc-low-threshold image-pull-progress-deadline image-service-endpoint
iptables-drop-bit iptables-masquerade-bit kube-api-burst kube-api-content-type kube-api-qps kubeconfig
lock-file log-backtrace-at log-cadvisor-usage log-dir log-file log-file-max-size log-flush-frequency
log-json-info-buffer-size log-text-info-buffer-size logging-format machine-id-file manifest-url
manifest-url-header master-service-namespace max-open-files maximum-dead-containers
maximum-dead-containers-per-container minimum-container-ttl-duration minimum-image-ttl-duration network-plugin
network-plugin-mtu node-ip node-labels node-status-max-images node-status-update-frequency non-masquerade-cidr
pod-cidr pod-infra-container-image port profiling provider-id read-only-port register-schedulable
register-with-taints registry-burst registry-qps resolv-conf root-dir runtime-cgroups runtime-request-timeout
seccomp-profile-root stderrthreshold storage-driver-buffer-duration storage-driver-db storage-driver-host
storage-driver-password storage-driver-table storage-driver-user streaming-connection-idle-timeout sync-frequency
tls-cert-file tls-cipher-suites tls-min-version tls-private-key-file v vmodule volume-plugin-dir
volume-stats-agg-period application-metrics-count-limit boot-id-file update-machine-info-interval
"""
_OTHER_BOOLS = """
add-dir-header alsologtostderr anonymous-auth authentication-token-webhook
boot-id-file contention-profiling enable-cadvisor-json-endpoints enable-controller-attach-detach
enable-debugging-handlers enable-load-reader enable-server exit-on-lock-contention help
keep-terminated-pod-volumes kernel-memcg-notification experimental-kernel-memcg-notification
local-storage-capacity-isolation log-text-split-stream logtostderr make-iptables-util-chains
one-output really-crash-for-testing redirect-container-streaming register-node rotate-certificates
rotate-server-certificates runonce seccomp-default serialize-image-pulls skip-headers skip-log-headers
storage-driver-secure version
"""

NODE_FLAGS: Mapping[str, str] = {
    **dict.fromkeys((*_OTHERS.split(), *_OTHER_BOOLS.split()), ""),
    "experimental-allocatable-ignore-eviction": _NO_THRESHOLD,
}
"""Flags that set no field of the rules, with a note; "" for none."""

BOOLS = frozenset(
    {
        *_OTHER_BOOLS.split(),
        "experimental-allocatable-ignore-eviction",
        *(name for name, (_, kind) in FIELD_FLAGS.items() if kind is FlagKind.BOOL),
    }
)
"""Flags without a separate word as their value."""


K3S_SETTINGS = (
    "k3s and RKE2 give their kubelet further settings of their own (evictionHard among them), which are not in this "
    "file: /configz of the node has all of them"
)
_KUBELET_ARG = "kubelet-arg"
_WITH_KUBELET = {"k3s", "rke2"}
"""Programs that have a kubelet inside and pass flags on to it."""
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")
_LOGGED = re.compile(r'^.*\bmsg="Running kubelet(?=\s)([^"]*)"?', re.MULTILINE)
"""The line in which k3s and RKE2 log their kubelet's flags."""
_SECTION = re.compile(r"^\[[A-Za-z]+\]\s*$", re.MULTILINE)
_YAML = re.compile(r"(?:---|%YAML)(?:\s|$)")
"""How a document in YAML begins: its marker, which is no flag, or a directive."""
_UNIT_KEYS = ("ExecStart", "Environment", "EnvironmentFile")
_NUMBER = re.compile(r"[-+]?[0-9]{1,18}", re.ASCII)
_NEAR = 0.75


@dataclass(frozen=True, slots=True)
class Flag:
    """One given flag: its name without dashes, its value (None for none), and its place."""

    name: str
    value: str | None
    place: str

    @property
    def origin(self) -> str:
        """Its name in reasons and errors."""
        return f"--{self.name} ({self.place})" if self.place else f"--{self.name}"

    def error(self, what: str, next_step: str = "") -> ManifestError:
        """An error at this flag."""
        return ManifestError.at(what, file=self.place or "kubelet flags", field=f"--{self.name}", next_step=next_step)


def is_command_line(text: str) -> bool:
    """Whether a text other than a configuration looks like flags, a unit or variables with flags."""
    stripped = (line.strip() for line in text.removeprefix("\ufeff").split("\n"))
    lines = [line for line in stripped if line and not line.startswith(("#", ";"))]
    if not lines or _YAML.match(lines[0]):
        return False
    first = lines[0].removeprefix("- ").lstrip("\"'")
    assigned = _ASSIGNMENT.fullmatch(first)
    return (
        "\0" in text
        or bool(re.match("--|-[A-Za-z]", first))
        or bool(_SECTION.search(text))
        or bool(assigned and "--" in assigned[2])
        or first.split("=")[0].strip() in _UNIT_KEYS
        or bool(re.search(r"(?:^|\s|/)kubelet\s+--", first))
        or bool(_LOGGED.match(text))
    )


def environment_in(text: str) -> dict[str, str]:
    """The variables of an environment file; {} if the text has any other line."""
    found = {}
    for line in _lines(text):
        match = _ASSIGNMENT.fullmatch(line)
        if match is None or match[1] in _UNIT_KEYS:
            return {}
        found[match[1]] = " ".join(_split(match[2], ""))
    return found


def variables_used(text: str) -> frozenset[str]:
    """The names of the variables in a text, other than an environment file's."""
    return frozenset() if environment_in(text) else frozenset(_VARIABLE.findall(text))


def flags_in(
    text: str, place: str, around: Mapping[str, str] | None = None, used: Container[str] = ()
) -> tuple[tuple[Flag, ...], tuple[SettingsNote, ...]]:
    """The flags in a text of any of the forms, and other words in it; ManifestError for unclosed quotes.

    around: the variables of other given files. used: the variables that other given texts expand; their flags count
    there.
    """
    if "\0" in text:
        return flag_words([word for word in text.split("\0") if word], place)
    commands, variables, notes = _parts(text, place)
    if not commands:
        words = [word for name, value in variables.items() if name not in used for word in _flags_of(value, place)]
        flags, more = flag_words(words, place)
        return flags, (*notes, *more)
    others = {name for command in commands for name in _VARIABLE.findall(command)} - set(variables)
    if around and others <= set(around):
        notes.clear()
    return _of_commands(commands, {**variables, **(around or {})}, notes, place)


def _parts(text: str, place: str) -> tuple[list[str], dict[str, str], list[SettingsNote]]:
    """The commands and the variables in a text, and notes on files that it names."""
    variables: dict[str, str] = {}
    commands: list[str] = []
    notes: list[SettingsNote] = []
    for line in _lines(_LOGGED.sub(r"kubelet \1", text)):
        key, equals, value = line.partition("=")
        key = key.strip()
        if equals and key == "EnvironmentFile":
            what = "the file is not read here: give its text as a further --kubelet-flags"
            notes.append(SettingsNote(f"EnvironmentFile={value.strip()}", place, what))
        elif equals and key == "Environment":
            for word in _split(value, place):
                if match := _ASSIGNMENT.fullmatch(word):
                    variables[match[1]] = match[2]
        elif equals and key == "ExecStart":
            commands = [*commands, value.strip()] if value.strip() else []
        elif match := _ASSIGNMENT.fullmatch(line):
            variables[match[1]] = " ".join(_split(match[2], place))
        elif not _SECTION.fullmatch(line) and (not equals or line.lstrip("\"' ").startswith("-") or "--" in line):
            commands.append(line.removeprefix("- ").removeprefix("exec "))
    return commands, variables, notes


def _flags_of(value: str, place: str) -> list[str]:
    return _split(value, place) if value.lstrip().startswith("-") else []


def _of_commands(
    commands: Sequence[str], variables: Mapping[str, str], notes: Iterable[SettingsNote], place: str
) -> tuple[tuple[Flag, ...], tuple[SettingsNote, ...]]:
    """The flags of commands with their variables expanded.

    Without its value a variable that is a word of its own is no word, as for systemd; inside a word it stays, so that
    an error names it.
    """
    found: list[SettingsNote] = list(notes)
    words: list[str] = []
    for command in commands:
        for name in _VARIABLE.findall(command):
            if name not in variables:
                what = "the variable is not set here: give the file that sets it as a further --kubelet-flags"
                found.append(SettingsNote(f"${name}", place, what))
        expanded = _VARIABLE.sub(lambda match: variables.get(match[1], match[0]), command)
        words += [word for word in _split(expanded, place) if not _VARIABLE.fullmatch(word)]
    flags, more = flag_words(words, place)
    return flags, (*found, *more)


def _lines(text: str) -> Iterator[str]:
    """The lines without empty ones and comments, continued lines joined."""
    for line in map(str.strip, re.sub(r"\\\n", " ", text.removeprefix("\ufeff")).split("\n")):
        if line and not line.startswith(("#", ";")):
            yield line.removesuffix("\\")


def _split(text: str, place: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ManifestError.at(f"the flags do not end: {error}.", file=place, next_step="Close the quotes.") from None


def flag_words(words: Sequence[str], place: str) -> tuple[tuple[Flag, ...], tuple[SettingsNote, ...]]:
    """The flags in the words of a command line, as in pflag, without the program and words before it.

    A word that belongs to no flag gets a note: a kubelet refuses it. Of a command line of k3s or RKE2, the flags that
    it gives to its kubelet.
    """
    flags: list[Flag] = []
    notes: list[SettingsNote] = []
    program = {word.rpartition("/")[2] for word in itertools.takewhile(lambda word: not word.startswith("-"), words)}
    index = 0
    while index < len(words):
        word = words[index].strip().strip(",")
        index += 1
        if not word.startswith("-"):
            if flags and word:
                what = f"it belongs to no flag: the kubelet refuses it ('unknown command {word[:40]}')"
                notes.append(SettingsNote(f"'{word[:80]}'", place, what))
            continue
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if not name:
            continue
        if equals:
            flags.append(Flag(name, value, place))
        elif name in BOOLS or index >= len(words) or (words[index].startswith("-") and name != _KUBELET_ARG):
            flags.append(Flag(name, None, place))
        else:
            flags.append(Flag(name, words[index], place))
            index += 1
    if program & _WITH_KUBELET or any(flag.name == _KUBELET_ARG for flag in flags):
        return tuple(_given_to_kubelet(flags)), (SettingsNote(_KUBELET_ARG, place, K3S_SETTINGS),)
    return tuple(flags), tuple(notes)


def _given_to_kubelet(flags: Iterable[Flag]) -> Iterator[Flag]:
    """The flags in `--kubelet-arg NAME=VALUE` of k3s and RKE2."""
    for flag in flags:
        if flag.name == _KUBELET_ARG and flag.value:
            name, equals, value = flag.value.lstrip("-").partition("=")
            yield Flag(name, value if equals else None, flag.place)


def flagged(node: MappingNode, flags: Sequence[Flag]) -> tuple[MappingNode, dict[str, str], tuple[SettingsNote, ...]]:
    """A configuration overridden by flags, the origin of each field that they set, and a note for other flags.

    As in the kubelet, a flag replaces its whole field: a map or list is reset by the first flag of a name, and later
    flags of that name add to it. Feature gates are merged with those of the files. Raises ManifestError for a value
    that a kubelet refuses.
    """
    fields: dict[str, Node] = {}
    origin: dict[str, str] = {}
    notes: list[SettingsNote] = []
    for flag in flags:
        known = FIELD_FLAGS.get(flag.name)
        if known is None:
            notes += _note(flag)
            continue
        field, kind = known
        fields[field] = _value(flag, kind, fields.get(field))
        origin[field] = flag.origin
        if isinstance(found := fields[field], MappingNode):
            origin |= {
                f"{field}.{entry.key}": origin.get(f"{field}.{entry.key}", flag.origin) for entry in found.entries
            }
    for field, value in fields.items():
        if field == "featureGates" and isinstance(given := node.get(field), MappingNode):
            node = _set(node, field, _over(given, value))
            del origin[field]
        else:
            node = _set(node, field, value)
    return node, origin, tuple(notes)


def _note(flag: Flag) -> Iterator[SettingsNote]:
    if flag.name in NODE_FLAGS:
        if NODE_FLAGS[flag.name]:
            yield SettingsNote(flag.origin, flag.place, NODE_FLAGS[flag.name])
        return
    near = difflib.get_close_matches(flag.name[:80], [*FIELD_FLAGS, *NODE_FLAGS], n=1, cutoff=_NEAR)
    meant = f"; did you mean --{near[0]}?" if near else ""
    yield SettingsNote(
        f"--{flag.name[:80]}",
        flag.place,
        "memqos does not know this flag, and assumes that it changes nothing; a kubelet that does not know it does not "
        f"start ('unknown flag: --{flag.name[:80]}'){meant}",
    )


def _set(node: MappingNode, name: str, value: Node) -> MappingNode:
    return MappingNode((*(one for one in node.entries if one.key != name), MappingEntry(name, 0, value)), node.line)


def _over(given: Node | None, added: Node) -> MappingNode:
    """The entries of two mappings; the second wins."""
    first = given.entries if isinstance(given, MappingNode) else ()
    second = added.entries if isinstance(added, MappingNode) else ()
    names = {entry.key for entry in second}
    return MappingNode((*(entry for entry in first if entry.key not in names), *second), 0)


def _value(flag: Flag, kind: FlagKind, before: Node | None) -> Node:
    """A flag's value for its field; before: that of an earlier flag of this name."""
    text = flag.value
    if kind is FlagKind.BOOL:
        return _scalar(flag, _bool(flag, "true" if text is None else text))
    if text is None:
        raise flag.error("the flag needs a value.", f"Write --{flag.name}=VALUE.")
    if kind is FlagKind.INT:
        if not _NUMBER.fullmatch(text.strip()):
            raise flag.error(f"'{text[:80]}' is not a whole number.")
        return _scalar(flag, int(text))
    if kind is FlagKind.TEXT:
        return _scalar(flag, text)
    if kind is FlagKind.LIST:
        items = [_scalar(flag, part) for part in text.split(",")] if text else []
        return SequenceNode((*(before.items if isinstance(before, SequenceNode) else ()), *items), 0)
    if kind is FlagKind.MEMORY:
        return SequenceNode(
            (*(before.items if isinstance(before, SequenceNode) else ()), *_reserved_memory(flag, text)), 0
        )
    return _over(before, MappingNode(tuple(_pairs(flag, kind, text)), 0))


def _pairs(flag: Flag, kind: FlagKind, text: str) -> Iterator[MappingEntry]:
    between = "<" if kind is FlagKind.BELOW else "="
    parts = [text] if kind is FlagKind.PAIR else text.split(",")
    for part in parts:
        if not part.strip():
            continue
        name, found, value = part.partition(between)
        name, value = name.strip(), value.strip()
        if not found or not name:
            step = f"Write --{flag.name}=name{between}value,…"
            raise flag.error(f"'{part[:80]}' is not name{between}value.", step)
        gate = kind is FlagKind.GATES
        yield MappingEntry(name, 0, _scalar(flag, _bool(flag, value)) if gate else _scalar(flag, value))


def _reserved_memory(flag: Flag, text: str) -> Iterator[MappingNode]:
    """`0:memory=1Gi,hugepages-2Mi=1Gi`, several of them with ";" between."""
    for part in text.split(";"):
        numa, found, rest = part.partition(":")
        if not found or not _NUMBER.fullmatch(numa.strip()):
            raise flag.error(f"'{part[:80]}' is not NODE:memory=AMOUNT.", f"Write --{flag.name}=0:memory=1Gi,….")
        limits = MappingNode(tuple(_pairs(flag, FlagKind.MAP, rest)), 0)
        entries = (MappingEntry("numaNode", 0, _scalar(flag, int(numa))), MappingEntry("limits", 0, limits))
        yield MappingNode(entries, 0)


def _bool(flag: Flag, text: str) -> bool:
    if text not in _TRUE | _FALSE:
        raise flag.error(f"'{text[:80]}' is neither true nor false.")
    return text in _TRUE


def _scalar(flag: Flag, value: str | int | bool) -> ScalarNode:
    del flag
    return ScalarNode(value, str(value).lower() if isinstance(value, bool) else str(value), 0)
