"""Makes a request of the runtime in the request's own words: CRI's, Docker's, or those of an OCI runtime."""

from __future__ import annotations

from memqos.clock import Deadline
from memqos.enactor.admission import start_container
from memqos.enactor.base import AdmittedPod
from memqos.engine.translate.requested import AnyRequest, OciRequest
from memqos.errors import UsageError
from memqos.model.cri import ContainerResources
from memqos.model.pod import Container
from memqos.runtime.base import ContainerHandle, ContainerSpec, Runtime, SandboxHandle, SpeaksDocker, SpeaksOci

__all__ = ["ask_for_container", "ask_for_update", "over_bundles"]

_NOTHING = ContainerResources()


def ask_for_container(
    runtime: Runtime,
    pod: AdmittedPod,
    template: Container,
    request: AnyRequest,
    *,
    deadline: Deadline,
    follow: bool = False,
) -> ContainerHandle:
    """A container from this template in the pod, created with the request and started; the pod keeps it after an error.

    follow: whether the runtime's events are followed from before its start; this needs a directly driven runtime.
    UsageError for words that the runtime does not accept. Raises what the runtime's calls raise.
    """
    if isinstance(request, ContainerResources):
        return start_container(runtime, pod, template, request, deadline=deadline)

    def create(sandbox: SandboxHandle, spec: ContainerSpec, deadline: Deadline) -> ContainerHandle:
        if isinstance(request, OciRequest):
            handle = over_bundles(runtime).create_from(sandbox, spec, request, deadline=deadline)
        else:
            handle = _over_docker(runtime).create_as(sandbox, spec, request, deadline=deadline)
        if follow:
            over_bundles(runtime).follow(handle, deadline=deadline)
        return handle

    return start_container(runtime, pod, template, _NOTHING, deadline=deadline, create=create)


def ask_for_update(runtime: Runtime, handle: ContainerHandle, request: AnyRequest, *, deadline: Deadline) -> None:
    """Update a running container; errors as above."""
    if isinstance(request, ContainerResources):
        runtime.update(handle, request, deadline=deadline)
    elif isinstance(request, OciRequest):
        over_bundles(runtime).update_with(handle, request, deadline=deadline)
    else:
        _over_docker(runtime).update_as(handle, request, deadline=deadline)


def over_bundles(runtime: Runtime) -> SpeaksOci:
    """The runtime as one that takes bundles; UsageError for another."""
    if not isinstance(runtime, SpeaksOci):
        raise UsageError(
            f"{runtime.name} accepts no bundles.", next_step="Add oci to the claim's needs, or send CRI requests."
        )
    return runtime


def _over_docker(runtime: Runtime) -> SpeaksDocker:
    if not isinstance(runtime, SpeaksDocker):
        raise UsageError(
            f"{runtime.name} accepts no HostConfig.",
            next_step="Add docker to the claim's needs, or send CRI requests.",
        )
    return runtime
