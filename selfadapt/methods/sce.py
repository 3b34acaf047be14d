from __future__ import annotations

import math

import torch
from torch import Tensor

from selfadapt import losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.methods.method import MakeNet, Method

_LARGEST = -math.log(1e-7)  # of the forward term: p is held above 1e-7
_FLOOR = 1e-4  # of the label in the reverse term, whose logarithm is the "A" of the paper


class SCE(Method):
    """Symmetric cross entropy: a reverse term that wrong labels cannot pull at without limit.

    loss = a·(-log p_y) + b·(-Σ_j p_j log e_j), where log 0 stands for log 1e-4.
    Wang et al., ICCV 2019 (arXiv 1908.06112), equation 7; authors' code
    YisenWang/symmetric_cross_entropy_for_noisy_labels, whose defaults for CIFAR-10 these are.

    a: weight of cross entropy; 6.0 for CIFAR-100.
    b: weight of the reverse term; 0.1 for CIFAR-100.
    """

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        a: float = 0.1,
        b: float = 1.0,
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        if a < 0 or b < 0 or a + b == 0:
            raise BadInput(f"method.a and method.b are weights, not both 0; got {a} and {b}")
        self.a = a
        self.b = b

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        forward = losses.cross_entropy(logits, batch.y).clamp(max=_LARGEST)
        given = losses.one_hot(batch.y, self.num_classes)
        values = self.a * forward + self.b * losses.reverse_cross_entropy(logits, given, _FLOOR)
        return StepLoss(values, torch.ones_like(values), logits.detach())
