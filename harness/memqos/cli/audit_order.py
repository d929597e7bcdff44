"""The order of `memqos audit` as a value that can be sent to other processes, and how it judges one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from memqos.audits.answer import Audit
from memqos.audits.entry import known_of_kubelets
from memqos.audits.judgement import judged
from memqos.audits.live import looked_at, with_systemd
from memqos.audits.question import AuditOptions, Question, Required
from memqos.catalog.kubelet_config import load_settings
from memqos.catalog.recorded_trees import RecordedTree, load_tree, tree_of
from memqos.cli.manifest_options import ManifestOptions
from memqos.cli.node_options import KubeletOptions, NodeOptions, RuntimeOptions
from memqos.engine.kubelet import Kubelet
from memqos.errors import UsageError
from memqos.model.pod import Pod

__all__ = ["AuditOrder", "is_url"]

_PODS = (
    "Give their manifests: kubectl get pods -A -o json --field-selector spec.nodeName=NAME | memqos audit … --pods -"
)
_STEPS = {
    Required.PODS: "Give the pods' manifests with --pods.",
    Required.RELEASE: "Give the release with --kubernetes.",
    Required.NODE: "Give the facts of the node with --node, or at least --capacity-memory.",
}


def is_url(place: str) -> bool:
    """Whether a place is a live node, and not a file."""
    return "://" in place


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOrder:
    """The command line of an audit. supposing: whether release and configuration are those of --what-if.

    waits: whether a look at a live node waits for a kubelet's period, see `looked_at`.
    """

    target: str | None = None
    cri_socket: str = ""
    timeout: float | None = None
    tree: str | None = None
    kubernetes: str | None = None
    pods: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    kubelet_config: tuple[str, ...] = ()
    was_config: tuple[str, ...] = ()
    was_pods: tuple[str, ...] = ()
    static: bool = False
    supposing: bool = False
    settle: float = 5.0
    waits: bool = True
    runtime: RuntimeOptions
    kubelet: KubeletOptions
    manifests: ManifestOptions
    node: NodeOptions

    def audit(self, pods: tuple[Pod, ...] | None = None) -> Audit:
        """The audit of the single node of --target or --tree. Errors as for `question`."""
        return self._audited(self._look(self._given_tree, pods), self.target or "")

    def audit_of(self, place: str, pods: tuple[Pod, ...] | None = None) -> Audit:
        """The audit of a node, by the name of its recording or its URL. pods: those of --pods."""
        return self._audited(self._look(lambda: self._tree_at(place), pods), place if is_url(place) else "")

    def given_pods(self) -> tuple[Pod, ...] | None:
        """The pods of --pods and further files; None for those of the recordings."""
        paths = (*self.pods, *self.files)
        return self.manifests.load(paths).pods if paths else None

    def check_standard_input(self) -> None:
        """UsageError if several options read it."""
        configs = (*self.kubelet_config, *self.kubelet.flags, *self.was_config)
        read = [self.tree, *self.pods, *self.files, *configs, *self.was_pods, self.node.node_file]
        if read.count("-") > 1:
            raise UsageError("standard input (-) can be read once only.", where="memqos audit")

    def supposed(self, audit: Audit) -> Kubelet:
        """The kubelet of --what-if: that of the audit with the given release, configuration and fields."""
        question = audit.question
        settings = question.kubelet.settings
        if self.kubelet_config:
            settings = self.kubelet.settings(self.kubelet_config)
        elif self.kubelet.overrides or self.kubelet.flags:
            place = self.tree or question.tree.source
            again = load_tree(place, self.kubelet.overrides, self.kubelet.flags) if not is_url(place) else None
            if again is None or again.settings is None:
                raise UsageError(
                    "--what-if cannot add fields to a live node's configuration.",
                    where="--what-if",
                    next_step="Collect the node into a file first, or give the whole configuration.",
                )
            settings = again.settings
        return Kubelet.of(
            node=question.kubelet.node,
            settings=settings,
            release=self.kubernetes or question.version,
            driver=question.kubelet.driver,
            variant=question.kubelet.variant,
            runtimes=question.kubelet.runtimes,
        )

    def _audited(self, look: Callable[[], Audit], url: str) -> Audit:
        if not url:
            return look()
        found = looked_at(look, settle=self.settle, waits=self.waits)
        if url.startswith("kubectl://"):
            return found
        from memqos.place.collecting import unit_properties

        return with_systemd(found, lambda units: unit_properties(url, units))

    def _look(self, tree: Callable[[], RecordedTree], pods: tuple[Pod, ...] | None) -> Callable[[], Audit]:
        return lambda: judged(self.question(tree(), pods))

    def question(self, tree: RecordedTree, pods: tuple[Pod, ...] | None) -> Question:
        """What to judge. Raises UsageError if the command line and the recording together lack something."""
        if pods is None and tree.pods is None and (self.target or is_url(tree.source)):
            raise UsageError("a node does not record its pods' requests.", where=tree.source, next_step=_PODS)
        said = self.node.capacity_memory is not None or self.node.node_file is not None
        configs = () if self.supposing else self.kubelet_config
        own = configs or tree.settings is None
        kubelet = replace(self.kubelet, overrides=(), flags=()) if self.supposing else self.kubelet
        return AuditOptions(
            runtimes=self.runtime.runtimes(tree.runtimes, hugetlb=tree.hugetlb),
            pods=pods,
            settings=kubelet.settings(configs or None) if own else None,
            config=", ".join(configs),
            argument="--kubelet-config",
            node=self.node.facts(tree.node) if said or tree.node is not None else None,
            release=None if self.supposing else self.kubernetes,
            driver=self.kubelet.cgroup_driver,
            variant=self.kubelet.followed,
            static=self.static,
            known=known_of_kubelets(),
            was_settings=load_settings(self.was_config) if self.was_config else None,
            was_pods=self.manifests.load(self.was_pods).pods if self.was_pods else None,
            was_config=", ".join(self.was_config),
            was_manifests=", ".join(self.was_pods),
        ).about(tree, steps=_STEPS)

    def _fields(self) -> Mapping[str, Any]:
        """Fields and flags on top of a recording's own configuration."""
        if self.kubelet_config or self.supposing:
            return {"overrides": (), "flags": ()}
        return {"overrides": self.kubelet.overrides, "flags": self.kubelet.flags}

    def _tree_at(self, place: str) -> RecordedTree:
        if not is_url(place):
            from memqos.catalog.support_archives import archived, is_archive

            if is_archive(place):
                return tree_of(archived(place), place, **self._fields())
            return load_tree(place, **self._fields())
        from memqos.place.collecting import collected_at

        return tree_of(collected_at(place, cri_socket=self.cri_socket, timeout=self.timeout), place, **self._fields())

    def _given_tree(self) -> RecordedTree:
        """The node of --target, read now, or the recording of --tree."""
        if (self.target is None) is (self.tree is None):
            raise UsageError(
                "no node is given." if self.tree is None else "--target and --tree name two nodes.",
                where="memqos audit",
                next_step="Give a recording or a node, such as node7.json or ssh://root@node7.",
            )
        if self.target is None:
            if self.cri_socket:
                raise UsageError("a recording has no socket.", where="--cri-socket", next_step="Give it with --target.")
            return load_tree(str(self.tree), **self._fields())
        from memqos.place.collecting import collected_through
        from memqos.target.opening import check_url

        check_url(self.target, where="--target")
        document = collected_through(self.target, cri_socket=self.cri_socket, timeout=self.timeout)
        return tree_of(document, self.target, **self._fields())
