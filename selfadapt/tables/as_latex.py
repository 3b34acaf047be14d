"""Tables in LaTeX, with the rules of booktabs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from selfadapt.tables.grid import Grid, Text

_PLAIN = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
    "±": r"$\pm$",
    "×": r"$\times$",
    "\N{MINUS SIGN}": "$-$",
    "–": "--",
    "\n": " ",
}
_SPECIAL = re.compile("|".join(map(re.escape, _PLAIN)))


def escape(text: str) -> str:
    return _SPECIAL.sub(lambda found: _PLAIN[found[0]], text)


def write(title: str, grids: Sequence[Grid], notes: Sequence[str]) -> str:
    lines = [r"\begin{table}", r"\centering"]
    lines += [rf"\caption{{{escape(title)}}}"] if title else []
    for grid in grids:
        lines += [rf"\par\medskip {escape(grid.title)}\\[2pt]", *_tabular(grid)]
    lines += [rf"\par\smallskip{{\footnotesize {escape(note)}}}" for note in notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _tabular(grid: Grid) -> Iterator[str]:
    stubs = len(grid.row_keys)
    yield rf"\begin{{tabular}}{{{'l' * stubs}{'r' * len(grid.heads)}}}"
    yield r"\toprule"
    yield from _header(grid)
    yield r"\midrule"
    for stub, line in zip(grid.stubs, grid.body, strict=True):
        yield _line([*map(escape, stub), *map(_cell, line)])
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _header(grid: Grid) -> Iterator[str]:
    """A line for each key of the columns, neighbours alike joined under one name; then the keys of
    the lines."""
    stubs = len(grid.row_keys)
    named = any(grid.column_keys)
    for level, key in enumerate(grid.column_keys):
        corner = [key] + [""] * (stubs - 1) if named else list(grid.row_keys)
        spans = list(_spans(grid, level))
        heads = [_span(text, last - first) for text, first, last in spans]
        yield _line([*map(escape, corner), *heads])
        if level < len(grid.column_keys) - 1:
            yield " ".join(
                rf"\cmidrule(lr){{{stubs + first + 1}-{stubs + last}}}"
                for text, first, last in spans
                if text
            )
    if named:
        yield _line([*map(escape, grid.row_keys), *("" for _ in grid.heads)])


def _spans(grid: Grid, level: int) -> Iterator[tuple[str, int, int]]:
    first = 0
    for prefix, members in groupby(head[: level + 1] for head in grid.heads):
        last = first + len(list(members))
        yield prefix[-1], first, last
        first = last


def _span(text: str, columns: int) -> str:
    if columns == 1:
        return escape(text)
    return rf"\multicolumn{{{columns}}}{{c}}{{{escape(text)}}}"


def _cell(text: Text) -> str:
    below = rf" {{\scriptsize ({escape(text.below)})}}" if text.below else ""
    return escape(text.main) + below


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
