"""A fake enactor in memory: it writes exactly what the engine plans.

Its setter is the kubelet, as for a real one; findings about its values prove nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence

from memqos.enactor.base import Ability, AdmittedPod, KubeletAnswers, Order, not_able, require
from memqos.engine.answer.finding import Setter
from memqos.engine.plan import Plan, PlannedCgroup, PlannedContainer, PlannedPod
from memqos.engine.resize import Resize, ResizePlan, ResizeStep
from memqos.errors import TargetError
from memqos.model.knob import ABSENT
from memqos.model.path import CgroupPath
from memqos.model.pod import Pod
from memqos.runtime.base import ContainerHandle, SandboxHandle, SandboxSpec
from memqos.runtime.fake_cgroups import FakeCgroups

__all__ = ["FakeEnactment", "FakeKubelet"]

_WHY_NOT = {
    Ability.STEER: "nothing runs here that could take commands.",
    Ability.ANSWER: "nothing runs here that could answer.",
}


class FakeKubelet:
    """An enactor on cgroups in memory. broken: names of pods that do not start.

    A test may change `cgroups`.
    """

    setter = Setter.KUBELET

    def __init__(self, cgroups: FakeCgroups, *, broken: Sequence[str] = ()) -> None:
        self.cgroups = cgroups
        self.broken = broken

    def why_not(self, ability: Ability) -> str:
        """Nothing runs that could take commands or answer."""
        return _WHY_NOT.get(ability, "")

    @property
    def releases(self) -> Sequence[str]:
        """(): plans of any release."""
        return ()

    def answers(self) -> KubeletAnswers:
        """EnactorNotAbleError: there is no process."""
        raise not_able(self, Ability.ANSWER)

    def begin(self, name: str) -> FakeEnactment:  # noqa: ARG002 - memory is not shared
        """Nothing yet."""
        return FakeEnactment(self, self.cgroups, self.broken)

    def leftovers(self) -> Sequence[CgroupPath]:
        """Always empty."""
        return ()


class FakeEnactment:
    """The cgroups of a plan in memory, new for every plan. made: the cgroups that `clear` removes."""

    def __init__(self, kubelet: FakeKubelet, cgroups: FakeCgroups, broken: Sequence[str]) -> None:
        self._kubelet = kubelet
        self.cgroups = cgroups
        self.broken = broken
        self.made: list[CgroupPath] = []
        self._pods: dict[str, AdmittedPod] = {}

    @property
    def pods(self) -> Mapping[str, AdmittedPod]:
        """The pods of the last plan, by uid."""
        return self._pods

    def bring(self, order: Order) -> None:
        """Make all anew."""
        self.clear()
        plan = order.plan
        for cgroup in (*plan.reserved, plan.node, *plan.qos, *(pod.cgroup for pod in plan.pods)):
            self.make(cgroup, cgroup.path)

    def admit(self, order: Order, *, appears: Callable[[PlannedPod], None]) -> Mapping[str, AdmittedPod]:
        """Start all pods at once, with init containers like any others."""
        if order.steering.controls:
            require(self._kubelet, Ability.STEER)
        by_uid = {pod.uid: pod for pod in order.pods}
        for planned in order.plan.pods:
            appears(planned)
            admitted = AdmittedPod(pod=by_uid[planned.uid], planned=planned)
            if planned.name in self.broken:
                admitted.failure = TargetError(f"the pod {planned.name} is broken.")
            else:
                admitted.sandbox = SandboxHandle(id=f"sandbox-{planned.uid}", spec=_spec(planned))
                admitted.containers = {one.name: one for one in self._run(order.plan, planned, admitted.sandbox)}
            self._pods[planned.uid] = admitted
        return self._pods

    def _run(self, plan: Plan, pod: PlannedPod, sandbox: SandboxHandle) -> Iterator[ContainerHandle]:
        for container in pod.containers:
            handle = ContainerHandle(id=uuid.uuid4().hex, name=container.name, sandbox=sandbox, log_path="")
            self._write(plan, container, handle)
            yield handle

    def _write(self, plan: Plan, container: PlannedContainer, handle: ContainerHandle) -> None:
        path = plan.layout.container(container.cgroup.path, handle.id)
        self.make(container.cgroup, path)
        self.cgroups.run_in(path, container.oom_score_adj)

    def reconcile(self, plan: Plan) -> None:
        """All of the pods' cgroups."""
        for pod in plan.pods:
            self.make(pod.cgroup, pod.cgroup.path)

    def resize(
        self,
        plan: ResizePlan,
        resize: Resize,
        desired: Pod,
        *,
        after: Callable[[ResizeStep], None],
        above: bool = True,  # noqa: ARG002 - they have followed
    ) -> None:
        """Write the pod's values and those above it at once, then report each step."""
        admitted, planned = self._pods[resize.uid].require(), plan.after.pod(resize.uid)
        for cgroup in (plan.after.node, *plan.after.qos, planned.cgroup):
            self.make(cgroup, cgroup.path)
        for container in planned.containers:
            self._write(plan.after, container, admitted.containers[container.name])
        admitted.pod, admitted.planned = desired, planned
        for step in resize.steps:
            after(step)

    def clear(self) -> None:
        """Remove all cgroups that it made."""
        for path in reversed(self.made):
            self.cgroups.remove(path)
        self.made.clear()
        self._pods.clear()

    def make(self, cgroup: PlannedCgroup, path: CgroupPath) -> None:
        """Make a missing cgroup and write its planned values."""
        if path not in self.cgroups:
            self.made.append(next(one for one in (*reversed(path.ancestors), path) if one not in self.cgroups))
            self.cgroups.make(path)
        for expected in cgroup.knobs.values():
            if expected.written is not ABSENT:
                self.cgroups.put(path, expected.knob, str(expected.written))


def _spec(pod: PlannedPod) -> SandboxSpec:
    return SandboxSpec(
        name=pod.name, namespace=pod.namespace, uid=pod.uid, cgroup_parent=str(pod.cgroup.path), log_directory=""
    )
