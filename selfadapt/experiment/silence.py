"""When a run's model should not answer, measured at its end for the tables of a study."""

from __future__ import annotations

from typing import Any

import numpy as np

from selfadapt import selective
from selfadapt.engine.evaluate import Tick
from selfadapt.engine.machine import Machine
from selfadapt.engine.scores import Scored, main_score, scored
from selfadapt.engine.work import Parts
from selfadapt.methods import Method
from selfadapt.selective.summary import COVERAGES, summary


def silence_figures(
    method: Method,
    parts: Parts,
    machine: Machine,
    *,
    score: str,
    tick: Tick,
) -> dict[str, Any]:
    """On the test part: by `score` (auto: the method's own, else the softmax) what the summary says
    of it, and what thresholds from the calibration part would do; then by each score there is."""
    assert parts.test is not None and parts.test_labels is not None  # noqa: PT018
    of = scored(method, parts.test, machine, tick=tick)
    name = main_score(of.scores) if score == "auto" else score
    others = None
    if parts.others is not None:
        others = scored(method, parts.others, machine, tick=tick).scores
    told = summary(of.probs, of.scores, parts.test_labels, others)
    found = {"score": name, "calibration_error": told["calibration_error"]}
    found |= told["scores"][name]
    if len(parts.calibration):
        rows = parts.calibration
        held = scored(method, parts.train, machine, [name], rows, tick)
        found |= _as_promised(held, of, name, parts.test_labels)
    for other, figures in told["scores"].items():
        found |= {f"{figure}_by_{other}": value for figure, value in figures.items()}
    return found


def _as_promised(held: Scored, of: Scored, name: str, labels: Any) -> dict[str, Any]:
    """What a user gets who asks for a coverage: the threshold is set on other samples."""
    right = of.probs.argmax(axis=1) == labels
    found: dict[str, Any] = {}
    for asked in COVERAGES:
        level = selective.threshold_for_coverage(held.scores[name], asked)
        here, risk = (
            selective.coverage(of.scores[name], level),
            selective.risk(of.scores[name], right, level),
        )
        found[f"held_out_coverage_at_{round(100 * asked)}"] = here
        found[f"held_out_error_at_{round(100 * asked)}"] = None if np.isnan(risk) else risk
    return found
