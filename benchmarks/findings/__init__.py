"""What the paper found, asked again of any runs: each finding is a function of rows that answers
yes or no with its figures, or None where the rows cannot tell."""

from __future__ import annotations

from collections.abc import Sequence

from findings.accuracy import (
    average_matters_most,
    early_stopping_hurts,
    insensitive,
    nothing_above_sat,
    sat_above_early_stopping,
    sat_above_erm,
)
from findings.curves import (
    erm_descends_twice,
    fewer_clean_errors,
    generalises_better,
    levels_off,
    sat_descends_once,
)
from findings.labels import labels_recovered, same_noise, weights_tell
from findings.verdict import Finding, Verdict
from selfadapt.tables import Row

__all__ = ["FINDINGS", "Verdict", "judge", "same_noise"]

_MAIN = (sat_above_erm, sat_above_early_stopping, nothing_above_sat)
_CURVES = (levels_off, early_stopping_hurts)
_DESCENT = (erm_descends_twice, sat_descends_once)
FINDINGS: dict[str, tuple[Finding, ...]] = {
    "cifar-noise": _MAIN,
    "cifar10-10k": (*_MAIN, labels_recovered),
    "accuracy-curves": _CURVES,
    "accuracy-curves-10k": _CURVES,
    "generalisation": (generalises_better, fewer_clean_errors),
    "double-descent-width": _DESCENT,
    "double-descent-epochs": _DESCENT,
    "ablation": (average_matters_most,),
    "sensitivity": (insensitive,),
    "sensitivity-more": (insensitive,),
    "sce": (nothing_above_sat,),
    "imagenet": (sat_above_erm, labels_recovered),
    "label-recovery": (labels_recovered, weights_tell),
    "human-labels": (sat_above_erm, labels_recovered),
}


def judge(study: str, rows: Sequence[Row]) -> list[Verdict]:
    """Every finding that this study bears on, and that its rows can tell."""
    asked = FINDINGS.get(study, ())
    return [verdict for finding in asked if (verdict := finding(rows)) is not None]
