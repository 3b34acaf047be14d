"""The paper's equations (arXiv 2002.10319) once more, in plain numpy and float64.

Nothing here imports the package: what agrees with this file agrees with the paper."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

# METHODS.md 21: two samples, three classes.
Z = np.array([[2.0, 1.0, 0.0], [0.0, 0.0, 3.0]])
Y = np.array([1, 2])


def log_softmax(z: ArrayLike) -> Array:
    z = np.asarray(z, np.float64)
    z = z - z.max(axis=-1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


def softmax(z: ArrayLike) -> Array:
    return np.exp(log_softmax(z))


def one_hot(labels: ArrayLike, classes: int) -> Array:
    return np.eye(classes)[np.asarray(labels)]


def smoothed(labels: ArrayLike, classes: int, eps: float) -> Array:
    """The target of label smoothing: (1-ε)·e_y + ε/C."""
    return (1 - eps) * one_hot(labels, classes) + eps / classes


def cross_entropies(z: ArrayLike, targets: ArrayLike) -> Array:
    """-Σ_j t_j log p_j, one a sample."""
    values: Array = -(np.asarray(targets, np.float64) * log_softmax(z)).sum(axis=1)
    return values


def weighted_mean(values: Array, weights: Array) -> float:
    return float((weights * values).sum() / weights.sum())


def gradient(z: ArrayLike, targets: ArrayLike, weights: Array) -> Array:
    """Of the weighted mean with respect to the logits: w_b / Σw · (p - t_b)."""
    return (weights / weights.sum())[:, None] * (softmax(z) - np.asarray(targets, np.float64))


def reverse_gradient(z: ArrayLike, log_targets: ArrayLike) -> Array:
    """Of -Σ_j p_j·log t_j, one a sample: -p_k·(log t_k - Σ_j p_j log t_j)."""
    p, log_t = softmax(z), np.asarray(log_targets, np.float64)
    gradients: Array = -p * (log_t - (p * log_t).sum(axis=1, keepdims=True))
    return gradients


def sat_move(
    table: Array,
    moved_in: NDArray[np.int64],
    rows: ArrayLike,
    z: ArrayLike,
    epoch: int,
    momentum: float,
    repeats: bool = False,
) -> None:
    """t_i <- α·t_i + (1-α)·p_i, in place, row after row. A row that stands there twice moves by
    the mean of its predictions; one that moved in this epoch already stays."""
    rows = np.asarray(rows)
    p = softmax(z)
    for row in np.unique(rows):
        if repeats or moved_in[row] != epoch:
            table[row] = momentum * table[row] + (1 - momentum) * p[rows == row].mean(axis=0)
        moved_in[row] = epoch


def sat_loss(z: ArrayLike, targets: Array, reweight: bool = True) -> tuple[float, Array, Array]:
    """(loss, weights, gradient with respect to the logits) against targets already moved."""
    weights = targets.max(axis=1) if reweight else np.ones(len(targets))
    loss = weighted_mean(cross_entropies(z, targets), weights)
    return loss, weights, gradient(z, targets, weights)


def cosine(rate: float, epoch: float, epochs: float) -> float:
    return rate * (1 + math.cos(math.pi * epoch / epochs)) / 2
