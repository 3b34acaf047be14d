"""What a command asks for: a recipe at one scale, in one directory.

OUT/NAME-SCALE/
  cells/CELL/           a run directory each
  failures/CELL.txt     why a cell could not be carried out
  table.md .tex .csv    over the cells that are done
  FIGURE.png .svg .pdf  each of the recipe's figures
  study.json            what table and figures are made of
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from selfadapt import errors, recipe, study
from selfadapt.data import sources
from selfadapt.errors import BadInput
from selfadapt.rundir import RunDir, Status
from selfadapt.study import SCALES, Cell, Recipe, Scale

_EPOCHS = 200  # of a run whose recipe does not say


@dataclass(frozen=True)
class Task:
    """One cell as a run: enough for another process to carry it out."""

    name: str
    path: str
    settings: dict[str, Any]  # table.key, with data.name the source
    seed: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def run(self) -> RunDir:
        return RunDir(self.path)

    @property
    def status(self) -> Status:
        """A run that was stopped in a stage before its last has begun too."""
        status = self.run.status()
        return "partial" if status == "new" and self.run.stages.is_dir() else status

    @property
    def epochs(self) -> int:
        return int(self.settings.get("train.epochs", _EPOCHS))


@dataclass(frozen=True)
class Study:
    recipe: Recipe
    scale: Scale
    folder: Path
    cells: Sequence[Cell]  # all of them
    tasks: Sequence[Task]  # those of this command's share
    changes: Mapping[str, Any]  # settings of every cell, over the recipe's

    def path(self, cell: Cell) -> Path:
        return self.folder / "cells" / cell.name

    def failure_file(self, name: str) -> Path:
        return self.folder / "failures" / f"{name}.txt"


def plan(
    name: str | Path,
    *,
    scale: str = "small",
    out: str | os.PathLike[str] = "runs",
    data_root: str | Path | None = None,
    shard: str | None = None,
    seeds: int | None = None,
    where: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> Study:
    """Everything that can be wrong with a command is told here, before anything is run."""
    known = _scale(scale)
    part, parts = _shard(shard)
    if seeds is not None and seeds < 1:
        raise BadInput(f"--seeds is how many seeds to run, at least 1; got {seeds}")
    if data_root is not None and not Path(data_root).expanduser().is_dir():
        raise BadInput(f"--data-root {str(data_root)!r}: there is no such folder")
    found = study.read(name)
    cells = found.cells(known, seeds)
    changes = dict(settings or {})
    _check_changes(changes, cells)
    folder = Path(out) / f"{found.name}-{known}"
    everything = Study(found, known, folder, cells, [], changes)
    mine = _in_turn(_only(where, cells)[part - 1 :: parts])
    return replace(everything, tasks=[_task(everything, cell, data_root) for cell in mine])


def _in_turn(cells: Sequence[Cell]) -> list[Cell]:
    """Seed by seed, and of a seed the methods on one problem one after the other: so times that are
    compared are measured close together, and one seed of everything is there early."""
    seeds = list(dict.fromkeys(cell.seed for cell in cells))
    problems: dict[tuple[int, str], list[Cell]] = {}
    for cell in cells:
        problem = {
            k: v for k, v in cell.settings.items() if not k.startswith(("method.", "train."))
        }
        key = (seeds.index(cell.seed), repr(sorted(problem.items())))
        problems.setdefault(key, []).append(cell)
    order = sorted(problems, key=lambda key: key[0])  # of equals, the one that came first
    return [cell for key in order for cell in problems[key]]


def _only(where: Sequence[str], cells: Sequence[Cell]) -> Sequence[Cell]:
    """The cells that all of `where` is so of: "method.name=erm,sat" is any of the two, and
    "variant=none" also what has no such key."""
    for text in where:
        name, equals, values = text.partition("=")
        if not equals or not name.strip() or not values.strip():
            raise BadInput(f"--where takes key=value or key=value,value; got {text!r}")
        wanted = {name.strip(): [recipe.value(each.strip()) for each in values.split(",")]}
        cells = _matching(wanted, cells)
    return cells


def _matching(wanted: Mapping[str, list[Any]], cells: Sequence[Cell]) -> Sequence[Cell]:
    known = [cell.settings | cell.key for cell in cells]
    ((name, values),) = wanted.items()
    if not any(name in one for one in known):
        raise errors.unknown("key in --where", name, {key for one in known for key in one})
    known = [{name: "none"} | one for one in known]
    found = [cell for cell, one in zip(cells, known, strict=True) if study.matches(wanted, one)]
    if not found:
        there = dict.fromkeys(str(one[name]) for one in known)
        asked = ",".join(map(str, values))
        raise BadInput(f"--where {name}={asked}: no cell is so; there is {', '.join(there)}")
    return found


def _scale(given: str) -> Scale:
    for scale in SCALES:
        if scale == given:
            return scale
    raise errors.unknown("scale", given, SCALES)


def _shard(text: str | None) -> tuple[int, int]:
    """2/4 as (2, 4)."""
    part, slash, parts = (text or "1/1").partition("/")
    if not (slash and part.isascii() and part.isdigit() and parts.isascii() and parts.isdigit()):
        raise BadInput(f"--shard is PART/PARTS, such as 2/4; got {text!r}")
    if not 1 <= int(part) <= int(parts):
        raise BadInput(f"--shard {text}: the part must lie in 1 to {parts}")
    return int(part), int(parts)


def _check_changes(changes: Mapping[str, Any], cells: Sequence[Cell]) -> None:
    recipe.nest(changes)  # refuses what is not table.key
    for name in changes:
        if any(name in cell.key for cell in cells) or name == "data.name":
            raise BadInput(
                f"--set {name}: this is what the recipe compares, so a cell would not be what its "
                "name says. Write a recipe of your own"
            )


def _task(about: Study, cell: Cell, data_root: str | Path | None) -> Task:
    settings = {**cell.settings, **about.changes}
    if data_root is not None and sources.has_files(str(settings["data.name"])):
        settings.setdefault("data.root", str(Path(data_root).expanduser().absolute()))
    return Task(cell.name, str(about.path(cell)), settings, cell.seed)
