"""What became of a gRPC call: the reply, or the error that it means to memqos. gRPC's codes are known here alone."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait

import grpc
from google.protobuf.message import Message

from memqos.clock import Deadline
from memqos.errors import MachineryError, RuntimeCallError
from memqos.runtime import unanswered

__all__ = ["answered", "error_meant"]

FINISHING_SECONDS = 10.0
"""For a runtime to come to the end of a call that an interrupt does not cut off."""

_FINISHED = frozenset({"RunPodSandbox"})
"""The methods of those: what is half made in a sandbox goes with it, but nothing tells of half a sandbox."""

_BROKEN_OFF = ("Stream removed", "Received RST_STREAM", "Received http2 :status header")
"""How gRPC itself words an answer that is none, with codes that a server might have given."""


def answered(
    call: grpc.UnaryUnaryMultiCallable[Message, Message], request: Message, *, method: str, deadline: Deadline
) -> Message:
    """The reply; grpc.RpcError where there is none. An interrupt waits FINISHING_SECONDS for a sandbox being started.

    It would cancel the call, and containerd that is told so may fail to clean up behind itself: what is left appears
    some seconds later, when nobody looks for it any more.
    """
    if method not in _FINISHED:
        return call(request, timeout=deadline.remaining)
    outcome: Future[Message] = Future()

    def ask() -> None:
        try:
            outcome.set_result(call(request, timeout=deadline.remaining))
        except Exception as error:  # noqa: BLE001 - it is raised where the reply is waited for
            outcome.set_exception(error)

    # Signals are the main thread's, so none of them ends this one; gRPC's own futures are left in disorder by one.
    asking = threading.Thread(target=ask, name="memqos-cri", daemon=True)
    try:
        asking.start()
        return outcome.result()
    except KeyboardInterrupt:
        wait([outcome], timeout=FINISHING_SECONDS)
        raise


def error_meant(error: grpc.RpcError, *, method: str, runtime: str, deadline: Deadline) -> MachineryError:
    """The error of memqos for one of gRPC's."""
    code, details = error.code(), error.details() or ""
    data = {"method": method, "code": code.name, "details": details}
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return unanswered.late(runtime, method, deadline, data=data)
    if code is grpc.StatusCode.UNAVAILABLE or details.startswith(_BROKEN_OFF):
        return unanswered.gone(runtime, method, details, data=data)
    return RuntimeCallError(f"{runtime} answered {code.name}: {details}", where=method, data=data)
