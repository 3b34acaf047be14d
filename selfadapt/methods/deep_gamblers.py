from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from selfadapt import losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.methods._when import checked, epoch_of
from selfadapt.methods.method import MakeNet, Method


class DeepGamblers(Method):
    """Deep gamblers: a net that may keep part of its stake instead of betting on a class.

    With one output more, P over all C+1: loss = -mean log(P_y + P_C / o), after `pretrain` epochs
    of cross entropy over the classes. The smaller o, the more it abstains.
    Liu, Wang, Liang, Salakhutdinov, Morency & Ueda, NeurIPS 2019 (arXiv 1907.00208), equation 4;
    authors' code Z-T-WANG/NIPS2019DeepGamblers, which adds the constant log o.

    reward: o, what a right bet pays: above 1, at most the number of classes. The authors' best are
      2.2 on CIFAR-10, 2.6 on SVHN, 2.0 on cats and dogs.
    pretrain: epochs of ordinary training; a fraction is a share of the run (the authors' 100 of 300
      on CIFAR-10 with an o below 6.1, else none).
    """

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        reward: float = 2.2,
        pretrain: int | float = 0,
    ) -> None:
        super().__init__(lambda outputs: make_net(outputs + 1), labels, num_classes)
        if not reward > 1:  # nor NaN
            raise BadInput(
                f"method.reward={reward} pays no more than not betting, so the net would never "
                f"answer: it must be above 1, and at most the {num_classes} classes"
            )
        self.reward = min(reward, float(num_classes))
        self.pretrain = checked("method.pretrain", pretrain)

    def first_bet(self) -> int:
        """The epoch, counted from 0, in which the net may begin to abstain."""
        return epoch_of(self.pretrain, self.epochs)

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        classes = logits[:, :-1]
        if epoch < self.first_bet():
            values = losses.cross_entropy(classes, batch.y)
        else:
            values = losses.gambler(logits, batch.y, self.reward)
        return StepLoss(values, torch.ones_like(values), classes.detach())

    def abstain(self, x: Tensor) -> Tensor:
        """P_C."""
        return self.net(x).float().softmax(dim=1)[:, -1]  # type: ignore[no-any-return]

    def facts(self) -> dict[str, Any]:
        return {"pretrain": self.first_bet(), "reward": self.reward}
