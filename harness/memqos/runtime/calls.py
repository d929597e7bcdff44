"""Calls to a runtime over any transport: records of each, and errors for a missing answer."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Mapping

from memqos.clock import Deadline, utc_now
from memqos.errors import DeadlineError, MachineryError, MemqosError
from memqos.runtime.base import CallRecord, CallRecorder

__all__ = ["RecordedCalls", "usable_id"]


class Call:
    """A running call. reply: the answer, None until then and for an error."""

    reply: Mapping[str, object] | None = None


class RecordedCalls:
    """Passes every call to a recorder, one at a time, from any thread."""

    def __init__(self, record: CallRecorder) -> None:
        self._record = record
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def call(self, method: str, request: Mapping[str, object], deadline: Deadline) -> Iterator[Call]:
        """Recorded when the context ends, with its reply or the raised error."""
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


_ID = re.compile(r"\w[\w.-]{0,254}", re.ASCII)
_SHOWN = 100


def late(runtime: str, method: str, deadline: Deadline, *, data: Mapping[str, object]) -> DeadlineError:
    """The error for a call without an answer in time."""
    condition = f"{runtime} answers {method}"
    return DeadlineError(
        f"waited {deadline.elapsed:.1f} s for '{condition}'; there was no answer.",
        data={**data, "condition": condition, "last": None, "elapsed": deadline.elapsed},
    )


def gone(runtime: str, method: str, details: str, *, data: Mapping[str, object]) -> MachineryError:
    """The error if nothing listens at the other end."""
    return MachineryError(
        f"{runtime} does not answer: {details}",
        where=method,
        next_step="Check whether the runtime's service runs on the machine, and its journal.",
        data=data,
    )


def usable_id(runtime: str, method: str, text: str) -> str:
    """The id that a runtime assigned; MachineryError for one that no cgroup and no folder can have."""
    if not _ID.fullmatch(text):
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        raise MachineryError(
            f"{runtime} answered with {shown!r}, which is not an id.",
            where=method,
            next_step="An id has only letters, digits, '.', '-' and '_', and begins with a letter or a digit.",
            data={"id": text},
        )
    return text
