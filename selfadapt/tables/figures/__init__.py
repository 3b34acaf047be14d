"""Rows as pictures: the [[figure]] tables of a recipe. Nothing of pyplot's is used, so that no
state is shared with whoever draws pictures of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from selfadapt.errors import BadInput
from selfadapt.tables.figures import chart, matrix, style
from selfadapt.tables.figures.spec import Spec, checked
from selfadapt.tables.row import Row

__all__ = ["Drawn", "Spec", "draw", "make"]


@dataclass(frozen=True)
class Drawn:
    """The files written, none if there was nothing to draw, and what is missing in them."""

    files: list[Path]
    notes: list[str]


def draw(
    rows: Sequence[Row],
    spec: Mapping[str, Any],
    title: str = "",
    folder: str | os.PathLike[str] = ".",
) -> Drawn:
    """FOLDER/NAME.png, .svg and .pdf, the same bytes for the same rows. A title of the figure's own
    goes before `title`."""
    figure, notes = make(rows, spec, title)
    if figure is None:
        return Drawn([], notes)
    with style.look():
        return Drawn(style.save(figure, Path(folder), spec["name"]), notes)


def make(
    rows: Sequence[Row], spec: Mapping[str, Any], title: str = ""
) -> tuple[Figure | None, list[str]]:
    """The figure, and a sentence on everything that could not be drawn."""
    done = [row for row in rows if row.done]
    if not done:
        raise BadInput(f"none of these {len(rows)} runs is finished, so there is nothing to draw")
    found = checked(spec, done)
    with style.look():
        figure, notes = (matrix if found.kind == "matrix" else chart).draw(done, found)
        if figure is not None and (found.title or title):
            figure.suptitle(found.title or title, fontsize=11)
    if len(done) < len(rows):
        left = len(rows) - len(done)
        notes.append(f"figure {found.name}: {left} of {len(rows)} runs are not finished")
    return figure, notes
