"""Ctrl-C and SIGTERM ask a run to stop; it does so after the step it is in, with all saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from selfadapt.errors import Interrupted
from selfadapt.rundir import RunDir


class Stop:
    """Set by Ctrl-C or SIGTERM; the loop looks at it after each step."""

    def __init__(self) -> None:
        self.asked = 0

    def ask(self, number: int, _frame: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = number

    def interrupted(self, run: RunDir) -> Interrupted:
        return Interrupted(
            f"stopped; everything is saved in {run.path}. The same command goes on from here",
            exit_code=128 + (self.asked or signal.SIGTERM),
        )


@contextmanager
def stop_when_asked() -> Iterator[Stop]:
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {n: signal.signal(n, stop.ask) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
