"""The data of a run once more, to measure its model on the parts it did not train on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfadapt import corruption, errors, signatures
from selfadapt import data as sources
from selfadapt.data.corrupted import with_noise
from selfadapt.data.labelled import InMemory, Inputs, LabelledData
from selfadapt.data.part import Progress, some
from selfadapt.engine.machine import this_machine
from selfadapt.engine.plan import Plan
from selfadapt.engine.work import Parts
from selfadapt.experiment.assembly import make_parts
from selfadapt.experiment.run import Run


@dataclass(frozen=True)
class HeldOut:
    """Samples that a run did not train on."""

    name: str
    inputs: Inputs
    rows: NDArray[np.int64]
    labels: NDArray[np.int64]  # as given
    true: NDArray[np.int64] | None


def own_test_part(run: Run, progress: Progress | None = None) -> HeldOut:
    data, parts = _loaded(run, progress)
    if parts.test is None or parts.test_labels is None or data.test is None:
        raise errors.BadInput(
            f"the run in {run.path} has no test part (data.test=0): give labelled data to measure "
            "on, --data TEST"
        )
    rows = parts.test.rows
    true = None if data.test.true_labels is None else data.test.true_labels[rows]
    return HeldOut("the test part", data.test.inputs, rows, parts.test_labels, true)


def left_out_inputs(run: Run, progress: Progress | None = None) -> Inputs:
    """Test samples of the classes that the run was not told of."""
    data, _ = _loaded(run, progress)
    if data.left_out is None:
        raise errors.BadInput(
            f"the run in {run.path} left no classes out (data.without): name a file or a folder"
        )
    return data.left_out


def calibration_part(run: Run, progress: Progress | None = None) -> HeldOut:
    """Apart from training, from validation and from testing."""
    if not run.about["data"].get("calibration"):
        raise errors.BadInput(
            f"the run in {run.path} held nothing out to set a threshold on, and what it trained on "
            "or was chosen by would promise too much. Train with --set data.calibration=0.1, or "
            "give labelled data that it has never seen: --data NEW"
        )
    data, parts = _loaded(run, progress)
    rows = parts.calibration
    true = None if data.true_labels is None else data.true_labels[rows]
    return HeldOut("the calibration part", data.inputs, rows, data.labels[rows], true)


def other_data(
    run: Run, source: Any, reading: Mapping[str, Any], progress: Progress | None = None
) -> HeldOut:
    """Labelled samples of the user's, with the classes of the run: the test part of a source that
    has one, or all of it."""
    if "test" in reading:
        raise errors.BadInput("data.test divides what is trained on: leave it out beside --data")
    size = {"size": run.shape[-1]} if len(run.shape) == 3 else {}
    found = sources.load_to_measure(source, {**size, **reading}, progress)
    if found.test is None and _same(source, run.about["settings"]["data"].get("source")):
        raise errors.BadInput(
            f"{source} is what the run in {run.path} trained on: what it has seen says nothing of "
            "what it has not. Leave --data out for the part it held out itself, or name other data"
        )
    data = found if found.test is None else found.test
    inputs = _in_the_order_of(run, found, data.inputs)
    if inputs.shape != run.shape:
        raise errors.BadInput(
            f"{found.name} has samples of shape {inputs.shape}, and the run in {run.path} "
            f"learned from {run.shape}"
        )
    place = {name: number for number, name in enumerate(run.classes)}
    unknown = sorted({data.classes[label] for label in np.unique(data.labels)} - set(place))
    if unknown:
        raise errors.BadInput(
            f"{found.name} has classes that the run in {run.path} does not know: "
            f"{some(unknown)}; it knows {some(run.classes, 20)}"
        )
    to_ours = np.array([place.get(name, -1) for name in data.classes])
    rows = np.setdiff1d(np.arange(len(data)), np.array(list(data.quarantined), np.int64))
    true = None if data.true_labels is None else to_ours[data.true_labels[rows]]
    return HeldOut(found.name, inputs, rows, to_ours[data.labels[rows]], true)


def _in_the_order_of(run: Run, found: LabelledData, inputs: Inputs) -> Inputs:
    """The columns of a table by their names, as the run learned them."""
    wanted, there = run.about["data"].get("features"), found.features
    if not wanted or not there or list(there) == wanted or not isinstance(inputs, InMemory):
        return inputs
    missing = [name for name in wanted if name not in there]
    if missing:
        raise errors.BadInput(
            f"{found.name} lacks columns that the run in {run.path} learned from: {some(missing)}; "
            f"it has {some(list(there), 20)}"
        )
    return InMemory(inputs.values[:, [there.index(name) for name in wanted]])


def _same(one: Any, other: Any) -> bool:
    if other is None or not isinstance(one, str | Path):
        return False
    return str(one) == str(other) or Path(one).expanduser().resolve() == Path(other).resolve()


def _loaded(run: Run, progress: Progress | None) -> tuple[LabelledData, Parts]:
    """As the run saw it: read, corrupted and divided anew, and checked to be the same."""
    about = run.about
    settings = about["settings"]
    source = settings["data"].get("source")
    if source is None:
        raise errors.BadInput(
            f"the run in {run.path} was trained on arrays from Python, which are not at hand: give "
            "labelled data that it has never seen, --data NEW"
        )
    known = signatures.settings_of(sources.load).keys() - {"progress"}
    reading = {k: v for k, v in settings["data"].items() if k in known}
    data = sources.load(source, **reading, progress=progress)
    noise = dict(settings["corruption"])
    data = with_noise(data, noise.pop("name"), settings["seed"], noise)
    if corruption.fingerprint(data.labels) != about["noise"]["fingerprint"]:
        raise errors.RunMismatch(
            f"{source} has other labels than when the run in {run.path} was trained on it: bring "
            "that data back, or give labelled data that it has never seen, --data NEW"
        )
    ours = signatures.settings_of(make_parts)
    dividing = {k: v for k, v in settings["data"].items() if k in ours}
    machine = this_machine(about["resolved"]["precision"])
    plan = Plan(**{**settings["train"], "score": "none", "against": None})
    return data, make_parts(data, settings["seed"], plan, machine, **dividing)
