"""Thresholds, from samples that neither trained nor chose the model."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from selfadapt.errors import BadInput
from selfadapt.selective._given import ends, inside, scores, share, with_correct

NOTHING = float("-inf")  # the threshold that answers no sample


@dataclass(frozen=True)
class Guarantee:
    """A threshold whose error stays at or below `bound` on new samples of the same kind, but for a
    chance of at most 1 − confidence."""

    threshold: float | None  # None where none reaches the risk asked for
    bound: float | None
    coverage: float  # share of these samples that it answers
    best_risk: float  # the lowest risk that one could be found for


def threshold_for_coverage(score: ArrayLike, coverage: float) -> float:
    """The least threshold that answers at least this share of these samples, or all that can be
    answered; equal scores may make it more. Of coverage 0, one that answers nothing."""
    of = np.sort(scores(score))
    known = int((~np.isnan(of)).sum())
    count = min(math.ceil(share(coverage, "coverage") * len(of) - 1e-9), known)
    return float(of[count - 1]) if count else NOTHING


def threshold_for_cost(score: ArrayLike, correct: ArrayLike, abstain: float) -> float:
    """The threshold of least cost on these samples, where a wrong answer costs 1, a right one
    nothing, and none at all `abstain`. Of equals, the one that answers most."""
    of, right = with_correct(score, correct)
    price = share(abstain, "abstain")
    order = np.argsort(of, kind="stable")
    last = ends(of[order])
    last = last[~np.isnan(of[order][last])]
    cost = np.cumsum(~right[order])[last] - price * (last + 1)  # over that of answering nothing
    if not len(last) or cost.min() > 1e-9:
        return NOTHING
    best = np.flatnonzero(cost <= cost.min() + 1e-9)[-1]
    return float(of[order][last[best]])


def threshold_for_risk(
    score: ArrayLike, correct: ArrayLike, risk: float, confidence: float = 0.95
) -> Guarantee:
    """As wide a coverage as is found at which the error on new samples is at most `risk`, with this
    confidence: selection with guaranteed risk (Geifman & El-Yaniv 2017, algorithm 2), a search by
    halves in which each look may be mistaken with an equal share of 1 − confidence. Unlike theirs
    it turns back from sets so small that not even a faultless one would do. The promise is for
    samples drawn like these, and needs these to be new to the model."""
    of, right = with_correct(score, correct)
    wanted, delta = share(risk, "risk"), 1 - inside(confidence, "confidence")
    order = np.argsort(of, kind="stable")
    ordered, errors = of[order], np.cumsum(~right[order])
    known = int((~np.isnan(of)).sum())
    if not known:
        return Guarantee(None, None, 0.0, 1.0)
    delta /= math.ceil(math.log2(known + 1))  # of the looks that a search by halves may take

    @functools.cache
    def look(size: int) -> _Look:
        count = int(np.searchsorted(ordered, ordered[size - 1], side="right"))  # all of its score
        bound = risk_bound(int(errors[count - 1]), count, delta)
        return _Look(float(ordered[size - 1]), bound, count / len(of))

    found, best = _widest(look, wanted, delta, known), _lowest(look, delta, known)
    if found is None:
        return Guarantee(None, None, 0.0, best)
    return Guarantee(found.threshold, found.bound, found.coverage, best)


class _Look(NamedTuple):
    threshold: float
    bound: float
    coverage: float


def _widest(look: Callable[[int], _Look], risk: float, delta: float, known: int) -> _Look | None:
    """By halves over all sizes, so that the looks for one risk are those for another as far as they
    agree. A set too small for even a faultless one to do is no reason to look at smaller ones."""
    least, most, found, enough = 1, known, None, _smallest(risk, delta, known)
    while least <= most:
        size = (least + most + 1) // 2
        one = look(size)
        if one.bound <= risk:
            found = one
        if one.bound <= risk or size < enough:
            least = size + 1
        else:
            most = size - 1
    return found


def _lowest(look: Callable[[int], _Look], delta: float, known: int) -> float:
    """The lowest risk that the search finds a threshold for, to a thousandth of a percent."""
    below, reached = 0.0, 1.0
    while reached - below > 1e-5:
        middle = (below + reached) / 2
        if _widest(look, middle, delta, known) is None:
            below = middle
        else:
            reached = middle
    return reached


def _smallest(risk: float, delta: float, known: int) -> int:
    """How many answers without an error it takes to promise this risk; more than there are, if
    they are too few."""
    if risk <= 0:
        return known + 1
    return 1 if risk >= 1 else max(1, math.ceil(math.log(delta) / math.log1p(-risk)))


def risk_bound(errors: int, answers: int, delta: float) -> float:
    """What the true risk exceeds with a chance of at most delta, after so many errors among so many
    answers: the inverse of the binomial tail (Clopper & Pearson 1934)."""
    from scipy.special import betaincinv  # slow to import, and used here only

    inside(delta, "delta")
    if not (0 <= errors <= answers and float(errors).is_integer() and float(answers).is_integer()):
        raise BadInput(f"there cannot be {errors} errors among {answers} answers")
    return 1.0 if errors == answers else float(betaincinv(errors + 1, answers - errors, 1 - delta))


def conformal_threshold(score: ArrayLike, confidence: float) -> float:
    """What the score of a new sample is at or below with this confidence (split conformal
    prediction): of 1 − p of the true class, the classes whose 1 − p is at or below it are a set
    that holds the true one as often. Infinite where there are too few samples for that."""
    of = np.sort(scores(score))
    count = math.ceil((len(of) + 1) * inside(confidence, "confidence") - 1e-9)
    found = of[count - 1] if count <= len(of) else math.inf
    return math.inf if math.isnan(found) else float(found)
