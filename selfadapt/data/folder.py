"""A folder as a source: class folders, or a published layout with parts of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from selfadapt.data import cifar, columns, idx, table
from selfadapt.data.images import EXTENSIONS
from selfadapt.data.part import Found, Part, Wanted, some
from selfadapt.errors import BadInput

TEST_NAMES = ("test", "val", "valid", "validation")


def read_folder(folder: Path, wanted: Wanted) -> Found:
    if (found := read_published(folder, wanted)) is not None:
        return found
    wanted.refuse_columns(f"the folder {str(folder)!r}")
    return read_tree(folder)


def read_published(folder: Path, wanted: Wanted) -> Found | None:
    """Parquet shards, idx files or CIFAR's archives; None where it is a folder of images."""
    if shards := _shards(folder, "train"):
        return read_shards(folder, shards, wanted)
    return idx.read_folder(folder) or cifar.read_folder(folder, wanted.progress)


def _shards(folder: Path, part: str) -> list[Path]:
    """train.parquet, train-00000-of-00002.parquet, …; in data/ as on the Hugging Face hub."""
    here = sorted(folder.glob(f"{part}*.parquet"))
    return here or sorted((folder / "data").glob(f"{part}*.parquet"))


def read_as_on_hub(folder: Path, wanted: Wanted) -> Found | None:
    """A named set in Parquet, as the Hugging Face hub has it; its columns may hold other labels."""
    for each in (folder, folder / "plain_text"):
        if shards := _shards(each, "train"):
            return replace(read_shards(each, shards, wanted), name=folder.name)
    return None


def read_shards(folder: Path, shards: list[Path], wanted: Wanted) -> Found:
    found = columns.found(folder.name, table.read(shards, wanted), wanted)
    for name in TEST_NAMES:
        if others := _shards(folder, name):
            rows = table.read(others, wanted)
            return replace(found, test=columns.test_part(rows, wanted, found.train))
    return found


def read_tree(folder: Path) -> Found:
    """Class folders; or train/ and test/ (or val/) with class folders in each."""
    train_folder, test_folder = folder / "train", _test_folder(folder)
    if not (train_folder.is_dir() and _folders(train_folder)):
        train_folder, test_folder = folder, None
    train, classes, notes = _class_folders(train_folder, folder)
    if test_folder is None:
        return Found(folder.name, train, None, classes, notes, by_class=True)
    test, _, _ = _class_folders(test_folder, folder)
    return Found(folder.name, train, test, classes, notes, by_class=True)


def _test_folder(folder: Path) -> Path | None:
    """The first that has class folders: ImageNet's test/ has none, its val/ has."""
    named = (folder / name for name in TEST_NAMES)
    return next((each for each in named if each.is_dir() and _folders(each)), None)


def _folders(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.is_dir() and each.name[0] != ".")


def _class_folders(folder: Path, base: Path) -> tuple[Part, tuple[str, ...], tuple[str, ...]]:
    folders = _folders(folder)
    files: list[str] = []
    names: list[str] = []
    skipped: list[str] = []
    for each in folders:
        for file in _files(each):
            if Path(file).suffix.lower() in EXTENSIONS:
                files.append(file)
                names.append(_text(each.name))
            else:
                skipped.append(_text(Path(file).name))
    if not files:
        raise BadInput(_nothing_in(folder, folders, skipped))
    ids = [_text(Path(os.path.relpath(file, base)).as_posix()) for file in files]
    part = Part(list(files), np.array(names, np.str_), ids, "path")
    return part, tuple(sorted(set(names))), _note(skipped)


def every_image(folder: Path) -> Part:
    """All images below a folder, whatever folders they are in."""
    files = [file for file in _files(folder) if Path(file).suffix.lower() in EXTENSIONS]
    if not files:
        raise BadInput(f"There are no images in {str(folder)!r}")
    ids = [_text(Path(os.path.relpath(file, folder)).as_posix()) for file in files]
    return Part(list(files), np.zeros(len(files), np.int64), ids, "path")


def _files(folder: Path) -> Iterator[str]:
    for at, folders, files in os.walk(folder, followlinks=True, onerror=_stop):
        folders[:] = sorted(name for name in folders if name[0] != ".")
        yield from (os.path.join(at, name) for name in sorted(files) if name[0] != ".")  # noqa: PTH118 — a million of them


def _stop(error: OSError) -> None:
    """A folder that cannot be listed must not be left out in silence."""
    raise error


def _text(name: str) -> str:
    """A file name that is no UTF-8 must still fit into a table."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _note(skipped: list[str]) -> tuple[str, ...]:
    if not skipped:
        return ()
    files = f"{len(skipped):,} files are" if len(skipped) > 1 else "1 file is"
    return (f"{files} no image by the extension and left out: {some(skipped)}",)


def _nothing_in(folder: Path, folders: list[Path], skipped: list[str]) -> str:
    loose = [file.name for file in sorted(folder.iterdir()) if not file.name.startswith(".")]
    if folders:
        others = f"; they hold {some(skipped)}" if skipped else ""
        return f"The class folders in {str(folder)!r} hold no images{others}"
    if not loose:
        return f"The folder {str(folder)!r} is empty"
    return (
        f"{str(folder)!r} has no class folders, only {some(loose)}. Put the images of each class "
        "into a folder of its own, or give a CSV or Parquet file with paths and labels."
    )
