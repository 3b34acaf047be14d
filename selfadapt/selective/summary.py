"""Everything that is told of scores side by side, as one table of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from selfadapt.errors import BadInput
from selfadapt.selective.curves import augrc, aurc, excess_aurc, risk_at_coverage
from selfadapt.selective.measures import auroc, calibration_error

COVERAGES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)


def summary(
    probs: ArrayLike,
    scores: Mapping[str, ArrayLike],
    labels: ArrayLike,
    others: Mapping[str, ArrayLike] | None = None,
    coverages: Sequence[float] = COVERAGES,
) -> dict[str, Any]:
    """Of samples with known labels: accuracy, calibration error, and for each score the error at
    each coverage (by sorting these same samples), the areas, and how well it tells `others` apart:
    the same scores of samples of another kind. A sample without a prediction is left out."""
    of, truth = np.asarray(probs, dtype=np.float64), np.asarray(labels)
    known = ~np.isnan(of).any(axis=1)
    if not known.any():
        raise BadInput("there is no sample with a prediction to be measured on")
    right = (of.argmax(axis=1) == truth)[known]
    confidence = of[known].max(axis=1).clip(0, 1)
    found: dict[str, Any] = {
        "samples": int(known.sum()),
        "accuracy": float(right.mean()),
        "calibration_error": calibration_error(confidence, right),
        "scores": {},
    }
    for name, score in scores.items():
        mine = np.asarray(score, dtype=np.float64)[known]
        line = {f"error_at_{round(100 * c)}": risk_at_coverage(mine, right, c) for c in coverages}
        line |= {
            "aurc": aurc(mine, right),
            "excess_aurc": excess_aurc(mine, right),
            "augrc": augrc(mine, right),
        }
        if others is not None and name in others:
            line["auroc_other"] = auroc(mine, _known(others[name]))
        found["scores"][name] = {k: None if math.isnan(v) else v for k, v in line.items()}
    return found


def _known(score: ArrayLike) -> NDArray[np.float64]:
    of = np.asarray(score, dtype=np.float64)
    return of[~np.isnan(of)]
