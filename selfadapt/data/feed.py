"""From a labelled set to the batches of an epoch: which rows, in what order, and their inputs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from selfadapt.data.augment import crop_and_flip
from selfadapt.data.labelled import Augment, InMemory, Inputs, Rows
from selfadapt.randomness import generator

_SMALLEST_TAIL = 16
_EVALUATION_BATCH = 512


def epoch_batches(rows: Rows, batch: int, seed: int, epoch: int) -> list[Rows]:
    """Every row once, in an order that depends on (seed, epoch) only. A tail of fewer than 16 rows
    joins the batch before it, whatever the number of processes."""
    shuffled = generator("order", seed, epoch).permutation(rows)
    cuts = list(range(batch, len(rows), batch))
    if cuts and len(rows) - cuts[-1] < min(_SMALLEST_TAIL, batch):
        cuts.pop()
    return np.split(shuffled, cuts)


class _Reader(Dataset[tuple[Tensor, dict[int, str]]]):
    """Reads whole batches, in a worker process."""

    def __init__(self, inputs: Inputs, parts: Sequence[Rows]) -> None:
        self.inputs = inputs
        self.parts = parts

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, index: int) -> tuple[Tensor, dict[int, str]]:
        return self.inputs.read(self.parts[index])


class Feed:
    """Inputs by row, on the device, images in [0, 1]. In memory or streamed, rows are the same."""

    def __init__(
        self,
        inputs: Inputs,
        rows: Rows,
        *,
        seed: int = 0,
        batch: int = 256,
        augment: Augment = "none",
        workers: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        self.device = torch.device(device)
        self.inputs = inputs.on(self.device) if isinstance(inputs, InMemory) else inputs
        self.rows = rows
        self.seed = seed
        self.batch = batch
        self.augment: Augment = augment if len(inputs.shape) == 3 else "none"
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else workers
        self.workers = 0 if isinstance(inputs, InMemory) else min(workers, processors)
        self.unreadable: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def batches(
        self, epoch: int, among: Rows | None = None, batch: int | None = None
    ) -> list[Rows]:
        rows = self.rows if among is None else among
        return epoch_batches(rows, max(1, min(batch or self.batch, len(rows))), self.seed, epoch)

    def plain(self, rows: Rows) -> Tensor:
        """These rows' inputs as they are; those that cannot be read are zeros, and remembered in
        `unreadable`."""
        x, failed = self.inputs.read(rows)
        self.unreadable.update(failed)
        return self._to_input(x)

    def plain_parts(self, rows: Rows) -> Iterator[tuple[Rows, Tensor]]:
        """All of `rows` as they are, in parts that fit an evaluation pass."""
        parts = np.split(rows, range(_EVALUATION_BATCH, len(rows), _EVALUATION_BATCH))
        for part, (x, failed) in zip(parts, self._read(parts), strict=True):
            self.unreadable.update(failed)
            yield part, self._to_input(x)

    def augmented(
        self, parts: Sequence[Rows], epoch: int, views: int = 1
    ) -> Iterator[tuple[Rows, tuple[Tensor, ...]]]:
        """The inputs of each part, augmented as this epoch asks, as often as there are views. Rows
        whose input cannot be read are left out and remembered in `unreadable`: a part may be
        empty."""
        for part, (x, failed) in zip(parts, self._read(parts), strict=True):
            rows = part
            if failed:
                self.unreadable.update(failed)
                keep = ~np.isin(part, list(failed))
                rows, x = part[keep], x[torch.from_numpy(keep)]
            seen = (self._augment(x, rows, epoch, view) for view in range(views))
            yield rows, tuple(map(self._to_input, seen))

    def _read(self, parts: Sequence[Rows]) -> Iterable[tuple[Tensor, dict[int, str]]]:
        if self.workers == 0:
            return (self.inputs.read(part) for part in parts)
        return DataLoader(
            _Reader(self.inputs, parts),
            batch_size=None,
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda",
        )

    def _augment(self, x: Tensor, rows: Rows, epoch: int, view: int) -> Tensor:
        if self.augment == "none":
            return x
        flip = self.augment == "crop_flip"
        if x.dtype == torch.uint8:
            return crop_and_flip(x, rows, self.seed, epoch, view, flip=flip)
        moved = crop_and_flip(x.permute(0, 2, 3, 1), rows, self.seed, epoch, view, flip=flip)
        return moved.permute(0, 3, 1, 2)

    def _to_input(self, x: Tensor) -> Tensor:
        """uint8 [B, H, W, C] travels to the device as bytes and is read there as channels-last
        [B, C, H, W] in [0, 1]."""
        x = x.to(self.device, non_blocking=True)
        return x.permute(0, 3, 1, 2).float() / 255 if x.dtype == torch.uint8 else x
