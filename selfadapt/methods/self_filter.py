from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from selfadapt import losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.methods._best import Best
from selfadapt.methods._pass import over_training
from selfadapt.methods.method import Feed, MakeNet, Method, Rows, Stage, Stages, Validation


class SelfFilter(Method):
    """SELF: labels that a running average of predictions contradicts no longer teach.

    A teacher's weights are a running average of the net's (mean teacher, d_eff = min(1 - 1/(s+1),
    d) at step s from 1), and z̄_k <- a·z̄_k + (1-a)·ẑ_k its predictions for each sample, once an
    epoch. loss = [k in L]·(-log p_y) + w(e)·|p - p_teacher|² / C, on all samples, each net on a
    view of its own, with w(e) = consistency·exp(-5·(1 - e/ramp)²). L is all samples at first. Each
    round trains a fresh net; then L = {k: argmax z̄_k = y_k}, over all samples again, with z̄ of
    the epoch whose teacher was best on noisy validation. The best teacher of all rounds predicts.
    Nguyen et al., ICLR 2020 (arXiv 1910.01842), algorithm 1; no authors' code was found. The form
    of the mean teacher is that of CuriousAI/mean-teacher (arXiv 1703.01780), without its second
    output. None of the defaults here could be checked against the paper: consistency and ramp are
    those of that code, where d is 0.97 to 0.99; momentum and rounds are ours. A round is as long as
    the run, where the paper stops one that no longer improves.

    rounds: nets trained one after the other. One that is no better than those before is followed
      by the last at once, which begins with the same labels but takes samples in another order.
    momentum: a, what an averaged prediction keeps of itself at each epoch.
    decay: d, what a weight of the teacher keeps of itself at each step.
    consistency: weight of the distance to the teacher once it has risen.
    ramp: epochs over which that weight rises.
    """

    needs_validation = True
    views = 2
    labelled: Tensor
    ensemble: Tensor
    best_ensemble: Tensor
    seen: Tensor
    round: Tensor
    labels: Tensor

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        rounds: int = 3,
        momentum: float = 0.9,
        decay: float = 0.99,
        consistency: float = 100.0,
        ramp: int = 5,
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        if rounds < 1 or ramp < 0 or consistency < 0:
            raise BadInput(
                f"method.rounds must be at least 1, method.ramp and method.consistency at least 0; "
                f"got {rounds}, {ramp} and {consistency}"
            )
        if not (0 <= momentum < 1 and 0 <= decay < 1):
            raise BadInput(
                f"method.momentum and method.decay must lie in [0, 1), got {momentum} and {decay}"
            )
        self.momentum, self.decay = momentum, decay
        self.consistency, self.ramp = consistency, ramp
        self.teacher = copy.deepcopy(self.net).requires_grad_(False)
        self.best = Best(self.teacher)
        nothing = torch.zeros(len(labels), num_classes)
        self.register_buffer("labelled", torch.ones(len(labels), dtype=torch.bool))
        self.register_buffer("ensemble", nothing)
        self.register_buffer("best_ensemble", nothing.clone())
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("round", torch.zeros((), dtype=torch.int64))
        self.register_buffer("labels", labels.clone(), persistent=False)

    @classmethod
    def stages(cls, knobs: Mapping[str, Any], train: Mapping[str, Any]) -> Stages:
        """Every round but the last is a run of one round."""
        best, name = -1.0, None
        for number in range(knobs["rounds"] - 1):
            name = f"round-{number}"
            result = yield Stage(name, "self_filter", {**knobs, "rounds": 1})
            if result["best_validation_accuracy"] <= best:
                break
            best = result["best_validation_accuracy"]
        return name

    def hand_over(self, feed: Feed) -> dict[str, Tensor]:
        """The best of this round and of all before it."""
        best = {f"best.{name}": value.clone() for name, value in self.best.state_dict().items()}
        return {**best, "best_ensemble": self.best_ensemble, "round": self.round}

    def take_over(self, handed: Mapping[str, Tensor]) -> None:
        best = {n.removeprefix("best."): t for n, t in handed.items() if n.startswith("best.")}
        self.best.load_state_dict(best)
        self.best_ensemble.copy_(handed["best_ensemble"])
        self.round.copy_(handed["round"] + 1)
        believed = self._believed(self.best_ensemble).argmax(dim=1)
        self.labelled.copy_(believed == self.labels)

    def batches(self, epoch: int, feed: Feed) -> Sequence[Rows]:
        return feed.batches(int(self.round) * self.epochs + epoch)

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        with torch.no_grad():  # in training mode too, as in the code of the mean teacher
            theirs = losses.full_precision(self.teacher(batch.views[0])).softmax(dim=1)
        probs = losses.full_precision(logits).softmax(dim=1)
        values = self.labelled[batch.rows] * losses.cross_entropy(logits, batch.y)
        values = values + self.weight(epoch) * ((probs - theirs) ** 2).mean(dim=1)
        return StepLoss(values, torch.ones_like(values), logits.detach())

    def weight(self, epoch: int) -> float:
        left = 1 - epoch / self.ramp if epoch < self.ramp else 0.0
        return self.consistency * math.exp(-5 * left**2)

    @torch.no_grad()
    def after_step(self) -> None:
        self.seen += 1
        keep = min(1 - 1 / (int(self.seen) + 1), self.decay)
        for ours, now in zip(self.teacher.parameters(), self.net.parameters(), strict=True):
            ours.lerp_(now, 1 - keep)

    def end_epoch(self, epoch: int, feed: Feed) -> None:
        rows, probs = over_training(self.teacher, feed, lambda x, _: self.predict(x))
        self.ensemble[rows] = self.momentum * self.ensemble[rows] + (1 - self.momentum) * probs

    def validated(self, epoch: int, found: Validation) -> bool:
        if found.accuracy > self.best.score:
            self.best_ensemble.copy_(self.ensemble)
            self.best.offer(self.teacher, found.accuracy)
        if epoch < self.epochs - 1:
            return False
        self.ensemble.copy_(self.best_ensemble)
        return self.best.back_into(self.teacher)

    def logits(self, x: Tensor) -> Tensor:
        return self.teacher(x).float()  # type: ignore[no-any-return]

    def beliefs(self) -> Tensor:
        return self._believed(self.ensemble)

    def _believed(self, ensemble: Tensor) -> Tensor:
        """As distributions, for averages begin at nothing; of a sample never seen, the label
        given."""
        sums = ensemble.sum(dim=1, keepdim=True)
        given = losses.one_hot(self.labels, self.num_classes)
        return torch.where(sums > 0, ensemble / sums.clamp(min=1e-12), given)
