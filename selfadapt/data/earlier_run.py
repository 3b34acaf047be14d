"""A run's labels.parquet as a source: the samples of that run, under their corrected labels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from selfadapt.data.labelled import LabelledData
from selfadapt.errors import BadInput

_COLUMNS = {"row", "id", "given", "corrected", "true"}


def settings(source: Any) -> dict[str, Any] | None:
    """How that run's data was loaded, if `source` is its labels.parquet."""
    if not isinstance(source, str | Path) or Path(source).name != "labels.parquet":
        return None
    about = Path(source).expanduser().with_name("run.json")
    if not about.is_file() or not set(pq.read_schema(source).names) >= _COLUMNS:
        return None
    found: dict[str, Any] = json.loads(about.read_text(encoding="utf-8"))["settings"]["data"]
    if found.get("source") is None:
        raise BadInput(
            f"{source}: that run was trained on arrays from Python, so its samples are not at "
            "hand; join its labels to them by row"
        )
    return found


def relabelled(data: LabelledData, source: str | Path) -> LabelledData:
    """The samples with that run's corrected labels; where it knew nothing, with those given."""
    table = pq.read_table(source, columns=sorted(_COLUMNS))
    if table["id"].to_pylist() != list(data.ids):
        raise BadInput(f"{source} does not fit {data.name}, which has changed since that run")
    labels = _indices(pc.coalesce(table["corrected"], table["given"]), data.classes)
    known = table["true"].null_count == 0
    return replace(
        data,
        labels=labels,
        true_labels=_indices(table["true"], data.classes) if known else None,
        notes=(*data.notes, f"{(labels != data.labels).sum():,} labels are those of {source}"),
    )


def _indices(column: pa.ChunkedArray, classes: tuple[str, ...]) -> NDArray[np.int64]:
    names = pa.array(list(classes))
    found: NDArray[np.int64] = pc.index_in(column.cast(pa.string()), names).to_numpy()
    return found.astype(np.int64)
