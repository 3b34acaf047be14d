"""Tables as they are read from CSV and Parquet files."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from selfadapt.data import kept
from selfadapt.data.kept import Kept
from selfadapt.data.part import Wanted
from selfadapt.errors import BadInput

LABELS = ("label", "labels", "y", "target", "class", "given", "fine_label")


@dataclass(frozen=True)
class Table:
    """A table in memory, and where it came from."""

    rows: pa.Table
    where: str
    folder: Path  # what the paths in it are relative to
    classes: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of columns that declare any
    kept: Kept = field(default_factory=Kept)


def usual_label(names: Sequence[str], wanted: Wanted) -> str | None:
    """The column named by the user; else the first that is called as such columns are."""
    return wanted.label or next((name for name in LABELS if name in names), None)


def read(paths: Sequence[Path], wanted: Wanted) -> Table:
    """One file, or the Parquet shards of one set."""
    if paths[0].suffix.lower() == ".csv":
        return _read_csv(paths[0], wanted)
    return _read_parquet(paths, wanted)


def _read_csv(path: Path, wanted: Wanted) -> Table:
    """Columns that are read as text: labels, ids and paths. Other types are found by reading."""
    from pyarrow import csv as arrow_csv

    header, delimiter = _header(path)
    chosen = {usual_label(header, wanted), wanted.path, wanted.id, wanted.true, "id"}
    chosen -= set(wanted.features or ())
    types = {name: pa.string() for name in header if name in chosen}
    try:
        rows = arrow_csv.read_csv(
            path,
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(column_types=types),
        )
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInput(f"{path} is not a readable CSV file: {error}") from None
    return Table(rows, str(path), wanted.root or path.parent)


def _header(path: Path) -> tuple[list[str], str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            line = file.readline()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text: {error}. Save it as UTF-8.") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    if not line.strip():
        raise BadInput(f"{path} is empty; its first line must name the columns")
    delimiter = max(",;\t", key=line.count)
    names = next(csv.reader([line], delimiter=delimiter))
    if len(set(names)) != len(names):
        raise BadInput(f"{path}: two columns have the same name: {', '.join(names)}")
    return names, delimiter


def _read_parquet(paths: Sequence[Path], wanted: Wanted) -> Table:
    import pyarrow.parquet as pq

    tables = []
    for path in paths:
        try:
            tables.append(pq.read_table(path, partitioning=None))
        except (pa.ArrowException, OSError) as error:
            raise BadInput(f"{path} is not a readable Parquet file: {error}") from None
    try:
        rows = pa.concat_tables(tables)
    except pa.ArrowInvalid as error:
        raise BadInput(f"The parts of {paths[0]} have different columns: {error}") from None
    metadata, folder = rows.schema.metadata or {}, wanted.root or paths[0].parent
    return Table(rows, str(paths[0]), folder, _declared(metadata), _kept(metadata, paths[0]))


def _kept(metadata: dict[bytes, bytes], path: Path) -> Kept:
    text = metadata.get(kept.NAME.encode())
    return Kept() if text is None else kept.from_text(text.decode(errors="replace"), str(path))


def _declared(metadata: dict[bytes, bytes]) -> dict[str, tuple[str, ...]]:
    """Class names as a Hugging Face data set declares them."""
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        return {
            name: tuple(feature["names"])
            for name, feature in features.items()
            if isinstance(feature, dict) and "names" in feature
        }
    except (KeyError, TypeError, ValueError):
        return {}
