from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from selfadapt import losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.methods._best import Best
from selfadapt.methods._pass import over_training
from selfadapt.methods._when import checked, epoch_of
from selfadapt.methods.method import Feed, MakeNet, Method, Validation


class TruncatedGCE(Method):
    """Truncated L_q: generalised cross entropy that leaves out the samples a net finds unlikely.

    loss = v_i·(L_q(p_y) - L_q(k)) with L_q(p) = (1 - p^q) / q. Every `every` epochs from `prune`
    on, the net that was best on noisy validation looks at all samples as they are, and v_i = 1
    where p_y > k, else 0; a sample may come back.
    Zhang & Sabuncu, NeurIPS 2018 (arXiv 1805.07836), algorithm 1. Their code was not published;
    others choose the best net on test data and prune on augmented inputs, which is not done here.

    q: of the loss; 0 would be cross entropy, 1 is 1 - p_y.
    k: how likely a label must be for its sample to stay.
    prune: the first epoch, counted from 1, that may begin with pruning; a fraction is a share of
      the run (the authors' 40 of 120).
    every: epochs from one pruning to the next.
    """

    needs_validation = True
    keep: Tensor
    labels: Tensor

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        q: float = 0.7,
        k: float = 0.5,
        prune: int | float = 1 / 3,
        every: int = 10,
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        if not (0 < q <= 1 and 0 < k < 1 and every >= 1):
            raise BadInput(
                f"method.q must lie in (0, 1], method.k in (0, 1), method.every be at least 1; got "
                f"{q}, {k} and {every}"
            )
        self.q, self.k, self.every = q, k, every
        self.prune = checked("method.prune", prune)
        self.best = Best(self.net)
        self.register_buffer("keep", torch.ones(len(labels), dtype=torch.bool))
        self.register_buffer("labels", labels.clone(), persistent=False)

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        values = losses.generalised_cross_entropy(logits, batch.y, self.q)
        values = self.keep[batch.rows] * (values - (1 - self.k**self.q) / self.q)
        return StepLoss(values, torch.ones_like(values), logits.detach())

    def validated(self, epoch: int, found: Validation) -> None:
        self.best.offer(self.net, found.accuracy)

    def start_epoch(self, epoch: int, feed: Feed) -> None:
        number = epoch + 1
        if number < epoch_of(self.prune, self.epochs) or number % self.every:
            return
        if self.best.score.isinf():  # none yet
            return

        def look(x: Tensor, rows: Tensor) -> Tensor:
            probs = self.best.net(x).float().softmax(dim=1)
            likely: Tensor = probs.gather(1, self.labels[rows][:, None])[:, 0]
            return likely > self.k

        rows, stay = over_training(self.best, feed, look)
        self.keep[rows] = stay

    def facts(self) -> dict[str, Any]:
        return {"prune": epoch_of(self.prune, self.epochs)}
