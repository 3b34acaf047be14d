from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from selfadapt import distributed, losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.methods._mentor import BURN_IN, Mentor, taught
from selfadapt.methods._pass import over_training
from selfadapt.methods.method import Feed, MakeNet, Method
from selfadapt.randomness import per_row

_SELF_PACED, _SOFT = 18, 90  # hundredths of the run after which the curriculum changes
_DROPS = ((17, 0.5), (100, 0.05))  # until which hundredth, and the share that is left out


class MentorNet(Method):
    """MentorNet: a curriculum, given or learnt from clean labels, of how much each sample counts.

    m <- d·m + (1-d)·q with q the `percentile` of the batch's losses l. By hundredths h of the run
    the predefined curriculum is v = 1 for h <= 18, v = 1[l <= m] for h < 90, else
    v = clip(1 - (l - m) / γ, 0, 1), γ = 1. The data-driven one is v = 1 until the first epoch from
    h = 18 on, then v = sigmoid(mentor(l, l - m)): at the start of that epoch a small net, the
    mentor, learns from the losses of samples with clean labels which of them are right.
    loss = Σ v·l / B, with a share of samples left out at random (half, then 5 %).
    Jiang et al., ICML 2018 (arXiv 1712.05055), algorithm 1; authors' code google/mentornet, which
    fits a net to the predefined rule too, where here it is used as it is; lets weight decay shrink
    with Σ v / B; and learns the data-driven mentor from losses of another run of the same student.

    curriculum: predefined, or data_driven, which is told the true labels of some samples.
    percentile: of the losses, as a fraction: samples above it wait. The authors take 0.75, and 0.5
      at 80 % noise; 0.8, 0.6 and 0.5 for the data-driven curriculum at 20, 40 and 80 %.
    decay: d, what the running percentile keeps of itself.
    clean: samples whose true labels the mentor sees, at most; the data-driven curriculum only.
    mentor_steps: optimiser steps of the mentor, of 32 samples each (Adam from 0.1, times 0.9 every
      1,000); the data-driven curriculum only.
    """

    whole_steps = True
    level: Tensor
    salt: Tensor
    seen: Tensor
    labels: Tensor
    right: Tensor
    learnt: Tensor

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        curriculum: Literal["predefined", "data_driven"] = "predefined",
        percentile: float = 0.75,
        decay: float = 0.5,
        clean: int = 5000,
        mentor_steps: int = 30_000,
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        if not (0 < percentile <= 1 and 0 <= decay < 1):
            raise BadInput(
                f"method.percentile must lie in (0, 1], method.decay in [0, 1); got {percentile} "
                f"and {decay}"
            )
        if clean < 1 or mentor_steps < 1:
            raise BadInput(
                f"method.clean and method.mentor_steps must be at least 1, got {clean} and "
                f"{mentor_steps}"
            )
        self.percentile, self.decay = percentile, decay
        self.clean, self.mentor_steps = clean, mentor_steps
        self.needs_true_labels = curriculum == "data_driven"
        self.mentor = Mentor().requires_grad_(False) if self.needs_true_labels else None
        self.register_buffer("level", torch.zeros(()))
        self.register_buffer("salt", torch.randint(2**62, ()))  # of who is left out: by the seed
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("learnt", torch.zeros((), dtype=torch.bool))
        self.register_buffer("labels", labels.clone(), persistent=False)
        self.register_buffer("right", torch.ones_like(labels, dtype=torch.bool), persistent=False)

    def take_true_labels(self, true: Tensor) -> None:
        self.right.copy_(true == self.labels)

    def hundredth(self) -> int:
        done = int(self.seen) / (self.epochs * self.steps)
        return min(99, int(100 * done))

    def start_epoch(self, epoch: int, feed: Feed) -> None:
        if self.mentor is None or bool(self.learnt) or self.hundredth() < BURN_IN:
            return
        chosen = torch.randperm(len(feed.rows))[: self.clean].sort().values.numpy()

        def look(x: Tensor, rows: Tensor) -> Tensor:
            return losses.cross_entropy(self.net(x), self.labels[rows])

        rows, values = over_training(self.net, feed, look, among=feed.rows[chosen])
        above = values - torch.quantile(values, self.percentile)
        mentor, right, steps = self.mentor, self.right[rows], self.mentor_steps
        known = distributed.on_first(
            lambda: taught(mentor, values, above, right, steps).state_dict()
        )
        mentor.load_state_dict(known)
        self.learnt.fill_(True)

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        values = losses.cross_entropy(logits, batch.y)
        rows, everything = distributed.gather_rows(batch.rows, values.detach())
        weights = self.curriculum(values.detach(), everything)
        weights = weights * self._stay(batch.rows, rows, epoch)
        return StepLoss(weights * values, torch.ones_like(values), logits.detach())

    def curriculum(self, values: Tensor, everything: Tensor) -> Tensor:
        now = torch.quantile(everything, self.percentile)
        self.level.mul_(self.decay).add_((1 - self.decay) * now)
        hundredth, above = self.hundredth(), values - self.level
        if self.mentor is not None:
            learnt = bool(self.learnt)
            return self.mentor(values, above).sigmoid() if learnt else torch.ones_like(values)
        if hundredth <= _SELF_PACED:
            return torch.ones_like(values)
        return (above <= 0).to(values.dtype) if hundredth < _SOFT else (1 - above).clamp(0, 1)

    def _stay(self, mine: Tensor, rows: Tensor, epoch: int) -> Tensor:
        """Exactly int(B·(1 - share)) samples of the global batch stay, alike on every process."""
        share = next(share for until, share in _DROPS if self.hundredth() < until)
        keep = int(len(rows) * (1 - share))
        draws = torch.from_numpy(per_row(rows.cpu().numpy(), 1, int(self.salt), epoch)[:, 0])
        stay = rows[draws.argsort(stable=True)[:keep].to(rows.device)]
        return torch.isin(mine, stay).float()

    def after_step(self) -> None:
        self.seen += 1

    def facts(self) -> dict[str, Any]:
        """Counted from 0, the epoch from which on the mentor is used."""
        return {"mentor": math.ceil(BURN_IN / 100 * self.epochs)} if self.needs_true_labels else {}
