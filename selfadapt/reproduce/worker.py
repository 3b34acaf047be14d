"""A process that carries out the cells it is handed, one line of JSON each on its standard input,
and says what happens on the pipe it was given. Started by workers.py."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from selfadapt import errors
from selfadapt.reproduce.cell import Loaded, carry_out
from selfadapt.reproduce.tasks import Task

_PAUSE_SECONDS = 0.2  # between two messages that the next one makes worthless


class Speaker:
    """Messages to the process that started this one. If it is there no more, this one stops as if
    asked to, with its state saved."""

    def __init__(self, pipe: TextIO) -> None:
        self.pipe = pipe
        self.said = 0.0

    def __call__(self, message: Mapping[str, Any]) -> None:
        passing = "step" in message or "what" in message
        now = time.monotonic()
        if passing and now - self.said < _PAUSE_SECONDS:
            return
        self.said = now
        try:
            self.pipe.write(json.dumps(message) + "\n")
            self.pipe.flush()
        except OSError:
            os.kill(os.getpid(), signal.SIGTERM)


def work(tasks: TextIO, pipe: TextIO) -> int:
    speak, loaded = Speaker(pipe), Loaded()
    for line in tasks:
        try:
            outcome = carry_out(Task(**json.loads(line)), loaded, speak)
        except errors.Interrupted as error:
            return error.exit_code
        speak({"ending": outcome.ending, "text": outcome.text, "sound": outcome.sound})
        if not outcome.sound:
            return 1
    return 0


if __name__ == "__main__":
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as out:
        sys.exit(work(sys.stdin, out))
