"""Data sets of the Hugging Face hub, by the extra `hf`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from selfadapt.data import columns, table
from selfadapt.data.folder import TEST_NAMES
from selfadapt.data.part import Found, Wanted
from selfadapt.errors import BadInput


def read(name: str, wanted: Wanted) -> Found:
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        raise BadInput(f"hf:{name} is no name of a data set: give hf:OWNER/NAME")
    splits = _splits(name)
    first = next(iter(splits))
    train_name = "train" if "train" in splits else first
    test_name = next((each for each in TEST_NAMES if each in splits and each != train_name), None)
    table_of_train = _table(splits[train_name], name, wanted)
    found = columns.found(name.rsplit("/", 1)[-1], table_of_train, wanted)
    if test_name is None:
        return found
    rows = _table(splits[test_name], f"{name} ({test_name})", wanted)
    return replace(found, test=columns.test_part(rows, wanted, found.train))


def _splits(name: str) -> Mapping[str, Any]:
    try:
        import datasets
    except ImportError:
        raise BadInput(
            f"hf:{name} needs the Hugging Face library: pip install 'selfadapt[hf]'"
        ) from None
    try:
        splits: Mapping[str, Any] = datasets.load_dataset(name)
    except (OSError, ValueError, RuntimeError) as error:
        raise BadInput(f"hf:{name} cannot be loaded: {error}") from error
    return splits


def _table(split: Any, where: str, wanted: Wanted) -> table.Table:
    """Under the format `arrow` images stay encoded: struct<bytes, path>."""
    classes = {
        column: tuple(feature.names)
        for column, feature in split.features.items()
        if hasattr(feature, "names")
    }
    rows = split.with_format("arrow")[:]
    return table.Table(rows, f"hf:{where}", wanted.root or Path(), classes)
