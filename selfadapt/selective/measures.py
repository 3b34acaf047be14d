"""What a threshold does, and how far scores and probabilities can be believed."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from selfadapt.errors import BadInput
from selfadapt.selective._given import Bools, scores, with_correct


def answered(score: ArrayLike, threshold: float) -> Bools:
    """Which samples a threshold answers."""
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.number):
        raise BadInput(f"threshold must be a number; got {threshold!r}")
    found: Bools = scores(score) <= threshold
    return found


def coverage(score: ArrayLike, threshold: float) -> float:
    """The share answered."""
    return float(answered(score, threshold).mean())


def risk(score: ArrayLike, correct: ArrayLike, threshold: float) -> float:
    """The share of wrong ones among those answered; NaN where nothing is."""
    of, right = with_correct(score, correct)
    taken = of <= threshold
    return float((~right[taken]).mean()) if taken.any() else float("nan")


def class_coverage(
    score: ArrayLike, labels: ArrayLike, threshold: float, num_classes: int
) -> NDArray[np.float64]:
    """The share answered of each class; NaN of a class without samples."""
    taken, of = answered(score, threshold), np.asarray(labels)
    if of.shape != taken.shape or not np.issubdtype(of.dtype, np.integer):
        raise BadInput(f"labels must be one class a sample, {len(taken)} in all; got {of.shape}")
    if of.min() < 0 or of.max() >= num_classes:
        raise BadInput(f"labels must lie in 0 to {num_classes - 1}; got {of.min()} to {of.max()}")
    there = np.bincount(of, minlength=num_classes)
    with np.errstate(invalid="ignore"):
        found: NDArray[np.float64] = np.bincount(of, taken, num_classes) / there
    return found


def calibration_error(confidence: ArrayLike, correct: ArrayLike, bins: int = 15) -> float:
    """How far confidence is from accuracy, mean over equally wide bins weighted by their samples
    (ECE). A bin holds its lower edge, and confidence 1 is a bin of its own, as in torchmetrics."""
    of, right = with_correct(confidence, correct)
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or bins < 1:
        raise BadInput(f"bins must be a whole number of at least 1; got {bins!r}")
    if not ((of >= 0) & (of <= 1)).all():
        raise BadInput("confidence must lie in 0 to 1")
    edges = np.linspace(0, 1, bins + 1)
    which = np.searchsorted(edges, of, side="right") - 1
    surplus = np.bincount(which, of - right, bins + 1)
    return float(np.abs(surplus).sum() / len(of))


def auroc(score: ArrayLike, other: ArrayLike) -> float:
    """How well a score tells samples of another kind apart: the chance that one of `other` has a
    higher score than one of `score`, equal ones half. NaN counts as higher than any number."""
    inner, outer = scores(score), scores(other, "other")
    values, place = np.unique(np.concatenate([inner, outer]), return_inverse=True)
    mine = np.bincount(place[: len(inner)], minlength=len(values))
    below = np.cumsum(mine) - mine
    theirs = place[len(inner) :]
    return float((below[theirs] + mine[theirs] / 2).mean() / len(inner))
