"""The contract of a training method: what to do with a batch.

A method owns its net (or nets), its targets and its teachers. Being a module, all of them are
saved, moved and resumed without a line of code. The engine wraps the method, not the net, so any
number of networks and inner forward passes lie within one wrapped call. Methods are final: they
share by calling `Targets`, `losses` and `attacks`, never by inheriting from each other.

A new method is one file in this folder. Its file name is its name in recipes, on the command line,
in tables and in tests; its docstring is its card; the keyword-only parameters of its `__init__`
are its settings, with the paper's values as defaults.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from selfadapt.batch import Batch, StepLoss

MakeNet = Callable[[int], nn.Module]
Rows = NDArray[np.int64]


class Feed(Protocol):
    """What a method may ask of the data."""

    def batches(self, epoch: int) -> list[Rows]:
        """Every training row once, shuffled, cut into one array a step."""

    def plain(self, rows: Rows) -> Tensor:
        """Inputs as they are, for a pass in evaluation mode."""


class Method(nn.Module, ABC):
    needs_validation = False  # whether it chooses by accuracy on held-out noisy labels
    one_process = False  # whether several processes would not compute what one does
    needs_sgd = False  # whether its own parameters stand for rates of plain SGD
    epochs: int = 200  # how long the run will be; the engine sets both before the first step
    steps: int = 1  # optimiser steps in an epoch

    def __init__(self, make_net: MakeNet, labels: Tensor, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.net = make_net(num_classes)

    @abstractmethod
    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        """One value and one weight for each sample of the batch."""

    def forward(self, batch: Batch, epoch: int) -> StepLoss:
        return self.loss(batch, epoch)

    def predict(self, x: Tensor) -> Tensor:
        """[B, C] probabilities, in fp32."""
        return self.net(x).float().softmax(dim=1)  # type: ignore[no-any-return]

    def abstain(self, x: Tensor) -> Tensor:
        """[B] higher = rather not say."""
        return 1 - self.predict(x).amax(dim=1)

    def start_epoch(self, epoch: int, feed: Feed) -> None:
        """Before the first step of an epoch."""

    def end_epoch(self, epoch: int, feed: Feed) -> None:
        """After the last step of an epoch."""

    def validated(self, epoch: int, accuracy: float) -> None:
        """Accuracy on the held-out part, with its labels as given, after an epoch. May be told
        twice of the same epoch, if the run was cut off meanwhile."""

    def batches(self, epoch: int, feed: Feed) -> Sequence[Rows]:
        """Which rows, in what order: one array for each step. Asked for epoch 0 once more, before
        anything has begun, to count the steps."""
        return feed.batches(epoch)

    def param_groups(self) -> list[dict[str, Any]]:
        """As for an optimiser; `lr_scale` multiplies the scheduled rate, `lr_fixed` replaces it."""
        return [{"params": [p for p in self.parameters() if p.requires_grad]}]

    def after_step(self) -> None:
        """After each optimiser step."""

    def beliefs(self) -> Tensor | None:
        """[N, C] what it now believes of each training label, or nothing."""
        return None

    def facts(self) -> dict[str, Any]:
        """What the run directory should record beyond the settings: {"start": 60}, say."""
        return {}
