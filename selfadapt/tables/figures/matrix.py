"""What became of each class: a panel a group of runs, all of their samples together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from selfadapt.errors import BadInput
from selfadapt.tables.confusion import Confusion, pool
from selfadapt.tables.figures import style
from selfadapt.tables.figures.chart import mixed_in
from selfadapt.tables.figures.spec import Spec
from selfadapt.tables.groups import groups
from selfadapt.tables.read import confusion_of
from selfadapt.tables.row import Row
from selfadapt.tables.words import said

_WRITTEN = 12  # classes, up to which each cell holds its number
_WORDS = {"recovered": "share of the true class, %", "weight": "mean weight"}
Matrix = NDArray[np.float64]


def draw(rows: Sequence[Row], spec: Spec) -> tuple[Figure | None, list[str]]:
    found: list[tuple[str, str, Matrix, Confusion]] = []
    notes: list[str] = []
    keys = [*spec.panels, *spec.lines]
    for values, members in groups(rows, keys):
        title = ", ".join(said(key, value) for key, value in zip(keys, values, strict=True))
        confusion = _pooled(members, title, spec, notes)
        if confusion is None:
            continue
        for y in spec.y:
            matrix = _values(confusion, y)
            if matrix is None:
                notes.append(f"figure {spec.name}: these runs weigh no samples ({title or 'all'})")
            else:
                found.append((title, y, matrix, confusion))
    if not found:
        return None, notes
    columns = len(spec.y) if len(spec.y) > 1 else min(len(found), 3)
    figure, axes = style.panels(len(found), min(columns, len(found)), share_y=False, size=1.5)
    for one, (title, y, matrix, confusion) in zip(axes, found, strict=True):
        _paint(figure, one, matrix, confusion.classes, y)
        style.title(one, ", ".join(filter(None, (title, _WORDS[y]))))
    return figure, notes


def _pooled(members: Sequence[Row], title: str, spec: Spec, notes: list[str]) -> Confusion | None:
    known = [found for row in members if (found := confusion_of(row)) is not None]
    if len(known) < len(members):
        notes.append(
            f"figure {spec.name}: of {len(members) - len(known)} of {len(members)} runs it is not "
            f"known which labels are true ({title or 'all'})"
        )
    differ = mixed_in(members, spec)
    if differ:
        notes.append(
            f"Warning: figure {spec.name}: a matrix holds runs that differ in {', '.join(differ)}"
        )
    try:
        return pool(known) if known else None
    except BadInput as error:
        notes.append(f"figure {spec.name}: {error} ({title or 'all'})")
        return None


def _values(confusion: Confusion, y: str) -> Matrix | None:
    """White where no sample lies, so a share of 0 is no share."""
    if y == "weight":
        return confusion.weights
    return np.where(confusion.counts > 0, 100 * confusion.recovered(), np.nan)


def _paint(figure: Figure, axes: Axes, matrix: Matrix, classes: Sequence[str], y: str) -> None:
    top = 100.0 if y == "recovered" else 1.0
    colours = colormaps["viridis"].with_extremes(bad="white")
    image = axes.imshow(np.ma.masked_invalid(matrix), cmap=colours, vmin=0, vmax=top)
    axes.grid(visible=False)
    axes.set_xlabel("label after training")
    axes.set_ylabel("true label")
    figure.colorbar(image, ax=axes, shrink=0.8)
    if len(classes) > _WRITTEN:
        return
    turned = 45 if max(map(len, classes)) > 2 else 0
    axes.set_xticks(range(len(classes)), classes, rotation=turned)
    axes.set_yticks(range(len(classes)), classes)
    for true, line in enumerate(matrix):
        for label, value in enumerate(line):
            if not np.isnan(value):
                text = f"{value:.1f}" if y == "recovered" else f"{value:.2f}"
                shade = "black" if value > 0.6 * top else "white"
                axes.text(label, true, text, ha="center", va="center", color=shade, fontsize=6.5)
