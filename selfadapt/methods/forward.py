from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from selfadapt import losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.corruption.files import read_matrix
from selfadapt.errors import BadInput
from selfadapt.methods._best import Best
from selfadapt.methods._pass import over_training
from selfadapt.methods.method import Feed, MakeNet, Method, Stage, Stages, Validation

_FLOOR = 1e-7


class Estimate(Method):
    """Ordinary training, and then how labels were changed, as its net sees it.

    T_i = p(a_i), scaled to sum to 1, where the anchor a_i is the training sample of largest p_i
    among those below the `percentile` of p_i. The net is that of lowest loss on noisy validation.
    Patrini et al., CVPR 2017 (arXiv 1609.03683), algorithm 1.

    percentile, in_place: as for forward.
    """

    needs_validation = True

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        percentile: float | None = 0.97,
        in_place: bool = False,
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        self.percentile = _checked(percentile)
        self.in_place = in_place
        self.best = Best(self.net)

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        values = losses.cross_entropy(logits, batch.y)
        return StepLoss(values, torch.ones_like(values), logits.detach())

    def validated(self, epoch: int, found: Validation) -> bool:
        self.best.offer(self.net, -found.loss)
        return epoch == self.epochs - 1 and self.best.back_into(self.net)

    def hand_over(self, feed: Feed) -> dict[str, Tensor]:
        _, probs = over_training(self.net, feed, lambda x, _: self.predict(x))
        chances = transition(probs.cpu().numpy(), self.percentile, in_place=self.in_place)
        return {"transition": torch.from_numpy(chances).float()}


def transition(
    probs: NDArray[Any], percentile: float | None, *, in_place: bool = False
) -> NDArray[np.float64]:
    """From [n, C] predictions, the probability T_ij that a label i was written as j. The authors'
    code strikes out what lies above the percentile in the predictions themselves (`in_place`), so
    that the row of a later class holds zeros where its anchor was struck out for an earlier."""
    probs = np.array(probs, np.float64)
    rows = []
    for column in range(probs.shape[1]):
        own = probs[:, column] if in_place else probs[:, column].copy()
        if percentile is not None:
            own[own >= np.quantile(own, percentile, method="higher")] = 0
        rows.append(probs[own.argmax()].copy())
    chances = np.stack(rows)
    scaled: NDArray[np.float64] = chances / chances.sum(axis=1, keepdims=True)
    return scaled


class Forward(Method):
    """Forward correction: predictions are carried through the noise before they meet the labels.

    loss = -log (Tᵀp)_y, where T_ij is the probability that a label i was written as j, and p is
    held in [1e-7, 1 - 1e-7]. T is estimated in a first stage, on all training samples as they are.
    In both stages the net whose loss on noisy validation is lowest is the one that predicts.
    Patrini et al., CVPR 2017 (arXiv 1609.03683), theorem 2 and algorithm 1; authors' code
    giorgiop/loss-correction, which estimates on the held-out samples too.

    matrix: T: estimated; true counts the labels that were changed, and so looks at the true ones;
      anything else is a file (.csv without a header, or .npy) with a row for each class.
    percentile: of p_i, below which the anchor of class i must lie; none takes the sample of largest
      p_i, as the authors do for CIFAR-100.
    in_place: strike out what lies above the percentile for the classes that follow too, as the
      authors' code does by mistake.
    best: end with the net of lowest validation loss; false with that of the last epoch.
    """

    needs_validation = True
    transition: Tensor
    labels: Tensor

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        matrix: str = "estimated",
        percentile: float | None = 0.97,
        in_place: bool = False,
        best: bool = True,
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        _checked(percentile)
        self.needs_validation = best
        self.needs_true_labels = matrix == "true"
        self.best = Best(self.net) if best else None
        self.register_buffer("labels", labels.clone(), persistent=False)
        self.register_buffer("transition", torch.eye(num_classes))
        # a finished run is opened without it: its matrix is in the checkpoint
        if matrix not in ("estimated", "true") and Path(matrix).is_file():
            self.transition.copy_(torch.from_numpy(read_matrix(Path(matrix), num_classes)))

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        values = self.carried(losses.full_precision(logits).softmax(dim=1), batch.y)
        return StepLoss(values, torch.ones_like(values), logits.detach())

    def carried(self, probs: Tensor, given: Tensor) -> Tensor:
        """-log (Tᵀp)_y, with no product of matrices, which mixed precision would round."""
        into = self.transition.T.to(probs.device)[given]
        reached = (probs.clamp(_FLOOR, 1 - _FLOOR) * into).sum(dim=1)
        return -reached.clamp(min=torch.finfo(reached.dtype).tiny).log()

    def validation_loss(self, probs: Tensor, given: Tensor) -> Tensor:
        return self.carried(probs, given)

    def validated(self, epoch: int, found: Validation) -> bool:
        if self.best is None:
            return False
        self.best.offer(self.net, -found.loss)
        return epoch == self.epochs - 1 and self.best.back_into(self.net)

    @classmethod
    def stages(cls, knobs: Mapping[str, Any], train: Mapping[str, Any]) -> Stages:
        matrix = knobs["matrix"]
        if matrix == "estimated":
            passed = {name: knobs[name] for name in ("percentile", "in_place")}
            yield Stage("estimate", "forward:Estimate", passed)
        elif matrix != "true" and not Path(matrix).is_file():
            raise BadInput(
                f"method.matrix must be estimated, true, or a file that holds a matrix; there is "
                f"no file {matrix!r}"
            )
        return None

    def take_over(self, handed: Mapping[str, Tensor]) -> None:
        self.transition.copy_(handed["transition"])

    def take_true_labels(self, true: Tensor) -> None:
        """Of a class that nobody has, labels stay what they are."""
        classes = self.num_classes
        pairs = true * classes + self.labels
        counts = torch.bincount(pairs, minlength=classes**2).view(classes, classes).double()
        of_class = counts.sum(dim=1, keepdim=True)
        self.transition.copy_(torch.where(of_class > 0, counts / of_class, torch.eye(classes)))


def _checked(percentile: float | None) -> float | None:
    if percentile is not None and not 0 < percentile <= 1:
        raise BadInput(f"method.percentile must lie in (0, 1], or be none; got {percentile}")
    return percentile
