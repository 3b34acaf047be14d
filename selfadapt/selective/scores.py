"""Scores of a sample from what a model says of it, each higher where it should rather not say."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from selfadapt.errors import BadInput
from selfadapt.selective._given import Floats, table

SCORES = {
    "abstain": "the method's own, where it has one",
    "softmax": "1 - the largest probability",
    "margin": "1 - the difference of the two largest probabilities",
    "entropy": "that of the probabilities",
    "energy": "-log Σ exp of the outputs",
    "dropout": "variance of the probabilities over 100 passes with dropout on the features",
}


def max_softmax(probs: ArrayLike) -> Floats:
    """1 − the largest probability: softmax response (Hendrycks & Gimpel 2017)."""
    found: Floats = 1 - table(probs, "probs").max(axis=1)
    return found


def margin(probs: ArrayLike) -> Floats:
    """1 − the difference of the two largest probabilities."""
    two = np.partition(table(probs, "probs"), -2, axis=1)
    return 1 - (two[:, -1] - two[:, -2])


def entropy(probs: ArrayLike) -> Floats:
    """− Σ p log p, in nats."""
    of = table(probs, "probs")
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(of > 0, of * np.log(of), of * 0)  # NaN stays NaN
    found: Floats = 0.0 - terms.sum(axis=1)
    return found


def energy(logits: ArrayLike) -> Floats:
    """− log Σ exp z (Liu et al. 2020)."""
    of = table(logits, "logits")
    with np.errstate(invalid="ignore"):
        found: Floats = -np.logaddexp.reduce(of, axis=1)
    return found


def variance(passes: ArrayLike) -> Floats:
    """[passes, samples, classes] probabilities under dropout: their variance over passes, mean over
    classes (Gal & Ghahramani 2016, as Geifman & El-Yaniv score by it)."""
    of = np.asarray(passes, dtype=np.float64)
    if of.ndim != 3 or len(of) < 2:
        raise BadInput(
            f"passes must be [passes, samples, classes], two passes or more; got shape {of.shape}"
        )
    found: Floats = of.var(axis=0).mean(axis=1)
    return found
