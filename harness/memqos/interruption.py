"""Ctrl-C and its like: SIGTERM is how CI cancels, SIGHUP how a terminal goes; both are a first Ctrl-C."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["Interruption"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """While its context lives, each of the signals is a KeyboardInterrupt in the main thread, and is counted.

    A signal that was to be ignored, as nohup asks it, stays so. Outside of the main thread nothing is changed: Python
    has signals there only.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._held = False
        self._count = 0

    @property
    def came(self) -> bool:
        """Whether there was a signal."""
        return self._count > 0

    def hold(self) -> None:
        """From now on signals are counted and interrupt nothing: what is left must be done, and takes a moment."""
        self._held = True

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread() and not self._before:
            for number in _SIGNALS:
                before = signal.getsignal(number)
                if before not in {signal.SIG_IGN, None}:
                    self._before[number] = signal.signal(number, self._heed)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()

    def _heed(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature is Python's
        self._count += 1
        if not self._held:
            raise KeyboardInterrupt(signal.Signals(number).name)
