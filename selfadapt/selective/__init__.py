"""Selective prediction over arrays, for anybody's model: how the error falls as fewer samples are
answered, thresholds that keep a promise, and scores to rank by.

Everywhere a higher score means rather not say, and a sample is answered where its score is at most
the threshold. A score that is NaN is never answered, and counts as a sample all the same. Samples
of equal score are answered together or not at all; where a share of them has to be taken, as for
the error at a given coverage, it is what a random choice among them gives on average."""

from __future__ import annotations

from selfadapt.selective.curves import (
    RiskCoverage,
    augrc,
    aurc,
    excess_aurc,
    risk_at_coverage,
    risk_coverage,
)
from selfadapt.selective.measures import (
    answered,
    auroc,
    calibration_error,
    class_coverage,
    coverage,
    risk,
)
from selfadapt.selective.scores import energy, entropy, margin, max_softmax, variance
from selfadapt.selective.thresholds import (
    Guarantee,
    conformal_threshold,
    risk_bound,
    threshold_for_cost,
    threshold_for_coverage,
    threshold_for_risk,
)

__all__ = [
    "Guarantee",
    "RiskCoverage",
    "answered",
    "augrc",
    "aurc",
    "auroc",
    "calibration_error",
    "class_coverage",
    "conformal_threshold",
    "coverage",
    "energy",
    "entropy",
    "excess_aurc",
    "margin",
    "max_softmax",
    "risk",
    "risk_at_coverage",
    "risk_bound",
    "risk_coverage",
    "threshold_for_cost",
    "threshold_for_coverage",
    "threshold_for_risk",
    "variance",
]
