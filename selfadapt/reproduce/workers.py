"""Several cells at a time, each in a process of its own: what one of them does, a crash too,
concerns no other."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any

import torch

from selfadapt.engine.work import Show
from selfadapt.reproduce.cell import Outcome
from selfadapt.reproduce.tasks import Task

_TAIL = 2000  # characters of what a dead process said
_BLOCK = 1 << 16


@dataclass
class Worker:
    """A process, and the cell it is at."""

    process: subprocess.Popen[bytes]
    events: int  # the pipe it speaks on
    said: IO[bytes]  # what it printed, which is of interest only if it dies
    task: Task
    unread: bytes = b""

    def hand(self, task: Task) -> None:
        assert self.process.stdin is not None
        self.task = task
        with suppress(OSError):  # it has died: its pipe tells
            self.process.stdin.write(json.dumps(task.as_json()).encode() + b"\n")
            self.process.stdin.flush()

    def messages(self) -> list[dict[str, Any] | None]:
        """What it has said by now; None at the end, if it has ended."""
        heard = os.read(self.events, _BLOCK)
        *lines, self.unread = (self.unread + heard).split(b"\n")
        found: list[dict[str, Any] | None] = [json.loads(line) for line in lines]
        return found if heard else [*found, None]

    def dismiss(self) -> None:
        """Wait for its end, and leave nothing open."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        self.process.wait()
        os.close(self.events)
        self.said.close()

    def how_it_died(self) -> str:
        code = self.process.wait()
        how = f"with exit code {code}"
        if code < 0:
            how = f"by {signal.Signals(-code).name}"
        if code == -signal.SIGKILL:
            how += " (which is what happens when memory runs out)"
        self.said.seek(0)
        tail = self.said.read().decode(errors="replace")[-_TAIL:].strip()
        return f"the process that carried it out ended {how}" + (f":\n{tail}" if tail else "")


def threads_each(jobs: int) -> int:
    have = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (have or 1) // jobs)


def _environment(number: int, jobs: int) -> dict[str, str]:
    """Cores are shared out; so are GPUs, one process a GPU as far as they reach."""
    found = dict(os.environ) | {"OMP_NUM_THREADS": str(threads_each(jobs))}
    found["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if devices > 1:
        names = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(devices))))
        found["CUDA_VISIBLE_DEVICES"] = names.split(",")[number % devices]
    return found


def _start(number: int, jobs: int, task: Task) -> Worker:
    """In a session of its own, so that a Ctrl-C in the terminal reaches it through us only."""
    here, there = os.pipe()
    said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by dismiss
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "selfadapt.reproduce.worker", str(there)],
        stdin=subprocess.PIPE,
        stdout=said,
        stderr=said,
        pass_fds=[there],
        env=_environment(number, jobs),
        start_new_session=True,
    )
    os.close(there)
    worker = Worker(process, here, said, task)
    worker.hand(task)
    return worker


class _Pool:
    """At most `jobs` workers, each with a number that stands for its share of the machine."""

    def __init__(self, tasks: Sequence[Task], jobs: int) -> None:
        self.waiting = deque(tasks)
        self.jobs = min(jobs, len(tasks))
        self.workers: dict[int, Worker] = {}
        self.ready = selectors.DefaultSelector()

    def start(self, number: int) -> None:
        if self.waiting:
            worker = _start(number, self.jobs, self.waiting.popleft())
            self.workers[number] = worker
            self.ready.register(worker.events, selectors.EVENT_READ, number)

    def end(self, number: int) -> None:
        worker = self.workers.pop(number)
        self.ready.unregister(worker.events)
        worker.dismiss()

    def messages(self) -> Iterator[tuple[int, dict[str, Any] | None]]:
        """What the workers say, and None of one that has ended."""
        while self.workers:
            for found, _ in self.ready.select():
                for message in self.workers[found.data].messages():
                    yield found.data, message


def carry_out_together(
    tasks: Sequence[Task], jobs: int, show: Show
) -> Iterator[tuple[Task, Outcome]]:
    """Each task as it ends; `show` is told of the others' progress."""
    pool = _Pool(tasks, jobs)
    with _stopped_at_the_end(pool):
        for number in range(pool.jobs):
            pool.start(number)
        for number, message in pool.messages():
            worker = pool.workers[number]
            if message is None:
                outcome = Outcome("failed", worker.how_it_died(), sound=False)
            elif "ending" in message:
                outcome = Outcome(**message)
            else:
                show({"cell": worker.task.name, **message})
                continue
            yield worker.task, outcome
            if outcome.sound and pool.waiting:
                worker.hand(pool.waiting.popleft())
            else:
                pool.end(number)
                pool.start(number)


@contextmanager
def _stopped_at_the_end(pool: _Pool) -> Iterator[None]:
    """However it ends, no worker outlives us; all of them save what they have. Who asks once more
    does not wait for that."""
    try:
        yield
    finally:
        try:
            _tell(pool, signal.SIGTERM)
            for number in list(pool.workers):
                pool.end(number)
        except BaseException:
            _tell(pool, signal.SIGKILL)
            raise
        finally:
            pool.ready.close()


def _tell(pool: _Pool, number: int) -> None:
    for worker in pool.workers.values():
        with suppress(ProcessLookupError):
            worker.process.send_signal(number)
