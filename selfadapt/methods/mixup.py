from __future__ import annotations

import torch
from torch import Tensor

from selfadapt import losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.methods.method import MakeNet, Method


class Mixup(Method):
    """Mixup: the net trains on mixtures of two samples and of their labels.

    λ ~ Beta(a, a) for each batch, x̃ = λ·x + (1-λ)·x', loss = λ·CE(x̃, y) + (1-λ)·CE(x̃, y').
    Zhang et al., ICLR 2018 (arXiv 1710.09412); authors' code facebookresearch/mixup-cifar10. Their
    study of noisy labels used a = 8 and 32. With train.accumulate each part is mixed in itself.

    a: how far mixtures lie from either sample; 0 is no mixing.
    """

    one_process = True

    def __init__(
        self, make_net: MakeNet, labels: Tensor, num_classes: int, *, a: float = 1.0
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        if a < 0:
            raise BadInput(f"method.a must be at least 0, got {a}")
        self.a = a

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        share = float(torch.distributions.Beta(self.a, self.a).sample()) if self.a else 1.0
        order = torch.randperm(len(batch.y)).to(batch.y.device)
        logits = self.net(share * batch.x + (1 - share) * batch.x[order])
        first = losses.cross_entropy(logits, batch.y)
        second = losses.cross_entropy(logits, batch.y[order])
        values = share * first + (1 - share) * second
        return StepLoss(values, torch.ones_like(values))
