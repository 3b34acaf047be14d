from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from selfadapt import losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.head import last_linear, with_features
from selfadapt.methods.method import MakeNet, Method

_HIDDEN = 512


class SelectiveNet(Method):
    """SelectiveNet: a net with a second head that chooses which samples to answer, a share of them.

    On the same features, f classifies, g in (0, 1) selects and h classifies all samples, so that
    the features serve the others too. With φ = mean g, c the share to answer and l the cross
    entropy of f: loss = α·[mean(l·g)/φ + λ·max(0, c-φ)²] + (1-α)·mean CE(h). One model for each c.
    Geifman & El-Yaniv, ICML 2019 (arXiv 1901.09192), equations 2 to 5; authors' code
    geifmany/selectivenet, which does not divide by φ. train.compile leaves it as it is.

    coverage: c, the share of samples to answer.
    penalty: λ, for answering fewer.
    mix: α, what the selective part weighs.
    risk: paper is mean(l·g)/φ; code is mean(l·g).
    """

    one_process = True  # φ is of all samples of a step, and its gradient too
    whole_steps = True

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        coverage: float = 0.8,
        penalty: float = 32.0,
        mix: float = 0.5,
        risk: Literal["paper", "code"] = "paper",
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        if not (0 < coverage <= 1 and penalty >= 0 and 0 <= mix <= 1):
            raise BadInput(
                "method.coverage must lie in (0, 1], method.penalty be at least 0, method.mix lie "
                f"in [0, 1]; got {coverage}, {penalty} and {mix}"
            )
        self.coverage, self.penalty, self.mix, self.risk = coverage, penalty, mix, risk
        width = last_linear(self.net).in_features
        self.hidden = nn.Sequential(
            nn.Linear(width, _HIDDEN), nn.ReLU(inplace=True), nn.BatchNorm1d(_HIDDEN)
        )
        self.choose = nn.Linear(_HIDDEN, 1)
        self.helper = nn.Linear(width, num_classes)

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits, features = with_features(self.net, batch.x)
        selected = self._selected(features)
        helped = losses.cross_entropy(self.helper(features), batch.y)
        values = selective_risk(
            losses.cross_entropy(logits, batch.y),
            selected,
            coverage=self.coverage,
            penalty=self.penalty,
            divide=self.risk == "paper",
        )
        values = self.mix * values + (1 - self.mix) * helped
        return StepLoss(values, torch.ones_like(values), logits.detach())

    def _selected(self, features: Tensor) -> Tensor:
        """g; the authors' code divides by 10 what goes into its last layer."""
        chosen: Tensor = self.choose(self.hidden(features) / 10)
        return losses.full_precision(chosen)[:, 0].sigmoid()

    def abstain(self, x: Tensor) -> Tensor:
        """1 - g."""
        _, features = with_features(self.net, x)
        return 1 - self._selected(features)


def selective_risk(
    values: Tensor, selected: Tensor, *, coverage: float, penalty: float, divide: bool = True
) -> Tensor:
    """One value a sample, whose mean is the selective part of the loss."""
    answered = selected.mean()
    risks = values * selected / answered if divide else values * selected
    return risks + penalty * (coverage - answered).clamp(min=0).square()
