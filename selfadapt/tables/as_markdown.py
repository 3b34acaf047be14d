"""Tables in Markdown, as GitHub and MyST read it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from selfadapt.tables.grid import Grid, Text

_SPECIAL = re.compile(r"[\\`*<>|\[\]]|(?<![^\W_])_|_(?![^\W_])")  # a _ within a word is itself


def write(title: str, grids: Sequence[Grid], notes: Sequence[str]) -> str:
    parts = [f"### {escape(title)}"] if title else []
    for grid in grids:
        parts += [f"**{escape(grid.title)}**", table(grid)]
    parts += ["\n".join(f"- {escape(note)}" for note in notes)] if notes else []
    return "\n\n".join(parts) + "\n"


def table(grid: Grid) -> str:
    keys = [*grid.row_keys[:-1], _corner(grid)]
    head = [*keys, *(", ".join(filter(None, texts)) for texts in grid.heads)]
    rule = [*("---" for _ in keys), *("---:" for _ in grid.heads)]
    lines = [_line(map(escape, head)), _line(rule)]
    for stub, line in zip(grid.stubs, grid.body, strict=True):
        lines.append(_line([*map(escape, stub), *map(_cell, line)]))
    return "\n".join(lines)


def escape(text: str) -> str:
    return _SPECIAL.sub(lambda found: "\\" + found[0], text).replace("\n", " ")


def _corner(grid: Grid) -> str:
    across = ", ".join(filter(None, grid.column_keys))
    return f"{grid.row_keys[-1]} ↓ {across} →" if across else grid.row_keys[-1]


def _cell(text: Text) -> str:
    return "<br>".join(map(escape, filter(None, (text.main, text.below))))


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
