"""Label noise, each kind named exactly: labels in, labels out. A kind is a public function here."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from selfadapt import errors
from selfadapt.randomness import generator

IntArray = NDArray[np.int64]
Corruption = Callable[..., IntArray]
_HELPERS = ("resolve", "names", "fingerprint", "generator")


def none(labels: IntArray, num_classes: int, seed: int) -> IntArray:
    """Labels as they were given."""
    return labels.copy()


def uniform(labels: IntArray, num_classes: int, seed: int, *, rate: float = 0.4) -> IntArray:
    """Exactly int(rate·n) samples get a label drawn from ALL classes, so rate·(C-1)/C of all labels
    become wrong. What the SAT paper calls uniform noise; others leave the true class out."""
    if not 0 <= rate <= 1:
        raise errors.BadInput(f"corruption.rate must lie in [0, 1], got {rate}")
    random = generator("uniform", seed)
    chosen = random.permutation(len(labels))[: int(rate * len(labels))]
    noisy = labels.copy()
    noisy[chosen] = random.integers(0, num_classes, len(chosen))
    return noisy


def fingerprint(labels: IntArray) -> str:
    """A sha256 of the label vector: two runs with the same one saw the same noise."""
    return hashlib.sha256(np.ascontiguousarray(labels, dtype="<i8").tobytes()).hexdigest()


def names() -> dict[str, str]:
    """Every kind with its card."""
    return {
        name: inspect.getdoc(value) or ""
        for name, value in vars(sys.modules[__name__]).items()
        if inspect.isfunction(value) and not name.startswith("_") and name not in _HELPERS
    }


def resolve(name: str) -> Corruption:
    if name not in names():
        raise errors.unknown("corruption", name, names())
    found: Corruption = getattr(sys.modules[__name__], name)
    return found
