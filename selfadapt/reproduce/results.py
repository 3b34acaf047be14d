"""The table and the figures of a study, from whatever cells are done by now."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfadapt import errors
from selfadapt.reproduce.tasks import Study
from selfadapt.rundir import RunDir, write_atomically
from selfadapt.study import Cell

if TYPE_CHECKING:
    from selfadapt import tables


@dataclass
class Written:
    table: tables.Table | None = None
    notes: list[str] = field(default_factory=list)  # what is missing, and why


def write(study: Study) -> Written:
    """table.md, .tex and .csv, study.json and the pictures, in the study's folder."""
    from selfadapt import tables

    rows = [_row(study, cell) for cell in study.cells]
    if not any(row.done for row in rows):
        return Written()
    found = Written()
    try:
        found.table = _table(study, rows)
        _write_table(study.folder, found.table)
        about = {"recipe": study.recipe.name, "scale": study.scale}
        kept = tables.keep(rows, study.recipe.figures, about)
        text = json.dumps(kept, indent=1, ensure_ascii=False, allow_nan=False)
        write_atomically(study.folder / "study.json", (text + "\n").encode())
    except errors.SelfAdaptError as error:
        found.notes.append(f"warning: no table could be made: {error}")
    for figure in study.recipe.figures:
        _draw(study, rows, figure, found)
    return found


def _row(study: Study, cell: Cell) -> tables.Row:
    """A label that only other cells have is none of this one."""
    from selfadapt import tables

    names = dict.fromkeys(name for each in study.cells for name in each.labels)
    labels = {name: cell.labels.get(name) for name in names}
    path = study.path(cell)
    if RunDir(path).status() == "new":
        return tables.Row(str(path), False, cell.seed, cell.settings, labels)
    return tables.rows([path], {path: labels})[0]


def _table(study: Study, rows: list[tables.Row]) -> tables.Table:
    from selfadapt import tables

    recipe, stands_for = study.recipe, study.recipe.stands_for(study.scale)

    def expected(known: Mapping[str, Any], metric: str) -> float | None:
        return recipe.expected({**known, **stands_for, "scale": study.scale}, metric)

    layout = None
    if recipe.table:
        layout = tables.Layout(**recipe.table)
    table = tables.build(
        rows, layout, expected, title=recipe.title, differences=study.scale == "paper"
    )
    changed = ", ".join(f"{name}={value}" for name, value in study.changes.items())
    notes = [*table.notes, f"After {recipe.source}; {study.scale} scale.", recipe.note]
    notes += [f"Otherwise than in the recipe: {changed}."] if changed else []
    if stands_for and any(cell.paper is not None for cell in _cells(table)):
        named = ", ".join(f"{name}={value}" for name, value in stands_for.items())
        notes.append(f"The paper's numbers are those of {named}: only their order compares.")
    return replace(table, notes=list(filter(None, notes)))


def _cells(table: tables.Table) -> list[tables.Cell]:
    return [cell for block in table.blocks for cell in block.cells.values()]


def _write_table(folder: Path, table: tables.Table) -> None:
    ways = {"md": table.to_markdown(), "tex": table.to_latex(), "csv": table.to_csv()}
    for suffix, text in ways.items():
        write_atomically(folder / f"table.{suffix}", text.encode())


def _draw(study: Study, rows: list[tables.Row], figure: Mapping[str, Any], to: Written) -> None:
    from selfadapt.tables import figures

    try:
        to.notes += figures.draw(rows, figure, study.recipe.title, study.folder).notes
    except errors.SelfAdaptError as error:
        to.notes.append(f"warning: figure {figure['name']} could not be drawn: {error}")
