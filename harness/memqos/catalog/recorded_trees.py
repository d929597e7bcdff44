"""Recorded trees: the interface files of one node in a JSON file with its pods and configuration.

docs/reference/recorded-trees.md describes the format.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from msgspec import UnsetType

from memqos.catalog.allocation_state import (
    ACTUATED,
    ALLOCATED,
    CHECKPOINTS,
    STATUS_MANAGER,
    Checkpointed,
    checkpointed,
    status_manager_state,
)
from memqos.catalog.kubelet_config import settings_of
from memqos.catalog.manifests import Manifest, manifests_in
from memqos.catalog.node_facts import amounts_of, page_size_of_amounts
from memqos.catalog.pods import distinct
from memqos.catalog.recording_format import (
    COLLECTED,
    FORMAT,
    Daemon,
    Machine,
    RecordedNode,
    Recording,
    SecondLook,
    checked_part,
    format_error,
    read_recording,
)
from memqos.engine.answer.verdict import OOM_SCORE_ADJ, PROCESSES
from memqos.engine.translate.versions import RuntimeName, traits_of
from memqos.errors import ManifestError
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver, CgroupVersion, KubeletSettings, NodeFacts, NumaNode, SettingsNote
from memqos.model.path import CgroupPath
from memqos.model.pod import Pod
from memqos.model.reading import CgroupReading, FileText, NoFile, Reading

__all__ = [
    "SANDBOX",
    "RecordedContainer",
    "RecordedTree",
    "load_tree",
    "tree_of",
]

SANDBOX = "(sandbox)"
"""The container name of a sandbox."""
_MOST_DIGITS = 15
_MOUNT = "/sys/fs/cgroup"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,253}", re.ASCII)
_RELEASE = re.compile(r"v?[0-9]+\.[0-9]+")
_VERSIONS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(RuntimeName, _RELEASE),
    "systemd": re.compile(r"[0-9]{1,4}$"),
}
_OTHERS = {"cri": RuntimeName.OTHER_CRI, "oci": RuntimeName.OTHER_OCI}
"""The fields of a runtime that is not modelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedContainer:
    """A container: the runtime's id, and the pod and container names with the pod's uid."""

    id: str
    pod: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTree:
    """The content of a file. release "", node, settings, pods None: missing in the file.

    pods: the manifests, admitted or not. containers: without sandboxes; sandboxes: the uids of all pods with a sandbox
    or a container, with their names. checkpoint: the Memory Manager's state file under the policy Static, None
    otherwise. allocated, actuated: by pod uid, the resources in the kubelet's checkpoints of 1.33 and later,
    status_manager: those in that of 1.27 to 1.32; empty without them. runtimes: containerd or cri-o, runc or crun, and
    systemd to their versions, if in the file, "" for an unknown version; with two OCI runtimes the one that the
    containers' cgroups show; name and version of one that is not modelled, by `RuntimeName.OTHER_CRI` or OTHER_OCI.
    hugetlb: whether containerd passes huge page limits on; hugetlb_unknown: whether that was not read. unread: options
    of the kubelet's command line that win over its configuration; `settings` has them. drop_ins_unread: files and
    folders of drop-ins that the recording lacks, with the reason; `settings` does not have them. checkpoints_unread:
    the same for the kubelet's existing checkpoints. kubelet_inside: the program that contains the kubelet, such as
    k3s-server, and configures it by its own flags and files; "" for none. config_unread: why the recording lacks the
    kubelet's configuration, "" if it has it, or if the kubelet has none. node_name: the node's name in the recording.
    machine, daemons, second_look: further readings of `memqos collect`. collected_at: the node's own time as in RFC
    3339, "" if unknown. ending: pods whose sandbox has ended and that the kubelet has forgotten. notes: unreadable
    parts, with the reason. cut_off: whether the file is truncated: missing parts may have existed.
    """

    source: str
    reading: Reading
    containers: tuple[RecordedContainer, ...]
    sandboxes: Mapping[str, str]
    release: str = ""
    node: NodeFacts | None = None
    settings: KubeletSettings | None = None
    pods: tuple[Pod, ...] | None = None
    checkpoint: str | None = None
    allocated: Mapping[str, Checkpointed] = field(default_factory=dict)
    actuated: Mapping[str, Checkpointed] = field(default_factory=dict)
    status_manager: Mapping[str, Checkpointed] = field(default_factory=dict)
    runtimes: Mapping[str, str] = field(default_factory=dict)
    hugetlb: bool = False
    hugetlb_unknown: bool = False
    unread: tuple[str, ...] = ()
    drop_ins_unread: Mapping[str, str] = field(default_factory=dict)
    checkpoints_unread: Mapping[str, str] = field(default_factory=dict)
    kubelet_inside: str = ""
    config_unread: str = ""
    node_name: str = ""
    machine: Machine = field(default_factory=Machine)
    daemons: tuple[Daemon, ...] = ()
    second_look: SecondLook = field(default_factory=SecondLook)
    collected_at: str = ""
    ending: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    cut_off: bool = False

    @property
    def driver(self) -> CgroupDriver | None:
        """The kubelet's cgroup driver by the parent of its pods; None without a parent, or with one of each driver."""
        names = {part for path in self.reading.cgroups for part in path.parts}
        shown = {
            CgroupDriver.SYSTEMD: any(name.endswith("kubepods.slice") for name in names),
            CgroupDriver.CGROUPFS: "kubepods" in names,
        }
        found = [driver for driver, is_shown in shown.items() if is_shown]
        return found[0] if len(found) == 1 else None


def load_tree(path: str | Path, overrides: Sequence[str] = (), flags: Sequence[str] = ()) -> RecordedTree:
    """The tree in a file; flags, then overrides (`key=value`), win over its configuration.

    Raises UsageError for an unreadable file, ManifestError naming file, line and field for a violation of the format,
    and for a configuration or a pod that Kubernetes would refuse.
    """
    data, found, cut_off = read_recording(path)
    tree = _tree(data, found, str(path), overrides, flags)
    if not cut_off:
        return tree
    what = "the recording ends in the middle: missing values were not judged"
    return replace(tree, cut_off=True, notes={**tree.notes, "cgroups": what})


def tree_of(
    data: Mapping[str, Any], file: str, overrides: Sequence[str] = (), flags: Sequence[str] = ()
) -> RecordedTree:
    """The tree in a document of this format; as `load_tree`. file: its source, for errors and reasons."""
    return _tree(data, checked_part(data, Recording, file), file, overrides, flags)


def _tree(
    data: Mapping[str, Any], found: Recording, file: str, overrides: Sequence[str], flags: Sequence[str]
) -> RecordedTree:
    if found.memqos_collect > COLLECTED:
        what = f"a newer memqos collected it: format {found.memqos_collect}, and this one reads {COLLECTED}."
        raise format_error(what, file, "memqos_collect")
    containers = tuple(_containers(found.containers, file))
    checkpoints, damaged = _checkpoints(data, found.checkpoints_unread, file)
    state = found.memory_manager_state
    cgroups = dict(_cgroups(found.cgroups, file))
    node = None if isinstance(found.node, UnsetType) else found.node
    return RecordedTree(
        source=file,
        reading=Reading(source=file, at=0.0, cgroups=cgroups),
        containers=tuple(one for one in containers if one.name != SANDBOX),
        sandboxes={one.uid: one.pod for one in containers},
        release=found.kubelet.strip().removeprefix("Kubernetes "),
        node=None if node is None else _facts(node, cgroups.values(), found.machine.meminfo, file),
        settings=_settings(found, file, overrides, flags),
        pods=_pods(found, file),
        checkpoint=json.dumps(state) if state is not None and state.get("policyName") == "Static" else None,
        allocated=checkpoints.get(ALLOCATED, {}),
        actuated=checkpoints.get(ACTUATED, {}),
        status_manager=checkpoints.get(STATUS_MANAGER, {}),
        runtimes=_runtimes(data.get("node", {}), cgroups, file),
        hugetlb=node is not None and node.hugetlb is True,
        hugetlb_unknown=bool(found.memqos_collect) and (node is None or node.hugetlb is None),
        unread=found.unread,
        drop_ins_unread=found.drop_ins_unread if found.configz is None else {},
        checkpoints_unread=damaged,
        kubelet_inside=found.kubelet_inside,
        config_unread=_config_unread(found, given=bool(overrides or flags)),
        node_name=found.source,
        machine=found.machine,
        daemons=found.daemons,
        second_look=found.second_look,
        collected_at=found.collected_at,
        ending=tuple(_ending(found, {one.uid for one in containers})),
        notes=_notes(found),
    )


def _config_unread(found: Recording, *, given: bool) -> str:
    """Why the configuration is missing; "" if it is not. given: whether options have fields of it.

    A kubelet without a configuration file has at least flags.
    """
    if found.configz is not None or found.config is not None:
        return ""
    missing = not (given or found.unread or found.drop_ins is not None)
    return found.config_unread or ("the recording does not contain it" if missing else "")


def _pods(found: Recording, file: str) -> tuple[Pod, ...] | None:
    """The recorded pods. A collected node without pod manifests has only the names of its running pods."""
    if found.pods is not None:
        return distinct(_manifests(found.pods, file))
    return () if found.memqos_collect and found.containers else None


def _ending(found: Recording, running: Collection[str]) -> Iterator[str]:
    """Pods of the runtime that do not run and are unknown to the kubelet. running: the uids of running ones."""
    pods = found.pods if isinstance(found.pods, list) else []
    known = {
        one["metadata"].get("uid") for one in pods if isinstance(one, dict) and isinstance(one.get("metadata"), dict)
    }
    for pod in found.runtime_pods or () if pods else ():
        uid = str(pod.uid)
        if not pod.ready and uid not in known and uid not in running:
            yield f"{pod.namespace}/{pod.name}"


def _notes(found: Recording) -> dict[str, str]:
    """Notes about unreadable parts."""
    notes = {name: why for name, why in found.notes.items() if name != "configz" or found.configz is None}
    if not found.root:
        notes["root"] = "the node was not read as root: files that only root may read are missing"
    return notes


def _settings(found: Recording, file: str, overrides: Sequence[str], flags: Sequence[str]) -> KubeletSettings | None:
    """The running kubelet's settings, else those of its file, drop-ins and command line; None if none is recorded."""
    if found.configz is None:
        return _settings_in_files(found, file, overrides, flags)
    running = settings_of(_text(found.configz), f"{file} configz", overrides, flags)
    try:
        written = _settings_in_files(found, file, (), ())
    except ManifestError:
        return running
    return replace(running, notes=(*running.notes, *_changed_since(written, running)))


def _changed_since(written: KubeletSettings | None, running: KubeletSettings) -> Iterator[SettingsNote]:
    """Settings in files that the running kubelet does not have: the files changed after it started."""
    plain = KubeletSettings()
    for one in fields(KubeletSettings):
        if written is None or not one.compare or one.name in {"feature_gates", "effective"}:
            continue
        said, has = getattr(written, one.name), getattr(running, one.name)
        if said is not None and said != getattr(plain, one.name) and said != has:
            yield _note_of_change(one.name, said, has)
    gates = {} if written is None else written.feature_gates
    for name, on in gates.items():
        if running.feature_gates.get(name, on) != on:
            yield _note_of_change(f"featureGates.{name}", on, not on)


def _note_of_change(name: str, said: object, has: object) -> SettingsNote:
    what = f"the files have {said}, the running kubelet has {has}: the files changed after it started and are not used"
    return SettingsNote(name, "configz", what)


def _settings_in_files(
    found: Recording, file: str, overrides: Sequence[str], flags: Sequence[str]
) -> KubeletSettings | None:
    """The kubelet's configuration, its drop-ins and its command line; None if the recording has none of them."""
    config, drop_ins = found.config, None
    if found.drop_ins is not None:
        # The order of a JSON object means nothing; the kubelet's is that of filepath.WalkDir.
        names = sorted(found.drop_ins, key=lambda name: name.encode("utf-8", "surrogatepass").split(b"/"))
        drop_ins = [(f"{file} {name}", _text(found.drop_ins[name])) for name in names if name.endswith(".conf")]
    if config is None and not (found.unread or drop_ins or found.drop_ins_unread):
        return None
    return settings_of(
        None if config is None else _text(config),
        f"{file} config",
        overrides,
        flags,
        words=found.unread,
        drop_ins=drop_ins,
        unread=found.drop_ins_unread,
    )


def _checkpoints(
    data: Mapping[str, Any], unread: Mapping[str, str], file: str
) -> tuple[dict[str, dict[str, Checkpointed]], dict[str, str]]:
    """The checkpoints of pods' resources by name, and the unusable ones, with the reason.

    With a damaged checkpoint the pods are judged too, except for values that depend on it.
    """
    found: dict[str, dict[str, Checkpointed]] = {}
    damaged = dict(unread)
    for name in CHECKPOINTS:
        if data.get(name) is not None:
            try:
                if name == STATUS_MANAGER:
                    found[name] = status_manager_state(data[name], file=file)
                else:
                    found[name] = checkpointed(data[name], file=file, name=name)
            except ManifestError as error:
                damaged[name] = error.what.rstrip(".")
    return found, damaged


def _text(document: object) -> bytes:
    """A part of the recording as a separate file, or the file's own text.

    YAML does not support the surrogate pairs of JSON escapes.
    """
    if isinstance(document, str):
        return document.encode("utf-8", "surrogatepass")
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _containers(given: Mapping[str, Any], file: str) -> Iterator[RecordedContainer]:
    pods: dict[str, str] = {}
    for container_id, names in given.items():
        well_formed = isinstance(names, list) and len(names) == len(("pod", "container", "uid"))
        if not well_formed or not all(isinstance(name, str) and name for name in names):
            raise format_error("expected [pod name, container name, pod uid].", file, f"containers.{container_id[:80]}")
        if not (_NAME.fullmatch(container_id) and _NAME.fullmatch(names[2])):
            what = "an id and a uid have letters, digits, '-', '_' and '.'."
            raise format_error(what, file, f"containers.{container_id[:80]}")
        if pods.setdefault(names[2], names[0]) != names[0]:
            what = f"the uid {names[2]} belongs to the pod {pods[names[2]][:80]} already."
            raise format_error(what, file, f"containers.{container_id[:80]}")
        yield RecordedContainer(id=container_id, pod=names[0], name=names[1], uid=names[2])


def _manifests(pods: list[Any] | dict[str, Any], file: str) -> Iterator[Manifest]:
    """The objects with pods in a list of manifests, or in an API server's List of them."""
    texts: list[tuple[object, str]] = [(pods, f"{file} pods")]
    if isinstance(pods, list):
        texts = [(manifest, f"{file} pods[{index}]") for index, manifest in enumerate(pods)]
    for manifest, place in texts:
        found = tuple(manifests_in(io.BytesIO(_text(manifest)), place))
        if not found:
            raise ManifestError.at("it contains no object.", file=place, next_step=FORMAT)
        yield from (one for one in found if isinstance(one, Manifest))


def _facts(node: RecordedNode, cgroups: Collection[CgroupReading], meminfo: str, file: str) -> NodeFacts:
    for name in node.numa:
        if not (name.startswith("node") and name[4:].isascii() and name[4:].isdigit() and len(name) <= _MOST_DIGITS):
            raise format_error(f"expected node<number>, got '{name[:40]}'.", file, "node.numa")
    numa_nodes = sorted((int(name[4:]), int(amount)) for name, amount in node.numa.items())
    if node.mem_total_kib < max(1, sum(amount for _, amount in numa_nodes)):
        raise format_error("a node has memory, at least as much as its NUMA nodes.", file, "node.mem_total_kib")
    used = (str(one.files.get("memory.current", "")) for one in cgroups)
    counted = page_size_of_amounts(amounts_of(meminfo, used))
    if counted is not None and counted[0] < node.page_size:
        what = f"amounts of memory in the recording are not multiples of {node.page_size} bytes."
        raise format_error(what, file, "node.page_size")
    counts_swap = any(isinstance(one.files.get(Knob.MEMORY_MEMSW_LIMIT_IN_BYTES), str) for one in cgroups)
    return NodeFacts(
        memory=int(node.mem_total_kib),
        swap=int(node.swap_total_kib),
        cpus=node.cpus,
        page_size=node.page_size,
        numa_nodes=tuple(NumaNode(id=number, memory=amount) for number, amount in numa_nodes),
        cgroup_version=node.cgroup,
        swap_controller=counts_swap or node.cgroup is CgroupVersion.V2,
        swappiness=node.swappiness,
        kernel=node.kernel,
        origin=f"{file} node",
    )


def _runtimes(given: Mapping[str, Any], cgroups: Iterable[CgroupPath], file: str) -> dict[str, str]:
    """Versions from the output of programs: "runc version 1.1.15+ds1", "systemd 257 (257.13-1)".

    "" for a runtime without one ("crun version UNKNOWN").
    """
    found: dict[str, str] = {}
    programs = {name: given[name] for name in (*_VERSIONS, *_OTHERS) if name in given}
    told = checked_part(programs, dict[str, str], file, within="node")
    for name, form in _VERSIONS.items():
        if name in told:
            text = told[name]
            version = next((word for word in text.split() if form.match(word)), None)
            if version is None and (name == "systemd" or name not in text.split()):
                raise format_error(f"expected what '{name} --version' prints, got '{text[:60]}'.", file, f"node.{name}")
            found[name] = version or ""
    for key, other in _OTHERS.items():
        if key in told:
            name, *words = told[key].split() or [""]
            if not _NAME.fullmatch(name):
                raise format_error("expected a runtime's name and version.", file, f"node.{key}")
            version = next((word for word in words if _RELEASE.match(word)), "")
            found[other.value] = f"{name} {version}".rstrip()
    if RuntimeName.OTHER_OCI in found:
        return found
    subgroup = traits_of(RuntimeName.CRUN, "").subgroup
    crun = any(path.name == subgroup and path.parent.name.endswith(".scope") for path in cgroups if path.parts)
    if crun:
        found.pop(RuntimeName.RUNC, None)
        found.setdefault(RuntimeName.CRUN, "")
    elif RuntimeName.RUNC in found:
        found.pop(RuntimeName.CRUN, None)
    return found


def _counted(files: dict[str, Any]) -> dict[str, Any]:
    """The files; the number of processes from `memqos collect` replaces cgroup.procs."""
    count = files.get("processes")
    if count is None or PROCESSES in files:
        return files
    return {name: text for name, text in files.items() if name != "processes"} | {
        PROCESSES: "" if count == "0" else f"({count})"
    }


def _cgroups(cgroups: Mapping[str, dict[str, Any]], file: str) -> Iterator[tuple[CgroupPath, CgroupReading]]:
    if not cgroups:
        raise format_error("it contains no cgroup.", file, "cgroups")
    seen: set[CgroupPath] = set()
    known = False
    # The whole paths of a listing, mount included.
    mount = _MOUNT if all(path.startswith(_MOUNT) for path in cgroups) else ""
    for path, files in cgroups.items():
        try:
            where = CgroupPath.parse(path.removeprefix(mount))
        except ValueError as error:
            raise format_error(f"{error}.", file, f"cgroups.{path[:80]}") from None
        if where in seen:
            raise format_error("this cgroup occurs twice.", file, f"cgroups.{path[:80]}")
        seen.add(where)
        texts: dict[str, FileText] = {}
        nested = files.get("hugetlb")
        nested = {} if nested is None else checked_part(nested, dict[str, Any], file, within=f"cgroups.{path}.hugetlb")
        plain = {name: text for name, text in files.items() if name != "hugetlb"}
        for name, text in (*_counted(plain).items(), *nested.items()):
            if name in texts:
                raise format_error("this file occurs twice.", file, f"cgroups.{path}.{name}")
            if isinstance(text, int) and not isinstance(text, bool):
                texts[name] = str(text)
                continue
            if text is not None and not isinstance(text, str):
                raise format_error(
                    "expected the file's text, or null for no such file.", file, f"cgroups.{path}.{name}"
                )
            texts[name] = NoFile.NO_FILE if text is None else text
        known = known or bool(texts.keys() & {*Knob, OOM_SCORE_ADJ})
        yield where, CgroupReading(path=where, files=texts)
    if not known:
        raise format_error("no cgroup has an interface file that memqos knows.", file, "cgroups")
