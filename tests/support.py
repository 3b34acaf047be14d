"""Tiny data, and processes that are there in a tenth of a second.

Children are forked from a server that has imported torch already (`forkserver` of the standard
library), so a test may start one for every attempt to kill it, and a group of them for every
question about several processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

PATIENCE = 60.0
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(  # what a child would else import for itself, each time
    [
        *("pytest", "torch", "torch._dynamo", "torch.distributed", "accelerate", "pandas"),
        *("selfadapt.experiment", "selfadapt.cli", "selfadapt.hand_over", "selfadapt.demo"),
        *("selfadapt.methods.erm", "selfadapt.methods.sat"),
    ]
)

Arrays = tuple[np.ndarray, np.ndarray]


def blobs(samples: int = 150, classes: int = 3, features: int = 6, seed: int = 0) -> Arrays:
    """Points around one centre a class: easy, but not without errors."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(classes, features)) * 1.5
    y = random.integers(0, classes, samples)
    x = centres[y] + random.normal(size=(samples, features))
    return x.astype(np.float32), y


def _keep_outcome(to: Path, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    warnings.simplefilter("error")
    try:
        outcome = True, function(*arguments)
    except BaseException:
        outcome = False, traceback.format_exc()
    to.with_suffix(".part").write_bytes(pickle.dumps(outcome))
    to.with_suffix(".part").rename(to)


def _member(
    rank: int, size: int, port: int, to: Path, function: Callable[..., Any], arguments: Any
) -> None:
    here = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    os.environ |= {name: str(value) for name, value in here.items()}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    _keep_outcome(to, function, arguments)


class Child:
    """A process of its own, and what its function returned."""

    def __init__(self, process: BaseProcess, to: Path) -> None:
        self.process = process
        self.to = to
        process.start()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def kill(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def ended(self, seconds: float = PATIENCE) -> bool:
        self.process.join(seconds)
        return self.process.exitcode is not None

    def returned(self) -> Any:
        assert self.ended(), "the process is still running"
        assert self.to.exists(), f"the process ended with {self.process.exitcode} and no answer"
        fine, value = pickle.loads(self.to.read_bytes())
        assert fine, value
        return value


class Starter:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[Child] = []

    def start(self, function: Callable[..., Any], *arguments: Any) -> Child:
        to = self.folder / f"outcome-{len(self.started)}"
        return self._child(to, _keep_outcome, to, function, arguments)

    def start_group(self, size: int, function: Callable[..., Any], *arguments: Any) -> list[Child]:
        port = _free_port()
        return [self._started(rank, size, port, function, arguments) for rank in range(size)]

    def group(self, size: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What `function` returned in each of `size` processes that compute together."""
        return [child.returned() for child in self.start_group(size, function, *arguments)]

    def _started(
        self, rank: int, size: int, port: int, function: Callable[..., Any], arguments: Any
    ) -> Child:
        to = self.folder / f"outcome-{len(self.started)}"
        return self._child(to, _member, rank, size, port, to, function, arguments)

    def _child(self, to: Path, target: Callable[..., None], *arguments: Any) -> Child:
        child = Child(CONTEXT.Process(target=target, args=arguments, daemon=True), to)
        self.started.append(child)
        return child


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
