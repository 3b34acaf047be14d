"""Columns of numbers as the features of samples: which ones, in what order, and what is in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from selfadapt.data.arrays import samples
from selfadapt.data.part import some
from selfadapt.data.table import Table
from selfadapt.errors import BadInput

Features = tuple[NDArray[Any], tuple[str, ...], tuple[str, ...]]  # x, its columns, what to tell

# What a run writes about its samples is no property of theirs.
_WRITTEN_BY_A_RUN = frozenset(
    (
        *("row", "label", "part", "given", "corrected", "belief_given", "belief_corrected"),
        *("weight", "suspicion", "true"),
    )
)


def written_by_a_run(names: list[str]) -> frozenset[str]:
    """The columns of a table that a run wrote: its labels.parquet, what `selfadapt labels` makes
    of it, or a table that either was joined to. None of any other table."""
    if not ({"given", "corrected"} <= set(names) or {"given", "belief_given"} <= set(names)):
        return frozenset()
    # `selfadapt labels` puts the id first, under its own name.
    first = names[:1] if names[1:3] == ["label", "given"] else []
    return _WRITTEN_BY_A_RUN.union(first)


def instead(table: Table) -> str:
    """What to do about a table that has only labels in it; empty for any other table."""
    if not written_by_a_run(table.rows.column_names):
        return ""
    return (
        " These are labels that a run wrote, without its samples: give that run's own "
        "labels.parquet (selfadapt fit RUN/labels.parquet), or join them to the table of samples."
    )


def choose(table: Table, candidates: list[str]) -> Features:
    """Every column of numbers among the candidates."""
    written = written_by_a_run(table.rows.column_names)
    others = [name for name in candidates if name not in written]
    chosen = tuple(name for name in others if _is_number(_type(table, name)))
    if not chosen:
        told = instead(table) or " Name the column of paths or encoded images: data.path=NAME."
        raise BadInput(
            f"{table.where} has neither images nor features. It has: "
            f"{', '.join(table.rows.column_names)}.{told}"
        )
    left = [name for name in others if name not in chosen]
    unused = f"; not used: {', '.join(left)}" if left else ""
    note = f"{len(chosen)} feature column{'s' if len(chosen) > 1 else ''}{unused}"
    return _read(table, chosen), chosen, (note,)


def by_name(table: Table, names: tuple[str, ...]) -> Features:
    """The columns that a model was trained on, in its order; others do not matter."""
    if missing := [name for name in names if name not in table.rows.column_names]:
        raise BadInput(
            f"{table.where} lacks {len(missing)} of the {len(names)} feature columns of the "
            f"training data: {some(missing)}. It has: {', '.join(table.rows.column_names)}."
        )
    for name in names:
        if not _is_number(kind := _type(table, name)):
            raise BadInput(
                f"{table.where}: column {name!r} is of type {kind}, but was of numbers in the "
                "training data"
            )
    return _read(table, names), names, ()


def _type(table: Table, name: str) -> pa.DataType:
    return table.rows.schema.field(name).type


def _is_number(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )


def _read(table: Table, names: tuple[str, ...]) -> NDArray[Any]:
    columns = [_numbers(table, name) for name in names]
    return samples(np.concatenate(columns, axis=1), table.where)


def _numbers(table: Table, name: str) -> NDArray[np.float64]:
    """A column as [N, 1], or [N, D] if it holds lists."""
    column: Any = table.rows[name].combine_chunks()
    if not pa.types.is_nested(column.type):
        return _floats(column)[:, None]
    flat = _floats(column.flatten())
    lengths = np.unique(np.asarray(column.value_lengths()))
    if len(lengths) != 1 or column.null_count or not lengths[0]:
        raise BadInput(f"{table.where}: the lists in column {name!r} are not of one length")
    return flat.reshape(len(column), -1)


def _floats(values: Any) -> NDArray[np.float64]:
    """Missing values as NaN."""
    floats: NDArray[np.float64] = values.cast(pa.float64(), safe=False).to_numpy(
        zero_copy_only=False
    )
    return floats
