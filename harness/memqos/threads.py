"""Work in other threads: in a pool, with the context variables of the code that hands it over, and again and again."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

__all__ = ["repeatedly", "submit"]

P = ParamSpec("P")
T = TypeVar("T")


def submit(pool: Executor, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
    """As `pool.submit`; the work sees the caller's context variables as they are now, however late it runs.

    So the evidence of a case stays the case's, see `laboratory.evidence.MachineLog`.
    """
    context = contextvars.copy_context()
    return pool.submit(lambda: context.run(work, *args, **kwargs))


@contextlib.contextmanager
def repeatedly(work: Callable[[], None], *, every: float, name: str) -> Iterator[None]:
    """Until the context ends, a thread does this work, first after `every` seconds, and then after as many again.

    The first error ends the thread, and is raised when the context ends without one of its own.
    """
    ends, errors = threading.Event(), list[Exception]()

    def run() -> None:
        try:
            while not ends.wait(every):
                work()
        except Exception as error:  # noqa: BLE001 - raised below, in the thread that waits
            errors.append(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
    if errors:
        raise errors[0]
