"""What a method is given at each step, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    rows: Tensor  # [B] the samples' positions in the training set, always
    x: Tensor  # [B, ...] inputs
    y: Tensor  # [B] the labels as given
    views: tuple[Tensor, ...] = ()  # the same samples, augmented anew, where a method asks for it


class StepLoss(NamedTuple):
    """One value and one weight a sample, never reduced: the engine forms Σ w·v / Σ w over all
    processes and the whole accumulation window, which no single call can see."""

    values: Tensor  # [B]
    weights: Tensor  # [B], without gradient
    logits: Tensor | None = None  # [B, C] on the inputs as given, if the method has them at hand
