from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from selfadapt import losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.methods._when import checked, epoch_of
from selfadapt.methods.method import MakeNet, Method
from selfadapt.targets import Targets


class SAT(Method):
    """Self-adaptive training: each sample's label becomes a running average of the predictions.

    After `start` ordinary epochs, at each step: t_i <- α·t_i + (1-α)·p_i, then w_i = max_j t_ij
    and loss = Σ w_i·(-Σ_j t_ij log p_ij) / Σ w_i.
    Huang, Zhang & Zhang, NeurIPS 2020 (arXiv 2002.10319), algorithm 1; authors' code
    LayneH/self-adaptive-training.

    start: epochs of ordinary training before beliefs move; a fraction is a share of the run (0.3 is
      the paper's 60 of 200).
    momentum: α, what a belief keeps of itself at each step.
    reweight: weigh samples by w; false leaves the weights out (the paper's ablation).
    average: kept is the paper's. Its ablation "without moving average" is not defined there; either
      forgotten: t_i = α·e_y + (1-α)·p_i anew at each step; or frozen: t_i stays e_y.
    """

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        start: int | float = 0.3,
        momentum: float = 0.9,
        reweight: bool = True,
        average: Literal["kept", "forgotten", "frozen"] = "kept",
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        self.start = checked("method.start", start)
        self.reweight = reweight
        self.average = average
        self.targets = Targets(labels, num_classes, momentum)

    def first_move(self) -> int:
        """The epoch, counted from 0, in which beliefs begin to move."""
        return epoch_of(self.start, self.epochs)

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        if epoch < self.first_move():
            values = losses.cross_entropy(logits, batch.y)
            return StepLoss(values, torch.ones_like(values), logits.detach())
        probs = losses.full_precision(logits).detach().softmax(dim=1)
        targets = self._targets(batch, probs, epoch)
        values, weights = losses.self_adaptive(logits, targets, reweight=self.reweight)
        return StepLoss(values, weights, logits.detach())

    def _targets(self, batch: Batch, probs: Tensor, epoch: int) -> Tensor:
        if self.average == "kept":
            return self.targets.update(batch.rows, probs, epoch)
        given = losses.one_hot(batch.y, self.num_classes)
        if self.average == "frozen":
            return given
        return self.targets.momentum * given + (1 - self.targets.momentum) * probs

    def beliefs(self) -> Tensor:
        return self.targets.table.float()

    def facts(self) -> dict[str, Any]:
        return {"start": self.first_move()}
