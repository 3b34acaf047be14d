from __future__ import annotations

import torch
from torch import Tensor

from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.losses import cross_entropy
from selfadapt.methods.method import MakeNet, Method


class ERM(Method):
    """Ordinary training: cross entropy against the labels as given, every sample alike.

    loss = -Σ_j t_j log p_j with t = (1-ε)·e_y + ε/C; ε = `smoothing` = 0 is plain cross entropy.
    The baseline of arXiv 2002.10319; label smoothing (ε = 0.1) is a row of its table 1.

    smoothing: ε, the share of each label that goes to all classes alike.
    """

    def __init__(
        self, make_net: MakeNet, labels: Tensor, num_classes: int, *, smoothing: float = 0.0
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        if not 0 <= smoothing < 1:
            raise BadInput(f"method.smoothing must lie in [0, 1), got {smoothing}; 0.1 is usual")
        self.smoothing = smoothing

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        values = cross_entropy(logits, batch.y, self.smoothing)
        return StepLoss(values, torch.ones_like(values), logits.detach())
