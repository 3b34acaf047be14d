from __future__ import annotations

import torch
from torch import Tensor

from selfadapt import distributed, losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.methods.method import MakeNet, Method


class CoTeaching(Method):
    """Co-teaching: two nets, each trained on the samples that the other finds easy.

    Of B samples each net trains on the (1 - R(e))·B of smallest loss under the other, with
    R(e) = rate·min(e / (ramp - 1), 1), e from 0. Predictions are the mean of both nets.
    Han et al., NeurIPS 2018 (arXiv 1804.06872), algorithm 1; authors' code bhanML/Co-teaching,
    which divides the mean loss by the number of samples once more and reports each net by itself.
    With train.accumulate each part chooses among its own samples.

    rate: the share of samples to forget: the noise rate, which must be known.
    ramp: epochs over which that share rises to `rate`.
    """

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        rate: float = 0.2,
        ramp: int = 10,
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        if not 0 <= rate < 1:
            raise BadInput(f"method.rate is the share of wrong labels, in [0, 1); got {rate}")
        if ramp < 1:
            raise BadInput(f"method.ramp must be at least 1 epoch, got {ramp}")
        self.rate, self.ramp = rate, ramp
        self.second = make_net(num_classes)

    def forget(self, epoch: int) -> float:
        return self.rate * (min(epoch / (self.ramp - 1), 1.0) if self.ramp > 1 else 1.0)

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = [net(batch.x) for net in (self.net, self.second)]
        values = [losses.cross_entropy(z, batch.y) for z in logits]
        both = torch.stack(values, dim=1)
        easy, share = self._easy(batch.rows, both.detach(), epoch)
        # each net is taught by the other's choice
        chosen = (easy.flip(1) * both).sum(dim=1) / share
        return StepLoss(chosen, torch.ones_like(chosen), logits[0].detach())

    def _easy(self, rows: Tensor, values: Tensor, epoch: int) -> tuple[Tensor, float]:
        """For each sample here whether it is among the easiest of the global batch, under either
        net; and the share of samples that are."""
        places = torch.arange(len(rows), device=rows.device) + distributed.before_me(len(rows))
        _, everything = distributed.gather_rows(places, values)
        keep = max(1, int((1 - self.forget(epoch)) * len(everything)))
        order = everything.argsort(dim=0, stable=True).argsort(dim=0, stable=True)
        return (order < keep)[places].to(values.dtype), keep / len(everything)

    def logits(self, x: Tensor) -> Tensor:
        mean: Tensor = (self.net(x).float() + self.second(x).float()) / 2
        return mean

    def predict(self, x: Tensor) -> Tensor:
        first, second = (net(x).float().softmax(dim=1) for net in (self.net, self.second))
        mean: Tensor = (first + second) / 2
        return mean
