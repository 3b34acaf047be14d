from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from selfadapt import losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.methods._pass import over_training
from selfadapt.methods._when import checked, epoch_of
from selfadapt.methods.method import Feed, MakeNet, Method, Rows


class DivideMix(Method):
    """DivideMix: two nets, each of which tells the other whose labels to trust.

    After `warmup` epochs of cross entropy, at the start of each epoch: a mixture of two normal
    distributions, fitted to a net's losses on all samples, says how likely each label is clean, w.
    Those above `threshold` are the labelled samples of the other net. In an epoch all steps of one
    net come first, then the other's; a step is half labelled and half unlabelled samples, two views
    of each. Targets, sharpened by p^(1/T): w·e_y + (1-w)·p̄ of the net's own views where labelled,
    else the mean of both nets over both views. Then, on mixtures λ'·x + (1-λ')·x' of all of them,
    λ' = max(λ, 1-λ), λ ~ Beta(b, b):
    loss = -Σ_j t_j log p_j + λ_u(e)·|p - t|²/C + Σ_j log(1/(C·p̄_j))/C, means over the labelled, the
    unlabelled and all; λ_u rises from 0 over `ramp` epochs. The sum of both nets' logits predicts.
    Li, Socher & Hoi, ICLR 2020 (arXiv 2002.07394), algorithm 1; authors' code
    LiJunnan1992/DivideMix. Other than there, a net guesses for labelled and unlabelled samples in
    one pass, which batch norm can tell; and the losses of five epochs are not averaged, which they
    do at 90 % noise; and a sample used several times in an epoch, as unlabelled ones are where they
    are few, shows the same two views each time. Where all losses are alike every label is trusted;
    where no sample is labelled or none is not, that part of the loss is left out. `train.batch` is
    of a whole step: theirs is 128.

    warmup: epochs of cross entropy; a fraction is a share of the run. 30 for CIFAR-100.
    threshold: how likely clean a label must be to be trusted.
    temperature: T, 1 does not sharpen.
    beta: b, of the mixtures; the larger, the nearer to half and half.
    lambda_u: weight of unlabelled samples; the authors take 0 to 150, the more noise the more.
    ramp: epochs over which that weight rises.
    penalise_confidence: add Σ_j p_j log p_j in the warm-up, as they do under asymmetric noise.
    """

    views = 2
    one_process = True
    whole_steps = True
    clean: Tensor
    seen: Tensor
    labels: Tensor

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        warmup: int | float = 10,
        threshold: float = 0.5,
        temperature: float = 0.5,
        beta: float = 4.0,
        lambda_u: float = 25.0,
        ramp: int = 16,
        penalise_confidence: bool = False,
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        if not (0 < threshold < 1 and 0 < temperature <= 1 and beta > 0):
            raise BadInput(
                "method.threshold must lie in (0, 1), method.temperature in (0, 1], method.beta "
                f"above 0; got {threshold}, {temperature} and {beta}"
            )
        if lambda_u < 0 or ramp < 0:
            raise BadInput(
                f"method.lambda_u and method.ramp must be at least 0, got {lambda_u} and {ramp}"
            )
        self.warmup = checked("method.warmup", warmup)
        self.threshold, self.temperature, self.beta = threshold, temperature, beta
        self.lambda_u, self.ramp, self.penalise = lambda_u, ramp, penalise_confidence
        self.second = make_net(num_classes)
        self.todo = (1, 1)  # steps of each net in this epoch: `batches` is asked after a restart
        self.register_buffer("clean", torch.ones(2, len(labels)))  # as each net sees it
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))  # steps of this epoch
        self.register_buffer("labels", labels.clone(), persistent=False)

    def warm(self, epoch: int) -> bool:
        return epoch < epoch_of(self.warmup, self.epochs)

    def start_epoch(self, epoch: int, feed: Feed) -> None:
        self.seen.zero_()
        if self.warm(epoch):
            return

        def look(x: Tensor, rows: Tensor) -> Tensor:
            given = self.labels[rows]
            both = [losses.cross_entropy(net(x), given) for net in (self.net, self.second)]
            return torch.stack(both, dim=1)

        rows, values = over_training(self, feed, look)
        for net in (0, 1):
            self.clean[net, rows] = clean_probability(values[:, net])

    def after_step(self) -> None:
        self.seen += 1

    def batches(self, epoch: int, feed: Feed) -> Sequence[Rows]:
        first, second = (list(self._steps(net, epoch, feed)) for net in (0, 1))
        self.todo = (len(first), len(second))
        return [*first, *second]

    def _steps(self, net: int, epoch: int, feed: Feed) -> Iterator[Rows]:
        """As many as there are halves of a batch among the labelled samples."""
        order = 2 * epoch + net
        trusted = self.trusted(net).cpu().numpy()[feed.rows]
        if self.warm(epoch) or trusted.all() or not trusted.any():
            yield from feed.batches(order)
            return
        half = max(1, len(feed.batches(order)[0]) // 2)
        again = (order + 2 * self.epochs * turn for turn in itertools.count())
        unlabelled = itertools.chain.from_iterable(
            feed.batches(turn, among=feed.rows[~trusted], batch=half) for turn in again
        )
        labelled = feed.batches(order, among=feed.rows[trusted], batch=half)
        for these, those in zip(labelled, unlabelled, strict=False):
            yield np.concatenate([these, those])

    def trusted(self, net: int) -> Tensor:
        """[N] whose labels teach this net: the other one says so."""
        return self.clean[1 - net] > self.threshold

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        net = int(self.seen >= self.todo[0])
        mine, other = (self.net, self.second) if net == 0 else (self.second, self.net)
        if self.warm(epoch):
            logits = mine(batch.x)
            values = self._warmup_values(logits, batch.y)
            return StepLoss(values, torch.ones_like(values), logits.detach())
        trusted = self.trusted(net)[batch.rows]
        targets, logits = self._targets(mine, other, batch, self.clean[1 - net][batch.rows])
        x = torch.cat([batch.x, *batch.views])
        values = self._mixed_values(
            mine, x, targets.repeat(2, 1), trusted.repeat(2), self.weight(net, epoch)
        )
        values = values.view(2, -1).mean(dim=0)
        return StepLoss(values, torch.ones_like(values), logits)

    def _warmup_values(self, logits: Tensor, given: Tensor) -> Tensor:
        values = losses.cross_entropy(logits, given)
        if self.penalise:
            log_p = losses.full_precision(logits).log_softmax(dim=1)
            values = values + (log_p.exp() * log_p).sum(dim=1)
        return values

    @torch.no_grad()
    def _targets(
        self, mine: nn.Module, other: nn.Module, batch: Batch, clean: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What each sample is to be learnt as, and this net's logits on the first view. It stays
        in training mode; the other does not."""
        views = (batch.x, *batch.views)
        logits = [losses.full_precision(mine(x)) for x in views]
        own = (logits[0].softmax(dim=1) + logits[1].softmax(dim=1)) / 2
        given = losses.one_hot(batch.y, self.num_classes).to(own.dtype)
        refined = clean[:, None].to(own.dtype) * given + (1 - clean[:, None].to(own.dtype)) * own
        doubted = clean <= self.threshold
        if bool(doubted.any()):
            was_training = other.training
            other.eval()
            theirs = [losses.full_precision(other(x[doubted])).softmax(dim=1) for x in views]
            other.train(was_training)
            refined[doubted] = (2 * own[doubted] + theirs[0] + theirs[1]) / 4
        sharp = refined ** (1 / self.temperature)
        return sharp / sharp.sum(dim=1, keepdim=True), logits[0]

    def _mixed_values(
        self, net: nn.Module, x: Tensor, targets: Tensor, trusted: Tensor, weight: float
    ) -> Tensor:
        """One value for each of these inputs, whose mean is the loss."""
        share = float(torch.distributions.Beta(self.beta, self.beta).sample())
        share = max(share, 1 - share)
        order = torch.randperm(len(x)).to(x.device)
        log_p = losses.full_precision(net(share * x + (1 - share) * x[order])).log_softmax(dim=1)
        targets = share * targets + (1 - share) * targets[order]
        labelled = -(targets * log_p).sum(dim=1) / trusted.float().mean().clamp(min=1e-12)
        apart = ((log_p.exp() - targets) ** 2).mean(dim=1)
        unlabelled = weight * apart / (~trusted).float().mean().clamp(min=1e-12)
        mean = log_p.logsumexp(dim=0) - math.log(len(x))
        balance = -mean.mean() - math.log(self.num_classes)
        return torch.where(trusted, labelled, unlabelled) + balance

    def weight(self, net: int, epoch: int) -> float:
        """λ_u at this step of that net."""
        step = int(self.seen) - net * self.todo[0]
        since = epoch + step / self.todo[net] - epoch_of(self.warmup, self.epochs)
        return self.lambda_u * (min(1.0, max(0.0, since / self.ramp)) if self.ramp else 1.0)

    def logits(self, x: Tensor) -> Tensor:
        mean: Tensor = (self.net(x).float() + self.second(x).float()) / 2
        return mean

    def facts(self) -> dict[str, Any]:
        return {"warmup": epoch_of(self.warmup, self.epochs)}


def clean_probability(values: Tensor) -> Tensor:
    """Of each sample, by its loss: how likely it belongs to the normal distribution of smaller
    mean."""
    from sklearn.exceptions import ConvergenceWarning  # slow to import, and used here only
    from sklearn.mixture import GaussianMixture
    from threadpoolctl import threadpool_limits

    spread = values.double().cpu().numpy()
    low, high = spread.min(), spread.max()
    if low == high:
        return torch.ones_like(values)
    points = ((spread - low) / (high - low))[:, None]
    mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0)
    # threads would add up in an order of their own, and a run taken up again would differ
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # ten rounds are what is asked for
        probs = mixture.fit(points).predict_proba(points)
    return torch.from_numpy(probs[:, mixture.means_.argmin()]).to(values)
