"""The names of an object, as the API server takes them: its own, its namespace's, and its controller's."""

from __future__ import annotations

import re
from dataclasses import dataclass

from memqos.catalog.schema import FieldPath, mapping, text
from memqos.catalog.yaml_nodes import MappingNode, ScalarNode, SequenceNode

__all__ = ["Identity", "check_label", "controller_of", "identity_of", "out_of_a_cluster", "uid_of"]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_UID = re.compile(r"[0-9A-Za-z.-]{1,200}", re.ASCII)
_LONGEST_LABEL = 63
_LONGEST_SUBDOMAIN = 253


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells an object from all others of a cluster."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def identity_of(
    kind: str, meta: MappingNode, place: FieldPath, namespace: str = "", *, scoped: bool = True
) -> Identity:
    """The names in an object's metadata.

    namespace: for an object that names none ("" is "default"), as kubectl's --namespace. scoped: whether its kind has
    a namespace. Raises ManifestError for a name that is missing, or that Kubernetes does not take, and for an object of
    another namespace than the one asked for.
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
        # What the API server would append is random; the plan needs a name that stays.
        name = f"{prefix}00000"
    if not name:
        raise place.child("name").error(f"a {kind} needs a name.", meta.line)
    _check(name, _SUBDOMAIN, _LONGEST_SUBDOMAIN, place.child("name"), meta.line_of("name"))
    if not scoped:
        return Identity(kind, "", name)
    _check(namespace, _LABEL, _LONGEST_LABEL, place.child("namespace"), meta.line_of("namespace"))
    return Identity(kind, namespace, name)


def out_of_a_cluster(node: MappingNode) -> bool:
    """Whether an API server stores the object already: it has what only a server writes.

    That is a status with content, a creationTimestamp or a resourceVersion. A uid alone may be a person's own; a pod
    with both a uid and a priority is one that was admitted.
    """
    meta, spec = mapping(node, "metadata"), mapping(node, "spec")
    return bool(
        mapping(node, "status").entries
        or text(meta, "creationTimestamp")
        or text(meta, "resourceVersion")
        or (text(meta, "uid") and spec.get("priority") is not None)
    )


def uid_of(meta: MappingNode, place: FieldPath) -> str:
    """The uid that was given, "" if none was; it becomes part of a cgroup's name."""
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
    """Raise ManifestError for what is no DNS label."""
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
