"""Carries out the cells of a recipe, and writes the table and the figures they are for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from selfadapt import distributed, launched
from selfadapt.engine.machine import this_machine
from selfadapt.engine.work import Show
from selfadapt.errors import BadInput
from selfadapt.reproduce.cell import Loaded, Outcome, carry_out, look
from selfadapt.reproduce.estimates import Group, estimate
from selfadapt.reproduce.results import Written, write
from selfadapt.reproduce.tasks import Study, Task, plan
from selfadapt.reproduce.workers import carry_out_together
from selfadapt.rundir import write_atomically

__all__ = [
    "Group",
    "Outcome",
    "Report",
    "Study",
    "Task",
    "Written",
    "check_jobs",
    "estimate",
    "plan",
    "reproduce",
]


@dataclass(frozen=True)
class Report:
    """What became of the cells of this command's share, by name."""

    study: Study
    outcomes: Mapping[str, Outcome]
    written: Written

    @property
    def failed(self) -> dict[str, str]:
        return {name: o.text for name, o in self.outcomes.items() if o.ending == "failed"}


def reproduce(
    name: str | Path,
    *,
    scale: str = "small",
    out: str | os.PathLike[str] = "runs",
    data_root: str | Path | None = None,
    shard: str | None = None,
    jobs: int = 1,
    seeds: int | None = None,
    where: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    show: Show | None = None,
) -> Report:
    """Skip the cells that are done, go on with those that were cut off, run the others.

    shard: "2/4" is the second of four shares, such as four machines may take.
    jobs: cells at a time, each in a process of its own.
    where: ["method.name=erm,sat"] is only the cells of either.
    settings: over those of the recipe, for every cell.
    show: told of each cell's events and outcome, by {"cell": its name, …}.
    """
    check_jobs(jobs)
    about: dict[str, Any] = {"data_root": data_root, "shard": shard, "seeds": seeds}
    about |= {"where": where, "settings": settings}
    study = plan(name, scale=scale, out=out, **about)
    _make(study.folder)
    show = show or (lambda _: None)
    outcomes = {}
    for task, outcome in _carried_out(study, jobs, show):
        outcomes[task.name] = outcome
        show({"cell": task.name, "outcome": outcome})
        distributed.on_first(partial(_note_down, study, task, outcome))
    return Report(study, outcomes, distributed.on_first(partial(write, study)))


def check_jobs(jobs: int) -> None:
    if jobs < 1:
        raise BadInput(f"--jobs is how many cells to run at a time, at least 1; got {jobs}")
    if jobs > 1 and launched.count() > 1:
        raise BadInput(
            f"--jobs {jobs} within {launched.count()} processes that a launcher started: these "
            "share every cell already. Leave out one of the two"
        )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{folder} cannot be made: {error.strerror}; give another --out") from None


def _carried_out(study: Study, jobs: int, show: Show) -> Iterator[tuple[Task, Outcome]]:
    if jobs == 1:
        this_machine()  # now all processes of a launcher can agree
    left = []
    for task in study.tasks:
        found = look(task)
        if found is None:
            left.append(task)
        else:
            yield task, found
    show({"todo": {task.name: task.epochs for task in left}, "cells": len(study.tasks)})
    if jobs > 1 and left:
        yield from carry_out_together(left, jobs, show)
        return
    loaded = Loaded()
    for task in left:
        yield task, carry_out(task, loaded, partial(_told, task, show))


def _told(task: Task, show: Show, event: dict[str, Any]) -> None:
    show({"cell": task.name, **event})


def _note_down(study: Study, task: Task, outcome: Outcome) -> None:
    """A file a cell, for other processes may be at other cells of the same study."""
    file = study.failure_file(task.name)
    if outcome.ending == "failed":
        file.parent.mkdir(exist_ok=True)
        write_atomically(file, (outcome.text.rstrip() + "\n").encode())
    elif outcome.ending != "in use":
        file.unlink(missing_ok=True)
