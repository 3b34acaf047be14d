"""When a trained run should not answer: its scores compared, and a threshold set."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from selfadapt import errors, selective
from selfadapt.data.part import Progress
from selfadapt.engine.scores import SCORES, Scored, main_score
from selfadapt.errors import BadInput
from selfadapt.experiment.again import (
    HeldOut,
    calibration_part,
    left_out_inputs,
    other_data,
    own_test_part,
)
from selfadapt.experiment.run import Run, open_run
from selfadapt.rundir import write_atomically
from selfadapt.selective.summary import COVERAGES, summary

if TYPE_CHECKING:
    from selfadapt.engine.work import Show

_AT = 0.9  # the coverage that classes are compared at, where the run has no threshold


@dataclass(frozen=True)
class Evaluated:
    """What was found, and the files it was written to."""

    figures: dict[str, Any]
    curves: Mapping[str, selective.RiskCoverage]
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
    run = _finished(run_path)
    part = _part(run, data, reading or {}, own_test_part, show)
    of = run.scored(part.inputs, _wanted(scores, run), part.rows, _tick(show, "scoring"))
    chosen = _chosen(of, scores)
    labels = _labels(part, true_labels)
    others = None if against is None else _others(run, against, reading or {}, show).scores
    figures = {"part": part.name, "labels": "true" if true_labels else "given"}
    figures |= summary(of.probs, chosen, labels, others)
    figures |= _by_class(run, of, labels)
    known = ~np.isnan(of.probs).any(axis=1)
    right = of.probs[known].argmax(axis=1) == labels[known]
    curves = {name: selective.risk_coverage(score[known], right) for name, score in chosen.items()}
    return Evaluated(figures, curves, _write(run, figures, curves))


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
    for name in names:
        if name not in SCORES:
            raise errors.unknown("score", name, SCORES)
    threshold = run.threshold
    return (
        [*names, "abstain", "softmax", *([threshold["score"]] if threshold else [])]
        if names
        else None
    )


def _chosen(of: Scored, names: Sequence[str]) -> dict[str, Any]:
    for name in names:
        if name not in of.scores:
            raise BadInput(f"this run has no score {name!r}: {SCORES[name]}. {_there(of)}")
    return {name: of.scores[name] for name in names or of.scores}


def _there(of: Scored) -> str:
    return f"It has: {', '.join(of.scores)}."


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
    rows = np.setdiff1d(np.arange(len(found.inputs)), np.array(list(found.unreadable), np.int64))
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


def _write(
    run: Run, figures: Mapping[str, Any], curves: Mapping[str, selective.RiskCoverage]
) -> list[Path]:
    folder = run.files.evaluation
    folder.mkdir(exist_ok=True)
    points = {
        name: {"coverage": _some(of.coverage), "risk": _some(of.risk)}
        for name, of in curves.items()
    }
    text = json.dumps({**figures, "curves": points}, indent=1, allow_nan=False, ensure_ascii=False)
    write_atomically(folder / "selective.json", (text + "\n").encode())
    write_atomically(folder / "selective.md", as_markdown(figures).encode())
    return [folder / "selective.json", folder / "selective.md", *_draw(folder, curves)]


def _some(values: Any, most: int = 500) -> list[float]:
    """Enough points to draw the curve by, the last among them."""
    places = np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).astype(int))
    return [float(x) for x in values[places]]


def _draw(folder: Path, curves: Mapping[str, selective.RiskCoverage]) -> list[Path]:
    from selfadapt.tables.figures import style

    with style.look():
        figure, [axes] = style.panels(1, 1)
        entries = []
        for number, (name, of) in enumerate(curves.items()):
            drawn = {"color": style.COLOURS[number], "linestyle": style.DASHES[number % 4]}
            axes.plot(100 * of.coverage, 100 * of.risk, **drawn)
            entries.append((name, drawn))
        axes.set_xlabel("answered, %")
        axes.set_ylabel("wrong among those, %")
        style.legend(figure, entries)
        return style.save(figure, folder, "selective")


def lines(figures: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and lines of the table: a score each."""
    asked = [f"error_at_{round(100 * c)}" for c in COVERAGES]
    more = ["aurc", "excess_aurc", "augrc"]
    first = next(iter(figures["scores"].values()))
    more += ["auroc_other"] if "auroc_other" in first else []
    words = {"excess_aurc": "excess", "auroc_other": "AUROC"}
    header = ["score", *(name.rpartition("_")[2] + " %" for name in asked)]
    header += [words.get(name, name.upper()) for name in more]
    body = [
        [name, *(_percent(of[column]) for column in [*asked, *more])]
        for name, of in figures["scores"].items()
    ]
    return header, body


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f}"


def as_markdown(figures: Mapping[str, Any]) -> str:
    header, body = lines(figures)
    rows = [header, ["---", *["---:"] * (len(header) - 1)], *body]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    at = figures["at_threshold"]
    classes = "\n".join(f"| {name} | {_percent(x)} |" for name, x in at["class_coverage"].items())
    return (
        f"# When not to answer\n\nError of the answers, in percent, where so many of "
        f"{figures['samples']:,} samples are answered, the surest first by each score; areas times "
        f"100. Measured on {figures['part']}, labels as {figures['labels']}; calibration error "
        f"{_percent(figures['calibration_error'])} %.\n\n{table}\n\n"
        f"Answered of each class, in percent, by {at['score']} at a coverage of "
        f"{_percent(at['coverage'])} %:\n\n| class | answered |\n| --- | ---: |\n{classes}\n"
    )


def set_threshold(
    run_path: Path,
    *,
    coverage: float | None = None,
    risk: float | None = None,
    confidence: float = 0.95,
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
    run = _finished(run_path)
    part = _part(run, data, reading or {}, calibration_part, show)
    of = run.scored(
        part.inputs, _wanted([score] if score else [], run), part.rows, _tick(show, "scoring")
    )
    name = score or main_score(of.scores)
    values = _chosen(of, [name])[name]
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
