"""What can only be said of a recipe as a whole: names that mean nothing in it, rules that match
nothing, published numbers that contradict each other."""

from __future__ import annotations

from collections.abc import Iterable

from selfadapt import errors
from selfadapt.errors import BadInput
from selfadapt.study.recipe import SCALES, Expectation, Flat, Recipe, matches


def check(found: Recipe) -> None:
    _check_names(found)
    _check_rules(found)
    _check_expectations(found)


def only_known(kind: str, given: Iterable[str], known: Iterable[str]) -> None:
    known = set(known)
    for name in given:
        if name not in known:
            raise errors.unknown(kind, name, known)


def _check_names(found: Recipe) -> None:
    known = {*found.base, *found.small, "seed", "scale"}
    known |= {name for grids in found.grids.values() for grid in grids for name in grid}
    known |= {name for rule in found.only for name in rule.set}
    for where in (entry.where for part in (found.only, found.skip, found.expect) for entry in part):
        only_known("key in a where", where, known)
    for part in ("rows", "columns"):
        only_known(f"key of table.{part}", found.table.get(part, []), known)
    for figure in found.figures:
        named = [*figure.get("panels", []), *figure.get("lines", [])]
        named += [figure["x"]] if "x" in figure else []
        only_known(f"key in the figure {figure['name']}", named, known)
    figures = [figure["name"] for figure in found.figures]
    if len(figures) > len(set(figures)):
        raise BadInput(f"two figures share a name: {', '.join(figures)}")


def _check_rules(found: Recipe) -> None:
    used: set[int] = set()
    for scale in SCALES:
        for key in found.keys(scale):
            for rule in found.merged(key, scale)[1]:
                used.add(id(rule))
                for name in rule.set.keys() & key.keys():
                    raise BadInput(f"[[only]] sets {name}, which the grid sets for {key!r}")
        cells = found.cells(scale)
        if not cells:
            raise BadInput(f"there is nothing to run at {scale} scale")
        for cell in cells:
            if not isinstance(cell.settings.get("data.name"), str):
                raise BadInput(f"cell {cell.name} at {scale} scale has no data.name to train on")
    for part, rules in (("only", found.only), ("skip", found.skip)):
        for rule in rules:
            if id(rule) not in used:
                raise BadInput(f"[[{part}]] where {rule.where!r} matches no cell at either scale")


def _check_expectations(found: Recipe) -> None:
    cells = [
        cell.settings | cell.key | {"scale": scale}
        for scale in SCALES
        for cell in found.cells(scale)
    ]
    for one in found.expect:
        of = [known for known in cells if matches(one.where, known)]
        if not of:
            raise BadInput(f"[[expect]] where {one.where!r} matches no cell at either scale")
        _refuse_contradiction(found, one, of)


def _refuse_contradiction(found: Recipe, one: Expectation, cells: list[Flat]) -> None:
    for known in cells:
        if found.expected(known, one.metric) != one.percent:
            raise BadInput(
                f"[[expect]] where {one.where!r}: an entry before it gives the same cell another "
                f"{one.metric}. Say more in where"
            )
