"""Calls to a runtime, whatever it is asked through: a record of each, and the errors of one without a usable answer."""

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


_ID = re.compile(r"\w[\w.-]{0,254}", re.ASCII)
_SHOWN = 100


def late(runtime: str, method: str, deadline: Deadline, *, data: Mapping[str, object]) -> DeadlineError:
    """It did not answer in time."""
    condition = f"{runtime} answers {method}"
    return DeadlineError(
        f"waited {deadline.elapsed:.1f} s for '{condition}'; there was no answer.",
        data={**data, "condition": condition, "last": None, "elapsed": deadline.elapsed},
    )


def gone(runtime: str, method: str, details: str, *, data: Mapping[str, object]) -> MachineryError:
    """Nothing is at the other end."""
    return MachineryError(
        f"{runtime} does not answer: {details}",
        where=method,
        next_step="See whether the runtime's service runs on the machine, and its journal.",
        data=data,
    )


def usable_id(runtime: str, method: str, text: str) -> str:
    """The id that a runtime gave what it made; MachineryError for one that no cgroup and no folder can have."""
    if not _ID.fullmatch(text):
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        raise MachineryError(
            f"{runtime} answered with {shown!r}, which is no id.",
            where=method,
            next_step="An id has letters, digits, '.', '-' and '_', and begins with a letter or a digit.",
            data={"id": text},
        )
    return text
