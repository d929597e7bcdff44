"""Examples as data: pods under a kubelet, their resize or a restart of the kubelet, or a container's lifecycle.

Also what their documents mean: kubelets, pods, and lifecycles of containers.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from memqos.catalog.kubelet_config import settings_of
from memqos.catalog.kubelets import KubeletCase
from memqos.catalog.manifests import Manifest, manifests_in
from memqos.engine.releases.release import Release, Variant
from memqos.errors import ManifestError, UsageError
from memqos.exploration import Document
from memqos.exploration.cgroup_trees import check_tree
from memqos.model.cri import ContainerResources
from memqos.model.node import KubeletSettings
from memqos.model.pod import Pod

__all__ = [
    "HEAD",
    "ConfiguredKubelet",
    "Example",
    "Kind",
    "Verb",
    "check_lifecycle",
    "containers_in",
    "example_of",
    "is_node_wide",
    "kubelet_case",
    "pod_of",
    "resources_of",
    "settings_in",
    "shape_of_pod",
    "verb_of",
]


HEAD = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredKubelet:
    """A kubelet: its release ("1.36") and its KubeletConfiguration as a document."""

    kubernetes: str
    config: Document

    @property
    def settings(self) -> KubeletSettings:
        """The configuration as engine settings; ManifestError for one that no kubelet accepts."""
        return settings_in(self.config)


def settings_in(config: Document, *, file: str = "kubelet.json") -> KubeletSettings:
    """The settings of a KubeletConfiguration; ManifestError, naming the file, for one that no kubelet accepts."""
    return settings_of(json.dumps(config).encode(), file)


class Verb(StrEnum):
    """A step of a lifecycle.

    CREATE: create the container with this request; always the first step. START: start it; without this step the first
    step that is not an update starts it. UPDATE: update it with this request. EXEC: run a program in it. STATS: get its
    stats and status. RESTART: kill it and create it again with the first request. RELOAD: systemctl daemon-reload.
    """

    CREATE = "create"
    START = "start"
    UPDATE = "update"
    EXEC = "exec"
    STATS = "stats"
    RESTART = "restart"
    RELOAD = "reload"


NODE_WIDE = frozenset({Verb.RELOAD})
"""Steps that affect all containers of the machine."""


def verb_of(step: Mapping[str, Any]) -> tuple[Verb, Mapping[str, Any]]:
    """A step's verb and request; UsageError for anything else."""
    try:
        [(name, request)] = step.items()
        verb = Verb(name)
    except ValueError:
        known = ", ".join(Verb)
        raise UsageError(f"a step has one of these verbs: {known}; got {step!r:.80}.", where="lifecycle") from None
    if not isinstance(request, Mapping) or (request and verb not in {Verb.CREATE, Verb.UPDATE}):
        raise UsageError(f"the step '{verb}' takes no request.", where="lifecycle")
    return verb, request


def check_lifecycle(steps: Sequence[Mapping[str, Any]]) -> None:
    """Raise UsageError for an impossible order of steps."""
    verbs = [verb_of(step)[0] for step in steps]
    if verbs[:1] != [Verb.CREATE] or Verb.CREATE in verbs[1:]:
        raise UsageError("the first step must create the container, and no later step may.", where="lifecycle")
    if Verb.START in verbs and (verbs.count(Verb.START) > 1 or {*verbs[1 : verbs.index(Verb.START)]} - {Verb.UPDATE}):
        raise UsageError("a container is started once, and only updates may come before that.", where="lifecycle")
    for step in steps:
        resources_of(verb_of(step)[1])


def is_node_wide(steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a step affects all containers of the machine, so that no other lifecycle may run meanwhile."""
    return any(verb_of(step)[0] in NODE_WIDE for step in steps)


def resources_of(request: Mapping[str, Any]) -> ContainerResources:
    """The CRI message of a request; UsageError for a field that CRI does not define."""
    pages = request.get("hugepage_limits", {})
    try:
        return ContainerResources(**{**request, "hugepage_limits": tuple(dict(pages).items())})
    except TypeError as error:
        raise UsageError(f"{error}.", where="lifecycle") from None


def pod_of(manifest: Document, *, uid: str = "") -> Pod:
    """The pod of a manifest as the API server stores it. uid: "" derives it from the name.

    Raises ManifestError, as `load_pods` does.
    """
    [pod] = [
        pod
        for one in manifests_in(io.BytesIO(json.dumps(manifest).encode()), "pod.json")
        if isinstance(one, Manifest)
        for pod in one.pods
    ]
    return replace(pod, submission=None, uid=uid or pod.uid)


def containers_in(manifest: Document) -> Sequence[Document]:
    """All containers of a manifest, init containers first."""
    spec = manifest["spec"]
    return [*spec.get("initContainers", []), *spec.get("containers", [])]


def shape_of_pod(manifest: Document) -> list[object]:
    """The shape of a pod: its fields without their amounts. Pods of different shapes count as different cases."""
    return [
        sorted(manifest["spec"].keys() & {"overhead", "resources"}),
        [
            [one.get("restartPolicy", ""), len(one.get("args", ())), _amounts(one.get("resources", {}))]
            for one in containers_in(manifest)
        ],
    ]


def _amounts(resources: Document) -> list[str]:
    """The amounts that a container has, and the requests that equal their limits."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    equal = [name for name in requests if str(requests[name]) == str(limits.get(name))]
    return [*(f"l-{name}" for name in sorted(limits)), *(f"r-{name}" for name in sorted(requests)), *sorted(equal)]


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
