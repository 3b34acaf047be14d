"""Tables in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from selfadapt.tables.grid import Grid

_WIDEST = 100
_BETWEEN = 2


def show(title: str, grids: Sequence[Grid], notes: Sequence[str], console: Console) -> None:
    limit = min(_WIDEST, console.width)
    if title:
        console.print(f"[bold]{escape(title)}[/]")
    for grid in grids:
        console.print(f"\n{escape(grid.title)}")
        for number, part in enumerate(fitting(grid, limit)):
            if number:
                console.print()
            console.print(_drawn(part))
    if notes:
        console.print()
    for note in notes:
        style = "yellow" if note.startswith("Warning") else "dim"
        console.print(f"[{style}]{escape(note)}[/]", width=limit, soft_wrap=False)


def fitting(grid: Grid, limit: int) -> list[Grid]:
    """As it is, or turned; else cut into parts of about as many columns, each with the names of
    its lines."""
    turned = grid.transposed()
    if width(grid) > limit >= width(turned):
        return [turned]
    columns = len(grid.heads)
    for parts in range(1, columns + 1):
        edges = [columns * part // parts for part in range(parts + 1)]
        found = [grid.columns(slice(*between)) for between in pairwise(edges)]
        if all(width(part) <= limit for part in found):
            break
    return found


def width(grid: Grid) -> int:
    columns = [max(map(_broadest, column)) for column in zip(*_lines(grid), strict=True)]
    return sum(columns) + _BETWEEN * (len(columns) - 1)


def _broadest(text: str) -> int:
    return max(map(cell_len, text.split("\n")))


def _lines(grid: Grid) -> list[list[str]]:
    """The names of the columns' keys stand above those of the lines' keys."""
    above = ["\n".join((*grid.column_keys, grid.row_keys[0])).lstrip("\n")]
    blank = "\n" * above[0].count("\n")
    corner = [*above, *(blank + key for key in grid.row_keys[1:])]
    below = "\n" if any(grid.column_keys) else ""
    head = [*corner, *("\n".join(texts) + below for texts in grid.heads)]
    body = [
        [*stub, *("\n".join(filter(None, (text.main, text.below))) for text in line)]
        for stub, line in zip(grid.stubs, grid.body, strict=True)
    ]
    return [head, *body]


def _drawn(grid: Grid) -> Table:
    head, *body = _lines(grid)
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, _BETWEEN - 1, 0, 0),  # and one that the box adds
        header_style="bold",
    )
    for place, text in enumerate(head):
        table.add_column(
            escape(text), justify="left" if place < len(grid.row_keys) else "right", no_wrap=True
        )
    for line in body:
        table.add_row(*map(escape, line))
    return table
