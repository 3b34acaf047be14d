"""Files that say what becomes of labels: a matrix of probabilities, labels that people gave."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from selfadapt.errors import BadInput, unknown

IntArray = NDArray[np.int64]
_TRUE_NAMES = ("clean_label", "label")  # of the column that shows that the order is the same


def read_matrix(path: Path, num_classes: int) -> NDArray[np.float64]:
    if not path.is_file():
        raise BadInput(f"corruption.path: there is no file {str(path)!r}")
    try:
        if path.suffix == ".npy":
            read = np.load(path, allow_pickle=False)
        else:
            read = np.loadtxt(path, delimiter=",", ndmin=2)
        chances = np.asarray(read, np.float64)
    except (ValueError, OSError, EOFError) as error:
        raise BadInput(
            f"{path} is not a matrix of numbers (.csv without a header, or .npy): {error}"
        ) from None
    if chances.shape != (num_classes, num_classes):
        raise BadInput(
            f"{path} holds a matrix of {' × '.join(map(str, chances.shape))}, but there are "
            f"{num_classes} classes: give {num_classes} rows of {num_classes} probabilities"
        )
    sums = chances.sum(axis=1)
    if not (np.isfinite(chances).all() and (chances >= 0).all() and np.allclose(sums, 1)):
        worst = int(np.abs(np.nan_to_num(sums, nan=-1.0) - 1).argmax())
        raise BadInput(
            f"{path}: every row must hold probabilities that sum to 1; row {worst} is "
            f"{chances[worst].tolist()}"
        )
    return chances


def read_column(path: Path, column: str, labels: IntArray, num_classes: int) -> IntArray:
    """The labels in one column of a file, which must be in the order of the set."""
    if not path.is_file():
        raise BadInput(f"corruption.path: there is no file {str(path)!r}")
    columns = _columns(path)
    if column not in columns:
        raise unknown(f"column of {path}", column, columns)
    found = np.asarray(columns[column])
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise BadInput(f"{path}, column {column!r}: labels must be class numbers")
    if len(found) < len(labels):
        raise BadInput(f"{path} has {len(found):,} labels, the set has {len(labels):,} samples")
    if len(found) and (found.min() < 0 or found.max() >= num_classes):
        raise BadInput(
            f"{path}, column {column!r}: labels go from {found.min()} to {found.max()}, but there "
            f"are {num_classes} classes"
        )
    _check_order(path, column, columns, labels)
    return found[: len(labels)].astype(np.int64)


def _check_order(path: Path, column: str, columns: Mapping[str, Any], labels: IntArray) -> None:
    for name in _TRUE_NAMES:
        if name in columns and name != column:
            true = np.asarray(columns[name])[: len(labels)]
            if not (true == labels).all():
                raise BadInput(
                    f"{path}: its column {name!r} is not what this set's samples are labelled "
                    "with, so it is of another set or in another order"
                )
            return


def _columns(path: Path) -> Mapping[str, Any]:
    try:
        if path.suffix == ".parquet":
            plain = [f.name for f in pq.read_schema(path) if pa.types.is_integer(f.type)]
            return {n: c.to_numpy() for n, c in _named(pq.read_table(path, columns=plain))}
        if path.suffix == ".csv":
            return {n: np.array(c.to_pylist()) for n, c in _named(pa_csv.read_csv(path))}
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as saved:
                return {name: saved[name] for name in saved.files}
        if path.suffix == ".pt":
            return _saved_by_torch(path)
    except (pa.ArrowInvalid, ValueError, OSError, EOFError, RuntimeError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None
    raise BadInput(f"{path}: labels are read from .parquet, .csv, .npz or .pt files")


def _named(table: pa.Table) -> list[tuple[str, Any]]:
    return list(zip(table.column_names, table.columns, strict=True))


def _saved_by_torch(path: Path) -> Mapping[str, Any]:
    """CIFAR-N's files: a dict of arrays. Of what a pickle may do, only making arrays is allowed."""
    make: Any = importlib.import_module("numpy._core.multiarray")._reconstruct
    allowed = [make, (make, "numpy.core.multiarray._reconstruct"), np.ndarray, np.dtype]
    allowed += [type(np.dtype(name)) for name in ("int64", "int32", "uint8", "float64")]
    try:
        with torch.serialization.safe_globals(allowed):
            content = torch.load(path, weights_only=True)
    except UnpicklingError:  # whose text advises to load it unsafely
        raise ValueError("it holds more than plain arrays") from None
    if not isinstance(content, Mapping):
        raise ValueError("it does not hold named columns")
    return {str(name): np.asarray(values) for name, values in content.items()}
