"""Ctrl-C and its like: SIGTERM is how CI cancels, SIGHUP how a terminal goes; both are a first Ctrl-C.

Python makes an exception of a signal, wherever the main thread is at that moment. In a finalizer or a callback nothing
takes it, and Python passes it over; a library may swallow it as well. So it is raised again until code that ends
things for it has said so. Tasks of asyncio that it tears down in the middle of a call complain of that, also at the
process's very end, without notice.
"""

from __future__ import annotations

import _thread
import logging
import signal
import sys
import threading
import weakref
from types import FrameType, TracebackType
from typing import Any

from memqos.clock import SYSTEM_CLOCK

__all__ = ["Interruption"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_REMIND_SECONDS = 0.5


class _Signalled(KeyboardInterrupt):
    """As it is raised here: Python's own cannot be referred to weakly, and so not be seen to be gone."""


class Interruption:
    """While its context lives, each of the signals is a KeyboardInterrupt in the main thread, and is counted.

    The first one is raised again when it was swallowed, until `heeded` or `hold` is called. A signal that was to be
    ignored, as nohup asks it, stays so. Outside of the main thread nothing is changed: Python has signals there only.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._report_unraisable: Any = None
        self._quiet = False
        self._reminding = False
        self._raised: weakref.ref[_Signalled] | None = None
        self._count = 0
        self._held = False
        self._complaints = logging.getLogger("asyncio")

    @property
    def came(self) -> bool:
        """Whether there was a signal."""
        return self._count > 0

    def heeded(self) -> None:
        """The interrupted code is ending; a signal that comes now is a new one."""
        self._quiet = True

    def hold(self) -> None:
        """From now on signals are counted and interrupt nothing: what is left must be done, and takes a moment."""
        self._held = self._quiet = True

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread() and self._report_unraisable is None:
            for number in _SIGNALS:
                before = signal.getsignal(number)
                if before not in {signal.SIG_IGN, None}:
                    self._before[number] = signal.signal(number, self._heed)
            self._report_unraisable, sys.unraisablehook = sys.unraisablehook, self._pass_over
            self._complaints.addFilter(self._is_news)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._quiet = True
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()
        if self._report_unraisable is not None:
            sys.unraisablehook, self._report_unraisable = self._report_unraisable, None
        if not self.came:
            self._complaints.removeFilter(self._is_news)

    def _is_news(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - the signature is that of a filter
        """Whether what asyncio complains of is no consequence of a signal."""
        return not self.came

    def _heed(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature is Python's
        is_reminder, self._reminding = self._reminding, False
        self._count += not is_reminder
        if self._held or (is_reminder and self._quiet):
            return
        error = _Signalled(signal.Signals(number).name)
        self._raised = weakref.ref(error)
        if self._count == 1 and not is_reminder:
            # A Thread of Python's own takes locks, which the main thread may hold just now.
            _thread.start_new_thread(self._remind, (number,))
        try:
            raise error
        finally:
            del error  # its own traceback would keep it alive

    def _remind(self, number: int) -> None:
        """Raise the interrupt again whenever it is gone and nothing has handled it."""
        while not self._quiet:
            SYSTEM_CLOCK.sleep(_REMIND_SECONDS)
            is_gone = self._raised is None or self._raised() is None
            if is_gone and not self._quiet:
                self._reminding = True
                # A signal, and not only Python's mark of one, ends what the main thread waits for.
                signal.pthread_kill(threading.main_thread().ident or 0, number)

    def _pass_over(self, unraisable: Any) -> None:
        """What Python reports that it could not raise; an interrupt is raised again, and is no fault."""
        if isinstance(unraisable.exc_value, _Signalled):
            self._raised = None
        else:
            self._report_unraisable(unraisable)
