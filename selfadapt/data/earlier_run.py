"""A run's labels.parquet as a source: the samples of that run, under their corrected labels."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from selfadapt.data.labelled import LabelledData
from selfadapt.errors import BadInput, DamagedFile, SelfAdaptError

_COLUMNS = {"row", "id", "given", "corrected", "true"}


def settings(source: Any) -> dict[str, Any] | None:
    """How that run's data was loaded, if `source` is its labels.parquet."""
    if not isinstance(source, str | Path) or Path(source).name != "labels.parquet":
        return None
    path = Path(source).expanduser()
    about = path.with_name("run.json")
    if not os.path.isfile(about) or not set(read_labels(path).column_names) >= _COLUMNS:  # noqa: PTH113 - of any length
        return None
    found = _loading(about)
    if found.get("source") is None:
        raise BadInput(
            f"{source}: that run was trained on arrays from Python, so its samples are not at "
            "hand; join its labels to them by row"
        )
    return found


def original(settings_of_run: Mapping[str, Any]) -> Mapping[str, Any]:
    """How the samples themselves were loaded, however many rounds of labels lie between, as far as
    those runs are still there."""
    found = settings_of_run
    with suppress(SelfAdaptError):
        while (earlier := settings(found.get("source"))) is not None:
            found = earlier
    return found


def _loading(about: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(about.read_text(encoding="utf-8"))["settings"]["data"]
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{about} is not what a run writes there: {error!r}") from None
    return found


def read_labels(path: Path) -> pa.Table:
    """A run's labels.parquet."""
    again = (
        f"Put it back from a copy; or remove {path.with_name('result.json')}, and give the command "
        "of that run again"
    )
    try:
        return pq.read_table(path, partitioning=None)
    except FileNotFoundError:
        if not path.with_name("result.json").is_file():
            raise BadInput(
                f"{path} is not there: that run is not finished. Give its command again."
            ) from None
        raise BadInput(f"{path} is missing. {again}.") from None
    except (pa.ArrowException, OSError) as error:
        raise DamagedFile(f"{path} cannot be read ({error}). {again}.") from None


def relabelled(data: LabelledData, source: str | Path) -> LabelledData:
    """The samples with that run's corrected labels; where it knew nothing, with those given."""
    table = read_labels(Path(source).expanduser())
    if table["id"].to_pylist() != list(data.ids):
        raise BadInput(f"{source} does not fit {data.name}, which has changed since that run")
    labels = _indices(pc.coalesce(table["corrected"], table["given"]), data.classes)
    known = table["true"].null_count == 0
    return replace(
        data,
        labels=labels,
        true_labels=_indices(table["true"], data.classes) if known else None,
        notes=(
            *data.notes,
            f"labels are those of {source}: {(labels != data.labels).sum():,} were corrected",
        ),
    )


def _indices(column: pa.ChunkedArray, classes: tuple[str, ...]) -> NDArray[np.int64]:
    names = pa.array(list(classes))
    found: NDArray[np.int64] = pc.index_in(column.cast(pa.string()), names).to_numpy()
    return found.astype(np.int64)
