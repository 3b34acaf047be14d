"""Runs that belong together, in the order in which a reader expects them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from selfadapt import errors
from selfadapt.tables.row import Row

Values = tuple[Any, ...]


def identity(value: Any) -> str:
    """Equal for what is the same setting: 1 and 1.0 are not (epochs and a share of them)."""
    return json.dumps(value, sort_keys=True, default=str)


def groups(rows: Sequence[Row], names: Sequence[str]) -> list[tuple[Values, list[Row]]]:
    """By the values of these names. Numbers rise; anything else is in the order of the rows."""
    found: dict[tuple[str, ...], tuple[Values, list[Row]]] = {}
    for row in rows:
        values = tuple(row.get(name) for name in names)
        found.setdefault(tuple(map(identity, values)), (values, []))[1].append(row)
    ranks = [_ranks([row.get(name) for row in rows]) for name in names]

    def place(group: tuple[Values, list[Row]]) -> list[int]:
        return [rank[identity(value)] for rank, value in zip(ranks, group[0], strict=True)]

    return sorted(found.values(), key=place)


def _ranks(values: Iterable[Any]) -> dict[str, int]:
    distinct = {identity(value): value for value in values}
    if all(is_number(value) or value is None for value in distinct.values()):
        sizes = {k: float("-inf") if v is None else v for k, v in distinct.items()}
        distinct = dict(sorted(distinct.items(), key=lambda item: sizes[item[0]]))
    return {known: rank for rank, known in enumerate(distinct)}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def varying(rows: Sequence[Row]) -> list[str]:
    """The settings and labels that are not alike in all of these runs."""
    names = dict.fromkeys(name for row in rows for name in (*row.settings, *row.labels))
    return [name for name in names if len({identity(row.get(name)) for row in rows}) > 1]


def mixed(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    """What differs, beside the seed, between runs that are about to be averaged: mostly a sign
    that a table or figure was laid out without it. data.root is only where the same data lay."""
    return [name for name in varying(rows) if name not in {*names, "data.root"}]


def check_keys(names: Iterable[str], rows: Sequence[Row]) -> None:
    known = {name for row in rows for name in (*row.settings, *row.labels)} | {"seed"}
    for name in names:
        if name not in known:
            raise errors.unknown("setting or label of these runs", name, known)
