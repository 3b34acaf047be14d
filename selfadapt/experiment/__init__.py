"""The only place that sees a whole recipe: it builds data, net and method, calls the engine, and
writes what the run directory is to hold."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from selfadapt import corruption, distributed, errors, recipe, signatures
from selfadapt import data as sources
from selfadapt.data.labelled import LabelledData
from selfadapt.engine import trackers
from selfadapt.engine.fit import fit as train
from selfadapt.engine.machine import Machine, this_machine
from selfadapt.engine.work import Show
from selfadapt.experiment import record
from selfadapt.experiment.assembly import (
    Experiment,
    Net,
    build_method,
    input_statistics,
    make_parts,
    plan_experiment,
)
from selfadapt.experiment.run import Run, open_run
from selfadapt.methods import Method
from selfadapt.randomness import key
from selfadapt.rundir import RunDir, Status

__all__ = ["Run", "fit", "open_run"]


def fit(
    data: Any,
    *,
    out: str | os.PathLike[str],
    method: str = "sat",
    net: Net | None = None,
    seed: int = 1,
    settings: Mapping[str, Any] | None = None,
    show: Show | None = None,
) -> Run:
    """Train on `data` (anything `load` takes, or what it returned) into the directory `out`, or go
    on with the run that is there.

    settings: {"train.epochs": 40, "corruption.name": "uniform", …}, the same names as on the
      command line.
    show: called with a dict now and then, for progress.
    """
    experiment = plan_experiment(data, method=method, net=net, seed=seed, settings=settings)
    show = show or (lambda _: None)
    run = RunDir(out)
    machine = this_machine(experiment.plan.precision)
    with _alone_in(run):
        if _is_done(run, experiment):
            show({"note": f"{run.path} is finished already; nothing to do"})
        else:
            _train_into(run, experiment, machine, show)
    return Run(run, net=None if isinstance(experiment.net, str) else experiment.net)


@contextmanager
def _alone_in(run: RunDir) -> Iterator[None]:
    """The first process takes the directory; if it cannot, none goes on."""
    refusal: errors.SelfAdaptError | None = None
    lock, made = run.lock(), False
    if distributed.is_first():
        try:
            made = run.create()
            lock.__enter__()
        except errors.SelfAdaptError as error:
            refusal = error
        except OSError as error:
            refusal = errors.BadInput(f"{run.path} cannot be written to: {error.strerror}")
    refusal = distributed.from_first(refusal)
    if refusal is not None:
        raise refusal
    try:
        yield
    finally:
        if distributed.is_first():
            run.leave(made)
            lock.__exit__(None, None, None)


def _is_done(run: RunDir, experiment: Experiment) -> bool:
    """Whether the run is finished; a run of another recipe is an error."""
    status: Status = distributed.from_first(run.status())
    if status == "new":
        return False
    found = recipe.differences(run.settings(), experiment.recorded())
    if found:
        raise errors.RunMismatch(
            f"{run.path} holds a run with other settings ({'; '.join(found[:5])}). "
            "Name another directory, or give the settings it was made with"
        )
    if status == "done" and isinstance(experiment.source, LabelledData):
        _refuse_other_labels(run, _with_noise(experiment.source, experiment))
    return status == "done"


def _train_into(run: RunDir, experiment: Experiment, machine: Machine, show: Show) -> None:
    trackers.check(experiment.plan.trackers)
    data = _with_noise(_loaded(experiment, show), experiment)
    if distributed.from_first(run.status()) == "partial":
        _refuse_other_labels(run, data)
        machine = replace(machine, precision=_recorded(run)["precision"])
    settings = experiment.settings["data"]
    parts = make_parts(
        data,
        experiment.seed,
        experiment.plan,
        machine,
        validation=settings["validation"],
        augment=settings["augment"],
    )
    statistics = input_statistics(parts.train)
    method = build_method(experiment, data.labels, data.num_classes, data.inputs.shape, statistics)
    method.epochs = experiment.plan.epochs
    for note in (*data.notes, *_notes(experiment, data, method)):
        show({"note": note})
    if run.status() == "new" and distributed.is_first():
        record.write_start(run, experiment, data, parts, method, machine, statistics)
    distributed.wait_for_everyone()
    outcome = train(method, parts, experiment.plan, run, machine, seed=experiment.seed, show=show)
    record.write_outcome(run, experiment, data, parts, method, machine, outcome, show)
    distributed.wait_for_everyone()


def _refuse_other_labels(run: RunDir, data: LabelledData) -> None:
    if run.read_json(run.run_file)["noise"]["fingerprint"] != corruption.fingerprint(data.labels):
        raise errors.RunMismatch(
            f"{run.path} was begun with other labels: {data.name} has changed since. Name another "
            "directory, or bring back the data it was begun with"
        )


def _recorded(run: RunDir) -> dict[str, Any]:
    resolved: dict[str, Any] = run.read_json(run.run_file)["resolved"]
    return resolved


def _loaded(experiment: Experiment, show: Show) -> LabelledData:
    if isinstance(experiment.source, LabelledData):
        return experiment.source

    def progress(done: int, total: int, what: str) -> None:
        show({"what": what, "done": done, "total": total})

    known = signatures.settings_of(sources.load).keys() - {"progress"}
    asked = {k: v for k, v in experiment.settings["data"].items() if k in known}
    return sources.load(experiment.source, **asked, progress=progress)


def _with_noise(data: LabelledData, experiment: Experiment) -> LabelledData:
    """Labels of the whole training part are corrupted before a validation part is split off; test
    labels never."""
    settings = dict(experiment.settings["corruption"])
    name = settings.pop("name")
    if name == "none":
        return data
    corrupt = corruption.resolve(name)
    seed = key("corruption", experiment.seed)
    return data.with_labels(corrupt(data.labels, data.num_classes, seed, **settings))


def _notes(experiment: Experiment, data: LabelledData, method: Method) -> list[str]:
    """What a person should know before it starts."""
    plan, notes = experiment.plan, []
    if plan.batch > len(data):
        notes.append(f"the batch is cut from {plan.batch} to the {len(data)} samples there are")
    start = method.facts().get("start")
    if start is not None and start >= plan.epochs:
        notes.append(
            f"warning: method.start={start} is not before the last epoch (train.epochs="
            f"{plan.epochs}): this will be plain training, and no label will be corrected"
        )
    return notes
