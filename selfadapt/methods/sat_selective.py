from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from selfadapt import losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.methods._when import When, checked, epoch_of
from selfadapt.methods.method import MakeNet, Method
from selfadapt.targets import Targets

PRESETS: dict[str, tuple[When, float]] = {"paper": (0, 0.99), "code": (0.5, 0.9)}


class SATSelective(Method):
    """Self-adaptive training with one output more, which learns when not to answer.

    At each step: t_i <- α·t_i + (1-α)·p_i with p over the C classes, then
    loss = mean[-t_iy log P_iy - (1-t_iy) log P_iC], with P over all C+1 outputs: what is no longer
    believed of the label given goes to abstaining. Before that, `pretrain` epochs of cross entropy
    over the classes.
    Huang, Zhang & Zhang, NeurIPS 2020 (arXiv 2002.10319), section 5; authors' code
    LayneH/SAT-selective-cls, whose settings are neither the paper's nor the same for every set.

    preset: paper is pretrain 0, momentum 0.99; code is pretrain 0.5 (the authors' 150 of 300 on
      CIFAR-10), momentum 0.9.
    pretrain: epochs of ordinary training before beliefs move; a fraction is a share of the run.
    momentum: α, what a belief keeps of itself at each step.
    """

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        preset: Literal["paper", "code"] = "paper",
        pretrain: int | float | None = None,
        momentum: float | None = None,
    ) -> None:
        super().__init__(lambda outputs: make_net(outputs + 1), labels, num_classes)
        begin, keep = PRESETS[preset]
        self.pretrain = checked("method.pretrain", begin if pretrain is None else pretrain)
        self.targets = Targets(labels, num_classes, keep if momentum is None else momentum)

    def first_move(self) -> int:
        """The epoch, counted from 0, in which beliefs begin to move."""
        return epoch_of(self.pretrain, self.epochs)

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        classes = logits[:, :-1]
        if epoch < self.first_move():
            values = losses.cross_entropy(classes, batch.y)
        else:
            probs = losses.full_precision(classes).detach().softmax(dim=1)
            targets = self.targets.update(batch.rows, probs, epoch)
            believed = targets.gather(1, batch.y[:, None])[:, 0]
            values = losses.adaptive_abstention(logits, believed, batch.y)
        return StepLoss(values, torch.ones_like(values), classes.detach())

    def abstain(self, x: Tensor) -> Tensor:
        """P_C."""
        return self.net(x).float().softmax(dim=1)[:, -1]  # type: ignore[no-any-return]

    def beliefs(self) -> Tensor:
        return self.targets.table.float()

    def facts(self) -> dict[str, Any]:
        return {"start": self.first_move(), "momentum": self.targets.momentum}
