from __future__ import annotations

import torch
from torch import Tensor

from selfadapt import losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.methods.method import MakeNet, Method
from selfadapt.targets import Targets

_FLOOR = 1e-4


class ELR(Method):
    """Early-learning regularisation: cross entropy, held near what the net believed early on.

    t_i <- β·t_i + (1-β)·p_i / Σ p_i from t = 0, loss = -log p_y + λ·log(1 - <t_i, p_i>), with p
    held in [1e-4, 1 - 1e-4] in all but the first term.
    Liu et al., NeurIPS 2020 (arXiv 2007.00151), equation 9; authors' code shengliu66/ELR.

    beta: β, what a target keeps of itself; 0.9 for CIFAR-100.
    strength: λ, weight of the regularisation; 7 for CIFAR-100.
    """

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        beta: float = 0.7,
        strength: float = 3.0,
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        if not 0 <= beta < 1:
            raise BadInput(f"method.beta must lie in [0, 1), got {beta}")
        if strength < 0:
            raise BadInput(f"method.strength must be at least 0, got {strength}")
        self.strength = strength
        self.targets = Targets(labels, num_classes, beta, from_zero=True)
        self.register_buffer("labels", labels.clone(), persistent=False)

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        probs = losses.full_precision(logits).softmax(dim=1).clamp(_FLOOR, 1 - _FLOOR)
        now = probs.detach()
        targets = self.targets.update(batch.rows, now / now.sum(dim=1, keepdim=True), epoch)
        agreement = (targets.to(probs.device) * probs).sum(dim=1)
        values = losses.cross_entropy(logits, batch.y) + self.strength * (1 - agreement).log()
        return StepLoss(values, torch.ones_like(values), logits.detach())

    def beliefs(self) -> Tensor:
        """Targets as distributions; of a sample never seen, the label given."""
        table = self.targets.table.float()
        sums = table.sum(dim=1, keepdim=True)
        given = losses.one_hot(self.labels, self.num_classes)  # type: ignore[arg-type]
        return torch.where(sums > 0, table / sums.clamp(min=1e-12), given)
