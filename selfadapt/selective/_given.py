"""What is handed in, as arrays of the right kind; or an error that says what is wrong with it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from selfadapt.errors import BadInput

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def scores(given: ArrayLike, name: str = "score") -> Floats:
    found = numbers(given, name)
    if found.ndim != 1 or not len(found):
        raise BadInput(
            f"{name} must be one number a sample, of one sample or more; got shape {found.shape}"
        )
    return found


def numbers(given: ArrayLike, name: str) -> Floats:
    try:
        found = np.asarray(given)
    except ValueError as error:  # lines of unequal length
        raise BadInput(f"{name} must be an array: {error}") from None
    if found.dtype.kind not in "biuf":
        raise BadInput(f"{name} must be numbers; got {found.dtype}")
    return found.astype(np.float64)


def with_correct(score: ArrayLike, correct: ArrayLike) -> tuple[Floats, Bools]:
    of = scores(score)
    right = np.asarray(correct)
    if right.shape != of.shape:
        raise BadInput(
            f"correct must say of each of the {len(of)} samples whether it is right; got shape "
            f"{right.shape}"
        )
    if right.dtype != np.bool_ and not np.isin(right, (0, 1)).all():
        raise BadInput("correct must be true or false, or 1 or 0, for each sample")
    return of, right.astype(np.bool_)


def share(given: float, name: str) -> float:
    if not 0 <= _number(given, name) <= 1:  # nor NaN
        raise BadInput(f"{name} is a share from 0 to 1; got {given}")
    return float(given)


def inside(given: float, name: str) -> float:
    if not 0 < _number(given, name) < 1:
        raise BadInput(f"{name} lies between 0 and 1; got {given}")
    return float(given)


def _number(given: float, name: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float | np.number):
        raise BadInput(f"{name} must be a number; got {given!r}")
    return float(given)


def table(given: ArrayLike, name: str) -> Floats:
    found = numbers(given, name)
    if found.ndim != 2 or found.shape[1] < 2:
        raise BadInput(
            f"{name} must be [samples, classes], two classes or more; got shape {found.shape}"
        )
    return found


def ends(ordered: Floats) -> NDArray[np.int64]:
    """The place of the last of each group of equal values; all NaN, which stand last, are one."""
    differ = ordered[1:] != ordered[:-1]
    differ &= ~(np.isnan(ordered[1:]) & np.isnan(ordered[:-1]))
    return np.flatnonzero(np.append(differ, True))
