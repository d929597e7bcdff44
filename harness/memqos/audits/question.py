"""The input of an audit: a recording, and the options that replace or add to it.

Also deviations that an earlier configuration, an earlier size or a known fault of the kubelet explains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from memqos.catalog.allocation_state import CHECKPOINTS, checkpoints_of
from memqos.catalog.recorded_trees import RecordedTree
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict, subject_of
from memqos.engine.answer.succession import Past, inherited
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan
from memqos.engine.releases.release import Release, Variant
from memqos.engine.resize.entry import resize_pods, taken_over
from memqos.engine.resize.leftovers import MEMORY_QOS, leftovers
from memqos.engine.translate.runtimes import Runtimes
from memqos.errors import UnknownNameError, UsageError
from memqos.known import KnownDeviation, left_by_kubelet
from memqos.model.knob import ABSENT
from memqos.model.node import CgroupDriver, KubeletSettings, NodeFacts, SettingsNote
from memqos.model.pod import Pod

__all__ = ["AuditOptions", "Question", "Required", "of_the_past"]


_UNSENT = (
    "no kubelet of this configuration sends it for this size: an earlier configuration or size may have; "
    "judge that with --was-config and --was-pods"
)
_EARLIER = "an earlier configuration or size may have left this value; check with --was-config and --was-pods"


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierState:
    """The node's earlier kubelet and pods; None for unchanged ones.

    config, manifests: the names of their files.
    """

    kubelet: Kubelet | None = None
    pods: tuple[Pod, ...] | None = None
    config: str = ""
    manifests: str = ""


def of_the_past(
    findings: Sequence[Finding],
    plan: Plan,
    pods: Sequence[Pod],
    kubelet: Kubelet,
    *,
    was: EarlierState | None,
    known: Sequence[KnownDeviation],
    version: str,
) -> Iterator[Finding]:
    """The findings about these planned pods, with explanations.

    A value that the earlier state left conforms. A value that a resize leaves behind is known if the list has the fault
    for this kubelet's version. A memory QoS value that the kubelet does not send is not attributed to the runtime.
    """
    if was is not None:
        findings = tuple(inherited(findings, tuple(_pasts(pods, kubelet, was))))
    found = leftovers(findings, plan, pods, kubelet)
    unsent = frozenset(_unsent(plan))
    for finding in findings:
        cause = found.get((finding.subject, finding.knob), "")
        told = left_by_kubelet(finding, cause, known, version=version, driver=str(kubelet.driver))
        if told.verdict is Verdict.DEVIATES and finding.knob in MEMORY_QOS and was is None:
            yield _unexplained(told, sent=(finding.subject, finding.knob) not in unsent)
        else:
            yield told


def _pasts(pods: Sequence[Pod], kubelet: Kubelet, was: EarlierState) -> Iterator[Past]:
    """The possible values of a node whose pods were running while the configuration, their size, or both changed."""
    before = was.kubelet or kubelet
    earlier = tuple(_as_before(pods, was.pods or ()))
    first = expect(earlier, before)
    changed = first if was.kubelet is None else _taken_over(first, earlier, before, kubelet)
    names = [f"the configuration {was.config}"] if was.kubelet is not None else []
    if was.pods is None:
        yield Past(name=f"{names[0]}: the pods ran through the change", plan=changed)
        return
    resized = resize_pods(earlier, pods, kubelet, standing=changed).after
    name = " and ".join([*names, f"the size in {was.manifests}"])
    yield Past(name=f"{name}: the pods ran through the change", plan=resized)
    if was.kubelet is not None:
        other = _taken_over(resize_pods(earlier, pods, before).after, pods, before, kubelet)
        yield Past(name=f"{name}: the pods were resized before the configuration changed", plan=other)
        anew = _taken_over(expect(pods, before), pods, before, kubelet)
        yield Past(name=f"{names[0]}: the current pods ran through the change", plan=anew)


def _taken_over(plan: Plan, pods: Sequence[Pod], before: Kubelet, kubelet: Kubelet) -> Plan:
    return taken_over(plan, expect(pods, kubelet), pods, kubelet, earlier=[before])


def _as_before(pods: Sequence[Pod], earlier: Sequence[Pod]) -> Iterator[Pod]:
    """The pods with their earlier sizes, if given, and their current names and uids."""
    given = {(pod.namespace, pod.name): pod for pod in earlier}
    for pod in pods:
        old = given.get((pod.namespace, pod.name))
        if old is None:
            yield pod
        else:
            yield replace(old, uid=pod.uid, static=pod.static, status=None, generation=pod.generation)


def _unsent(plan: Plan) -> Iterator[tuple[Subject, str]]:
    """(subject, knob) of the containers' memory QoS files for which the kubelet sends no value."""
    for pod in plan.pods:
        for container in pod.containers:
            for knob, one in container.cgroup.knobs.items():
                if knob in MEMORY_QOS and one.written is ABSENT:
                    yield subject_of(container.cgroup, pod), knob.value


def _unexplained(finding: Finding, *, sent: bool) -> Finding:
    """The deviation with a hint at an earlier configuration; values that were not sent lose the runtime as setter."""
    evidence = {**finding.evidence, "perhaps": _EARLIER if sent else _UNSENT}
    return replace(finding, set_by=finding.set_by if sent else Setter.OTHER, evidence=evidence)


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
