"""How every picture looks, and how it is written so that the same data give the same bytes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, NullLocator, StrMethodFormatter

COLOURS = (  # told apart by the colour-blind too (Okabe and Ito)
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    *("#7F7F7F", "#8C564B", "#6A3D9A", "#B15928", "#1B9E77", "#666600", "#A6761D"),
)
DASHES: tuple[Any, ...] = ("-", (0, (4, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
_LOOK: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "svg.hashsalt": "selfadapt",
    "text.parse_math": False,  # a $ in a name is a $
}
_PANEL = (3.1, 2.4)  # inches
_EDGES = (0.3, 1.1)  # for the title and the legend
_LETTERS = 15  # of a title, to the inch
_ALONE = 1.6  # times as large, where there is one panel


def look() -> Any:
    """Inside this context pictures are made and saved."""
    return mpl.rc_context(_LOOK)


def panels(
    count: int, columns: int, *, share_y: bool | Literal["col"] = True, size: float = 1.0
) -> tuple[Figure, list[Axes]]:
    """So many panels in a grid, and none where the last line is not full."""
    lines = -(-count // columns)
    size = max(size, _ALONE if count == 1 else 1.0)
    figure = Figure(
        figsize=(
            columns * _PANEL[0] * size + _EDGES[0],
            lines * _PANEL[1] * size + _EDGES[1],
        ),
        layout="constrained",
    )
    found = figure.subplots(lines, columns, sharey=share_y, squeeze=False).flatten()
    for spare in found[count:]:
        spare.remove()
    return figure, list(found[:count])


def title(axes: Axes, text: str) -> None:
    """In as many lines as it takes to stay above its own panel."""
    letters = int(axes.bbox.width / axes.figure.dpi * _LETTERS)
    axes.set_title(textwrap.fill(text, max(letters, 12)))


def legend(figure: Figure, entries: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Below all panels; a name that several of them show stands there once."""
    once = dict(entries)
    if not once:
        return
    handles = [Line2D([], [], label=name, **drawn) for name, drawn in once.items()]
    longest = max(map(len, once))
    width = figure.get_size_inches()[0]
    columns = max(1, min(len(handles), int(width * 13 / (longest + 8))))
    lines = -(-len(handles) // columns)
    figure.legend(handles=handles, loc="outside lower center", ncols=-(-len(handles) // lines))


def logarithmic(axes: Axes, ticks: Sequence[float]) -> None:
    """With the values themselves at the axis as far as there is room."""
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if 0 < len(ticks) <= 12:
        axes.set_xticks(list(ticks), [f"{tick:g}" for tick in ticks])
        axes.xaxis.set_minor_locator(NullLocator())


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """As PNG, SVG and PDF, without the date and the version that they would else carry."""
    folder.mkdir(parents=True, exist_ok=True)
    bare: dict[str, dict[str, Any]] = {
        "png": {"Software": None},
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
    files = []
    for kind, metadata in bare.items():
        path = folder / f"{name}.{kind}"
        figure.savefig(path, format=kind, metadata=metadata, dpi=150, facecolor="white")
        files.append(path)
    return files
