"""Augmentation of a whole batch at once. What happens to a row depends on (seed, epoch, row) and,
where a sample is seen in several ways at once, on the number of the view; so the same picture comes
out whatever batch, worker or process it is in."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from selfadapt.randomness import per_row


def crop_and_flip(
    images: Tensor, rows: NDArray[np.int64], seed: int, epoch: int, view: int = 0, *, flip: bool
) -> Tensor:
    """Zero-padded random crops (an eighth of the side: 4 pixels of 32) and horizontal flips of
    images [B, H, W, C]."""
    _, height, width, _ = images.shape
    pad_y, pad_x = max(1, height // 8), max(1, width // 8)
    draws = per_row(rows, 3, "augment", seed, epoch, *([view] if view else []))
    top = torch.from_numpy((draws[:, 0] * (2 * pad_y + 1)).astype(np.int64))
    left = torch.from_numpy((draws[:, 1] * (2 * pad_x + 1)).astype(np.int64))
    across = torch.arange(width).expand(len(rows), width)
    if flip:
        mirrored = torch.from_numpy(draws[:, 2] < 0.5)[:, None]
        across = torch.where(mirrored, width - 1 - across, across)
    padded = torch.nn.functional.pad(images, (0, 0, pad_x, pad_x, pad_y, pad_y))
    ys = (top[:, None] + torch.arange(height)).to(images.device)
    xs = (left[:, None] + across).to(images.device)
    sample = torch.arange(len(rows), device=images.device)
    return padded[sample[:, None, None], ys[:, :, None], xs[:, None, :]]
