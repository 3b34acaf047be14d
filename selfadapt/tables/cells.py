"""What a table is made of, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from selfadapt.errors import BadInput
from selfadapt.tables.groups import Values


@dataclass(frozen=True)
class Layout:
    """What stands where: settings or labels downwards and across, a block for each metric."""

    rows: Sequence[str]
    columns: Sequence[str] = ()
    metrics: Sequence[str] = ("accuracy",)

    def __post_init__(self) -> None:
        if not self.rows or not self.metrics:
            raise BadInput("a table needs something to stand in its lines, and a metric")


@dataclass(frozen=True)
class Cell:
    """Shares are fractions. A published number may be known where no run is done yet."""

    mean: float | None
    std: float | None  # None of one seed
    seeds: tuple[int | None, ...]
    paper: float | None
    difference: float | None
    cost: float | None
    had_true_labels: bool
    protocols: tuple[str, ...]


@dataclass(frozen=True)
class Head:
    """The values that a line or a column stands for; its cost is the median of its runs."""

    values: Values
    had_true_labels: bool
    cost: float | None


@dataclass(frozen=True)
class Block:
    """The cells of one metric, by the identities of line and column."""

    metric: str
    cells: Mapping[tuple[str, str], Cell]
