from __future__ import annotations

import torch
from torch import Tensor

from selfadapt import losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.methods.method import MakeNet, Method


class GCE(Method):
    """Generalised cross entropy: a loss between cross entropy and mean absolute error.

    loss = (1 - p_y^q) / q; its gradient is cross entropy's times p_y^q, so that samples whose label
    the net finds unlikely count for little.
    Zhang & Sabuncu, NeurIPS 2018 (arXiv 1805.07836), equation 6.

    q: 0 would be cross entropy, 1 is 1 - p_y.
    """

    def __init__(
        self, make_net: MakeNet, labels: Tensor, num_classes: int, *, q: float = 0.7
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        if not 0 < q <= 1:
            raise BadInput(f"method.q must lie in (0, 1], got {q}; the paper uses 0.7")
        self.q = q

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        values = losses.generalised_cross_entropy(logits, batch.y, self.q)
        return StepLoss(values, torch.ones_like(values), logits.detach())
