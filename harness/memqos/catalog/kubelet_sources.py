"""The usual forms of a kubelet's configuration, each split into configuration and flags.

KubeletConfiguration files, /configz of the kubelet, kubeadm's files and ConfigMap, k3s' and RKE2's config.yaml,
nodeadm's NodeConfig, OpenShift's KubeletConfig, and command lines. docs/reference/kubelet-configuration.md lists them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from memqos.catalog.kubelet_flags import (
    K3S_SETTINGS,
    Flag,
    environment_in,
    flag_words,
    flags_in,
    is_command_line,
    variables_used,
)
from memqos.catalog.pods import read_text
from memqos.catalog.schema import FieldPath, mapping, said_in_status, text
from memqos.catalog.yaml_nodes import MappingEntry, MappingNode, Node, ScalarNode, SequenceNode, parse_documents
from memqos.errors import ManifestError, UsageError
from memqos.model.node import SettingsNote

__all__ = ["API", "FORMS", "KIND", "Source", "source_of", "sources_at", "sources_of_flags", "with_defaults"]

API = "kubelet.config.k8s.io/v1beta1"
KIND = "KubeletConfiguration"
_WHAT = "a KubeletConfiguration"
_SUFFIX = ".conf"
_MOST_SKIPPED = 6
FORMS = (
    f"memqos reads {API} {KIND}, /configz, files of kubeadm, k3s, RKE2, nodeadm and OpenShift, and command lines "
    "(--kubelet-flags). For any other tool give what the node's kubelet serves: "
    "kubectl get --raw /api/v1/nodes/NAME/proxy/configz"
)
"""The next step after a file of another form."""
_NODEADM = (
    "nodeadm merges this onto a configuration of its own, which is not in this file, among it a kubeReserved that it "
    "computes from the instance type: /configz of the node has all of it"
)
_OPENSHIFT = (
    "the Machine Config Operator merges this onto a configuration of its own, which is not in this file; with "
    "autoSizingReserved (the default from 4.21 on) the node computes its systemReserved: /configz of the node has all "
    "of it"
)
_DRIVERS = {"kubeadm": "kubeadm's default", "nodeadm": "nodeadm's default", "OpenShift": "OpenShift's default"}
"""Who sets cgroupDriver to systemd unless the file says otherwise.

Source: kubeadm `componentconfigs`; nodeadm `defaultKubeletSubConfig`; the Machine Config Operator's kubelet.conf.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A kubelet's settings from one file or one option.

    config: a KubeletConfiguration, None for none. defaults: fields that its tool sets if the file does not, with the
    reason. release: the Kubernetes release in the file, "" for none. effective: /configz. headed: whether the
    configuration must have apiVersion and kind.
    """

    file: str
    config: MappingNode | None = None
    flags: tuple[Flag, ...] = ()
    notes: tuple[SettingsNote, ...] = ()
    defaults: tuple[tuple[str, str, str], ...] = ()
    release: str = ""
    effective: bool = False
    headed: bool = True


@dataclass(slots=True)
class _Found:
    """The content of a file's documents so far."""

    file: str
    configs: list[tuple[MappingNode, bool, str]] = field(default_factory=list)
    flags: list[Flag] = field(default_factory=list)
    notes: list[SettingsNote] = field(default_factory=list)
    defaults: list[tuple[str, str, str]] = field(default_factory=list)
    release: str = ""
    effective: bool = False


def sources_at(path: str | Path) -> tuple[Source, ...]:
    """The sources in a file ("-" is standard input), or in a folder for --config-dir: its *.conf files.

    Files of a folder and of the folders below it are in the kubelet's order: by name, each folder at the place of its
    name. Other suffixes than .conf are skipped, with a note. Raises UsageError for an unreadable file, ManifestError
    for an unknown form.
    """
    if str(path) == "-" or not _is(os.path.isdir, path):
        return (source_of(read_text(path, _WHAT), str(path)),)
    files: list[Path] = []
    skipped: list[Path] = []
    for one in _walk(Path(path)):
        (files if one.name.endswith(_SUFFIX) else skipped).append(one)
    found = [source_of(read_text(one, _WHAT), str(one)) for one in files]
    if not skipped and found:
        return tuple(found)
    names = ", ".join(str(one.relative_to(path)) for one in skipped[:_MOST_SKIPPED])
    more = f" and {len(skipped) - _MOST_SKIPPED} more" if len(skipped) > _MOST_SKIPPED else ""
    what = f"--config-dir reads files that end in {_SUFFIX} only: skipped {names}{more}" if skipped else "it is empty"
    note = SettingsNote(str(path), str(path), what if found else f"{what}; nothing is configured by this folder")
    return (Source(file=str(path), notes=(note,)), *found)


def _is(kind: Callable[[str], bool], path: str | Path) -> bool:
    """Whether a file or folder of this name exists; false for an impossible name.

    pathlib raises for names that are too long, such as flags.
    """
    return kind(str(path))


def _walk(folder: Path) -> Iterator[Path]:
    """Files in the order of Go's filepath.WalkDir: by the bytes of names; links to folders are not followed."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        raise UsageError(
            f"the folder cannot be read: {error.strerror}.", where=str(folder), next_step="Give a readable folder."
        ) from None
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path))
        else:
            yield Path(entry.path)


def sources_of_flags(given: Sequence[str]) -> tuple[Source, ...]:
    """The sources in --kubelet-flags: files by name, and texts of flags.

    The variables of an environment file hold in all of them.
    """
    texts = [_flags_text(one) for one in given]
    around = {name: value for text, _ in texts for name, value in environment_in(text).items()}
    used = frozenset(name for text, _ in texts for name in variables_used(text))
    return tuple(_of_flags(text, file, around, used) for text, file in texts)


def _flags_text(one: str) -> tuple[str, str]:
    """A text of flags and its place."""
    is_text = one != "-" and ("-" in one[:1] or any(sign in one for sign in "=\n\0")) and not _is(os.path.isfile, one)
    if is_text or not one.strip():
        data, file = one.encode("utf-8", "surrogateescape"), "--kubelet-flags"
    else:
        data, file = read_text(one, "a file of kubelet flags"), one
    return data.decode("utf-8", "replace"), file


def _of_flags(content: str, file: str, around: Mapping[str, str], used: Set[str]) -> Source:
    variables = environment_in(content)
    # Debian's /etc/default/kubelet is KUBELET_EXTRA_ARGS= and no more.
    without = not used.isdisjoint(variables) or (bool(variables) and not any(variables.values()))
    if without or is_command_line(content):
        flags, notes = flags_in(content, file, around, used)
        source = Source(file=file, flags=flags, notes=notes)
    else:
        # A list or a file of k3s or kubeadm may have flags too.
        source = _listed_flags(content.encode(), file)
    if not source.flags and not source.notes and not without:
        raise _no_flags(file)
    return source


def _listed_flags(data: bytes, file: str) -> Source:
    try:
        source = source_of(data, file)
    except ManifestError:
        raise _no_flags(file) from None
    if source.config is None:
        return source
    if source.headed and text(source.config, "kind") != KIND:
        raise _no_flags(file)
    raise UsageError(f"this is {_WHAT}.", where=file, next_step="Give it with --kubelet-config.")


def _no_flags(file: str) -> UsageError:
    step = "Write --name=value, such as --kube-reserved=memory=1Gi, or give a file with such flags."
    return UsageError("it contains no kubelet flags.", where=file, next_step=step)


def source_of(data: bytes, file: str) -> Source:
    """The content of a file in any form; ManifestError naming file and line for an unknown one."""
    content = data.decode("utf-8", "replace")
    if is_command_line(content):
        flags, notes = flags_in(content, file)
        if not flags and not notes:
            raise _no_flags(file)
        return Source(file=file, flags=flags, notes=notes)
    documents = _documents(data, file)
    found = _Found(file)
    others = [one for one in documents if not _taken(one, found)]
    if others and not (len(documents) == 1 and isinstance(others[0], MappingNode)):
        raise _unknown(documents, file)
    if others:
        _refuse_objects(others[0], file)
        return Source(file=file, config=others[0] if isinstance(others[0], MappingNode) else None)
    if len(found.configs) > 1 or not documents:
        raise _unknown(documents, file)
    config, headed, own = found.configs[0] if found.configs else (None, True, file)
    return Source(
        file=own,
        config=config,
        headed=headed,
        flags=tuple(found.flags),
        notes=tuple(found.notes),
        defaults=tuple(found.defaults),
        release=found.release,
        effective=found.effective,
    )


def _documents(data: bytes, file: str) -> tuple[Node, ...]:
    try:
        return parse_documents(data, file)
    except ManifestError as error:
        if error.next_step or KIND.encode() in data:
            raise
        raise ManifestError(error.what, where=error.where, next_step=FORMS, data=error.data) from None


def _unknown(documents: Sequence[Node], file: str) -> ManifestError:
    found = f"{len(documents)} documents" if len(documents) != 1 else "something else than a mapping of fields"
    return FieldPath(file).error(f"expected one {KIND}, got {found}.", 0, next_step=FORMS)


def _refuse_objects(node: Node, file: str) -> None:
    """Objects that belong to another option."""
    kind = text(node, "kind") if isinstance(node, MappingNode) else ""
    if kind in {"Node", "NodeList"}:
        raise UsageError(f"this is a {kind}, not a {KIND}.", where=file, next_step="Give it with --node.")
    if kind == "Status" and isinstance(node, MappingNode):
        what = f"this is an answer of the API server and no {KIND}: {said_in_status(node)}."
        raise UsageError(what, where=file, next_step=FORMS)


def _taken(node: Node, found: _Found) -> bool:
    """Split a document; False for an unknown form."""
    if isinstance(node, SequenceNode):
        words = [one.text for one in node.items if isinstance(one, ScalarNode)]
        if len(words) != len(node.items) or not any(word.startswith("--") for word in words):
            return False
        _add_words(words, found, found.file)
        return True
    if not isinstance(node, MappingNode):
        return False
    if isinstance(served := node.get("kubeletconfig"), MappingNode):
        if not served.entries:
            what = "it has no fields, but a kubelet serves all of them in its /configz."
            raise FieldPath(found.file).child("kubeletconfig").error(what, node.line, next_step=FORMS)
        found.configs.append((served, False, found.file))
        found.effective = True
        return True
    version, kind = text(node, "apiVersion"), text(node, "kind")
    if not kind and any(entry.key in {"kubelet-arg", "kubelet-arg+"} for entry in node.entries):
        _k3s(node, found)
        return True
    return _of_kind(node, version.partition("/")[0], kind, found)


def _of_kind(node: MappingNode, group: str, kind: str, found: _Found) -> bool:
    if kind == KIND and text(node, "apiVersion") == API:
        found.configs.append((node, True, found.file))
    elif group == "kubeadm.k8s.io":
        _kubeadm(node, found)
    elif kind == "ConfigMap" and isinstance(kept := mapping(node, "data").get("kubelet"), ScalarNode):
        inner = source_of(kept.text.encode("utf-8", "surrogatepass"), f"{found.file} data.kubelet")
        found.configs += [(inner.config, inner.headed, inner.file)] if inner.config is not None else []
        found.flags += inner.flags
        found.notes += inner.notes
    elif kind == "NodeConfig" and group == "node.eks.aws":
        kubelet = mapping(mapping(node, "spec"), "kubelet")
        found.configs += (
            [(config, False, found.file)] if isinstance(config := kubelet.get("config"), MappingNode) else []
        )
        _add_words(_texts(kubelet.get("flags")), found, found.file)
        _systemd_by("nodeadm", found)
        found.notes.append(SettingsNote(kind, f"{found.file}:{node.line}", _NODEADM))
    elif kind == "KubeletConfig" and group == "machineconfiguration.openshift.io":
        config = mapping(node, "spec").get("kubeletConfig")
        if isinstance(config, MappingNode) and config.get(_SIZED) is not None:
            place = FieldPath(found.file).child("spec").child("kubeletConfig", _SIZED)
            raise place.error("it is a field of spec, beside kubeletConfig: no kubelet has it.", config.line_of(_SIZED))
        found.configs += [(config, False, found.file)] if isinstance(config, MappingNode) else []
        _systemd_by("OpenShift", found)
        found.notes.append(SettingsNote(kind, f"{found.file}:{node.line}", _OPENSHIFT))
    else:
        return kind == "KubeProxyConfiguration"
    return True


_SIZED = "autoSizingReserved"


def _k3s(node: MappingNode, found: _Found) -> None:
    """`kubelet-arg` is one flag or a list of flags, without dashes; so is `kubelet-arg+`, which adds to it."""
    for entry in node.entries:
        if entry.key in {"kubelet-arg", "kubelet-arg+"}:
            _add_words([f"--{word.lstrip('-')}" for word in _texts(entry.value)], found, f"{found.file}:{entry.line}")
    found.notes.append(SettingsNote("kubelet-arg", f"{found.file}:{node.line_of('kubelet-arg')}", K3S_SETTINGS))


def _kubeadm(node: MappingNode, found: _Found) -> None:
    found.release = found.release or text(node, "kubernetesVersion")
    _systemd_by("kubeadm", found)
    given = mapping(node, "nodeRegistration").get("kubeletExtraArgs")
    if isinstance(given, MappingNode):
        pairs = [(entry.key, entry.value.text, entry.line) for entry in _scalars(given)]
    else:
        items = given.items if isinstance(given, SequenceNode) else ()
        pairs = [(text(one, "name"), _own(one, "value"), one.line) for one in items if isinstance(one, MappingNode)]
    found.flags += [Flag(name.lstrip("-"), value, f"{found.file}:{line}") for name, value, line in pairs if name]


def _systemd_by(tool: str, found: _Found) -> None:
    if not found.defaults:
        found.defaults.append(("cgroupDriver", "systemd", _DRIVERS[tool]))


def _scalars(node: MappingNode) -> Iterator[_Scalar]:
    for entry in node.entries:
        if isinstance(entry.value, ScalarNode):
            yield _Scalar(entry.key, entry.value, entry.line)


@dataclass(frozen=True, slots=True)
class _Scalar:
    key: str
    value: ScalarNode
    line: int


def _own(node: MappingNode, name: str) -> str:
    value = node.get(name)
    return value.text if isinstance(value, ScalarNode) else ""


def _texts(node: Node | None) -> list[str]:
    items = node.items if isinstance(node, SequenceNode) else (node,)
    return [one.text for one in items if isinstance(one, ScalarNode) and one.value is not None]


def _add_words(words: Sequence[str], found: _Found, place: str) -> None:
    flags, notes = flag_words(words, place)
    found.flags += flags
    found.notes += notes


def with_defaults(source: Source) -> Source:
    """The source with its tool's defaults for missing fields."""
    config = source.config or MappingNode((), 0)
    missing = [one for one in source.defaults if config.get(one[0]) is None]
    if not missing:
        return source
    added = tuple(MappingEntry(name, 0, ScalarNode(value, value, 0)) for name, value, _ in missing)
    return replace(
        source,
        config=MappingNode((*config.entries, *added), config.line),
        headed=source.headed and source.config is not None,
    )
