"""The only place that sees a whole recipe: it builds data, net and method, calls the engine, and
writes what the run directory is to hold."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from selfadapt import corruption, distributed, errors, recipe, signatures
from selfadapt import data as sources
from selfadapt.data.corrupted import with_noise
from selfadapt.data.labelled import LabelledData
from selfadapt.engine import trackers
from selfadapt.engine.fit import fit as train
from selfadapt.engine.machine import Machine, this_machine
from selfadapt.engine.scores import scores_of
from selfadapt.engine.step import check_smallest_part
from selfadapt.engine.work import Parts, Show
from selfadapt.experiment import record, stages
from selfadapt.experiment.assembly import (
    Experiment,
    Net,
    build_method,
    make_parts,
    plan_experiment,
)
from selfadapt.experiment.run import Run, open_run
from selfadapt.experiment.statistics import input_statistics
from selfadapt.methods import Method
from selfadapt.rundir import RunDir, Status

__all__ = ["Run", "fit", "is_done", "open_run"]


def fit(
    data: Any,
    *,
    out: str | os.PathLike[str],
    method: str | None = None,
    net: Net | None = None,
    seed: int = 1,
    settings: Mapping[str, Any] | None = None,
    show: Show | None = None,
) -> Run:
    """Train on `data` (anything `load` takes, or what it returned) into the directory `out`, or go
    on with the run that is there.

    method: sat if nothing is said.
    settings: {"train.epochs": 40, "corruption.name": "uniform", …}, the same names as on the
      command line.
    show: called with a dict now and then, for progress.
    """
    experiment = plan_experiment(data, method=method, net=net, seed=seed, settings=settings)
    run = RunDir(out)
    machine = this_machine(experiment.plan.precision)
    _carry_out(experiment, run, machine, show or (lambda _: None), before=None)
    return Run(run, net=None if isinstance(experiment.net, str) else experiment.net)


def is_done(
    data: Any,
    *,
    out: str | os.PathLike[str],
    seed: int = 1,
    settings: Mapping[str, Any] | None = None,
) -> bool:
    """Whether `fit` would find nothing left to do in `out`; that it holds another run is an error.
    Neither data is read nor the directory locked."""
    planned = plan_experiment(data, method=None, net=None, seed=seed, settings=settings)
    return _is_done(RunDir(out), planned)


def _carry_out(
    experiment: Experiment, run: RunDir, machine: Machine, show: Show, before: RunDir | None
) -> None:
    """The run and, first, its method's earlier stages. `before` is the stage it takes over from."""
    with _alone_in(run):
        distributed.on_first(run.forget_if_vain)
        if _is_done(run, experiment):
            show({"note": f"{run.path} is finished already; nothing to do"})
            return
        trackers.check(experiment.plan.trackers)
        experiment = replace(experiment, source=_loaded(experiment, show))

        def carry_out(stage: Experiment, place: RunDir, after: RunDir | None) -> None:
            show({"stage": place.path.name})
            _carry_out(stage, place, machine, show, after)

        last = stages.carry_out_all(experiment, run, carry_out)
        if last is not None:
            show({"stage": None})
        _train_into(run, experiment, machine, show, last or before)


@contextmanager
def _alone_in(run: RunDir) -> Iterator[None]:
    """The first process takes the directory; if it cannot, none goes on."""
    lock = run.lock()

    def take() -> list[Path]:
        try:
            made = run.create()
            lock.__enter__()
        except OSError as error:
            told = f"{run.path} cannot be written to: {error.strerror}"
            raise errors.BadInput(told) from error
        return made

    made = distributed.on_first(take)
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


def _train_into(
    run: RunDir, experiment: Experiment, machine: Machine, show: Show, before: RunDir | None
) -> None:
    data = _with_noise(_loaded(experiment, show), experiment)
    status: Status = distributed.from_first(run.status())
    if status == "partial":
        _refuse_other_labels(run, data)
        machine = replace(machine, precision=_recorded(run)["precision"])
    settings = experiment.settings["data"]
    parts = make_parts(
        data,
        experiment.seed,
        experiment.plan,
        machine,
        **{name: settings[name] for name in signatures.settings_of(make_parts)},
    )
    if status == "partial":
        statistics = run.read_json(run.run_file)["data"]["statistics"]
    else:
        statistics = distributed.on_first(lambda: input_statistics(parts.train, show))
    method = build_method(experiment, data.labels, data.num_classes, data.inputs.shape, statistics)
    method.epochs = experiment.plan.epochs
    _check_needs(method, experiment, parts)
    if method.needs_true_labels and data.true_labels is not None:
        method.take_true_labels(torch.tensor(data.true_labels))
    if before is not None:
        method.take_over(stages.handed(before))
    check_smallest_part(method, parts.train, experiment.plan.accumulate)
    for note in (*data.notes, *_notes(experiment, parts, method)):
        show({"note": note})
    if status == "new":
        about = (run, experiment, data, parts, method, machine, statistics)
        distributed.on_first(lambda: record.write_start(*about))
    outcome = train(method, parts, experiment.plan, run, machine, seed=experiment.seed, show=show)
    record.write_outcome(run, experiment, data, parts, method, machine, outcome, show)
    distributed.wait_for_everyone()


def _check_needs(method: Method, experiment: Experiment, parts: Parts) -> None:
    name = experiment.settings["method"]["name"]
    if method.needs_true_labels and parts.true_labels is None:
        raise errors.BadInput(
            f"method {name} was asked to look at true labels, and none are known here: name their "
            "column in data.true, or leave that setting of the method out"
        )
    if method.needs_validation and not len(parts.validation):
        raise errors.BadInput(
            f"method {name} chooses by accuracy on held-out noisy labels, and nothing is held out: "
            "--set data.validation=0.1"
        )
    _check_score(experiment.plan.score, method, parts)
    if method.needs_sgd and experiment.plan.optimizer != "sgd":
        raise errors.BadInput(
            f"method {name} has parameters whose rates are those of plain SGD: "
            f"--set train.optimizer=sgd, not {experiment.plan.optimizer}"
        )
    if method.whole_steps and experiment.plan.accumulate > 1:
        raise errors.BadInput(
            f"method {name} looks at all samples of a step together, so its parts would not add "
            f"up to the whole: leave train.accumulate at 1, not {experiment.plan.accumulate}, and "
            "save memory by a smaller train.batch"
        )
    if method.one_process and distributed.processes() > 1:
        raise errors.BadInput(
            f"method {name} pairs samples within a batch, so several processes would not compute "
            "what one does: start it on one"
        )


def _check_score(score: str, method: Method, parts: Parts) -> None:
    if score == "none":
        return
    if parts.test is None:
        raise errors.BadInput(
            f"train.score={score} measures on a test part, and data.test=0 leaves none"
        )
    there = scores_of(method)
    if score != "auto" and score not in there:
        raise errors.BadInput(
            f"train.score={score}: this method has no such score; there is auto, {', '.join(there)}"
        )


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
    settings = dict(experiment.settings["corruption"])
    return with_noise(data, settings.pop("name"), experiment.seed, settings)


def _notes(experiment: Experiment, parts: Parts, method: Method) -> list[str]:
    """What a person should know before it starts."""
    plan, notes = experiment.plan, []
    batch = parts.train.batch
    if plan.batch > batch:
        notes.append(f"the batch is cut from {plan.batch} to the {batch} samples that train")
    if experiment.settings["data"]["augment"] == "auto" and parts.train.augment == "crop_flip":
        notes.append(
            "pictures are shifted and mirrored in training; data.augment=crop or none if a "
            "mirrored one would be wrong"
        )
    for part, lost in (("validation", "no best epoch"), ("calibration", "no threshold")):
        asked = experiment.settings["data"][part]
        if asked and not len(getattr(parts, part)):
            notes.append(
                f"warning: data.{part}={asked} of {len(parts.train):,} samples is less than one of "
                f"any class: nothing is held out, and {lost} can be told"
            )
    if plan.warmup >= plan.epochs:
        notes.append(
            f"warning: train.warmup={plan.warmup:g} is not before the last epoch (train.epochs="
            f"{plan.epochs}): the learning rate will not reach {plan.rate:g}"
        )
    start = method.facts().get("start")
    if start is not None and start >= plan.epochs:
        notes.append(
            f"warning: method.start={start} is not before the last epoch (train.epochs="
            f"{plan.epochs}): this will be plain training, and no label will be corrected"
        )
    return notes
