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
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from selfadapt.batch import Batch, StepLoss

MakeNet = Callable[[int], nn.Module]
Rows = NDArray[np.int64]

_TINY = 1e-12


class Feed(Protocol):
    """What a method may ask of the data."""

    @property
    def rows(self) -> Rows:
        """The rows that train, in order."""

    @property
    def unreadable(self) -> Mapping[int, str]:
        """Rows whose inputs were found to be unreadable, and why."""

    def batches(
        self, epoch: int, among: Rows | None = None, batch: int | None = None
    ) -> list[Rows]:
        """Every training row once, or every one of `among`, shuffled, cut into one array a
        step."""

    def plain(self, rows: Rows) -> Tensor:
        """Inputs as they are, for a pass in evaluation mode; of `unreadable` rows nothing but
        zeros."""


class Validation(NamedTuple):
    """What the held-out part says of the net after an epoch."""

    accuracy: float  # on its labels as given
    loss: float  # mean of the method's validation_loss, on its labels as given
    true_accuracy: float | None = None  # only for a method that asked for true labels


class Stage(NamedTuple):
    """A run that must be finished before another begins, on the same data with the same noise. By
    the same seed too: a net that is made afresh begins with the weights the stage before began
    with, and sees the samples in the same order."""

    name: str  # its directory is RUN/stages/NAME
    method: str  # a class of the method's own file: "forward:Estimate"
    knobs: Mapping[str, Any] = {}  # its settings under `method`
    train: Mapping[str, Any] = {}  # where its settings under `train` differ from the run's


# Yields the stages in order; is sent each one's result.json; returns the name of the stage that
# the run takes over from, None for the last.
Stages = Generator[Stage, Mapping[str, Any], str | None]


class Method(nn.Module, ABC):
    needs_validation = False  # whether it chooses by accuracy on held-out noisy labels
    needs_true_labels = False  # whether it was asked to look at them: every table says so
    views = 1  # how many augmented copies of a sample it trains on at each step
    one_process = False  # whether several processes would not compute what one does
    whole_steps = False  # whether a step cut into parts would not compute what the whole does
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

    def logits(self, x: Tensor) -> Tensor:
        """[B, C] outputs for the classes before softmax, in fp32; of a net with one more, which
        abstains, without that."""
        return self.net(x)[:, : self.num_classes].float()  # type: ignore[no-any-return]

    def predict(self, x: Tensor) -> Tensor:
        """[B, C] probabilities, in fp32."""
        return self.logits(x).softmax(dim=1)

    def abstain(self, x: Tensor) -> Tensor:
        """[B] higher = rather not say."""
        return 1 - self.predict(x).amax(dim=1)

    def start_epoch(self, epoch: int, feed: Feed) -> None:
        """Before the first step of an epoch."""

    def end_epoch(self, epoch: int, feed: Feed) -> None:
        """After the last step of an epoch."""

    def validation_loss(self, probs: Tensor, given: Tensor) -> Tensor:
        """[B] how badly predictions for held-out samples fit their labels as given: -log p_y, for a
        method whose predictions are of such labels."""
        return -probs.gather(1, given[:, None])[:, 0].clamp(min=_TINY).log()

    def validated(self, epoch: int, found: Validation) -> bool | None:
        """After an epoch, if a part is held out. May be told twice of the same epoch, if the run
        was cut off meanwhile. True where it has changed predictions: they are measured again."""
        return None

    def batches(self, epoch: int, feed: Feed) -> Sequence[Rows]:
        """Which rows, in what order: one array for each step. Asked for epoch 0 once more, before
        anything has begun, to count the steps."""
        return feed.batches(epoch)

    @classmethod
    def stages(cls, knobs: Mapping[str, Any], train: Mapping[str, Any]) -> Stages:
        """Runs that come before this one, each in a directory of its own. `knobs` and `train` are
        this run's settings, with all defaults."""
        yield from ()
        return None

    def hand_over(self, feed: Feed) -> dict[str, Tensor]:
        """After the last epoch: what a later stage needs to know."""
        return {}

    def take_over(self, handed: Mapping[str, Tensor]) -> None:
        """Before the first step: what the stage before this run handed over. What is kept of it
        must be a buffer; without a stage before it, a method must still make sense."""

    def take_true_labels(self, true: Tensor) -> None:
        """Before the first step, if it `needs_true_labels`: [N], in row order."""

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
