"""Files to carry away: corrected labels, and predictions for other data."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from selfadapt.data.earlier_run import original, read_labels
from selfadapt.errors import BadInput
from selfadapt.labels_table import class_values, to_bytes
from selfadapt.rundir import RunDir, write_atomically

if TYPE_CHECKING:
    from selfadapt.engine.work import Show


def write_labels(run_path: Path, to: Path) -> str:
    """The corrected labels of a run, ready to be trained on or joined to the original table."""
    run = RunDir(run_path)
    _check_target(to)
    if run.status() != "done":
        raise BadInput(f"{run_path} holds no finished run, so there are no corrected labels yet")
    about = run.read_json(run.run_file)
    table = read_labels(run.labels_file)
    label = pc.coalesce(table["corrected"], table["given"])
    changed = pc.sum(pc.not_equal(label, table["given"])).as_py() or 0
    ids = _lasting_ids(table["id"].to_pylist(), about)
    columns = {about["data"]["id_name"]: pa.array(ids), "label": label}
    rest = ("given", "part", "belief_given", "belief_corrected", "weight", "suspicion", "true")
    columns |= {name: table[name] for name in rest if table[name].null_count < len(table)}
    _write(pa.table(columns), to)
    held = about["data"].get("held_out", 0)
    without = f"; without the {held:,} samples that were held out for testing" if held else ""
    return f"{len(table):,} labels, {changed:,} of them corrected, written to {to}{without}"


def _lasting_ids(ids: list[str], about: Mapping[str, Any]) -> list[str]:
    """Paths leave whole, so that the file can be read from any folder."""
    if about["data"]["id_name"] != "path":
        return ids
    loading = original(about["settings"]["data"])
    if loading.get("source") is None:
        return ids
    base = Path(loading.get("root") or loading["source"])
    folder = base if base.is_dir() else base.parent
    return [str(folder / name) if (folder / name).exists() else name for name in ids]


def write_predictions(
    run_path: Path, data: str, to: Path, reading: Mapping[str, Any], show: Show
) -> str:
    """Class and probability of each sample of `data`, in its order."""
    from selfadapt.data.unlabelled import read_inputs
    from selfadapt.experiment import open_run

    _check_target(to)
    run = open_run(run_path)
    features = run.about["data"].get("features")
    found = read_inputs(
        data, run.shape, reading, lambda d, n, what: show(_event(what, d, n)), features
    )
    probs = run.probabilities(found.inputs, lambda d, n: show(_event("predicting", d, n)))
    probs[list(found.unreadable)] = np.nan
    unknown = np.isnan(probs).any(axis=1)
    classes = class_values(run.classes)
    best = np.nan_to_num(probs).argmax(axis=1)
    table = pa.table(
        {
            found.id_name: pa.array(found.ids),
            "prediction": pa.array(classes).take(pa.array(best, mask=unknown)),
            "probability": pa.array(np.nan_to_num(probs).max(axis=1), mask=unknown),
        }
    )
    _write(table, to)
    left_out = f"; {unknown.sum()} could not be read and are empty" if unknown.any() else ""
    return f"{len(table):,} predictions written to {to}{left_out}"


def _event(what: str, done: int, total: int) -> dict[str, Any]:
    return {"what": what, "done": done, "total": total}


def _check_target(to: Path) -> None:
    if to.suffix not in (".csv", ".parquet"):
        raise BadInput(f"--to takes a .csv or a .parquet file, got {str(to)!r}")
    if to.is_dir():
        raise BadInput(f"{str(to)!r} is a folder; name a file to write")
    if not to.parent.is_dir():
        raise BadInput(f"there is no folder {str(to.parent)!r} to write {to.name} into")


def _write(table: pa.Table, to: Path) -> None:
    if to.suffix == ".parquet":
        write_atomically(to, to_bytes(table))
        return
    sink = io.BytesIO()
    pa_csv.write_csv(table, sink)
    write_atomically(to, sink.getvalue())
