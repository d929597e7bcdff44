"""The observer: reads pods and cgroups that a real kubelet has made, and writes nothing.

Used for audits of recorded nodes and of live nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from memqos.enactor.base import Ability, AdmittedPod, KubeletAnswers, Order, not_able, require
from memqos.engine.answer.finding import Setter
from memqos.engine.plan import Plan, PlannedPod
from memqos.engine.resize import Resize, ResizePlan, ResizeStep
from memqos.errors import TargetError
from memqos.model.path import CgroupPath
from memqos.model.pod import Pod
from memqos.runtime.base import ContainerHandle

__all__ = ["Observer"]

_WHY_NOT = {
    Ability.STEER: "the workloads already run, and accept no commands.",
    Ability.RESIZE: "memqos only reads pods here: resize them through their cluster.",
    Ability.RECONCILE: "memqos only reads cgroups here: the kubelet writes them.",
    Ability.SUCCEED: "memqos only observes the kubelet here: restart it yourself.",
    Ability.ALTER: "memqos only reads cgroups here: what the kubelet wrote is its own.",
    Ability.ANSWER: "memqos only reads cgroups here, and asks no kubelet.",
    Ability.UPGRADE: "memqos only observes the kubelet here: upgrade it yourself.",
}


class Observer:
    """An enactor that only reads. find: lists the existing containers; called for every lookup of pods.

    Its setter is the kubelet.
    """

    setter = Setter.KUBELET

    def __init__(self, find: Callable[[], Iterable[ContainerHandle]]) -> None:
        self._find = find

    def why_not(self, ability: Ability) -> str:
        """It has no ability."""
        return _WHY_NOT[ability]

    @property
    def releases(self) -> Sequence[str]:
        """(): plans of any release."""
        return ()

    def answers(self) -> KubeletAnswers:
        """EnactorNotAbleError: no kubelet is asked."""
        raise not_able(self, Ability.ANSWER)

    def begin(self, name: str) -> ObservedPods:  # noqa: ARG002 - it leaves nothing behind
        """An enactment without pods so far."""
        return ObservedPods(self)

    def find(self) -> Iterable[ContainerHandle]:
        """The containers that exist now."""
        return self._find()

    def leftovers(self) -> Sequence[CgroupPath]:
        """None: it makes nothing."""
        return ()


class ObservedPods:
    """The existing pods of one plan after another."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._order: Order | None = None
        self._pods: Mapping[str, AdmittedPod] = {}

    @property
    def pods(self) -> Mapping[str, AdmittedPod]:
        """The pods of the last plan, by uid."""
        return self._pods

    def bring(self, order: Order) -> None:
        """Change nothing. EnactorNotAbleError for another kubelet."""
        if self._order is not None and self._pods and order.kubelet != self._order.kubelet:
            require(self._observer, Ability.SUCCEED)
        self._order = order

    def admit(self, order: Order, *, appears: Callable[[PlannedPod], None]) -> Mapping[str, AdmittedPod]:
        """The pods of the plan with their existing containers; a pod without any has a failure.

        EnactorNotAbleError if workloads must take commands, since the running ones take none.
        """
        if order.steering.controls:
            require(self._observer, Ability.STEER)
        by_uid = {pod.uid: pod for pod in order.pods}
        found: dict[str, dict[str, ContainerHandle]] = {}
        for handle in self._observer.find():
            found.setdefault(handle.sandbox.spec.uid, {})[handle.name] = handle
        self._pods = {
            planned.uid: AdmittedPod(
                pod=by_uid[planned.uid], planned=planned, containers=dict(found.get(planned.uid, {}))
            )
            for planned in order.plan.pods
        }
        for admitted in self._pods.values():
            if admitted.containers:
                appears(admitted.planned)
                admitted.sandbox = next(iter(admitted.containers.values())).sandbox
            else:
                admitted.failure = TargetError(
                    "no container of this pod runs there.",
                    where=f"pod {admitted.planned.namespace}/{admitted.planned.name}",
                    next_step="Start the pod, or leave it out: memqos starts no pods here.",
                )
        return self._pods

    def resize(
        self,
        plan: ResizePlan,  # noqa: ARG002
        resize: Resize,  # noqa: ARG002
        desired: Pod,  # noqa: ARG002
        *,
        after: Callable[[ResizeStep], None],  # noqa: ARG002
        above: bool = True,  # noqa: ARG002
    ) -> None:
        """EnactorNotAbleError: the cluster resizes the pod."""
        require(self._observer, Ability.RESIZE)

    def reconcile(self, plan: Plan) -> None:  # noqa: ARG002
        """EnactorNotAbleError: the kubelet writes the pods' cgroups."""
        require(self._observer, Ability.RECONCILE)

    def clear(self) -> None:
        """Forget them."""
        self._pods = {}
