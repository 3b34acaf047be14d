"""Self-adaptive training for somebody's own training loop."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from selfadapt import distributed, losses
from selfadapt.errors import BadInput
from selfadapt.targets import Labels, Targets, as_labels, check_rows


class SelfAdaptiveLoss(nn.Module):
    """A loss that remembers one belief per training sample and trains on it.

    For the first `start` epochs it is cross entropy on the labels given. From then on each sample's
    belief moves towards what the model predicts, and becomes its target and its weight.

        loss_fn = SelfAdaptiveLoss(labels, num_classes=10, start=60, momentum=0.9)
        for epoch in range(200):
            for rows, x, y in loader:
                loss = loss_fn(model(x), rows, epoch)

    `rows` are the samples' positions in the training set (see `with_rows`), `epoch` counts from 0.
    In evaluation mode nothing moves. In several processes the beliefs are the same on all of them,
    and the loss is scaled so that the mean of gradients that DistributedDataParallel takes is the
    gradient of the global weighted mean. To accumulate gradients over several calls, use `values`,
    which returns values and weights unreduced.
    """

    labels: Tensor

    def __init__(
        self,
        labels: Labels,
        num_classes: int,
        *,
        start: int = 60,
        momentum: float = 0.9,
        reweight: bool = True,
        repeats: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if not start >= 0 or start % 1:
            raise BadInput(
                f"start is the number of ordinary epochs before the first move, got {start}"
            )
        given = as_labels(labels, num_classes)
        self.register_buffer("labels", given)
        self.targets = Targets(given, num_classes, momentum, dtype=dtype, repeats=repeats)
        self.start = start
        self.reweight = reweight

    def forward(self, logits: Tensor, rows: Tensor, epoch: int) -> Tensor:
        """The mean over the global batch, weighted: a scalar."""
        values, weights = self.values(logits, rows, epoch)
        total = weights.sum()
        if self.training:
            total = distributed.sum_over(total) / distributed.processes()
        return (weights * values).sum() / total

    def values(self, logits: Tensor, rows: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        """One value and one weight for each sample."""
        self._check_logits(logits)
        epoch = _whole(epoch)
        if not self.training:
            targets = self.targets.read(check_rows(rows, len(self.labels), len(logits)))
        elif epoch < self.start:
            rows = check_rows(rows, len(self.labels), len(logits))
            labels = self.labels[rows.to(self.labels.device)].to(logits.device)
            values = losses.cross_entropy(logits, labels)
            return values, torch.ones_like(values)
        else:
            probs = losses.full_precision(logits).detach().softmax(dim=1)
            targets = self.targets.update(rows, probs, epoch)
        return losses.self_adaptive(logits, targets.to(logits.device), reweight=self.reweight)

    def beliefs(self) -> Tensor:
        """What is now believed of each training sample: [N, C], fp32, a copy."""
        return self.targets.table.to(torch.float32, copy=True)

    def _check_logits(self, logits: Tensor) -> None:
        classes = self.targets.table.shape[1]
        if logits.ndim != 2 or logits.shape[1] != classes:
            raise BadInput(f"logits must be [B, {classes}], got {tuple(logits.shape)}")


def _whole(epoch: Any) -> int:
    try:
        number = operator.index(epoch)
    except TypeError:
        number = -1
    if number < 0:
        raise BadInput(f"epoch must be a whole number, counted from 0; got {epoch!r}")
    return number


class _WithRows(Dataset[tuple[int, Any, Any]]):
    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> tuple[int, Any, Any]:
        row = range(len(self))[row]  # -1 is the last row, not a row of its own
        sample = self.dataset[row]
        if not isinstance(sample, tuple | list) or len(sample) != 2:
            raise BadInput(
                f"with_rows needs a data set of (x, y); row {row} is a {type(sample).__name__}"
            )
        return row, sample[0], sample[1]


def with_rows(dataset: Any) -> Dataset[tuple[int, Any, Any]]:
    """A map-style data set that returns (row, x, y) where `dataset` returns (x, y).

    Wrap the whole training set, before any Subset: a row is the position in what was wrapped."""
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise BadInput(f"with_rows needs a map-style data set, got {type(dataset).__name__}")
    return _WithRows(dataset)
