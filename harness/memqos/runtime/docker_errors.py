"""What errors of Docker's SDK mean to memqos."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import docker
from memqos.clock import Deadline
from memqos.errors import MachineryError, RuntimeCallError
from memqos.runtime import unanswered

__all__ = ["in_memqos_terms", "passing_over", "refusal"]


def in_memqos_terms(error: Exception, *, method: str, runtime: str, deadline: Deadline) -> MachineryError:
    """What an error of the SDK means to memqos; the only place that knows them."""
    if isinstance(error, docker.errors.APIError):
        return refusal(runtime, method, error.status_code or 0, str(error.explanation or error))
    data = {"method": method, "code": type(error).__name__, "details": str(error)}
    if deadline.expired:
        return unanswered.late(runtime, method, deadline, data=data)
    return unanswered.gone(runtime, method, str(error), data=data)


@contextlib.contextmanager
def passing_over(status: int) -> Iterator[None]:
    """Take this answer for one that says that nothing was to be done."""
    try:
        yield
    except RuntimeCallError as error:
        if error.data["code"] != str(status):
            raise


def refusal(runtime: str, method: str, code: object, details: str) -> RuntimeCallError:
    """An answer of the engine, or of memqos in its place, that is no success."""
    return RuntimeCallError(
        f"{runtime} answered {code}: {details}",
        where=method,
        data={"method": method, "code": str(code), "details": details},
    )
