"""A record of each call to a runtime, whatever it is asked through; also of one to which there was no answer."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping

from memqos.clock import Deadline, utc_now
from memqos.errors import MemqosError
from memqos.runtime.base import CallRecord, CallRecorder

__all__ = ["Call", "RecordedCalls"]


class Call:
    """One that is under way. reply: what came back, None until then and for an error."""

    reply: Mapping[str, object] | None = None


class RecordedCalls:
    """Hands every call over to a recorder, one at a time, from whatever thread it is made."""

    def __init__(self, record: CallRecorder) -> None:
        self._record = record
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def call(self, method: str, request: Mapping[str, object], deadline: Deadline) -> Iterator[Call]:
        """Recorded when the context ends, with the reply that was put into it or the error that is raised."""
        call, trouble = Call(), "there was no answer"
        at, began = utc_now().isoformat(timespec="milliseconds"), deadline.clock.now()
        try:
            yield call
        except MemqosError as error:
            trouble = str(error)
            raise
        finally:
            record = CallRecord(
                method=method,
                at=at,
                seconds=deadline.clock.now() - began,
                request=request,
                reply=call.reply,
                error=trouble if call.reply is None else "",
            )
            with self._lock:
                self._record(record)
