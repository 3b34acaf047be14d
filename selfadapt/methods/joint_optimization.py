from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from selfadapt import distributed, losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.methods._when import When, checked, epoch_of
from selfadapt.methods.method import Feed, MakeNet, Method, Stage, Stages

_FLOOR = 1e-12


class Relabel(Method):
    """Trains a net and moves the labels to what it says of them, both at once.

    loss = L_c + a·L_p + b·L_e: L_c = -Σ_j S_ij log p_ij, L_p = -Σ_j log(p̄_j) / C with p̄ the mean
    prediction of the batch, L_e = -Σ_j p_ij log p_ij. From the end of epoch `begin` on, S_i is the
    mean of what the net said of a sample, while training on it, in the last `average` epochs.
    Tanaka et al., CVPR 2018 (arXiv 1803.11364), algorithm 1.

    begin, prior, entropy, average: as for joint_optimization.
    """

    whole_steps = True
    targets: Tensor
    said: Tensor

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        begin: int | float = 0.35,
        prior: float = 1.2,
        entropy: float = 0.8,
        average: int = 10,
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        _check(begin, prior, entropy, average)
        self.begin, self.prior, self.entropy, self.average = begin, prior, entropy, average
        self.register_buffer("targets", losses.one_hot(labels, num_classes))
        self.register_buffer("said", torch.zeros(len(labels), average, num_classes))

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        log_p = losses.full_precision(logits).log_softmax(dim=1)
        probs = log_p.exp()
        rows, everything = distributed.gather_rows(batch.rows, probs.detach())
        self.said[rows, epoch % self.average] = everything.to(self.said.dtype)
        values = losses.soft_cross_entropy(logits, self.targets[batch.rows])
        values = values + self.prior * balance(probs, everything.mean(dim=0))
        values = values - self.entropy * (probs * log_p).sum(dim=1)
        return StepLoss(values, torch.ones_like(values), logits.detach())

    def end_epoch(self, epoch: int, feed: Feed) -> None:
        if epoch + 1 < epoch_of(self.begin, self.epochs):
            return
        # the authors divide by all slots even if relabelling begins before each holds something
        told = (self.said.sum(dim=2) > 0).sum(dim=1, keepdim=True)
        mean = self.said.sum(dim=1) / told.clamp(min=1)
        self.targets.copy_(torch.where(told > 0, mean, self.targets))

    def hand_over(self, feed: Feed) -> dict[str, Tensor]:
        return {"targets": self.targets}

    def beliefs(self) -> Tensor:
        return self.targets

    def facts(self) -> dict[str, Any]:
        return {"begin": epoch_of(self.begin, self.epochs)}


def balance(probs: Tensor, mean: Tensor) -> Tensor:
    """L_p = -Σ_j log(p̄_j) / C for each sample, given the mean prediction p̄ of the whole batch, of
    which these may be one process's part. The gradient of their mean is that of L_p:
    ∂L_p/∂p_ij = -1 / (B·C·p̄_j), in which p̄ is a number like any other."""
    mean = mean.clamp(min=_FLOOR)
    pull = -(probs / mean).mean(dim=1)
    return pull - pull.detach() - mean.log().mean()


class JointOptimization(Method):
    """Joint optimisation: labels move to what a net says of them, then another net is trained.

    A first stage minimises L_c + a·L_p + b·L_e and moves soft labels S, at a constant learning
    rate: cross entropy against S, L_p = -Σ_j log(p̄_j) / C with p̄ the mean prediction of a batch,
    and the entropy of p. Its S_i is the mean of what the net said of a sample, while training on
    it, in the last ten epochs. Then: loss = -Σ_j S_ij log p_ij on a fresh net, S fixed, with
    the learning rates of the run.
    Tanaka et al., CVPR 2018 (arXiv 1803.11364), algorithm 1; authors' code
    DaikiTanaka-UT/JointOptimization: 200 epochs at 0.1 (0.08 for 70 % uniform, 0.03 for 40 %
    asymmetric noise), then 120 at 0.2, times 0.1 after 40 and 80, weight decay 1e-4, batch 128.

    relabel_epochs: epochs of the first stage; a fraction is a multiple of this run's (the authors'
      200 to 120).
    relabel_lr: its learning rate; none is train.lr.
    begin: the epoch of the first stage, counted from 1, at whose end labels move for the first
      time; a fraction is a share of it (the authors' 70 of 200).
    prior: a, weight of L_p, which takes all classes to be as many; 0.8 for asymmetric noise, 1.0 by
      default in the authors' code.
    entropy: b, weight of the entropy; 0.4 for asymmetric noise, 0.5 by default in the authors'
      code.
    average: epochs over which predictions are averaged; they take N·C numbers each.
    """

    targets: Tensor

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        relabel_epochs: int | float = 5 / 3,
        relabel_lr: float | None = None,
        begin: int | float = 0.35,
        prior: float = 1.2,
        entropy: float = 0.8,
        average: int = 10,
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        _check(begin, prior, entropy, average)
        if not relabel_epochs > 0:
            raise BadInput(
                "method.relabel_epochs is a number of epochs (200), or a multiple of the run's "
                f"(1.5); got {relabel_epochs}"
            )
        self.register_buffer("targets", losses.one_hot(labels, num_classes))

    @classmethod
    def stages(cls, knobs: Mapping[str, Any], train: Mapping[str, Any]) -> Stages:
        asked, begin = knobs["relabel_epochs"], knobs["begin"]
        epochs = asked if isinstance(asked, int) else max(1, round(asked * train["epochs"]))
        if isinstance(begin, int) and begin > epochs:
            raise BadInput(
                f"method.begin={begin} lies after the last of the {epochs} epochs that move labels "
                "(method.relabel_epochs): none would ever move"
            )
        passed = {name: knobs[name] for name in ("begin", "prior", "entropy", "average")}
        settings = {"epochs": epochs, "schedule": "constant"}
        if knobs["relabel_lr"] is not None:
            settings["lr"] = knobs["relabel_lr"]
        yield Stage("relabel", "joint_optimization:Relabel", passed, settings)
        return None

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        values = losses.soft_cross_entropy(logits, self.targets[batch.rows])
        return StepLoss(values, torch.ones_like(values), logits.detach())

    def take_over(self, handed: Mapping[str, Tensor]) -> None:
        self.targets.copy_(handed["targets"])

    def beliefs(self) -> Tensor:
        return self.targets


def _check(begin: When, prior: float, entropy: float, average: int) -> None:
    checked("method.begin", begin)
    if prior < 0 or entropy < 0:
        raise BadInput(
            f"method.prior and method.entropy are weights, at least 0; got {prior} and {entropy}"
        )
    if average < 1:
        raise BadInput(f"method.average must be at least 1 epoch, got {average}")
