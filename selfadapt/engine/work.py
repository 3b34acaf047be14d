"""What a run works with, and where it stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from selfadapt.data.feed import Feed
from selfadapt.engine.machine import Machine
from selfadapt.engine.plan import Plan
from selfadapt.engine.signals import Signals
from selfadapt.engine.stop import Stop
from selfadapt.methods import Method
from selfadapt.rundir import RunDir

Rows = NDArray[np.int64]
Show = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Parts:
    """The data of a run: what trains, and what only measures."""

    train: Feed
    labels: Rows  # as given, for every row of the training part
    ids: Sequence[str]
    validation: Rows  # rows held out of training, with their labels as given
    true_labels: Rows | None
    test: Feed | None
    test_labels: Rows | None
    test_ids: Sequence[str] | None = None  # of every row of the test part
    corrupted: NDArray[np.bool_] | None = None  # rows whose label or image is known to be wrong
    calibration: Rows = field(default_factory=lambda: np.zeros(0, np.int64))  # and of every choice
    others: Feed | None = None  # samples of another kind, to be told apart at the end
    clean: Feed | None = None  # what trains, before its images were corrupted, if they were


@dataclass
class Progress:
    """Where a run stands: the next step, and sums over the epoch so far."""

    epoch: int = 0
    step: int = 0
    seconds: float = 0.0  # spent in training steps
    measuring: float = 0.0  # seconds spent in evaluation
    samples: int = 0
    total: float = 0.0  # Σ w·v of this epoch
    weight: float = 0.0  # Σ w of this epoch
    visited: int = 0
    guessed: int = 0  # of these, how many the method has said its logits of
    right: int = 0  # predicted the label given
    truly_right: int = 0
    ended: bool = False  # all steps of the epoch are done, and its line is not yet written
    unreadable: dict[str, str] = field(default_factory=dict)  # training rows, and why
    unreadable_test: dict[str, str] = field(default_factory=dict)

    def next_epoch(self) -> None:
        self.epoch += 1
        self.step = self.visited = self.guessed = self.right = self.truly_right = 0
        self.total = self.weight = 0.0
        self.ended = False


@dataclass(frozen=True)
class Work:
    """What a run works with; nothing here but the modules' own state changes."""

    method: Method
    wrapped: nn.Module
    optimizer: torch.optim.Optimizer
    signals: Signals | None
    parts: Parts
    labels: Tensor
    true_labels: Tensor | None
    plan: Plan
    run: RunDir
    machine: Machine
    seed: int
    show: Show
    stop: Stop
