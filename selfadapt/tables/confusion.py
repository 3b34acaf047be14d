"""What became of the labels, from labels.parquet: how many samples of each true class were given
each label in the end, and how much they weigh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from selfadapt.errors import BadInput, DamagedFile

_COLUMNS = ["true", "corrected", "weight"]


@dataclass(frozen=True, eq=False)
class Confusion:
    """[true, corrected]; a cell of `weights` in which no sample lies is nan."""

    classes: tuple[str, ...]
    counts: NDArray[np.int64]
    weights: NDArray[np.float64] | None

    def recovered(self) -> NDArray[np.float64]:
        """The share of each true class; nan for a class without samples."""
        of_class = self.counts.sum(axis=1, keepdims=True)
        shares = self.counts / np.maximum(of_class, 1)
        return np.where(of_class > 0, shares, np.nan)


def read_confusion(path: Path, classes: Sequence[str]) -> Confusion | None:
    """None where nobody knows the true labels."""
    try:
        table = pq.read_table(path, columns=_COLUMNS, partitioning=None)
    except (pa.ArrowException, OSError) as error:
        raise DamagedFile(f"{path} cannot be read: {error}") from None
    true, corrected = (_places(table[name], classes, path) for name in _COLUMNS[:2])
    known = (true >= 0) & (corrected >= 0)
    if not known.any():
        return None
    weight = np.asarray(table["weight"].to_numpy(), np.float64)[known]
    return count(true[known], corrected[known], weight, classes)


def count(
    true: NDArray[np.int64],
    corrected: NDArray[np.int64],
    weight: NDArray[np.float64],
    classes: Sequence[str],
) -> Confusion:
    size = len(classes)
    cell, shape = true * size + corrected, (size, size)
    counts = np.bincount(cell, minlength=size * size).reshape(shape)
    weights = None
    if not np.isnan(weight).any():
        sums = np.bincount(cell, weight, minlength=size * size).reshape(shape)
        weights = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return Confusion(tuple(classes), counts.astype(np.int64), weights)


def pool(of_runs: Sequence[Confusion]) -> Confusion:
    """All samples of all runs together."""
    if len({one.classes for one in of_runs}) > 1:
        raise BadInput("runs on different classes have no confusion in common")
    counts = sum((one.counts for one in of_runs[1:]), of_runs[0].counts)
    known = [one.weights * one.counts for one in of_runs if one.weights is not None]
    weights = None
    if len(known) == len(of_runs):
        sums = np.nansum(known, axis=0)
        weights = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return Confusion(of_runs[0].classes, counts, weights)


def _places(column: pa.ChunkedArray, classes: Sequence[str], path: Path) -> NDArray[np.int64]:
    """Labels are written as names, or as numbers where the classes are numbers."""
    places = {name: place for place, name in enumerate(classes)}
    given = [None if label is None else str(label) for label in column.to_pylist()]
    unknown = {label for label in given if label is not None} - places.keys()
    if unknown:
        raise DamagedFile(f"{path} names the class {min(unknown)!r}, which the run does not have")
    return np.array([-1 if label is None else places[label] for label in given], np.int64)
