"""labels.parquet: one line a training sample, in row order, with what was given and what is now
believed."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float32]


def class_values(classes: Sequence[str]) -> Sequence[str] | Sequence[int]:
    """Labels leave as they came: as numbers where the classes were numbers, else as names."""
    numbers = [str(number) for number in range(len(classes))]
    return list(range(len(classes))) if list(classes) == numbers else list(classes)


def labels_table(
    *,
    ids: Sequence[str],
    classes: Sequence[str],
    given: IntArray,
    true: IntArray | None,
    parts: Mapping[str, IntArray],
    rows: IntArray,
    beliefs: FloatArray,
    weights: FloatArray | None,
) -> pa.Table:
    """`rows` are the samples that trained, with one line of `beliefs` each; other rows get null
    where nothing is known. `parts` names the rows that did not train: validation, quarantined."""
    n = len(given)
    at_rows = np.arange(len(rows))
    corrected = np.full(n, -1, np.int64)
    corrected[rows] = beliefs.argmax(axis=1)
    values = class_values(classes)
    part = np.full(n, "train", object)
    for name, members in parts.items():
        part[members] = name
    belief_given = beliefs[at_rows, given[rows]]

    def spread(known: FloatArray) -> pa.Array:
        column = np.zeros(n, np.float32)
        column[rows] = known
        return pa.array(column, mask=corrected < 0)

    none: FloatArray = np.full(len(rows), np.nan, np.float32)
    columns: dict[str, Any] = {
        "row": pa.array(np.arange(n)),
        "id": pa.array([str(i) for i in ids]),
        "part": pa.array(part.tolist()),
        "given": _named(given, values),
        "corrected": _named(corrected, values),
        "belief_given": spread(belief_given),
        "belief_corrected": spread(beliefs.max(axis=1)),
        "weight": spread(none if weights is None else weights),
        "suspicion": spread(1 - belief_given),
        "true": _named(np.full(n, -1) if true is None else true, values),
    }
    if weights is None:
        columns["weight"] = pa.nulls(n, pa.float32())
    return pa.table(columns)


def _named(indices: IntArray, values: Sequence[str] | Sequence[int]) -> pa.Array:
    known = pa.array(indices, mask=indices < 0)
    return pa.array(values).take(known)


def to_bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()
