"""How a run is trained, whatever the method: the settings under `train`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from selfadapt.errors import BadInput, unknown
from selfadapt.selective.scores import SCORES


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Defaults are the paper's: SGD, momentum 0.9, weight decay 5e-4, batch 256, 200 epochs, a
    cosine from 0.1 set once an epoch.

    epochs: passes over the training samples.
    batch: rows of one optimiser step, over all processes.
    optimizer: sgd or adam.
    lr: the largest learning rate; none is 0.1 for sgd, 0.001 for adam.
    lr_least: what a cosine falls to.
    momentum: of sgd.
    nesterov: whether that is Nesterov's.
    weight_decay: how strongly weights are drawn to zero.
    schedule: how the rate falls: cosine (set once an epoch), cosine_step (at each step), restarts
      (a cosine from one milestone to the next), milestones, linear (to zero, from the first
      milestone on) or constant.
    milestones: epochs at which the rate is multiplied by gamma, such as [75, 90].
    gamma: see milestones.
    warmup: epochs of linear rise from a thousandth of the rate.
    accumulate: parts a step is computed in, to save memory; the result is the same, unless the
      method's card says otherwise.
    clip: the largest gradient norm; none leaves it be.
    precision: fp32, or bf16 for the heavy arithmetic; auto is bf16 where the device is fast at it.
    compile: let torch compile the net: slow to begin, then faster on a GPU.
    workers: processes that decode, for sets too large for memory.
    curves: after each epoch look at all training samples as they are, for the curves of a study:
      how many are fitted, and how many are truly right among the untouched and the corrupted.
    score: after the last epoch, measure on the test part when not to answer, by this score of
      docs/selective.md; auto is the method's own, else softmax (docs/selective.md).
    against: samples of another kind, which the scores should tell apart: a file, folder or name; or
      left_out, those of classes in data.without.
    save_seconds: how long until the next checkpoint; 0 is at the end of every epoch.
    trackers: tensorboard, wandb, mlflow: beside log.jsonl.
    """

    epochs: int = 200
    batch: int = 256
    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: float | None = None
    lr_least: float = 0.0
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 5e-4
    schedule: Literal["cosine", "cosine_step", "restarts", "milestones", "linear", "constant"] = (
        "cosine"
    )
    milestones: list[int] | None = None
    gamma: float = 0.1
    warmup: float = 0.0
    accumulate: int = 1
    clip: float | None = None
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    compile: bool = False
    workers: int = 2
    curves: bool = False
    score: str = "none"
    against: str | None = None
    save_seconds: float = 30.0
    trackers: list[str] | None = None

    def __post_init__(self) -> None:
        self._at_least("epochs", 1)
        self._at_least("batch", 1)
        self._at_least("accumulate", 1)
        self._at_least("workers", 0)
        self._at_least("save_seconds", 0)
        self._at_least("warmup", 0)
        self._at_least("weight_decay", 0)
        self._positive("lr", self.rate)
        self._positive("gamma", self.gamma)
        if not 0 <= self.lr_least <= self.rate:
            told = f"train.lr_least must lie in 0 to train.lr={self.rate}, got {self.lr_least}"
            raise BadInput(told)
        if not 0 <= self.momentum < 1:
            raise BadInput(f"train.momentum must lie in [0, 1), got {self.momentum}")
        if self.nesterov and (self.optimizer != "sgd" or self.momentum == 0):
            raise BadInput("train.nesterov needs train.optimizer=sgd and a train.momentum above 0")
        if self.accumulate > self.batch:
            raise BadInput(f"train.accumulate={self.accumulate} exceeds train.batch={self.batch}")
        if self.clip is not None:
            self._positive("clip", self.clip)
        if self.score not in (known := ("none", "auto", *SCORES)):
            raise unknown("train.score", self.score, known)
        if self.against is not None and self.score == "none":
            raise BadInput("train.against is for scores to tell apart: give train.score=auto too")
        if self.schedule in ("milestones", "restarts", "linear") and not self.milestones:
            told = f"train.schedule={self.schedule} needs train.milestones, such as [75, 90]"
            raise BadInput(told)

    def _at_least(self, name: str, least: float) -> None:
        value = getattr(self, name)
        if not least <= value < math.inf:
            raise BadInput(f"train.{name} must be at least {least} and finite, got {value}")

    def _positive(self, name: str, value: float) -> None:
        if not 0 < value < math.inf:
            raise BadInput(f"train.{name} must be positive and finite, got {value}")

    @property
    def rate(self) -> float:
        return self.lr if self.lr is not None else {"sgd": 0.1, "adam": 1e-3}[self.optimizer]
