"""When a trained run should not answer: its scores compared, and a threshold set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from selfadapt import errors, selective
from selfadapt.data.part import Progress
from selfadapt.engine.scores import Scored, main_score, scores_of
from selfadapt.errors import BadInput
from selfadapt.experiment.again import (
    HeldOut,
    calibration_part,
    left_out_inputs,
    other_data,
    own_test_part,
)
from selfadapt.experiment.run import Run, open_run
from selfadapt.selective.scores import SCORES
from selfadapt.selective.summary import summary
from selfadapt.tables import silence

if TYPE_CHECKING:
    from selfadapt.engine.work import Show

_CONFIDENCE = 0.95
_AT = 0.9  # the coverage that classes are compared at, where the run has no threshold


@dataclass(frozen=True)
class Evaluated:
    """What was found, and the files it was written to."""

    figures: dict[str, Any]
    files: list[Path]


def evaluate(
    run_path: Path,
    *,
    data: str | None = None,
    against: str | None = None,
    scores: Sequence[str] = (),
    reading: Mapping[str, Any] | None = None,
    true_labels: bool = False,
    show: Show,
) -> Evaluated:
    """Every score of a run on samples it did not train on. `against` names samples of another kind,
    which a good score tells apart. Table, figures and JSON go to RUN/evaluation."""
    if reading and data is None and against is None:
        raise BadInput("--set says how to read what --data or --against names: give one of them")
    run = _finished(run_path)
    part = _part(run, data, reading or {}, own_test_part, show)
    of = run.scored(part.inputs, _wanted(scores, run), part.rows, _tick(show, "scoring"))
    chosen = _chosen(run, of, scores)
    labels = _labels(part, true_labels)
    others = None if against is None else _others(run, against, reading or {}, show).scores
    figures = {"part": part.name, "labels": "true" if true_labels else "given"}
    figures |= summary(of.probs, chosen, labels, others)
    figures |= _by_class(run, of, labels)
    known = ~np.isnan(of.probs).any(axis=1)
    right = of.probs[known].argmax(axis=1) == labels[known]
    curves = {name: selective.risk_coverage(score[known], right) for name, score in chosen.items()}
    return Evaluated(figures, silence.write(run.files.evaluation, figures, curves))


def _finished(path: Path) -> Run:
    run = open_run(path)
    if run.files.status() != "done":
        raise BadInput(f"the run in {path} is not finished: give the command that started it again")
    return run


def _part(run: Run, data: str | None, reading: Mapping[str, Any], own: Any, show: Show) -> HeldOut:
    progress = _progress(show)
    found: HeldOut = (
        own(run, progress) if data is None else other_data(run, data, reading, progress)
    )
    return found


def _progress(show: Show) -> Progress:
    return lambda done, total, what: show({"what": what, "done": done, "total": total})


def _tick(show: Show, what: str) -> Any:
    return lambda done, total: show({"what": what, "done": done, "total": total})


def _wanted(names: Sequence[str], run: Run) -> list[str] | None:
    """What has to be scored: those asked for, and the one that the run abstains by."""
    _check(names)
    threshold = run.threshold
    more = [threshold["score"]] if threshold else []
    return [*names, "abstain", "softmax", *more] if names else None


def _check(names: Sequence[str]) -> None:
    for name in names:
        if name not in SCORES:
            raise errors.unknown("score", name, SCORES)


def _chosen(run: Run, of: Scored, names: Sequence[str]) -> dict[str, Any]:
    for name in names:
        if name not in of.scores:
            there = ", ".join(scores_of(run.method()))
            raise BadInput(f"this run has no score {name!r} ({SCORES[name]}). It has: {there}")
    return {name: of.scores[name] for name in names or of.scores}


def _labels(part: HeldOut, true_labels: bool) -> Any:
    if not true_labels:
        return part.labels
    if part.true is None:
        raise BadInput(f"of {part.name} no true labels are known: leave --true-labels out")
    return part.true


def _others(run: Run, source: str, reading: Mapping[str, Any], show: Show) -> Scored:
    from selfadapt.data.unlabelled import read_inputs

    if source == "left_out":
        inputs = left_out_inputs(run, _progress(show))
        return run.scored(inputs, tick=_tick(show, "scoring the others"))
    features = run.about["data"].get("features")
    found = read_inputs(source, run.shape, reading, _progress(show), features)
    rows = found.readable(source)
    return run.scored(found.inputs, None, rows, _tick(show, "scoring the others"))


def _by_class(run: Run, of: Scored, labels: Any) -> dict[str, Any]:
    """The share answered of each class, at the run's threshold or where nine tenths are."""
    threshold = run.threshold
    name = main_score(of.scores) if threshold is None else threshold["score"]
    score = of.scores[name]
    level = selective.threshold_for_coverage(score, _AT)
    if threshold is not None:
        level = threshold["threshold"]
    shares = selective.class_coverage(score, labels, level, len(run.classes))
    taken = selective.answered(score, level)
    wrong = of.probs.argmax(axis=1) != labels
    return {
        "at_threshold": {
            "score": name,
            "set": threshold is not None,
            "coverage": float(taken.mean()),
            "error": float(wrong[taken].mean()) if taken.any() else None,
            "class_coverage": {
                name: None if math.isnan(x) else float(x)
                for name, x in zip(run.classes, shares, strict=True)
            },
        }
    }


def set_threshold(
    run_path: Path,
    *,
    coverage: float | None = None,
    risk: float | None = None,
    confidence: float = _CONFIDENCE,
    cost: float | None = None,
    score: str | None = None,
    data: str | None = None,
    reading: Mapping[str, Any] | None = None,
    true_labels: bool = False,
    show: Show,
) -> dict[str, Any]:
    """Set when the run's predictions abstain, on samples that it neither trained on nor was chosen
    by; written into the run, unless no threshold reaches the risk asked for."""
    asked = {"coverage": coverage, "risk": risk, "cost": cost}
    by = [name for name, value in asked.items() if value is not None]
    if len(by) != 1:
        raise BadInput(
            "say what the threshold is for: --coverage 0.9, --risk 0.01 or --cost abstain=0.2"
            + (f"; got {' and '.join(by)}" if by else "")
        )
    if reading and data is None:
        raise BadInput("--set says how to read what --data names: give that too")
    if confidence != _CONFIDENCE and by != ["risk"]:
        raise BadInput("--confidence is that of the promise which --risk makes: leave it out")
    run = _finished(run_path)
    names = [score] if score else ["abstain", "softmax"]
    _check(names)
    part = _part(run, data, reading or {}, calibration_part, show)
    of = run.scored(part.inputs, names, part.rows, _tick(show, "scoring"))
    name = score or main_score(of.scores)
    values = _chosen(run, of, [name])[name]
    labels = _labels(part, true_labels)
    right = of.probs.argmax(axis=1) == labels
    found = _threshold(by[0], float(asked[by[0]] or 0), confidence, values, right)
    about = {
        "score": name,
        "by": {by[0]: asked[by[0]]} | ({"confidence": confidence} if by == ["risk"] else {}),
        **found,
        "samples": len(values),
        "part": part.name,
        "labels": "true" if true_labels else "given",
    }
    if found["threshold"] is not None:
        run.files.write_json(run.files.threshold_file, about)
    return about


def _threshold(by: str, asked: float, confidence: float, score: Any, right: Any) -> dict[str, Any]:
    if by == "risk":
        found = selective.threshold_for_risk(score, right, asked, confidence)
        level, more = found.threshold, {"bound": found.bound, "best_risk": found.best_risk}
    else:
        level = (
            selective.threshold_for_coverage(score, asked)
            if by == "coverage"
            else selective.threshold_for_cost(score, right, asked)
        )
        more = {}
    here = -math.inf if level is None else level
    error = selective.risk(score, right, here)
    return {
        "threshold": None if level is None else max(level, -np.finfo(np.float64).max),
        "coverage": selective.coverage(score, here),
        "error": None if math.isnan(error) else error,
        **more,
    }
