"""Ctrl-C and SIGTERM ask a run to stop; it does so after the step it is in, with all saved."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from selfadapt.errors import Interrupted
from selfadapt.rundir import RunDir

_IMPATIENT = 1.0


class Stop:
    """Set by Ctrl-C or SIGTERM; the loop looks at it after each step.

    A launcher passes a signal on to processes that the terminal has sent it to already, so only
    a Ctrl-C at least a second after the first is somebody who will not wait."""

    def __init__(self) -> None:
        self.asked = 0
        self.since = 0.0

    def ask(self, number: int, _frame: object) -> None:
        now = time.monotonic()
        if not self.asked:
            self.asked, self.since = number, now
        elif number == signal.SIGINT and now - self.since > _IMPATIENT:
            raise KeyboardInterrupt

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
