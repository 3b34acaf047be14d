from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from selfadapt import distributed, losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.methods._best import Best
from selfadapt.methods._pass import over_training
from selfadapt.methods._when import When, checked, epoch_of
from selfadapt.methods.method import Feed, MakeNet, Method, Rows, Stage, Stages, Validation

Rule = Literal["nonabstaining_error", "abstained"]
Choose = Literal["noisy", "clean"]

_LEAST = math.log(1e-7)  # of log(1 - p_a)


class Abstaining(Method):
    """The deep abstaining classifier: a net that may say that it would rather not say.

    With one output more, p_a, and H the cross entropy of the others among themselves:
    loss = (1 - p_a)·H - α·log(1 - p_a), after `warmup` epochs of plain cross entropy over all
    outputs. At each step b <- μ·mean[(1 - p_a)·H] + (1 - μ)·b; α begins as b / `factor` and rises
    by as much each epoch, to reach `final` in the last.
    Thulasidasan et al., ICML 2019 (arXiv 1905.10964), equation 1 and algorithm 1.

    warmup, factor, final, mu, rule, choose: as for dac.
    """

    needs_validation = True
    whole_steps = True  # b moves once a step
    average: Tensor
    first_alpha: Tensor
    labels: Tensor

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        warmup: int | float = 0.1,
        factor: float = 64.0,
        final: float = 1.0,
        mu: float = 0.05,
        rule: Rule = "nonabstaining_error",
        choose: Choose = "noisy",
    ) -> None:
        super().__init__(lambda outputs: make_net(outputs + 1), labels, num_classes)
        _check(warmup, factor, final, mu)
        self.warmup, self.factor, self.final, self.mu = warmup, factor, final, mu
        self.rule, self.choose = rule, choose
        self.needs_true_labels = choose == "clean"
        self.best = Best(self.net)
        self.register_buffer("average", torch.tensor(-1.0))  # b; below 0: there is none yet
        self.register_buffer("first_alpha", torch.tensor(-1.0))
        self.register_buffer("labels", labels.clone(), persistent=False)

    def first_abstention(self) -> int:
        """The epoch, counted from 0, in which the net may begin to abstain."""
        return epoch_of(self.warmup, self.epochs)

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = losses.full_precision(self.net(batch.x))
        classes = logits[:, :-1]
        log_answered = (classes.logsumexp(dim=1) - logits.logsumexp(dim=1)).clamp(min=_LEAST)
        answered = log_answered.exp() * losses.cross_entropy(classes, batch.y)
        self._follow(answered.detach())
        if epoch < self.first_abstention():
            values = losses.cross_entropy(logits, batch.y)
        else:
            values = answered - self.alpha(epoch) * log_answered
        return StepLoss(values, torch.ones_like(values), classes.detach())

    def _follow(self, answered: Tensor) -> None:
        sums = torch.stack([answered.sum(), answered.new_tensor(len(answered))])
        total, count = distributed.sum_over(sums)
        now = total / count
        moved = self.mu * now + (1 - self.mu) * self.average
        self.average.copy_(torch.where(self.average < 0, now, moved))

    def alpha(self, epoch: int) -> Tensor:
        """The price of abstaining. Fixed for good in the first step after the warm-up, what it is
        in each epoch follows."""
        now = self.average / self.factor
        self.first_alpha.copy_(torch.where(self.first_alpha < 0, now, self.first_alpha))
        since = epoch - self.first_abstention()
        rises = max(1, self.epochs - 1 - self.first_abstention())
        return self.first_alpha + (self.final - self.first_alpha) * (since / rises)

    def abstain(self, x: Tensor) -> Tensor:
        return self.net(x).float().softmax(dim=1)[:, -1]  # type: ignore[no-any-return]

    def validated(self, epoch: int, found: Validation) -> bool:
        score = found.true_accuracy if self.choose == "clean" else found.accuracy
        if score is not None and epoch >= self.first_abstention():
            self.best.offer(self.net, score)
        return epoch == self.epochs - 1 and self.best.back_into(self.net)

    def hand_over(self, feed: Feed) -> dict[str, Tensor]:
        def look(x: Tensor, rows: Tensor) -> Tensor:
            return kept(self.net(x), self.labels[rows], self.rule)

        rows, stay = over_training(self.net, feed, look)
        if not bool(stay.any()):
            raise BadInput(
                f"method dac has dropped all {len(rows)} training samples (method.rule="
                f"{self.rule}), and nothing is left to train on: a longer method.warmup, or a "
                "smaller method.factor, makes it abstain less"
            )
        chosen = torch.zeros_like(self.labels, dtype=torch.bool)
        chosen[rows] = stay
        return {"kept": chosen}

    def facts(self) -> dict[str, Any]:
        return {"warmup": self.first_abstention()}


def kept(logits: Tensor, given: Tensor, rule: Rule) -> Tensor:
    """Which samples are left after cleaning, by the outputs for them; the last one abstains."""
    if rule == "abstained":
        return logits.argmax(dim=1) != logits.shape[1] - 1
    return logits[:, :-1].argmax(dim=1) == given


class DAC(Method):
    """Deep abstaining classifier: a net that may abstain cleans the labels, another learns them.

    A first stage trains with one output more, p_a: loss = (1 - p_a)·H - α·log(1 - p_a), with H the
    cross entropy of the others among themselves, and α rising (dac:Abstaining says how). Its net of
    the epoch after the warm-up that is best on held-out labels then looks at the training samples
    as they are, and those it would get wrong if it had to answer are dropped. A fresh net learns
    the rest by cross entropy.
    Thulasidasan et al., ICML 2019 (arXiv 1905.10964), equation 1 and algorithm 1; authors' code
    thulas/dac-label-noise, which forgets the optimiser's momentum after each epoch, drops the
    samples abstained from, and warms up for 10 epochs, or 20 by its README.

    warmup: epochs of plain cross entropy; a fraction is a share of the run (the authors' 20 of
      200).
    factor: ρ, what α is smaller by than the average loss when it begins.
    final: α in the last epoch.
    mu: μ, how fast the average loss follows.
    rule: nonabstaining_error drops what is misclassified, as in the paper; abstained what the net
      abstains from, as in the authors' README.
    choose: noisy chooses the best epoch by held-out labels as given; clean by the true ones, as in
      the paper.
    """

    needs_validation = True  # in its first stage
    kept: Tensor

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        warmup: int | float = 0.1,
        factor: float = 64.0,
        final: float = 1.0,
        mu: float = 0.05,
        rule: Rule = "nonabstaining_error",
        choose: Choose = "noisy",
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        _check(warmup, factor, final, mu)
        self.needs_true_labels = choose == "clean"
        self.register_buffer("kept", torch.ones(len(labels), dtype=torch.bool))

    @classmethod
    def stages(cls, knobs: Mapping[str, Any], train: Mapping[str, Any]) -> Stages:
        warmup, epochs = epoch_of(knobs["warmup"], train["epochs"]), train["epochs"]
        if warmup >= epochs:
            raise BadInput(
                f"method.warmup={knobs['warmup']} leaves no epoch of {epochs} in which to abstain: "
                "take fewer, or a share of the run (0.1)"
            )
        yield Stage("abstaining", "dac:Abstaining", knobs)
        return None

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        values = losses.cross_entropy(logits, batch.y)
        return StepLoss(values, torch.ones_like(values), logits.detach())

    def batches(self, epoch: int, feed: Feed) -> Sequence[Rows]:
        stay = self.kept.cpu().numpy()[feed.rows]
        return feed.batches(epoch, among=feed.rows[stay])

    def take_over(self, handed: Mapping[str, Tensor]) -> None:
        self.kept.copy_(handed["kept"])

    def facts(self) -> dict[str, Any]:
        return {"kept": int(self.kept.sum())}


def _check(warmup: When, factor: float, final: float, mu: float) -> None:
    checked("method.warmup", warmup)
    if not (factor > 0 and final >= 0 and 0 < mu <= 1):
        raise BadInput(
            "method.factor must be above 0, method.final at least 0, method.mu in (0, 1]; got "
            f"{factor}, {final} and {mu}"
        )
