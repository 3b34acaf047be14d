"""Losses as pure functions: one value per sample, never reduced, in fp32 whatever the precision of
the logits."""

from __future__ import annotations

import math

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


def reverse_cross_entropy(logits: Tensor, targets: Tensor, floor: float) -> Tensor:
    """-Σ_j p_j log t_j, with t held above `floor`: the reverse term of symmetric cross entropy
    (Wang et al. 2019). The gradient flows through p."""
    probs = full_precision(logits).softmax(dim=1)
    return -(probs * targets.clamp(min=floor).log()).sum(dim=1)


def generalised_cross_entropy(logits: Tensor, labels: Tensor, q: float) -> Tensor:
    """(1 - p_y^q) / q, between cross entropy (q → 0) and 1 - p_y (q = 1); Zhang & Sabuncu 2018."""
    log_p = F.log_softmax(full_precision(logits), dim=1).gather(1, labels[:, None])[:, 0]
    return -torch.expm1(q * log_p) / q


def one_hot(labels: Tensor, classes: int) -> Tensor:
    return F.one_hot(labels, classes).float()


def adaptive_abstention(logits: Tensor, belief: Tensor, labels: Tensor) -> Tensor:
    """-t_y log P_y - (1-t_y) log P_C, with P over C+1 outputs of which the last abstains, and t_y
    what is believed of the label given (the paper's equation 3)."""
    log_p = F.log_softmax(full_precision(logits), dim=1)
    given = log_p.gather(1, labels[:, None])[:, 0]
    belief = belief.detach()
    return -(belief * given + (1 - belief) * log_p[:, -1])


def gambler(logits: Tensor, labels: Tensor, reward: float) -> Tensor:
    """-log(P_y + P_C / o), with P over C+1 outputs of which the last abstains, and o what a right
    bet pays (Liu et al. 2019)."""
    log_p = F.log_softmax(full_precision(logits), dim=1)
    given = log_p.gather(1, labels[:, None])[:, 0]
    return -torch.logaddexp(given, log_p[:, -1] - math.log(reward))
