"""Which colour and which dashes a line gets, so that what is alike looks alike in every panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from selfadapt.tables import metrics
from selfadapt.tables.figures.style import COLOURS, DASHES
from selfadapt.tables.groups import groups, identity
from selfadapt.tables.row import Row
from selfadapt.tables.words import said

_Y = ""  # stands for the metric, among the names of settings


@dataclass(frozen=True)
class Looks:
    """Lines that differ in one thing differ in colour; in more, dashes tell one of them."""

    keys: Sequence[str]
    places: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    dashed: str | None = None

    def name(self, row: Row, y: str) -> str:
        """As the legend has it; a lone line is called by its metric."""
        texts = [_text(key, row, y) for key in self.keys]
        return ", ".join(texts) or metrics.metric(y).words

    def of(self, row: Row, y: str) -> dict[str, Any]:
        place = {key: self.places[key][identity(_value(key, row, y))] for key in self.keys}
        dash = place.pop(self.dashed) if self.dashed is not None else 0
        colour = 0
        for key, at in place.items():
            colour = colour * len(self.places[key]) + at
        return {"color": COLOURS[colour % len(COLOURS)], "linestyle": DASHES[dash]}


def looks(rows: Sequence[Row], lines: Sequence[str], y: Sequence[str]) -> Looks:
    places = {
        key: {identity(values[0]): at for at, (values, _) in enumerate(groups(rows, [key]))}
        for key in lines
    }
    places[_Y] = {identity(name): at for at, name in enumerate(y)}
    keys = [key for key, known in places.items() if len(known) > 1]
    few = [key for key in keys if len(places[key]) <= len(DASHES)]
    dashed = None
    if len(keys) > 1 and few:
        dashed = _Y if _Y in few else min(reversed(few), key=lambda key: len(places[key]))
    return Looks(keys, places, dashed)


def _value(key: str, row: Row, y: str) -> Any:
    return y if key == _Y else row.get(key)


def _text(key: str, row: Row, y: str) -> str:
    if key != _Y:
        return said(key, row.get(key))
    wanted = metrics.metric(y)
    return wanted.short or wanted.words
