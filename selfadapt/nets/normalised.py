"""Normalisation as the net's first step: attacks and pictures keep to inputs in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from selfadapt.errors import BadInput

Numbers = float | Sequence[float] | NDArray[Any] | Tensor


class Normalised(nn.Module):
    """`net` of (x − mean) / std, channel by channel (feature by feature for plain vectors). The
    two are buffers, saved with the net. A channel that never varies (std 0) is only centred."""

    mean: Tensor
    std: Tensor

    def __init__(self, net: nn.Module, mean: Numbers = 0.0, std: Numbers = 1.0) -> None:
        super().__init__()
        mean, std = _vector("mean", mean), _vector("std", std)
        if len(mean) != len(std) and 1 not in (len(mean), len(std)):
            raise BadInput(f"mean has {len(mean)} numbers and std {len(std)}: give one a channel.")
        if (std < 0).any():
            raise BadInput(f"std must not be negative, not {std.tolist()}.")
        self.net = net
        self.register_buffer("mean", mean)
        self.register_buffer("std", torch.where(std == 0, 1.0, std))

    def forward(self, x: Tensor) -> Tensor:
        each = (-1,) + (1,) * (x.ndim - 2)
        logits: Tensor = self.net((x - self.mean.view(each)) / self.std.view(each))
        return logits


def _vector(name: str, numbers: Numbers) -> Tensor:
    try:
        vector = torch.as_tensor(numbers, dtype=torch.float32, device="cpu")
    except (TypeError, ValueError) as error:
        raise BadInput(f"{name} must be numbers, one a channel, not {numbers!r}.") from error
    # A copy: a buffer that shared memory with the caller's array would change with it.
    vector = vector.detach().reshape(-1).clone()
    if len(vector) == 0 or not vector.isfinite().all():
        raise BadInput(f"{name} must be finite numbers, one a channel, not {numbers!r}.")
    return vector
