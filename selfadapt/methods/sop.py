from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from selfadapt import losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.methods.method import MakeNet, Method

_FLOOR = 1e-4
_FIRST = 1e-8  # deviation of the noise that u and v begin with


class SOP(Method):
    """Sparse over-parametrisation: each sample has parameters that explain its wrong label away.

    U = u_i²·e_y and V = v_i²·(1 - e_y), held in [0, 1];
    loss = -log normalised(p + U - V̄)_y + |argmax p + U - V - e_y|², V̄ without gradient. u and v
    have rates of their own that never fall, no momentum and no decay.
    Liu et al., ICML 2022 (arXiv 2202.14026), equation 6; authors' code shengliu66/SOP, another
    version of which gives u no gradient from the second term.

    lr_u, lr_v: rates of u and v, for batches of 128: the gradient of either is that of a mean over
      the batch. 0.1 and 100 under asymmetric noise, on CIFAR-100 1 and 100.
    """

    needs_sgd = True

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        lr_u: float = 1.0,
        lr_v: float = 10.0,
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        if lr_u < 0 or lr_v < 0:
            raise BadInput(f"method.lr_u and method.lr_v are at least 0, got {lr_u} and {lr_v}")
        self.lr_u, self.lr_v = lr_u, lr_v
        self.u = nn.Parameter(_FIRST * torch.randn(len(labels), 1))
        self.v = nn.Parameter(_FIRST * torch.randn(len(labels), num_classes))

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        given = losses.one_hot(batch.y, self.num_classes)
        plus = (self.u[batch.rows] ** 2 * given).clamp(0, 1)
        minus = (self.v[batch.rows] ** 2 * (1 - given)).clamp(0, 1)
        probs = losses.full_precision(logits).softmax(dim=1)
        explained = F.normalize((probs + plus - minus.detach()).clamp(min=_FLOOR), p=1, dim=1)
        explained = explained.clamp(min=_FLOOR, max=1)
        guess = losses.one_hot(probs.detach().argmax(dim=1), self.num_classes)
        error = ((guess + plus - minus - given) ** 2).sum(dim=1)
        values = -(given * explained.log()).sum(dim=1) + error
        return StepLoss(values, torch.ones_like(values), logits.detach())

    def param_groups(self) -> list[dict[str, Any]]:
        alone = {"momentum": 0.0, "weight_decay": 0.0}
        return [
            {"params": list(self.net.parameters())},
            {"params": [self.u], "lr_fixed": self.lr_u, **alone},
            {"params": [self.v], "lr_fixed": self.lr_v, **alone},
        ]
