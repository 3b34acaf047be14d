"""Error against coverage, and the areas under it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from selfadapt.selective._given import Bools, Floats, ends, share, with_correct


@dataclass(frozen=True)
class RiskCoverage:
    """A point for each threshold that makes a difference, from the surest sample on."""

    threshold: Floats
    coverage: Floats  # share of samples answered
    risk: Floats  # share of wrong ones among those


def risk_coverage(score: ArrayLike, correct: ArrayLike) -> RiskCoverage:
    """Without points where every score is NaN, for then nothing is ever answered."""
    of, right = with_correct(score, correct)
    order = np.argsort(of, kind="stable")  # NaN last
    ordered = of[order]
    last = ends(ordered)
    last = last[~np.isnan(ordered[last])]
    answers = last + 1.0
    wrong = np.cumsum(~right[order])[last]
    return RiskCoverage(ordered[last], answers / len(of), wrong / answers)


def expected_errors(of: Floats, right: Bools) -> Floats:
    """Of the surest 1, 2, … n samples, how many are wrong: on average, where equal scores stand in
    random order. NaN counts as the least sure."""
    order = np.argsort(of, kind="stable")
    last = ends(of[order])
    sizes = np.diff(last, prepend=-1)
    wrong = np.diff(np.cumsum(~right[order])[last], prepend=0)
    return np.cumsum(np.repeat(wrong / sizes, sizes))


def risk_at_coverage(score: ArrayLike, correct: ArrayLike, coverage: float) -> float:
    """The error of the round(coverage · n) surest samples, as tables of selective classification
    have it; NaN of none. This chooses the threshold on the samples it measures: for what a user
    gets, take one from `threshold_for_coverage` on others."""
    of, right = with_correct(score, correct)
    count = int(np.floor(share(coverage, "coverage") * len(of) + 0.5))
    return float(expected_errors(of, right)[count - 1] / count) if count else float("nan")


def aurc(score: ArrayLike, correct: ArrayLike) -> float:
    """Area under risk against coverage (Geifman & El-Yaniv 2017), by trapezoids from coverage 1/n
    to 1 and divided by the width of that, as torch-uncertainty has it. A constant score gives the
    error rate."""
    of, right = with_correct(score, correct)
    errors = expected_errors(of, right)
    return _area(errors / np.arange(1, len(errors) + 1))


def augrc(score: ArrayLike, correct: ArrayLike) -> float:
    """Area under the share of samples that are answered and wrong (Traub et al. 2024), which does
    not count the surest errors many times over; same convention."""
    of, right = with_correct(score, correct)
    errors = expected_errors(of, right)
    return _area(errors / len(errors))


def excess_aurc(score: ArrayLike, correct: ArrayLike) -> float:
    """`aurc` less that of a score which puts every error last."""
    _, right = with_correct(score, correct)
    return aurc(score, right) - aurc(~right, right)


def _area(heights: Floats) -> float:
    if len(heights) == 1:
        return float(heights[0])
    return float((heights[1:] + heights[:-1]).sum() / 2 / (len(heights) - 1))
