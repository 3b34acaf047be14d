"""One cell: already done, carried out, in use elsewhere, or failed. Never the end of the others."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from selfadapt import data as sources
from selfadapt import distributed, errors, signatures
from selfadapt.data import IN_MEMORY, LabelledData, earlier_run
from selfadapt.engine.work import Show
from selfadapt.experiment import fit, is_done
from selfadapt.reproduce.tasks import Task

Ending = Literal["done", "was done", "in use", "failed"]


@dataclass(frozen=True)
class Outcome:
    ending: Ending
    text: str = ""  # of a failure: the reason
    sound: bool = True  # whether the process can be trusted with another cell


@dataclass
class Loaded:
    """Sets that cells share are read once a process, as many as memory may be spent on. One that
    cannot be read is not tried again: to fetch it may take long."""

    sets: dict[str, LabelledData] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)  # why

    def get(self, source: str, settings: dict[str, Any], show: Show) -> Any:
        """The set, and takes the settings that say how to read it out of `settings`."""
        if earlier_run.settings(source) is not None:
            return source  # its run's labels.parquet is read as that run was
        known = signatures.settings_of(sources.load).keys() - {"progress"}
        names = [name for name in settings if name.removeprefix("data.") in known]
        reads = {name: settings[name] for name in sorted(names) if name.startswith("data.")}
        key = json.dumps([source, reads])
        if key not in self.sets:
            self._make_room()
            self._read(key, source, reads, show)
        for name in reads:
            del settings[name]
        return self.sets[key]

    def _read(self, key: str, source: str, reads: dict[str, Any], show: Show) -> None:
        """A machine of several may lack it: then none goes on without the others."""
        if key not in self.unread:
            try:
                self.sets[key] = _read(source, reads, show)
            except errors.SelfAdaptError as error:
                self.unread[key] = str(error)
        for problem in distributed.from_all(self.unread.get(key)):
            if problem is not None:
                self.sets.pop(key, None)
                raise errors.BadInput(problem)

    def _make_room(self) -> None:
        while self.sets and sum(found.inputs.nbytes for found in self.sets.values()) > IN_MEMORY:
            del self.sets[next(iter(self.sets))]


def _read(source: str, reads: dict[str, Any], show: Show) -> LabelledData:
    def progress(done: int, total: int, what: str) -> None:
        show({"what": what, "done": done, "total": total})

    asked = {name.removeprefix("data."): value for name, value in reads.items()}
    bound = signatures.bind(sources.load, "data", asked, skip=("progress",))
    return sources.load(source, **bound, progress=progress)


def look(task: Task) -> Outcome | None:
    """What can be said of it without running it: nothing, if all is well and it is to be done."""
    settings = dict(task.settings)
    source = settings.pop("data.name")

    def planned() -> Ending | None:
        done = is_done(source, out=task.path, seed=task.seed, settings=settings)
        return "was done" if done else None

    return _guarded(planned)


def carry_out(task: Task, loaded: Loaded, show: Show) -> Outcome:
    found = look(task)  # somebody else may have finished it meanwhile
    if found is not None:
        return found
    settings = dict(task.settings)
    source = settings.pop("data.name")

    def run() -> Ending:
        data = loaded.get(source, settings, show)
        fit(data, out=task.path, seed=task.seed, settings=settings, show=show)
        return "done"

    try:
        outcome = _guarded(run)
    finally:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # others may share the GPU
    assert outcome is not None
    return outcome


def _guarded(work: Callable[[], Ending | None]) -> Outcome | None:
    """Errors that a person can put right are told in a sentence, others with their traceback."""
    try:
        ending = work()
    except errors.Interrupted:
        raise
    except errors.RunInUse as error:
        return Outcome("in use", str(error))
    except errors.SelfAdaptError as error:
        return Outcome("failed", str(error))
    except Exception:
        if distributed.processes() > 1:  # the others do not know, and would wait for ever
            raise
        return Outcome("failed", traceback.format_exc(), sound=False)
    return None if ending is None else Outcome(ending)
