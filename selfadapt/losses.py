"""Losses as pure functions: one value per sample, never reduced, in fp32 whatever the precision of
the logits."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def full_precision(logits: Tensor) -> Tensor:
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def cross_entropy(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """-log p_y; with smoothing ε the target is (1-ε)·e_y + ε/C."""
    return F.cross_entropy(
        full_precision(logits), labels, reduction="none", label_smoothing=smoothing
    )


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """-Σ_j t_j log p_j (the paper's equation 1, without its weight)."""
    return -(targets * F.log_softmax(full_precision(logits), dim=1)).sum(dim=1)


def self_adaptive(
    logits: Tensor, targets: Tensor, *, reweight: bool = True
) -> tuple[Tensor, Tensor]:
    """Cross entropy against the moved targets, and each sample's weight w = max_j t_j (the paper's
    equation 2). No gradient flows through targets or weights."""
    targets = targets.detach()
    values = soft_cross_entropy(logits, targets)
    weights = targets.amax(dim=1).to(values.dtype) if reweight else torch.ones_like(values)
    return values, weights
