from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from selfadapt import losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.methods._when import checked, epoch_of
from selfadapt.methods.method import MakeNet, Method
from selfadapt.targets import Targets


class SELC(Method):
    """Self-ensemble label correction: self-adaptive training without weights.

    After `start` ordinary epochs: t_i <- α·t_i + (1-α)·p_i, loss = -Σ_j t_ij log p_ij.
    Lu & He, IJCAI 2022 (arXiv 2205.01156); authors' code MacLLL/SELC. They choose `start` for each
    kind of noise (epoch 20 to 40 of 200).

    start: epochs of ordinary training before targets move; a fraction is a share of the run.
    momentum: α, what a target keeps of itself.
    """

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        start: int | float = 0.2,
        momentum: float = 0.9,
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        self.start = checked("method.start", start)
        self.targets = Targets(labels, num_classes, momentum)

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        if epoch < epoch_of(self.start, self.epochs):
            values = losses.cross_entropy(logits, batch.y)
        else:
            probs = losses.full_precision(logits).detach().softmax(dim=1)
            targets = self.targets.update(batch.rows, probs, epoch)
            values = losses.soft_cross_entropy(logits, targets)
        return StepLoss(values, torch.ones_like(values), logits.detach())

    def beliefs(self) -> Tensor:
        return self.targets.table.float()

    def facts(self) -> dict[str, Any]:
        return {"start": epoch_of(self.start, self.epochs)}
