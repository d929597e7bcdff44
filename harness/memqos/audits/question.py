"""The input of an audit: a recording, and the options that replace or add to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from memqos.audits.explained_values import EarlierState
from memqos.catalog.allocation_state import CHECKPOINTS, checkpoints_of
from memqos.catalog.recorded_trees import RecordedTree
from memqos.engine.kubelet import Kubelet
from memqos.engine.releases.release import Release, Variant
from memqos.engine.translate.runtimes import Runtimes
from memqos.errors import UnknownNameError, UsageError
from memqos.known import KnownDeviation
from memqos.model.node import CgroupDriver, KubeletSettings, NodeFacts, SettingsNote
from memqos.model.pod import Pod

__all__ = ["AuditOptions", "Question", "Required"]


_CONFIGZ = "`kubectl get --raw /api/v1/nodes/NAME/proxy/configz`"


class Required(StrEnum):
    """Data that an audit needs from the recording or from options."""

    PODS = "pods"
    RELEASE = "kubelet (its release)"
    NODE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The tree, and the data for its plan.

    static: whether all pods are static. driver: the cgroup driver of an option, None without one. version: the
    kubelet's full version, "" if unknown. known: known deviations of kubelets. was: the node's earlier state, None if
    not given. unknown: why the kubelet's configuration is not completely known; "" if it is.
    """

    tree: RecordedTree
    kubelet: Kubelet
    pods: tuple[Pod, ...]
    static: bool
    driver: CgroupDriver | None = None
    version: str = ""
    known: tuple[KnownDeviation, ...] = ()
    was: EarlierState | None = None
    unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Data that the user gives about a recorded node; None: use the recording's.

    config: the names of the files with the settings. argument: the option that gives them. static: whether all pods are
    static. was_settings, was_pods: the node's earlier configuration and pods. was_config, was_manifests: the names of
    their files.
    """

    runtimes: Runtimes
    pods: tuple[Pod, ...] | None = None
    settings: KubeletSettings | None = None
    config: str = ""
    argument: str = "kubelet_config"
    node: NodeFacts | None = None
    release: str | None = None
    driver: CgroupDriver | None = None
    variant: Variant = Variant.SHIPPED
    static: bool = False
    known: tuple[KnownDeviation, ...] = ()
    was_settings: KubeletSettings | None = None
    was_pods: tuple[Pod, ...] | None = None
    was_config: str = ""
    was_manifests: str = ""

    def about(self, tree: RecordedTree, *, steps: Mapping[Required, str]) -> Question:
        """The input for this recording.

        steps: the next step for each missing part, for errors. Raises UsageError for data that neither the recording
        nor the user gives, and UnknownNameError for a release without rules.
        """
        pods = tree.pods if self.pods is None else self.pods
        release = self.release or tree.release
        node = self.node or tree.node
        if pods is None:
            raise _missing(Required.PODS, tree, steps, argument=self.argument)
        if not release:
            raise _missing(Required.RELEASE, tree, steps, argument=self.argument)
        if node is None:
            raise _missing(Required.NODE, tree, steps, argument=self.argument)
        self._check_release(tree)
        settings = self.settings or tree.settings or KubeletSettings()
        if self.settings is not None and tree.settings is not None:
            what = "it replaces the node's configuration, drop-ins and command line"
            note = SettingsNote(self.argument, self.config, what)
            settings = replace(settings, notes=(*settings.notes, note))
        kubelet = self._kubelet(settings, tree, node, release)
        was = None
        if self.was_settings is not None or self.was_pods is not None:
            before = None if self.was_settings is None else self._kubelet(self.was_settings, tree, node, release)
            was = EarlierState(kubelet=before, pods=self.was_pods, config=self.was_config, manifests=self.was_manifests)
        return Question(
            tree=tree,
            kubelet=kubelet,
            pods=pods,
            static=self.static,
            driver=self.driver,
            version=release,
            known=self.known,
            was=was,
            unknown=self._unknown(tree, kubelet),
        )

    def _check_release(self, tree: RecordedTree) -> None:
        """UnknownNameError that names the recording if it has a release without rules."""
        if self.release:
            return
        try:
            Release.parse(tree.release)
        except UnknownNameError as error:
            step = f"{error.next_step} --kubernetes overrides the recording."
            raise UnknownNameError(
                error.what, where=f"{tree.source}: kubelet", next_step=step, data=error.data
            ) from None

    def _unknown(self, tree: RecordedTree, kubelet: Kubelet) -> str:
        """Why the recording may not explain a value."""
        read = checkpoints_of(kubelet.release)
        if not self.config and tree.kubelet_inside:
            return (
                f"the kubelet's configuration is not known: the kubelet is part of {tree.kubelet_inside}, which sets "
                f"its flags; {_CONFIGZ} prints it for {self.argument}"
            )
        if not self.config and tree.config_unread:
            return f"the kubelet's configuration is not known: {tree.config_unread}; {_CONFIGZ} prints it"
        if self.settings is None and tree.drop_ins_unread:
            path, why = next(iter(tree.drop_ins_unread.items()))
            return f"the kubelet's configuration is not completely known: {path}: {why}"
        for name, why in tree.checkpoints_unread.items():
            if name in CHECKPOINTS and name not in read:
                continue
            return f"the resources that the kubelet has allocated are not known: {name}: {why}"
        return ""

    def _kubelet(self, settings: KubeletSettings, tree: RecordedTree, node: NodeFacts, release: str) -> Kubelet:
        """The kubelet with these settings. The driver that the cgroups show has precedence."""
        return Kubelet.of(
            node=node,
            settings=settings,
            release=release,
            driver=self.driver or tree.driver,
            variant=self.variant,
            runtimes=self.runtimes,
        )


def _missing(what: Required, tree: RecordedTree, steps: Mapping[Required, str], *, argument: str) -> UsageError:
    step, said = steps[what], f"the recording does not contain '{what}'"
    if what is Required.RELEASE and tree.kubelet_inside:
        said += f": the kubelet is part of {tree.kubelet_inside}"
        step += f" {_CONFIGZ} prints its configuration for {argument}."
    return UsageError(f"{said}.", where=tree.source, next_step=step)
