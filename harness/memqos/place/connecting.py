"""A runtime of a place: over CRI, whose socket is forwarded from the target, or by its own commands on the target."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from memqos.clock import Deadline
from memqos.model.node import CgroupDriver
from memqos.place.base import OfferedRuntime, RequestRecorder
from memqos.runtime.base import Runtime
from memqos.runtime.cri import connect
from memqos.runtime.oci import OciRuntime
from memqos.target.base import Target

__all__ = ["CONTAINERD_SOCKET", "runtime_connected"]

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"


@contextlib.contextmanager
def runtime_connected(
    target: Target, offer: OfferedRuntime, driver: CgroupDriver, *, record: RequestRecorder, deadline: Deadline
) -> Iterator[Runtime]:
    """The runtime, as `Place.connect` gives it; the offer has a handler for the driver."""
    if offer.is_direct:
        direct = OciRuntime(target, program=offer.handlers[driver], driver=driver, record=record)
        direct.greet(deadline=deadline)
        yield direct
        return
    with (
        target.forward(offer.socket) as socket,
        connect(socket, name=offer.name, handler=offer.handlers[driver], record=record, deadline=deadline) as runtime,
    ):
        yield runtime
