"""Methods of several stages: each is a run of its own, in a directory under the last one's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from selfadapt import distributed, methods, signatures
from selfadapt.engine.plan import Plan
from selfadapt.errors import DamagedFile
from selfadapt.experiment.assembly import Experiment
from selfadapt.methods import Stage
from selfadapt.rundir import RunDir

CarryOut = Callable[[Experiment, RunDir, "RunDir | None"], None]


def carry_out_all(experiment: Experiment, run: RunDir, carry_out: CarryOut) -> RunDir | None:
    """Every stage that comes before this run, in order, each taking over from the one before it.
    The one that the run itself takes over from, or None."""
    knobs = {k: v for k, v in experiment.settings["method"].items() if k != "name"}
    method = methods.resolve(experiment.settings["method"]["name"])
    todo = method.stages(knobs, experiment.settings["train"])
    last, result = None, None
    while True:
        try:
            stage = next(todo) if result is None else todo.send(result)
        except StopIteration as stop:
            return last if stop.value is None else RunDir(run.stages / stop.value)
        place = RunDir(run.stages / stage.name)
        carry_out(as_experiment(stage, experiment), place, last)
        result = distributed.on_first(partial(place.read_json, place.result_file))
        last = place


def as_experiment(stage: Stage, experiment: Experiment) -> Experiment:
    """On the same data, with the same noise, net and seed."""
    knobs = signatures.bind(methods.resolve(stage.method), "method", stage.knobs)
    train = signatures.bind(Plan, "train", {**experiment.settings["train"], **stage.train})
    changed = {"method": {"name": stage.method, **knobs}, "train": train}
    return replace(experiment, settings={**experiment.settings, **changed}, plan=Plan(**train))


def handed(run: RunDir) -> Mapping[str, Tensor]:
    """What that stage handed over."""
    try:
        found: Mapping[str, Tensor] = load_file(run.handed_file)
    except (OSError, SafetensorError) as error:
        raise DamagedFile(
            f"{run.handed_file} cannot be read ({error}). Remove {run.result_file}, and give the "
            "same command again"
        ) from None
    return found


def results(run: RunDir) -> list[dict[str, Any]]:
    """What result.json should say of the stages that came before, in the order they ended."""
    done = [RunDir(path) for path in run.stages.iterdir()] if run.stages.is_dir() else []
    finished = [stage for stage in done if stage.status() == "done"]
    finished.sort(key=lambda stage: (stage.result_file.stat().st_mtime_ns, stage.path.name))
    found = []
    for stage in finished:
        result = stage.read_json(stage.result_file)
        kept = ("method", "epochs", "accuracy", "validation_accuracy", "training_seconds")
        found.append({"stage": stage.path.name, **{name: result[name] for name in kept}})
    return found
