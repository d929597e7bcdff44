"""Nobody: where somebody else makes plans true, memqos reads what there is, and writes nothing.

So a recorded node is audited, and a node on which the pods run already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from memqos.enactor.base import AdmittedPod
from memqos.enactor.steering import Steering
from memqos.engine.answer.setter import Setter
from memqos.engine.plan import Plan
from memqos.engine.resize import Resize, ResizePlan, ResizeStep
from memqos.errors import TargetError, UsageError
from memqos.model.path import CgroupPath
from memqos.model.pod import Pod
from memqos.runtime.base import ContainerHandle

__all__ = ["Nobody"]


class Nobody:
    """Reads only. find: the containers that there are, whoever made them; asked whenever pods are looked for.

    What is above containers is taken for a kubelet's work.
    """

    setter = Setter.KUBELET

    def __init__(self, find: Callable[[], Iterable[ContainerHandle]]) -> None:
        self._find = find

    def begin(self, name: str) -> Seen:  # noqa: ARG002 - nobody leaves anything to be found
        """Nothing was looked for yet."""
        return Seen(self._find)

    def leftovers(self) -> Sequence[CgroupPath]:
        """None: nobody makes anything."""
        return ()


class Seen:
    """The pods of one plan after another, as far as they are there."""

    def __init__(self, find: Callable[[], Iterable[ContainerHandle]]) -> None:
        self._find = find
        self._pods: Mapping[str, AdmittedPod] = {}

    @property
    def pods(self) -> Mapping[str, AdmittedPod]:
        """The pods of the last plan, by uid."""
        return self._pods

    def bring(self, plan: Plan) -> None:
        """Nothing: what the plan says is there already, or deviates."""

    def admit(self, plan: Plan, pods: Sequence[Pod], *, steering: Steering) -> Mapping[str, AdmittedPod]:
        """The pods of the plan with the containers that there are of them; one that has none has that as its failure.

        UsageError for workloads that are to take commands: they run already, and take none.
        """
        if steering.controls:
            raise UsageError(
                "the workloads run already, and take no commands.",
                next_step="Watch them without steering, or let memqos start them.",
            )
        by_uid = {pod.uid: pod for pod in pods}
        found: dict[str, dict[str, ContainerHandle]] = {}
        for handle in self._find():
            found.setdefault(handle.sandbox.spec.uid, {})[handle.name] = handle
        self._pods = {
            planned.uid: AdmittedPod(
                pod=by_uid[planned.uid], planned=planned, containers=dict(found.get(planned.uid, {}))
            )
            for planned in plan.pods
        }
        for admitted in self._pods.values():
            if admitted.containers:
                admitted.sandbox = next(iter(admitted.containers.values())).sandbox
            else:
                admitted.failure = TargetError(
                    "no container of this pod runs there.",
                    where=f"pod {admitted.planned.namespace}/{admitted.planned.name}",
                    next_step="Start the pod, or leave it out: nobody starts it here.",
                )
        return self._pods

    def resize(self, plan: ResizePlan, resize: Resize, desired: Pod, *, after: Callable[[ResizeStep], None]) -> None:  # noqa: ARG002
        """UsageError: whoever made the pod resizes it."""
        raise UsageError(
            "nobody resizes pods here: they are only read.",
            where=f"pod {resize.namespace}/{resize.name}",
            next_step="Resize the pod through its cluster, and read it then.",
        )

    def reconcile(self, plan: Plan) -> None:  # noqa: ARG002
        """UsageError: whoever made the pods reconciles them."""
        raise UsageError("nobody writes here: cgroups are only read.", next_step="Have the kubelet write them anew.")

    def clear(self) -> None:
        """Forget them."""
        self._pods = {}
