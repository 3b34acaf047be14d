"""Files to carry away: corrected labels, predictions for other data, and whole sets."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from selfadapt import corruption, recipe, signatures
from selfadapt.data import corrupt, load
from selfadapt.data.earlier_run import original, read_labels
from selfadapt.data.labelled import LabelledData
from selfadapt.data.part import Progress
from selfadapt.data.save import check_parquet, write_npz, write_parquet
from selfadapt.errors import BadInput
from selfadapt.labels_table import class_values, to_bytes
from selfadapt.rundir import RunDir, whole_file, write_atomically

if TYPE_CHECKING:
    from selfadapt.engine.work import Show


def write_labels(run_path: Path, to: Path) -> str:
    """The corrected labels of a run, ready to be trained on or joined to the original table."""
    run = RunDir(run_path)
    _check_target(to, run.path)
    if run.status() != "done":
        raise BadInput(f"{run_path} holds no finished run, so there are no corrected labels yet")
    about = run.read_json(run.run_file)
    _refuse_to_replace(about["settings"]["data"].get("source"), to)
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

    _check_target(to, run_path)
    _refuse_to_replace(data, to)
    run = open_run(run_path)
    _refuse_to_replace(run.about["settings"]["data"].get("source"), to)
    features = run.about["data"].get("features")
    found = read_inputs(
        data, run.shape, reading, lambda d, n, what: show(_event(what, d, n)), features
    )
    of = run.predictions(found.inputs, lambda d, n: show(_event("predicting", d, n)))
    probs = of.probs.copy()
    probs[list(found.unreadable)] = np.nan
    unknown = np.isnan(probs).any(axis=1)
    silent = ~run.answered(of) & ~unknown
    classes = class_values(run.classes)
    best = np.nan_to_num(probs).argmax(axis=1)
    columns = {
        found.id_name: pa.array(found.ids),
        "prediction": pa.array(classes).take(pa.array(best, mask=unknown | silent)),
        "probability": pa.array(np.nan_to_num(probs).max(axis=1), mask=unknown),
    }
    for name, score in of.scores.items():  # the one that decides, if there is a threshold
        columns[f"score_{name}"] = pa.array(score, mask=unknown)
    _write(pa.table(columns), to)
    told = f"; {silent.sum():,} of them empty, for there the model abstains" if silent.any() else ""
    told += f"; {unknown.sum()} could not be read and are empty" if unknown.any() else ""
    return f"{len(best):,} predictions written to {to}{told}"


def write_corrupted(
    source: str, to: Path, seed: int, settings: Mapping[str, Any], show: Show
) -> str:
    """A set as a run with these settings and this seed would see it."""
    asked = only(("data", "corruption"), settings)
    if "name" not in asked["corruption"]:
        kinds = ", ".join(kind for kind in corruption.names() if kind != "none")
        raise BadInput(f"no kind of noise is given: --set corruption.name=… ({kinds})")
    _check_set_target(to)

    def progress(done: int, total: int, what: str) -> None:
        show(_event(what, done, total))

    reading = signatures.bind(load, "data", asked["data"], skip=("progress",))
    before = load(source, **reading, progress=progress)
    noisy = corrupt(before, asked["corruption"].pop("name"), seed=seed, **asked["corruption"])
    save(noisy, to, progress)
    changed = int((noisy.labels != before.labels).sum())
    told = f"{changed:,} labels changed ({changed / len(noisy):.2%})"
    if noisy.noisy_images is not None:
        told = f"{noisy.noisy_images.sum():,} images changed"
    return f"{len(noisy):,} samples, {told}, written to {to}"


def only(tables: Sequence[str], settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings by table, where those of other tables would be lost."""
    asked = recipe.nest(settings)
    for table in asked:
        if asked[table] and table not in tables:
            raise BadInput(
                f"{table}.{next(iter(asked[table]))} is a setting of a run; here only those of "
                f"{' and '.join(tables)} count"
            )
    return asked


def save(data: LabelledData, to: str | os.PathLike[str], progress: Progress | None = None) -> None:
    """Write a set so that `load` and `fit` read the same again: labels, true labels, whose label or
    image was changed, inputs, ids, classes and the test part.

    to: an .npz file; or a folder, into which images of any number go as Parquet.
    """
    place = Path(to)
    _check_set_target(place)
    if place.suffix == ".npz":
        with whole_file(place) as file:
            write_npz(data, file)
        return
    parts = {"train.parquet": data} | ({} if data.test is None else {"test.parquet": data.test})
    for part in parts.values():
        check_parquet(part)
    place.mkdir(exist_ok=True)
    for name, part in parts.items():
        with whole_file(place / name) as file:
            write_parquet(part, file, progress)
    if data.test is None:
        (place / "test.parquet").unlink(missing_ok=True)  # of the set that was here before


def _check_set_target(to: Path) -> None:
    if to.suffix not in (".npz", ""):
        raise BadInput(f"a set is written to an .npz file or to a folder, not to {str(to)!r}")
    if not to.parent.is_dir():
        raise BadInput(f"there is no folder {str(to.parent)!r} to write {to.name} into")
    if to.suffix and to.is_dir():
        raise BadInput(f"{str(to)!r} is a folder; name a file to write")
    if not to.suffix and to.is_file():
        raise BadInput(f"{str(to)!r} is a file; name a folder, or a file that ends in .npz")
    here = [path.name for path in to.iterdir()] if to.is_dir() else []
    if others := sorted({*here} - {"train.parquet", "test.parquet"}):
        raise BadInput(f"the folder {str(to)!r} holds other things ({others[0]}): name a new one")


def _event(what: str, done: int, total: int) -> dict[str, Any]:
    return {"what": what, "done": done, "total": total}


def _refuse_to_replace(source: Any, to: Path) -> None:
    """The data that a run was made from is nobody's to lose."""
    if isinstance(source, str) and Path(source).exists() and to.exists() and to.samefile(source):
        raise BadInput(f"{str(to)!r} is the data itself, and would be lost; name another file")


def _check_target(to: Path, run: Path) -> None:
    if to.suffix not in (".csv", ".parquet"):
        raise BadInput(f"--to takes a .csv or a .parquet file, got {str(to)!r}")
    if to.is_dir():
        raise BadInput(f"{str(to)!r} is a folder; name a file to write")
    if not to.parent.is_dir():
        raise BadInput(f"there is no folder {str(to.parent)!r} to write {to.name} into")
    if to.resolve().is_relative_to(run.resolve()):
        raise BadInput(
            f"{str(to)!r} lies in the run directory, which holds its own files; "
            "name a file elsewhere"
        )


def _write(table: pa.Table, to: Path) -> None:
    if to.suffix == ".parquet":
        write_atomically(to, to_bytes(table))
        return
    sink = io.BytesIO()
    pa_csv.write_csv(table, sink)
    write_atomically(to, sink.getvalue())
