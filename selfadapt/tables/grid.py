"""A block of a table as text, before it is known where it will be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from selfadapt.tables.cells import Block, Cell, Head, Layout
from selfadapt.tables.groups import identity
from selfadapt.tables.metrics import METRICS, Metric, metric
from selfadapt.tables.words import NONE, name_of, number, title_of, value_of

_METHOD = "method.name"


@dataclass(frozen=True)
class Text:
    main: str
    below: str = ""  # the published number, and ours minus it


@dataclass(frozen=True)
class Grid:
    title: str
    row_keys: tuple[str, ...]
    column_keys: tuple[str, ...]
    stubs: Sequence[tuple[str, ...]]
    heads: Sequence[tuple[str, ...]]
    body: Sequence[Sequence[Text]]

    def transposed(self) -> Grid:
        return replace(
            self,
            row_keys=self.column_keys,
            column_keys=self.row_keys,
            stubs=self.heads,
            heads=self.stubs,
            body=list(zip(*self.body, strict=True)),
        )

    def columns(self, chosen: slice) -> Grid:
        body = [line[chosen] for line in self.body]
        return replace(self, heads=self.heads[chosen], body=body)


def grid(
    block: Block, layout: Layout, rows: Sequence[Head], columns: Sequence[Head], baseline: str
) -> Grid:
    """Without lines and columns of which this metric knows nothing, and without the names of what
    is alike in all of them."""
    wanted, usual = metric(block.metric), usual_seeds([block])
    turned = _METHOD in layout.columns  # then they are what the methods stand in
    lines = [head for head in rows if any(_at(block, head, one) for one in columns)]
    heads = [head for head in columns if any(_at(block, one, head) for one in rows)]
    down, across = distinct(layout.rows, rows), distinct(layout.columns, columns)
    found = Grid(
        title=title_of(wanted, baseline),
        row_keys=tuple(map(name_of, down)),
        column_keys=tuple(map(name_of, across)) or ("",),
        stubs=[_texts(layout.rows, down, head, marked=not turned) for head in lines],
        heads=[
            _texts(layout.columns, across, head, marked=turned) or (wanted.noun,) for head in heads
        ],
        body=[[_text(_at(block, row, head), wanted, usual) for head in heads] for row in lines],
    )
    if block.metric == "cost" or all(head.cost is None for head in (*rows, *columns)):
        return found
    if turned:
        return _with_costs(found, heads)
    return _with_costs(found.transposed(), lines).transposed()


def distinct(keys: Sequence[str], heads: Sequence[Head]) -> list[str]:
    """Those that tell one head from another; at least one of them, so that there is a name."""
    tell = [
        key
        for place, key in enumerate(keys)
        if len({identity(head.values[place]) for head in heads}) > 1
    ]
    return tell or list(keys[-1:])


def _at(block: Block, row: Head, column: Head) -> Cell | None:
    return block.cells.get((identity(row.values), identity(column.values)))


def _with_costs(grid: Grid, heads: Sequence[Head]) -> Grid:
    """A last line with each column's cost, which stands once for a method."""
    return replace(
        grid,
        stubs=[*grid.stubs, ("",) * (len(grid.row_keys) - 1) + ("time",)],
        body=[*grid.body, [_cost(head) for head in heads]],
    )


def usual_seeds(blocks: Sequence[Block]) -> int:
    """How many seeds most cells have."""
    counts = [len(c.seeds) for block in blocks for c in block.cells.values() if c.mean is not None]
    return max(sorted(set(counts), reverse=True), key=counts.count, default=0)


def _texts(
    keys: Sequence[str], shown: Sequence[str], head: Head, *, marked: bool
) -> tuple[str, ...]:
    """An asterisk for a method that had true labels, on its name where that is shown."""
    values = dict(zip(keys, head.values, strict=True))
    texts = [value_of(key, values[key]) for key in shown]
    if marked and head.had_true_labels and texts:
        texts[shown.index(_METHOD) if _METHOD in shown else 0] += "*"
    return tuple(texts)


def _text(cell: Cell | None, wanted: Metric, usual: int) -> Text:
    if cell is None:
        return Text(NONE)
    below = [] if cell.paper is None else [f"{100 * cell.paper:.2f}"]
    if cell.difference is not None:
        below.append(number(wanted, cell.difference, sign=True))
    if cell.mean is None:
        return Text(NONE, ", ".join(below))
    main = number(wanted, cell.mean)
    if cell.std is not None:
        main += f" ± {number(wanted, cell.std)}"
    if len(cell.seeds) != usual:
        main += f" ({len(cell.seeds)})"
    return Text(main, ", ".join(below))


def _cost(head: Head) -> Text:
    return Text(NONE if head.cost is None else number(METRICS["cost"], head.cost))
