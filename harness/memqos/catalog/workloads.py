"""The kinds that make pods: the place and rules of their template, and the number of pods on one node.

Source: Kubernetes `apps/validation`, `batch/validation`, `core/validation`; the StatefulSet and Job controllers.

Also the names of an object by the API server's rules: its own, its namespace's, and its controller's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from memqos.catalog.schema import FieldPath, mapping, strings, text, text_list, whole
from memqos.catalog.yaml_nodes import MappingNode, ScalarNode, SequenceNode

__all__ = [
    "KINDS",
    "MOST_PODS",
    "Identity",
    "Replicas",
    "Workload",
    "check_label",
    "controller_of",
    "identity_of",
    "made_name",
    "made_names",
    "out_of_a_cluster",
    "template_of",
    "uid_of",
]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_UID = re.compile(r"[0-9A-Za-z.-]{1,200}", re.ASCII)
_LONGEST_LABEL = 63
_LONGEST_SUBDOMAIN = 253


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of an object in its cluster."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def identity_of(
    kind: str, meta: MappingNode, place: FieldPath, namespace: str = "", *, scoped: bool = True
) -> Identity:
    """The names in an object's metadata.

    namespace: for an object without one ("" is "default"), as kubectl's --namespace. scoped: whether its kind has a
    namespace. Raises ManifestError for a missing or invalid name, and for an object of another namespace than the given
    one.
    """
    name, own = text(meta, "name"), text(meta, "namespace")
    if scoped and namespace and own and own != namespace:
        raise place.child("namespace").error(
            f'the namespace from the provided object "{own[:80]}" does not match the namespace "{namespace}".',
            meta.line_of("namespace"),
            got=own[:80],
            next_step=f"Give --namespace={own[:80]}, or leave it out.",
        )
    namespace = own or namespace or "default"
    if not name and (prefix := text(meta, "generateName")):
        # The API server would append a random suffix; the plan needs a stable name.
        name = f"{prefix}00000"
    if not name:
        raise place.child("name").error(f"a {kind} needs a name.", meta.line)
    _check(name, _SUBDOMAIN, _LONGEST_SUBDOMAIN, place.child("name"), meta.line_of("name"))
    if not scoped:
        return Identity(kind, "", name)
    _check(namespace, _LABEL, _LONGEST_LABEL, place.child("namespace"), meta.line_of("namespace"))
    return Identity(kind, namespace, name)


def out_of_a_cluster(node: MappingNode) -> bool:
    """Whether the object comes from an API server, by the fields that only a server writes.

    These are a status with content, a creationTimestamp or a resourceVersion. A uid alone may be the user's; a pod with
    both a uid and a priority was admitted.
    """
    meta, spec = mapping(node, "metadata"), mapping(node, "spec")
    return bool(
        mapping(node, "status").entries
        or text(meta, "creationTimestamp")
        or text(meta, "resourceVersion")
        or (text(meta, "uid") and spec.get("priority") is not None)
    )


def uid_of(meta: MappingNode, place: FieldPath) -> str:
    """The given uid, "" for none; it becomes part of a cgroup's name."""
    uid = text(meta, "uid")
    if uid and not _UID.fullmatch(uid):
        raise place.child("uid").error(
            f"'{uid[:80]}' cannot be a part of a cgroup's name.",
            meta.line_of("uid"),
            got=uid[:80],
            next_step="Use letters, digits, '.' and '-', or leave it out.",
        )
    return uid


def controller_of(node: MappingNode, namespace: str) -> Identity | None:
    """The object that controls this one (metadata.ownerReferences with controller true)."""
    owners = mapping(node, "metadata").get("ownerReferences")
    for owner in owners.items if isinstance(owners, SequenceNode) else ():
        flag = owner.get("controller") if isinstance(owner, MappingNode) else None
        if isinstance(owner, MappingNode) and isinstance(flag, ScalarNode) and flag.value is True:
            return Identity(text(owner, "kind"), namespace, text(owner, "name"))
    return None


def check_label(name: str, place: FieldPath, line: int) -> None:
    """Raise ManifestError for a name that is not a DNS label."""
    _check(name, _LABEL, _LONGEST_LABEL, place, line)


def _check(name: str, form: re.Pattern[str], longest: int, place: FieldPath, line: int) -> None:
    if len(name) > longest or not form.fullmatch(name):
        raise place.error(
            f"'{name[:80]}' is not a name that Kubernetes accepts here.",
            line,
            got=name[:80],
            next_step=f"Use at most {longest} small letters, digits and '-'"
            + (", '.'" if form is _SUBDOMAIN else "")
            + ", with a letter or digit at both ends.",
        )


MOST_PODS = 10_000
"""The most pods of one workload on one node. A kubelet accepts 110 pods by default."""

_LONGEST_NAME = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A kind. versions: those served by any release from 1.22 on, the newest first.

    spec: the path of fields to the parent of `template`. restarts: the allowed restart policies of its pods. scales:
    whether it has `replicas`. selects: whether it must have a selector that matches its template's labels.
    """

    versions: tuple[str, ...]
    spec: tuple[str, ...] = ("spec",)
    restarts: tuple[str, ...] = ("Always",)
    scales: bool = False
    selects: bool = False


_ONCE = ("OnFailure", "Never")
KINDS: Mapping[str, Workload] = {
    "PodTemplate": Workload(versions=("v1",), spec=(), restarts=("Always", *_ONCE)),
    "ReplicationController": Workload(versions=("v1",), scales=True),
    "ReplicaSet": Workload(versions=("apps/v1",), scales=True, selects=True),
    "Deployment": Workload(versions=("apps/v1",), scales=True, selects=True),
    "StatefulSet": Workload(versions=("apps/v1",), scales=True, selects=True),
    "DaemonSet": Workload(versions=("apps/v1",), selects=True),
    "Job": Workload(versions=("batch/v1",), restarts=_ONCE),
    "CronJob": Workload(versions=("batch/v1", "batch/v1beta1"), spec=("spec", "jobTemplate", "spec"), restarts=_ONCE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """The number of a workload's pods on the node, if not the manifest's.

    every: for each workload that scales. named: for single ones, by (namespace, name); these win.
    """

    every: int | None = None
    named: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def of(self, identity: Identity) -> int | None:
        """The number given for one workload; None for none."""
        if not KINDS[identity.kind].scales:
            return None
        return self.named.get((identity.namespace, identity.name), self.every)


def template_of(node: MappingNode, kind: str, place: FieldPath) -> tuple[MappingNode, FieldPath]:
    """The pod template of a checked object of this kind, with its place.

    Raises ManifestError for an object without one, and for an invalid template.
    """
    holder, place = _holder(node, kind, place)
    template = holder.get("template")
    place = place.child("template")
    if not isinstance(template, MappingNode):
        raise place.error(f"a {kind} needs a template of its pods.", holder.line_of("template"))
    if KINDS[kind].selects:
        _check_selector(holder, template, place)
    spec, spec_place = mapping(template, "spec"), place.child("spec")
    _check_restarts(spec, kind, spec_place)
    ephemeral = spec.get("ephemeralContainers")
    if isinstance(ephemeral, SequenceNode) and ephemeral.items:
        raise spec_place.child("ephemeralContainers").error("a template has no ephemeral containers.", ephemeral.line)
    return template, place


def made_names(node: MappingNode, identity: Identity, place: FieldPath, replicas: Replicas) -> Iterator[str]:
    """The stable names of a workload's pods on one node.

    Those of a StatefulSet are the real ones. Other controllers append a random suffix; here the pods are numbered from
    1. A Deployment, ReplicaSet, ReplicationController and StatefulSet have their replicas, by default 1; a Job, also a
    CronJob's, has its parallelism, at most its completions; a DaemonSet and a PodTemplate have 1. Raises ManifestError
    for more than MOST_PODS.
    """
    holder, place = _holder(node, identity.kind, place)
    said = replicas.of(identity)
    if KINDS[identity.kind].scales:
        name = "replicas"
        count = _count(holder, name, place, 1) if said is None else said
    else:
        name = "parallelism"
        count = min(_count(holder, name, place, 1), _count(holder, "completions", place, MOST_PODS))
    if count > MOST_PODS:
        raise place.child(name).error(
            f"{count} pods are more than memqos plans for one node ({MOST_PODS}).",
            holder.line_of(name),
            got=count,
            next_step="Give the number that is on the node with --replicas." if KINDS[identity.kind].scales else "",
        )
    first = 1
    if identity.kind == "StatefulSet":
        first = _count(mapping(holder, "ordinals"), "start", place.child("ordinals"), 0)
    for number in range(first, first + count):
        yield made_name(identity.name, f"-{number}")


def made_name(name: str, ending: str) -> str:
    """A pod's name from its controller's."""
    return f"{name[: _LONGEST_NAME - len(ending)].rstrip('.-')}{ending}"


def _holder(node: MappingNode, kind: str, place: FieldPath) -> tuple[MappingNode, FieldPath]:
    """The mapping with the template and the counts."""
    for name in KINDS[kind].spec:
        value, place = node.get(name), place.child(name)
        if not isinstance(value, MappingNode):
            raise place.error(f"a {kind} needs {name}.", node.line_of(name))
        node = value
    return node, place


def _count(node: MappingNode, name: str, place: FieldPath, absent: int) -> int:
    count = whole(node, name)
    if count is not None and count < 0:
        raise place.child(name).error(f"{count} is negative.", node.line_of(name), got=count)
    return absent if count is None else count


def _check_restarts(spec: MappingNode, kind: str, place: FieldPath) -> None:
    known, given = KINDS[kind].restarts, text(spec, "restartPolicy") or "Always"
    if given not in known:
        raise place.child("restartPolicy").error(
            f"'{given[:80]}' is not a restart policy of a {kind}'s pods: {' or '.join(known)}.",
            spec.line_of("restartPolicy"),
            got=given[:80],
        )


def _check_selector(holder: MappingNode, template: MappingNode, place: FieldPath) -> None:
    """Checks that there is a non-empty selector which matches the template's labels."""
    own = FieldPath(place.file, place.field.removesuffix("template") + "selector")
    selector = mapping(holder, "selector")
    expressions = selector.get("matchExpressions")
    wanted = strings(selector.get("matchLabels"))
    items = expressions.items if isinstance(expressions, SequenceNode) else ()
    needed = [_expression(item) for item in items if isinstance(item, MappingNode)]
    if not wanted and not needed:
        raise own.error("a selector is needed, and must not be empty.", holder.line_of("selector"))
    labels = strings(mapping(template, "metadata").get("labels"))
    missing = [f"{name}={value}" for name, value in wanted.items() if labels.get(name) != value]
    missing += [str(one) for one in needed if not one.fits(labels)]
    if missing:
        raise place.child("metadata", "labels").error(
            f"the labels do not match the selector: {', '.join(missing)[:200]}.", template.line
        )


@dataclass(frozen=True, slots=True)
class _Expression:
    """One of a selector's matchExpressions."""

    key: str
    operator: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((self.key, self.operator, *self.values))

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels are selected; an unknown operator selects nothing."""
        there = labels.get(self.key)
        return {
            "In": there in self.values,
            "NotIn": there not in self.values,
            "Exists": there is not None,
            "DoesNotExist": there is None,
        }.get(self.operator, False)


def _expression(node: MappingNode) -> _Expression:
    return _Expression(text(node, "key"), text(node, "operator"), text_list(node, "values"))
