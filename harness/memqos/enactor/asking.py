"""One container of a pod: what a runtime is asked for it, and whether an error is about that request."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable

from memqos.clock import Deadline
from memqos.enactor.base import AdmittedPod, RefusedRequest
from memqos.errors import MachineryError, RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.pod import Container
from memqos.runtime.base import ContainerHandle, ContainerSpec, Runtime, SandboxHandle

__all__ = ["refused_request", "start_container", "update_container"]

Create = Callable[[SandboxHandle, ContainerSpec, Deadline], ContainerHandle]
"""Makes a container as a runtime's `create` does."""


def start_container(
    runtime: Runtime,
    admitted: AdmittedPod,
    container: Container,
    resources: ContainerResources,
    *,
    deadline: Deadline,
    create: Create | None = None,
) -> ContainerHandle:
    """Make a container in the pod's sandbox with these resources and start it; the pod has it even if that fails.

    create: makes it in the place of the runtime's own verb. Raises what the runtime's calls raise.
    """
    assert admitted.sandbox is not None  # noqa: S101 - a pod's containers come after its sandbox
    spec = ContainerSpec(
        name=container.name,
        image=container.image,
        command=container.command,
        args=container.args,
        log=f"{container.name}-{uuid.uuid4().hex}.log",
        mounts=admitted.mounts.get(container.name, ()),
        resources=resources,
    )
    if create is None:
        handle = runtime.create(admitted.sandbox, spec, deadline=deadline)
    else:
        handle = create(admitted.sandbox, spec, deadline)
    admitted.containers[container.name] = handle
    admitted.asked[container.name] = (resources,)
    runtime.start(handle, deadline=deadline)
    return handle


def update_container(
    runtime: Runtime, admitted: AdmittedPod, name: str, resources: ContainerResources, *, deadline: Deadline
) -> None:
    """Ask for these resources for a container of the pod; raises what the runtime's call raises."""
    runtime.update(admitted.containers[name], resources, deadline=deadline)
    admitted.asked[name] = (*admitted.asked[name], resources)


def refused_request(
    runtime: Runtime,
    admitted: AdmittedPod,
    container: Container,
    request: ContainerResources,
    error: RuntimeCallError,
    *,
    update: bool = False,
    deadline: Deadline,
) -> RefusedRequest | None:
    """That an error is about this request: in the pod's sandbox the runtime starts a container that asks for nothing.

    None where it does not, and so starts nothing at all. The plain container is removed again.
    """
    plain = dataclasses.replace(container, name=f"{container.name}-plain")
    try:
        handle = start_container(runtime, admitted, plain, ContainerResources(), deadline=deadline)
        runtime.stop(handle, grace=0, deadline=deadline)
        runtime.remove(handle, deadline=deadline)
    except MachineryError:
        # What is there of it is removed with the pod.
        return None
    del admitted.containers[plain.name]
    return RefusedRequest(container=container.name, request=request, update=update, error=error)
