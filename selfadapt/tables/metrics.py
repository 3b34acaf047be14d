"""Every figure that a table or a picture may ask for by name: what it is in words, and how it
follows from result.json and log.jsonl. Values are fractions; percent are for readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from selfadapt import errors
from selfadapt.selective.scores import SCORES
from selfadapt.selective.summary import COVERAGES
from selfadapt.tables.row import Curve, Row

Unit = Literal["share", "times", "number"]


@dataclass(frozen=True)
class Metric:
    """`of` takes what `needs` names, in that order; without it, it is read as it stands."""

    words: str
    short: str = ""  # beside others of the same noun
    noun: str = "accuracy"
    unit: Unit = "share"
    epoch: str = "last epoch"
    needs: tuple[str, ...] = ()
    of: Callable[..., float] | None = None


def _complement(share: float) -> float:
    return 1 - share


def _difference(one: float, other: float) -> float:
    return one - other


_SHARES = [round(100 * coverage) for coverage in COVERAGES]
_BY_SCORE = {
    **{f"error_at_{x}": (f"error where {x} % are answered", f"{x} %", "error") for x in _SHARES},
    "aurc": ("area under error against coverage", "AURC", "area"),
    "excess_aurc": ("AURC above that of the best order", "excess", "area"),
    "augrc": ("area under answered and wrong", "AUGRC", "area"),
    "auroc_other": ("samples of another kind told apart (AUROC)", "AUROC", "AUROC"),
}
_SILENCE = {
    **{name: Metric(*words, epoch="") for name, words in _BY_SCORE.items()},
    **{
        f"{name}_by_{score}": Metric(f"{words}, by {score}", f"{short} {score}", noun, epoch="")
        for name, (words, short, noun) in _BY_SCORE.items()
        for score in SCORES
    },
    **{
        f"held_out_{what}_at_{x}": Metric(
            f"{what} by a threshold that was to answer {x} %", f"{x} % asked for", what, epoch=""
        )
        for what in ("error", "coverage")
        for x in _SHARES
    },
    "calibration_error": Metric("calibration error", "calibration", "error", epoch=""),
}
METRICS: dict[str, Metric] = {
    "accuracy": Metric("test accuracy", "test set"),
    "accuracy_best_validation": Metric(
        "test accuracy", "test set", epoch="epoch of the best noisy validation accuracy"
    ),
    "test_accuracy": Metric("test accuracy", "test set"),
    "test_error": Metric("test error", "test set", "error", needs=("accuracy",), of=_complement),
    "validation_accuracy": Metric("accuracy on the noisy validation set", "noisy validation set"),
    "validation_true_accuracy": Metric(
        "accuracy on the clean validation set", "clean validation set"
    ),
    "train_accuracy": Metric("accuracy on noisy batches in training", "noisy batches"),
    "train_true_accuracy": Metric("accuracy on clean batches in training", "clean batches"),
    "fitted": Metric("accuracy on the noisy training set", "noisy training set"),
    "fitted_true": Metric("accuracy on the clean training set", "clean training set"),
    "generalisation_error": Metric(
        "generalisation error",
        "noisy training minus noisy validation accuracy",
        "error",
        needs=("fitted", "validation_accuracy"),
        of=_difference,
    ),
    "clean_validation_error": Metric(
        "error on the clean validation set",
        "clean validation set",
        "error",
        needs=("validation_true_accuracy",),
        of=_complement,
    ),
    "untouched_right": Metric("right of the untouched training samples", "untouched", "right"),
    "corrupted_right": Metric("right of the corrupted training samples", "corrupted", "right"),
    "labels_right": Metric("training labels right", "labels right", "training labels"),
    "recovered": Metric(
        "training labels right",
        "labels right",
        "training labels",
        needs=("labels_right",),
        of=lambda right: right,
    ),
    "labels_changed": Metric("training labels changed", "labels changed", "training labels"),
    "error_rate": Metric("wrong training labels", "labels wrong", "training labels", epoch=""),
    **_SILENCE,
    "cost": Metric("training time relative to {baseline}", noun="time", unit="times", epoch=""),
}
_AS_LOGGED = {"accuracy": "test_accuracy"}


def metric(name: str) -> Metric:
    """Of a name that is not in METRICS, what can be said of any number."""
    words = name.replace("_", " ")
    return METRICS.get(name) or Metric(words, words, words, "number", epoch="")


def value(row: Row, name: str) -> float | None:
    """At the end of the run. `cost` depends on other runs: see cost.py."""
    wanted = metric(name)
    if wanted.of is None:
        return _stored(row, name)
    parts = [_stored(row, part) for part in wanted.needs]
    return None if None in parts else wanted.of(*parts)


def _stored(row: Row, name: str) -> float | None:
    found = row.results.get(name)
    if isinstance(found, int | float):
        return float(found)
    return row.last.get(name)


def curve(row: Row, name: str) -> list[float | None]:
    """Epoch by epoch; empty where the log does not know it."""
    wanted = metric(name)
    columns = [_column(row, part) for part in (wanted.needs or (name,))]
    if wanted.of is None:
        return list(columns[0])
    each = zip(*columns, strict=True) if all(columns) else []
    return [None if None in parts else wanted.of(*parts) for parts in each]


def _column(row: Row, name: str) -> Curve:
    return row.log.get(name) or row.log.get(_AS_LOGGED.get(name, name)) or ()


def logged(names: Iterable[str]) -> list[str]:
    """The columns of log.jsonl that these curves are made of."""
    parts = [part for name in names for part in (metric(name).needs or (name,))]
    return list(dict.fromkeys(_AS_LOGGED.get(part, part) for part in parts))


def check(names: Iterable[str], rows: Iterable[Row]) -> None:
    """Every name must be one of ours, or be in a run's files."""
    stored = {name for row in rows for name in (*row.results, *row.last, *row.log)}
    for name in names:
        if name not in METRICS and name not in stored:
            raise errors.unknown("metric", name, stored | METRICS.keys())
