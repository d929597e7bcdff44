"""Examples as data: pods under a kubelet, their resize or a restart of the kubelet, or a container's lifecycle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from memqos.catalog.kubelets import KubeletCase
from memqos.engine.releases.release import Release, Variant
from memqos.errors import ManifestError, UsageError
from memqos.exploration.cgroup_trees import check_tree
from memqos.exploration.documents import ConfiguredKubelet, Document, check_lifecycle, pod_of

__all__ = ["Example", "Kind", "example_of", "kubelet_case"]


class Kind(StrEnum):
    """The kind of an example.

    PODS: pods are admitted. RESIZE: a single pod is resized in place. RESTART: the kubelet restarts with other
    configurations, one after another, while pods run. LIFECYCLE: a container goes through steps. KERNEL: a
    tree of cgroups without pods and without a runtime.
    """

    PODS = "pods"
    RESIZE = "resize"
    RESTART = "restart"
    LIFECYCLE = "lifecycle"
    KERNEL = "kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One experiment.

    kubelet: the first kubelet. pods: manifests, in the order of their admission. to: the manifest of the first pod's
    resize; None for no resize. then: the kubelets after the first one. steps: a lifecycle, whose container runs in a
    BestEffort pod. tree: of cgroups; None for none.
    """

    kubelet: ConfiguredKubelet
    pods: Sequence[Document] = ()
    to: Document | None = None
    then: Sequence[ConfiguredKubelet] = ()
    steps: Sequence[Document] = field(default_factory=tuple)
    tree: Document | None = None

    @property
    def kind(self) -> Kind:
        """The kind, from the fields that are set."""
        if self.tree is not None:
            return Kind.KERNEL
        if self.steps:
            return Kind.LIFECYCLE
        if self.to is not None:
            return Kind.RESIZE
        return Kind.RESTART if self.then else Kind.PODS

    @property
    def together(self) -> str:
        """A key: examples with the same key can run at the same time on one node."""
        own = [_kubelet_document(one) for one in (self.kubelet, *self.then)]
        return json.dumps([self.kind.value, own], sort_keys=True)

    def check(self) -> None:
        """Raise ManifestError or UsageError for a manifest, configuration or lifecycle that is not valid."""
        for manifest in (*self.pods, *([self.to] if self.to is not None else [])):
            pod_of(manifest)
        for one in (self.kubelet, *self.then):
            Release.parse(one.kubernetes)
            _ = one.settings
        if self.tree is not None:
            check_tree(self.tree)
        elif self.steps:
            check_lifecycle(self.steps)
        elif not self.pods:
            raise UsageError("the example has no pods, no steps and no tree.")
        if self.to is not None and len(self.pods) > 1:
            raise UsageError("an example with a resize has exactly one pod.")

    def document(self) -> Document:
        """As JSON, without empty fields."""
        found: Document = _kubelet_document(self.kubelet)
        if self.pods:
            found["pods"] = list(self.pods)
        if self.to is not None:
            found["to"] = self.to
        if self.then:
            found["then"] = [_kubelet_document(one) for one in self.then]
        if self.steps:
            found["steps"] = list(self.steps)
        if self.tree is not None:
            found["tree"] = self.tree
        return found


def example_of(document: Mapping[str, Any], *, where: str = "example") -> Example:
    """The example in a document; UsageError, naming `where`, for any other document."""
    try:
        found = Example(
            kubelet=_configured(document),
            pods=tuple(document.get("pods", ())),
            to=document.get("to"),
            then=tuple(_configured(one) for one in document.get("then", ())),
            steps=tuple(document.get("steps", ())),
            tree=document.get("tree"),
        )
        found.check()
    except ManifestError:
        raise
    except (UsageError, TypeError, ValueError, KeyError, AttributeError) as error:
        what = error.what if isinstance(error, UsageError) else f"it is not an example of memqos explore ({error})."
        raise UsageError(what, where=where, next_step="Give a file that memqos explore wrote.") from None
    return found


def kubelet_case(configured: ConfiguredKubelet) -> KubeletCase:
    """The kubelet as a case for a node."""
    return KubeletCase(
        id=f"v{configured.kubernetes}",
        purpose="",
        release=configured.kubernetes,
        variant=Variant.SHIPPED,
        settings=configured.settings,
    )


def _configured(document: Mapping[str, Any]) -> ConfiguredKubelet:
    return ConfiguredKubelet(kubernetes=document["kubernetes"], config=dict(document["config"]))


def _kubelet_document(one: ConfiguredKubelet) -> Document:
    return {"kubernetes": one.kubernetes, "config": one.config}
