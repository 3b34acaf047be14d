"""What a reader hands to `load`: the samples of one part as they stand in the source, before
labels become numbers and images are decoded."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from selfadapt.data.labelled import Augment, Rows
from selfadapt.errors import BadInput

Encoded: TypeAlias = "list[str | bytes]"  # for each image its file, or its encoded bytes
Progress: TypeAlias = Callable[[int, int, str], None]  # (done, total, what)


@dataclass(frozen=True)
class Wanted:
    """What the user said about the layout of the source."""

    label: str | None = None
    path: str | None = None
    id: str | None = None
    true: str | None = None
    root: Path | None = None
    progress: Progress | None = None
    features: tuple[str, ...] | None = None  # the columns to use, in this order; None: any number

    def refuse_columns(self, where: str) -> None:
        """A setting that would be ignored is a misunderstanding."""
        for name in ("label", "path", "id", "true"):
            if (given := getattr(self, name)) is not None:
                raise BadInput(f"data.{name}={given!r} names a column, but {where} has none.")


@dataclass(frozen=True)
class Part:
    x: NDArray[Any] | Encoded
    y: NDArray[Any]  # whole numbers (int64) or class names, as `labels.clean` returns them
    ids: list[str]
    id_name: str = "row"
    true: NDArray[Any] | None = None
    features: tuple[str, ...] | None = None  # the columns that x was read from
    noisy_images: NDArray[np.bool_] | None = None  # as in LabelledData
    clean: NDArray[Any] | Encoded | None = None  # x before images were corrupted

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Rows) -> Part:
        chosen = rows.tolist()
        x, clean = _taken(self.x, rows), None if self.clean is None else _taken(self.clean, rows)
        true = None if self.true is None else self.true[rows]
        noisy = None if self.noisy_images is None else self.noisy_images[rows]
        ids = [self.ids[i] for i in chosen]
        kept = replace(self, x=x, y=self.y[rows], ids=ids, true=true)
        return replace(kept, noisy_images=noisy, clean=clean)


def _taken(x: NDArray[Any] | Encoded, rows: Rows) -> NDArray[Any] | Encoded:
    return [x[i] for i in rows.tolist()] if isinstance(x, list) else x[rows]


@dataclass(frozen=True)
class Found:
    """A source as read: its parts, and its class names where it declares them."""

    name: str
    train: Part
    test: Part | None = None
    classes: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    augment: Augment = "crop_flip"  # as in LabelledData
    by_class: bool = False  # rows stand class by class, so the first few are no sample of all
    size: int | None = None  # the side that a saved set's images were scaled to
    corrupted: tuple[str, ...] = ()  # as in LabelledData


def row_ids(count: int) -> list[str]:
    return [str(row) for row in range(count)]


def no_progress(done: int, total: int, what: str) -> None:
    pass


def nearest(given: Iterable[str], names: Iterable[str]) -> str:
    """A hint for a message: the one of `names` most like any of `given`; empty if none is."""
    pairs = [(difflib.SequenceMatcher(None, g, n.lower()).ratio(), n) for n in names for g in given]
    likeness, name = max(pairs, default=(0.0, ""))
    return f" Did you mean {name!r}?" if likeness >= 0.6 else ""


def some(things: list[str], most: int = 5) -> str:
    """A few of them, for a message: 'a', 'b' and 7 more."""
    more = f" and {len(things) - most:,} more" if len(things) > most else ""
    return ", ".join(repr(thing) for thing in things[:most]) + more


def numbered(rows: NDArray[Any]) -> str:
    """Rows for a message: row 3, or rows 3, 4, 8 and 7 more."""
    shown = ", ".join(str(int(row)) for row in rows[:5])
    more = f" and {len(rows) - 5:,} more" if len(rows) > 5 else ""
    return f"row{'s' if len(rows) > 1 else ''} {shown}{more}"


def first_true(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.flatnonzero(mask).astype(np.int64)
