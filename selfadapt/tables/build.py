"""From rows to a table: which runs share a cell, and what is to be said of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from selfadapt.errors import BadInput
from selfadapt.tables import groups, metrics, remarks
from selfadapt.tables.cells import Block, Cell, Head, Layout
from selfadapt.tables.cost import BASELINE, costs
from selfadapt.tables.row import Row
from selfadapt.tables.table import Table

Expected = Callable[[Mapping[str, Any], str], float | None]


@dataclass(frozen=True)
class _Beside:
    """What a cell shows beside its mean."""

    costs: Mapping[int, float | None]  # by id(row)
    expected: Expected | None
    differences: bool


def build(
    rows: Sequence[Row],
    layout: Layout | None = None,
    expected: Expected | None = None,
    *,
    title: str = "",
    differences: bool = True,
    baseline: str = BASELINE,
) -> Table:
    """Means over seeds, beside the published percentages that `expected` knows for a row and a
    metric; `differences=False` where those are of other data, so that only their order compares.
    Unfinished runs are left out, and the table says so."""
    done = [row for row in rows if row.done]
    if not done:
        raise BadInput(f"none of these {len(rows)} runs is finished, so there is nothing to tell")
    layout = layout or layout_for(done)
    groups.check_keys((*layout.rows, *layout.columns), rows)
    metrics.check(layout.metrics, done)
    ratios = dict(zip(map(id, done), costs(done, baseline), strict=True))
    beside = _Beside(ratios, expected, differences)
    return Table(
        title=title,
        layout=layout,
        rows=_heads(done, layout.rows, ratios),
        columns=_heads(done, layout.columns, ratios),
        blocks=_blocks(done, layout, beside),
        notes=remarks.remarks(rows, layout),
        baseline=baseline,
    )


def layout_for(rows: Sequence[Row], names: Sequence[str] = ("accuracy",)) -> Layout:
    """Methods and their knobs downwards; whatever else differs between these runs, across."""
    rows = [row for row in rows if row.done] or rows
    differ = [name for name in groups.varying(rows) if name not in ("data.root", "data.source")]
    down = [name for name in differ if name.startswith("method.") and _varies_within(rows, name)]
    across = [name for name in differ if not name.startswith("method.")]
    return Layout(["method.name", *down], across, names)


def _varies_within(rows: Sequence[Row], name: str) -> bool:
    """A knob that one method has and another has not does not tell runs of one method apart."""
    of_method = [members for _, members in groups.groups(rows, ["method.name"])]
    return name != "method.name" and any(name in groups.varying(mine) for mine in of_method)


def _heads(
    rows: Sequence[Row], keys: Sequence[str], ratios: Mapping[int, float | None]
) -> list[Head]:
    return [
        Head(values, _had_true_labels(members), _median([ratios[id(row)] for row in members]))
        for values, members in groups.groups(rows, keys)
    ]


def _blocks(rows: Sequence[Row], layout: Layout, beside: _Beside) -> list[Block]:
    """A metric that none of these runs has is left out, unless nothing else was asked for."""
    found = [_block(name, rows, layout, beside) for name in layout.metrics]
    return [block for block in found if block.cells] or found


def _block(name: str, rows: Sequence[Row], layout: Layout, beside: _Beside) -> Block:
    cells: dict[tuple[str, str], Cell] = {}
    for values, members in groups.groups(rows, (*layout.rows, *layout.columns)):
        down, across = values[: len(layout.rows)], values[len(layout.rows) :]
        cell = _cell(name, members, beside)
        if cell is not None:
            cells[groups.identity(down), groups.identity(across)] = cell
    return Block(name, cells)


def _cell(name: str, members: Sequence[Row], beside: _Beside) -> Cell | None:
    of = [beside.costs[id(row)] if name == "cost" else metrics.value(row, name) for row in members]
    values = [value for value in of if value is not None]
    paper = _published(name, members, beside.expected)
    if not values and paper is None:
        return None
    mean = _median(values) if name == "cost" else _mean(values)
    return Cell(
        mean=mean,
        std=statistics.stdev(values) if len(values) > 1 else None,
        seeds=tuple(row.seed for row, value in zip(members, of, strict=True) if value is not None),
        paper=paper,
        difference=_difference(mean, paper) if beside.differences else None,
        cost=_median([beside.costs[id(row)] for row in members]),
        had_true_labels=_had_true_labels(members),
        protocols=tuple(dict.fromkeys(remarks.protocol(row) for row in members)),
    )


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _difference(mean: float | None, paper: float | None) -> float | None:
    return None if mean is None or paper is None else mean - paper


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _had_true_labels(rows: Sequence[Row]) -> bool:
    return any(row.results.get("had_true_labels") for row in rows)


def _published(name: str, rows: Sequence[Row], expected: Expected | None) -> float | None:
    """As a fraction; none where the runs of a cell stand for different published numbers."""
    if expected is None:
        return None
    found = {expected(row, name) for row in rows}
    percent = found.pop() if len(found) == 1 else None
    return None if percent is None else percent / 100
