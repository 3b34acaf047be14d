"""A recipe of many runs, and the cells it stands for."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from selfadapt.errors import BadInput

Scale = Literal["small", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)
Flat = dict[str, Any]  # "train.epochs": 40
Grid = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Rule:
    """Of [[only]]: settings for the cells that match; of [[skip]]: without any."""

    where: Flat
    set: Flat = field(default_factory=dict)


@dataclass(frozen=True)
class Expectation:
    """A published number."""

    where: Flat
    metric: str
    percent: float


@dataclass(frozen=True)
class Cell:
    """One run of a recipe."""

    name: str  # of its folder
    settings: Flat  # without the seed
    seed: int
    labels: Flat  # the grid's keys without a dot: they change nothing by themselves
    key: Flat  # the grid's keys and this cell's values, the seed among them


@dataclass(frozen=True)
class Recipe:
    name: str
    title: str
    source: str
    note: str
    base: Flat
    small: Flat
    grids: Mapping[Scale, Sequence[Grid]]
    only: Sequence[Rule]
    skip: Sequence[Rule]
    expect: Sequence[Expectation]
    table: Mapping[str, list[str]]
    figures: Sequence[Mapping[str, Any]]

    def cells(self, scale: Scale, seeds: int | None = None) -> list[Cell]:
        """Every run at this scale; `seeds` is how many to take instead of those listed."""
        found = []
        for key in self.keys(scale, seeds):
            settings, rules = self.merged(key, scale)
            if not any(rule in self.skip for rule in rules):
                labels = {k: v for k, v in key.items() if "." not in k and k != "seed"}
                found.append(Cell(slug(key), settings, key["seed"], labels, key))
        _refuse_one_name_twice(found)
        return found

    def keys(self, scale: Scale, seeds: int | None = None) -> list[Flat]:
        """The union of the products, in order: each combination once, its seed last."""
        order = list(dict.fromkeys(k for grid in self.grids[scale] for k in grid if k != "seed"))
        found: list[Flat] = []
        for grid in self.grids[scale]:
            names = [name for name in order if name in grid]
            chosen = [*(grid[name] for name in names), _seeds(grid.get("seed", [1]), seeds)]
            for values in itertools.product(*chosen):
                found.append(dict(zip([*names, "seed"], values, strict=True)))
        return _each_once(found)

    def merged(self, key: Flat, scale: Scale) -> tuple[Flat, list[Rule]]:
        """The settings of one combination, and the rules of `only` and `skip` that it matched."""
        settings = over(self.base, self.small) if scale == "small" else dict(self.base)
        settings |= {name: value for name, value in key.items() if "." in name}
        known, found = {**key, "scale": scale}, []
        for rule in self.only:
            if matches(rule.where, settings | known):
                settings = over(settings, rule.set)
                found.append(rule)
        found += [rule for rule in self.skip if matches(rule.where, settings | known)]
        return settings, found

    def expected(self, known: Mapping[str, Any], metric: str) -> float | None:
        """The published percentage for what is known of a cell: its settings, labels, scale."""
        for one in self.expect:
            if one.metric == metric and matches(one.where, known):
                return one.percent
        return None

    def stands_for(self, scale: Scale) -> Flat:
        """Which data and net the published numbers are of, where this scale has others: the first
        that the recipe names, as digits stand for CIFAR-10."""
        here, paper = self.cells(scale), self.cells("paper")
        found = {}
        for name in ("data.name", "net.name"):
            published = [cell.settings.get(name) for cell in paper]
            if not {cell.settings.get(name) for cell in here} & set(published):
                found[name] = published[0]
        return found


def over(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> Flat:
    """`changes` laid over `settings`. A table that is given a name starts afresh: what its keys
    meant to the thing before, they do not mean to this one."""
    afresh = {name.removesuffix("name") for name in changes if name.endswith(".name")}
    kept = {k: v for k, v in settings.items() if k[: k.index(".") + 1] not in afresh}
    return {**kept, **changes}


def matches(where: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether all of `where` is so; a list there means any of."""
    for name, wanted in where.items():
        if name not in known or not _is(known[name], wanted):
            return False
    return True


def _is(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return any(_same(value, one) for one in wanted)
    return _same(value, wanted)


def _same(one: Any, other: Any) -> bool:
    """1 is 1.0, but not true."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _seeds(listed: Sequence[int], count: int | None) -> list[int]:
    """The first so many of those listed, and then the numbers that follow."""
    if count is None:
        return list(listed)
    more = range(max(listed) + 1, max(listed) + 1 + count)
    return [*listed, *more][:count]


def _each_once(keys: Sequence[Flat]) -> list[Flat]:
    return list({repr(sorted(key.items())): key for key in keys}.values())


def slug(key: Flat) -> str:
    """sat-rate0.4-seed1: text as it is, anything else behind its name."""
    return "-".join(_word(name, value) for name, value in key.items())


def _word(name: str, value: Any) -> str:
    said = "_".join(map(_plain, value if isinstance(value, list) else [value]))
    return said if isinstance(value, str) else name.rpartition(".")[2] + said


def _plain(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return re.sub(r"[^\w.+]+", "_", text).strip(".") or "_"


def _refuse_one_name_twice(cells: Sequence[Cell]) -> None:
    for name, same in _by_name(cells):
        if len(same) > 1:
            raise BadInput(
                f"two cells would share the folder {name}: {same[0].key} and {same[1].key}. "
                "Name their values so that they differ in letters or digits"
            )


def _by_name(cells: Sequence[Cell]) -> Iterator[tuple[str, list[Cell]]]:
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.name.casefold(), []).append(cell)
    yield from groups.items()
