"""Which reader a source goes to."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from selfadapt.data import arrays, columns, folder, hub, table
from selfadapt.data.part import Found, Part, Wanted
from selfadapt.data.sources import find, names
from selfadapt.errors import BadInput, unknown


def read(source: Any, wanted: Wanted) -> Found:
    if isinstance(source, Path):
        return _path(source, wanted)
    if isinstance(source, str):
        return _text(source, wanted)
    if isinstance(source, Mapping):
        return arrays.read_arrays(source, wanted)
    if isinstance(source, tuple) and len(source) in (2, 4):
        keys = ("x", "y", "x_test", "y_test")
        return arrays.read_arrays(dict(zip(keys, source, strict=False)), wanted)
    raise BadInput(
        f"cannot read data from {type(source).__name__}: give a path, a name, (x, y), "
        "(x, y, x_test, y_test) or a mapping with the keys x and y"
    )


def read_unlabelled(source: str | Path, wanted: Wanted) -> Part:
    """The samples of a source that need not have labels: of a name its test part, of a folder with
    parts the training part."""
    path = Path(source).expanduser()
    if is_name(source):
        found = read(source, wanted)
        return found.test or found.train
    if not _is_there(path):
        return read(source, wanted).train
    if path.is_dir():
        published = folder.read_published(path, wanted)
        return folder.every_image(path) if published is None else published.train
    if path.suffix.lower() == ".npz":
        return arrays.unlabelled(path, wanted)
    if path.suffix.lower() in (".csv", ".parquet"):
        return columns.unlabelled(table.read([path], wanted), wanted)[0]
    return read(path, wanted).train


def is_name(source: Any) -> bool:
    return isinstance(source, str) and (source.startswith("hf:") or find(source) is not None)


def _text(source: str, wanted: Wanted) -> Found:
    if source.startswith("hf:"):
        return hub.read(source.removeprefix("hf:"), wanted)
    if not source:
        raise BadInput("the name of the data is empty: give a path or a name")
    path = Path(source).expanduser()
    if (reader := find(source)) is not None:
        found = None if wanted.root is None else folder.read_as_on_hub(wanted.root / source, wanted)
        if found is None:
            wanted.refuse_columns(source)
        return _noted(found or reader(wanted), source)
    if _is_there(path) or path.suffix or len(path.parts) > 1:
        return _path(path, wanted)
    raise unknown("data source, and no such file or folder:", source, [*names(), "hf:OWNER/NAME"])


def _noted(found: Found, name: str) -> Found:
    """A folder of the same name may be what was meant."""
    if not Path(name).exists():
        return found
    told = f"{name} is the data set of this name; what lies here under this name is ./{name}"
    return replace(found, notes=(*found.notes, told))


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # a name that is too long, a folder that may not be entered
        shown = reprlib.repr(str(path))
        raise BadInput(f"{shown} cannot be read: {error.strerror or error}") from None


def _path(path: Path, wanted: Wanted) -> Found:
    try:
        return _existing(path.expanduser(), wanted)
    except OSError as error:
        raise BadInput(
            f"{error.filename or path} cannot be read: {error.strerror or error}"
        ) from error


def _existing(path: Path, wanted: Wanted) -> Found:
    if not _is_there(path):
        raise BadInput(f"There is no file or folder {str(path)!r} (looked at {path.absolute()})")
    if path.is_dir():
        return folder.read_folder(path, wanted)
    if path.suffix.lower() == ".npz":
        return arrays.read_npz(path, wanted)
    if path.suffix.lower() in (".csv", ".parquet"):
        return columns.found(path.stem, table.read([path], wanted), wanted)
    raise BadInput(f"{path}: cannot read this kind of file. Give .csv, .parquet or .npz.")


def read_test(source: str | Path, wanted: Wanted, train: Part) -> Part:
    """A test set given apart; like a test part, it may lack the column of noisy labels."""
    path = Path(source).expanduser()
    if path.suffix.lower() in (".csv", ".parquet") and _is_there(path):
        wanted = replace(wanted, features=train.features)
        return columns.test_part(table.read([path], wanted), wanted, train)
    return read(source, wanted).train
