"""How long a study takes and how much memory, before it is begun: few measurements, and products
of them with what the recipe asks for."""

from __future__ import annotations

import itertools
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from selfadapt import errors, methods
from selfadapt.data import IN_MEMORY, sources
from selfadapt.data.sources import Size
from selfadapt.engine.signals import Signals
from selfadapt.engine.work import Show
from selfadapt.experiment.assembly import Experiment, plan_experiment
from selfadapt.experiment.stages import as_experiment
from selfadapt.reproduce.cell import Loaded
from selfadapt.reproduce.measure import Cost, measure
from selfadapt.reproduce.tasks import Study, Task
from selfadapt.reproduce.workers import threads_each

PATIENCE_SECONDS = 120.0  # what is not measured by then is left unknown


@dataclass(frozen=True)
class Needs:
    """Of one cell, from its beginning."""

    seconds: float
    memory: float


@dataclass
class Group:
    """Cells that need the same."""

    method: str
    net: str
    data: str
    epochs: int
    needs: Needs | None
    reason: str = ""  # why nothing is known of what they need
    tasks: list[Task] = field(default_factory=list)

    def count(self, status: str) -> int:
        return sum(task.status == status for task in self.tasks)

    def varied(self, study: Study) -> dict[str, list[Any]]:
        """What these cells differ in."""
        names = {task.name for task in self.tasks}
        found: dict[str, list[Any]] = {}
        for key in (cell.key for cell in study.cells if cell.name in names):
            for name, value in key.items():
                values = found.setdefault(name, [])
                if value not in values:
                    values.append(value)
        return {name: values for name, values in found.items() if len(values) > 1}

    @property
    def seconds_left(self) -> float | None:
        """A cell that was cut off has the epochs in its log behind it."""
        if self.needs is None:
            return None
        shares = [_left(task) for task in self.tasks]
        return self.needs.seconds * sum(shares)


def _left(task: Task) -> float:
    if task.status == "done":
        return 0.0
    return max(0.0, 1 - len(task.run.log()) / task.epochs)


def estimate(study: Study, jobs: int, show: Show) -> list[Group]:
    """The cells of this command's share, in the order of the recipe."""
    threads = torch.get_num_threads()
    torch.set_num_threads(min(threads, threads_each(jobs)))
    try:
        return _Estimate(show).groups(study.tasks)
    finally:
        torch.set_num_threads(threads)


class _Estimate:
    """Each method and net is measured once for each shape of data."""

    def __init__(self, show: Show) -> None:
        self.show = show
        self.until = time.monotonic() + PATIENCE_SECONDS
        self.loaded = Loaded()
        self.sizes: dict[str, Size] = {}
        self.costs: dict[str, Cost | str] = {}
        self.alike: dict[str, Cost | str] = {}  # of whatever number of classes

    def groups(self, tasks: Sequence[Task]) -> list[Group]:
        """In two rounds: if there is no time for all, it was spent on what differs most."""
        found: dict[str, Group] = {}
        for exact in (False, True):
            for done, task in enumerate(tasks, 1):
                group = self._group(task, exact)
                if exact:
                    found.setdefault(_sort(group), group).tasks.append(task)
                self.show({"what": "cells looked at", "done": done, "total": len(tasks)})
        return list(found.values())

    def _group(self, task: Task, exact: bool) -> Group:
        settings = dict(task.settings)
        source = settings.pop("data.name")
        asked = {k: v for k, v in settings.items() if k.startswith("net.") and k != "net.name"}
        named = [f"{name.removeprefix('net.')}={value}" for name, value in asked.items()]
        method, net = str(settings.get("method.name", "sat")), settings.get("net.name", "auto")
        group = Group(method, " ".join([net, *named]), source, task.epochs, None)
        try:
            planned = plan_experiment(
                source, method=None, net=None, seed=task.seed, settings=settings
            )
            return self._filled(group, planned, self._size(source, settings), exact)
        except errors.SelfAdaptError as error:
            return replace(group, reason=str(error))

    def _filled(self, group: Group, planned: Experiment, size: Size, exact: bool) -> Group:
        seconds = memory = 0.0
        for stage in (*_stages(planned), planned):
            cost = self._cost(stage, size, exact)
            if isinstance(cost, str):
                return replace(group, reason=cost)
            seconds += seconds_of(stage, size, cost)
            memory = max(memory, memory_of(stage, size, cost))
        return replace(group, needs=Needs(seconds, memory))

    def _size(self, source: str, settings: Mapping[str, Any]) -> Size:
        """Of a set without a name only its files can tell."""
        key = json.dumps([source, {k: v for k, v in settings.items() if k.startswith("data.")}])
        if key not in self.sizes:
            self.sizes[key] = _size_as_asked(source, settings) or self._read(source, settings)
        return self.sizes[key]

    def _read(self, source: str, settings: Mapping[str, Any]) -> Size:
        data = self.loaded.get(source, dict(settings), self.show)
        test = 0 if data.test is None else len(data.test)
        return Size(len(data), test, data.inputs.shape, data.num_classes)

    def _cost(self, planned: Experiment, size: Size, exact: bool) -> Cost | str:
        method, net = planned.settings["method"]["name"], planned.settings["net"]
        alike = json.dumps([method, net, size.shape, planned.plan.precision])
        key = f"{alike} {size.classes}"
        known = self.costs.get(key) or (None if exact else self.alike.get(alike))
        if known is not None:
            return known
        if time.monotonic() > self.until:
            return self.alike.get(alike, "not measured: it would have taken too long")
        self.costs[key] = self.alike[alike] = _measured(planned, size)
        return self.costs[key]


def _sort(group: Group) -> str:
    return repr(replace(group, tasks=[]))


def _measured(planned: Experiment, size: Size) -> Cost | str:
    try:
        return measure(planned, size, _part(planned, size))
    except Exception as error:  # whatever a net does on data of a shape that it is not made for
        return f"{type(error).__name__}: {error}"


def _size_as_asked(source: str, settings: Mapping[str, Any]) -> Size | None:
    size = sources.size(source)
    if size is None or isinstance(settings.get("data.test"), str):
        return None
    side, limit = settings.get("data.size"), settings.get("data.limit")
    if side is not None:
        size = size._replace(shape=(size.shape[0], side, side))
    return size._replace(train=min(size.train, limit or size.train))


def _stages(planned: Experiment) -> Iterator[Experiment]:
    """A method may choose its stages by what came of those before: here each was better."""
    method = methods.resolve(planned.settings["method"]["name"])
    knobs = {k: v for k, v in planned.settings["method"].items() if k != "name"}
    todo = method.stages(knobs, planned.settings["train"])
    with suppress(StopIteration):
        stage = next(todo)
        for number in itertools.count(1):
            yield as_experiment(stage, planned)
            stage = todo.send(defaultdict(partial(float, number)))


def _part(planned: Experiment, size: Size) -> int:
    return max(1, min(planned.plan.batch, size.train) // planned.plan.accumulate)


def _held_out(planned: Experiment, size: Size) -> float:
    return float(planned.settings["data"]["validation"]) * size.train


def seconds_of(planned: Experiment, size: Size, cost: Cost) -> float:
    """Training, the method's own passes, and what is measured after each epoch."""
    held_out = _held_out(planned, size)
    training = size.train - held_out
    looked_at = held_out + size.test + (training if planned.plan.curves else 0)
    steps = training * cost.more * cost.step
    return planned.plan.epochs * (steps + training * cost.own + looked_at * cost.predict)


def memory_of(planned: Experiment, size: Size, cost: Cost) -> float:
    """Samples, if they are kept in memory; what is remembered of each; weights; activations."""
    sample = 1.0 if len(size.shape) == 3 else 4.0
    for side in size.shape:
        sample *= side
    data = sample * (size.train if sample * size.train <= IN_MEMORY else 0)
    data += sample * (size.test if sample * size.test <= IN_MEMORY else 0)
    signals = 4.0 * size.classes if Signals.fit_in_memory(size.train, size.classes) else 0.0
    part = _part(planned, size)
    return data + size.train * (cost.table + signals) + cost.fixed + part * cost.activations
