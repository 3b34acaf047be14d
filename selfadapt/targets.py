"""The paper's idea: one belief per training sample.

A belief starts as the label somebody gave and follows a running average of what the model itself
predicts for that sample (algorithm 1 of arXiv 2002.10319):

    t_i <- α·t_i + (1-α)·p_i

A belief belongs to a sample, so it is addressed by the sample's row in the training set, which
must survive subsets, shuffling, workers, several processes and a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from selfadapt import distributed
from selfadapt.errors import BadInput

Labels = Sequence[int] | ArrayLike | Tensor
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def as_labels(labels: Labels, num_classes: int) -> Tensor:
    """Labels as int64 [N] that share no memory with what was given, or a clear error."""
    values = labels.detach() if isinstance(labels, Tensor) else _from_array(labels)
    if values.ndim != 1 or len(values) == 0:
        raise BadInput(f"labels must be one class index a sample, got shape {tuple(values.shape)}")
    if values.is_floating_point():
        if not bool((values == values.round()).all()):
            raise BadInput("labels must be whole numbers, got fractions or NaN")
    elif values.dtype == torch.bool or values.is_complex():
        raise BadInput(f"labels must be class indices, got {values.dtype}")
    values = values.to(torch.int64, copy=True)
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= num_classes:
        wrong = low if low < 0 else high
        raise BadInput(f"label {wrong} does not fit {num_classes} classes (0 to {num_classes - 1})")
    return values


def _from_array(labels: Sequence[int] | ArrayLike) -> Tensor:
    try:
        array = np.asarray(labels)
    except ValueError as error:
        raise BadInput(f"labels must be one class index a sample: {error}") from None
    if array.dtype.kind not in "iuf":
        raise BadInput(f"labels must be class indices (0, 1, …), got {array.dtype}")
    # Any byte order and stride, and read-only arrays: torch takes none of these.
    kind = np.float64 if array.dtype.kind == "f" else np.int64
    return torch.from_numpy(array.astype(kind, order="C"))


def check_rows(rows: Tensor, samples: int, size: int) -> Tensor:
    """Rows as int64; they must name one training sample for each of `size` predictions."""
    if not isinstance(rows, Tensor) or rows.dtype not in _INTEGERS:
        given = rows.dtype if isinstance(rows, Tensor) else type(rows).__name__
        raise BadInput(f"rows must be a tensor of integers, got {given}")
    if rows.shape != (size,):
        raise BadInput(
            f"rows must hold one row for each of the {size} predictions, got shape "
            f"{tuple(rows.shape)}: does the data set return the sample's row?"
        )
    if size and (int(rows.min()) < 0 or int(rows.max()) >= samples):
        raise BadInput(
            f"rows must lie in 0 to {samples - 1}, the training set's own positions; got "
            f"{int(rows.min())} to {int(rows.max())}"
        )
    return rows.long()  # torch would read uint8 as a mask, and index with few other types


class Targets(nn.Module):
    """Soft targets [N, C], kept as a buffer so that they are saved and moved with the model.

    A row moves once an epoch: the mark `moved_in` makes a later visit in the same epoch read the
    target as it is, so a sampler that repeats rows does no harm. With `repeats=True` each visit
    moves it. A row that stands twice in one batch moves once, by the mean of its predictions.
    fp16 halves the memory; bf16 would stall at 0.984 on its way to 1. With `from_zero` nothing is
    believed at first, not even the label given.
    """

    table: Tensor
    moved_in: Tensor

    def __init__(
        self,
        labels: Labels,
        num_classes: int,
        momentum: float = 0.9,
        *,
        dtype: torch.dtype = torch.float32,
        repeats: bool = False,
        from_zero: bool = False,
    ) -> None:
        super().__init__()
        if not 0 <= momentum < 1:
            raise BadInput(f"momentum must lie in [0, 1), got {momentum}; the paper uses 0.9")
        if dtype not in (torch.float32, torch.float16):
            raise BadInput(f"beliefs are kept in float32 or float16, not {dtype}")
        given = as_labels(labels, num_classes)
        table = torch.zeros(len(given), num_classes, dtype=dtype, device=given.device)
        self.register_buffer("table", table if from_zero else table.scatter_(1, given[:, None], 1))
        self.register_buffer(
            "moved_in", torch.full((len(given),), -1, dtype=torch.int32, device=given.device)
        )
        self.momentum = momentum
        self.repeats = repeats

    def __len__(self) -> int:
        return len(self.table)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Targets:
        """Beliefs move between devices with the model, but are not cast with it."""
        before = self.table
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.table.dtype != before.dtype:
            self.table = before.to(self.table.device)
        return self

    @torch.no_grad()
    def read(self, rows: Tensor) -> Tensor:
        """These rows' targets, in fp32."""
        rows = check_rows(rows, len(self), rows.numel() if isinstance(rows, Tensor) else 0)
        return self.table.index_select(0, rows.to(self.table.device)).float().to(rows.device)

    @torch.no_grad()
    def update(self, rows: Tensor, probs: Tensor, epoch: int) -> Tensor:
        """Move these rows towards `probs` and return their targets, in fp32. Every process must
        call this at the same time; all end with the same table."""
        if probs.ndim != 2 or probs.shape[1] != self.table.shape[1]:
            raise BadInput(
                f"predictions must be [B, {self.table.shape[1]}], got {tuple(probs.shape)}"
            )
        rows = check_rows(rows, len(self), len(probs))
        here = self.table.device
        all_rows, all_probs = distributed.gather_rows(
            rows.to(here), probs.detach().to(here).float()
        )
        moved = self._move(*_mean_of_repeats(all_rows, all_probs), epoch)
        if len(moved) == len(rows) and distributed.processes() == 1:
            return moved.to(probs.device)
        return self.table.index_select(0, rows.to(here)).float().to(probs.device)

    def _move(self, rows: Tensor, probs: Tensor, epoch: int) -> Tensor:
        old = self.table.index_select(0, rows).float()
        moved = old.mul(self.momentum).add_(probs, alpha=1 - self.momentum)
        stay = ~probs.sum(dim=1).isfinite()  # a belief must outlive a batch that overflowed
        if not self.repeats:
            stay |= self.moved_in.index_select(0, rows) == epoch
            self.moved_in[rows] = epoch
        moved = torch.where(stay[:, None], old, moved)
        stored = moved.to(self.table.dtype)
        self.table.index_copy_(0, rows, stored)
        return stored.float()


def _mean_of_repeats(rows: Tensor, probs: Tensor) -> tuple[Tensor, Tensor]:
    unique, place = torch.unique(rows, return_inverse=True)
    if len(unique) == len(rows):
        return rows, probs
    sums = probs.new_zeros(len(unique), probs.shape[1]).index_add_(0, place, probs)
    return unique, sums / torch.bincount(place)[:, None]
