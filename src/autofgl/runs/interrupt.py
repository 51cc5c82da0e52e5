"""Ctrl-C and SIGTERM as a polite request: finish the round, save, then stop."""

import signal
import threading
from types import FrameType
from typing import Any


class StopRequest:
    """While entered, the first signal sets :attr:`wanted`; a second one interrupts at once."""

    def __init__(self) -> None:
        self.wanted = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True
