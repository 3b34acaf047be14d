"""A finished table, and its four ways out."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from selfadapt.tables import as_latex, as_markdown, as_terminal
from selfadapt.tables.cells import Block, Cell, Head, Layout
from selfadapt.tables.cost import BASELINE
from selfadapt.tables.grid import Grid, distinct, grid, usual_seeds
from selfadapt.tables.groups import identity
from selfadapt.tables.words import said


@dataclass(frozen=True)
class Table:
    title: str
    layout: Layout
    rows: Sequence[Head]
    columns: Sequence[Head]
    blocks: Sequence[Block]
    notes: Sequence[str] = field(default_factory=list)
    baseline: str = BASELINE

    def to_terminal(self, console: Console) -> None:
        """In 100 columns, or in what the terminal has: turned or split if need be."""
        as_terminal.show(self.title, self.grids(), self.footnotes(), console)

    def to_markdown(self) -> str:
        return as_markdown.write(self.title, self.grids(), self.footnotes())

    def to_latex(self) -> str:
        """For a preamble with \\usepackage{booktabs}."""
        return as_latex.write(self.title, self.grids(), self.footnotes())

    def to_csv(self) -> str:
        """A line a cell and metric; shares and their differences are fractions."""
        out = io.StringIO()
        records = list(self.records())
        writer = csv.DictWriter(out, records[0] if records else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return out.getvalue()

    def records(self) -> Iterator[dict[str, Any]]:
        for block in self.blocks:
            for row in self.rows:
                for column in self.columns:
                    cell = block.cells.get((identity(row.values), identity(column.values)))
                    if cell is not None:
                        keys = zip(self.layout.rows, row.values, strict=True)
                        others = zip(self.layout.columns, column.values, strict=True)
                        yield {
                            **dict(keys),
                            **dict(others),
                            "metric": block.metric,
                            **_record(cell),
                        }

    def footnotes(self) -> list[str]:
        own = [*self._alike(), *self._seeds(), *self._paper(), *self._cost(), *self._true_labels()]
        return [*own, *self.notes]

    def grids(self) -> list[Grid]:
        return [
            grid(block, self.layout, self.rows, self.columns, self.baseline)
            for block in self.blocks
        ]

    def _cells(self) -> list[Cell]:
        return [cell for block in self.blocks for cell in block.cells.values()]

    def _alike(self) -> list[str]:
        """What the layout names, but no line or column needs to be told by."""
        said_of = [
            said(key, heads[0].values[place])
            for keys, heads in ((self.layout.rows, self.rows), (self.layout.columns, self.columns))
            for place, key in enumerate(keys)
            if key not in distinct(keys, heads) and heads[0].values[place] is not None
        ]
        return [f"All: {', '.join(said_of)}."] if said_of else []

    def _seeds(self) -> list[str]:
        usual = usual_seeds(self.blocks)
        counts = {len(cell.seeds) for cell in self._cells() if cell.mean is not None}
        if not counts:
            return []
        several = f"Mean ± standard deviation over {usual} seeds"
        said = "One seed, so without a deviation" if usual == 1 else several
        return [said + ("; (n): over n seeds." if len(counts) > 1 else ".")]

    def _paper(self) -> list[str]:
        cells = self._cells()
        if all(cell.paper is None for cell in cells):
            return []
        known = any(cell.difference is not None for cell in cells)
        return [f"Below: the paper's number{', and ours minus it' if known else ''}."]

    def _cost(self) -> list[str]:
        if all(head.cost is None for head in (*self.rows, *self.columns)):
            return [f"Nothing on cost: no run of {self.baseline} to compare with."]
        return [
            f"Time: of training, all stages, over that of {self.baseline} with the same settings, "
            f"seed and machine; median. – where there is none."
        ]

    def _true_labels(self) -> list[str]:
        had = any(head.had_true_labels for head in (*self.rows, *self.columns))
        return ["* was given true labels of training samples."] if had else []


def _record(cell: Cell) -> dict[str, Any]:
    return {
        "mean": cell.mean,
        "std": cell.std,
        "n": len(cell.seeds),
        "seeds": " ".join(map(str, cell.seeds)),
        "paper": cell.paper,
        "difference": cell.difference,
        "cost": cell.cost,
        "had_true_labels": cell.had_true_labels,
        "protocol": " ".join(cell.protocols),
    }
