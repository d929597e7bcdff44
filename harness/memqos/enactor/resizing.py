"""The kubelet's steps of an in-place resize, through cgroups and runtime."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from memqos.clock import Deadline
from memqos.enactor.asking import refused_request, start_container, update_container
from memqos.enactor.base import AdmittedPod
from memqos.engine.plan import PlannedCgroup
from memqos.engine.resize import ResizeStep, StepKind
from memqos.errors import RuntimeCallError
from memqos.model.pod import Container, Pod
from memqos.runtime.base import Runtime

__all__ = ["Stepping"]

STEP_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepping:
    """Does one step after another. rewrite: writes these knobs of a pod's cgroup, past systemd if so."""

    runtime: Runtime
    rewrite: Callable[[PlannedCgroup, bool], None]

    def do(self, step: ResizeStep, admitted: AdmittedPod, desired: Pod) -> None:
        """One step; what the pod is to become is told by `desired`. MachineryError for one that fails.

        Where it is the runtime's refusal of a container's request, the pod has that as `refused`.
        """
        try:
            self._do(step, admitted, desired)
        except RuntimeCallError as error:
            update = step.kind is StepKind.UPDATE_CONTAINER
            if step.message is not None and (update or step.kind is StepKind.START_CONTAINER):
                admitted.refused = refused_request(
                    self.runtime,
                    admitted,
                    _container(desired, step),
                    step.message,
                    error,
                    update=update,
                    deadline=Deadline.after(STEP_SECONDS),
                )
            raise

    def _do(self, step: ResizeStep, admitted: AdmittedPod, desired: Pod) -> None:
        deadline = Deadline.after(STEP_SECONDS)
        match step.kind:
            case StepKind.POD_CGROUP:
                cgroup = dataclasses.replace(admitted.planned.cgroup, knobs=step.knobs)
                self.rewrite(cgroup, step.past_driver)
            case StepKind.UPDATE_CONTAINER:
                assert step.message is not None  # noqa: S101 - an update is a message
                update_container(self.runtime, admitted, step.container, step.message, deadline=deadline)
            case StepKind.UPDATE_SANDBOX:
                self._tell(step, admitted, deadline)
            case StepKind.STOP_CONTAINER:
                handle = admitted.containers[step.container]
                self.runtime.stop(handle, grace=0, deadline=deadline)
                self.runtime.remove(handle, deadline=deadline)
            case StepKind.START_CONTAINER:
                assert step.message is not None  # noqa: S101 - what it is started with
                start_container(self.runtime, admitted, _container(desired, step), step.message, deadline=deadline)

    def _tell(self, step: ResizeStep, admitted: AdmittedPod, deadline: Deadline) -> None:
        """Tell the runtime of the pod's size; one that does not know the call is no obstacle, as to the kubelet."""
        assert step.message is not None  # noqa: S101
        assert admitted.sandbox is not None  # noqa: S101
        overhead = admitted.planned.sandbox_overhead
        try:
            self.runtime.update_sandbox(admitted.sandbox, overhead=overhead, resources=step.message, deadline=deadline)
        except RuntimeCallError as error:
            if error.data.get("code") != "UNIMPLEMENTED":
                raise


def _container(pod: Pod, step: ResizeStep) -> Container:
    """The container of the pod that a step is about."""
    return next(one for one in pod.all_containers if one.name == step.container)
