"""Work in a pool of threads that keeps the context variables of the code that hands it over."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

__all__ = ["submit"]

P = ParamSpec("P")
T = TypeVar("T")


def submit(pool: Executor, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
    """As `pool.submit`; the work sees the caller's context variables as they are now, however late it runs.

    So the evidence of a case stays the case's, see `laboratory.evidence.MachineLog`.
    """
    context = contextvars.copy_context()
    return pool.submit(lambda: context.run(work, *args, **kwargs))
