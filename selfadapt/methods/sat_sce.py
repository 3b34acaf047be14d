from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from selfadapt import losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.methods._when import checked, epoch_of
from selfadapt.methods.method import MakeNet, Method
from selfadapt.targets import Targets

# The authors' code takes the logarithm of targets as they are, which is NaN once one underflows.
_FLOOR = 1e-7


class SATSCE(Method):
    """Self-adaptive training with symmetric cross entropy in place of cross entropy.

    As sat, with loss_i = -Σ_j t_ij log p_ij - β·Σ_j p_ij log t_ij, weighted by w_i = max_j t_ij;
    plain cross entropy before `start`.
    Huang, Zhang & Zhang, NeurIPS 2020 (arXiv 2002.10319), appendix; authors' code
    LayneH/self-adaptive-training.

    start: epochs of ordinary training before beliefs move; a fraction is a share of the run.
    momentum: α, what a belief keeps of itself at each step.
    beta: weight of the reverse term; 0.1 in the paper, 0.3 in the authors' code.
    """

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        start: int | float = 0.3,
        momentum: float = 0.9,
        beta: float = 0.1,
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        if beta < 0:
            raise BadInput(f"method.beta must be at least 0, got {beta}")
        self.start = checked("method.start", start)
        self.beta = beta
        self.targets = Targets(labels, num_classes, momentum)

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        if epoch < epoch_of(self.start, self.epochs):
            values = losses.cross_entropy(logits, batch.y)
            return StepLoss(values, torch.ones_like(values), logits.detach())
        probs = losses.full_precision(logits).detach().softmax(dim=1)
        targets = self.targets.update(batch.rows, probs, epoch)
        values, weights = losses.self_adaptive(logits, targets)
        values = values + self.beta * losses.reverse_cross_entropy(logits, targets, _FLOOR)
        return StepLoss(values, weights, logits.detach())

    def beliefs(self) -> Tensor:
        return self.targets.table.float()

    def facts(self) -> dict[str, Any]:
        return {"start": epoch_of(self.start, self.epochs)}
