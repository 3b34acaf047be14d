"""From a recipe to its pieces: checked settings, the parts of the data, the method with its net."""

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from selfadapt import corruption, errors, methods, nets, recipe, signatures
from selfadapt import data as sources
from selfadapt.data.feed import Feed
from selfadapt.data.labelled import Augment, LabelledData
from selfadapt.data.split import hold_out
from selfadapt.data.unlabelled import read_inputs
from selfadapt.engine.machine import Machine
from selfadapt.engine.plan import Plan
from selfadapt.engine.work import Parts
from selfadapt.methods import Method
from selfadapt.randomness import key

Net = str | nn.Module | Callable[..., nn.Module]
Rows = NDArray[np.int64]
NAMELESS = "given as an object: "


@dataclass(frozen=True)
class Experiment:
    """A recipe whose every setting has been checked, before any data is read."""

    source: Any
    net: Net
    seed: int
    settings: recipe.Settings
    plan: Plan

    def recorded(self) -> dict[str, Any]:
        """As it will be read from run.json again."""
        try:
            text = json.dumps({"seed": self.seed, **self.settings}, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise errors.BadInput(
                f"settings must be finite numbers, text, true or false, or lists of these: {error}"
            ) from None
        recorded: dict[str, Any] = json.loads(text)
        return recorded


def plan_experiment(
    source: Any,
    *,
    method: str | None,
    net: Net | None,
    seed: int,
    settings: Mapping[str, Any] | None,
) -> Experiment:
    asked = recipe.nest(settings or {})
    _refuse_infinite(asked)
    _refuse_two_names("method", method, asked["method"])
    _refuse_two_names("net", net, asked["net"])
    if asked["corruption"] and "name" not in asked["corruption"]:
        kinds = ", ".join(kind for kind in corruption.names() if kind != "none")
        raise errors.BadInput(
            f"corruption.{next(iter(asked['corruption']))} is given, but no kind of noise: "
            f"--set corruption.name=… ({kinds})"
        )
    if not isinstance(source, str | os.PathLike | LabelledData):
        source = _loaded_at_once(source, asked)
    asked["method"].setdefault("name", method or "sat")
    asked["net"].setdefault("name", "auto" if net is None else net)
    asked["corruption"].setdefault("name", "none")
    the_net = asked["net"]["name"]
    asked["net"]["name"] = the_net if isinstance(the_net, str) else _describe(the_net)
    resolved: recipe.Settings = {
        "data": _data_settings(source, asked["data"]),
        "corruption": _bind_named(asked["corruption"], corruption.resolve, "corruption"),
        "net": _net_settings(the_net, asked["net"]),
        "method": _bind_named(asked["method"], methods.resolve, "method"),
        "train": signatures.bind(Plan, "train", asked["train"]),
    }
    return Experiment(source, the_net, seed, resolved, Plan(**resolved["train"]))


def _refuse_infinite(asked: recipe.Settings) -> None:
    for name, value in recipe.flatten(asked).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise errors.BadInput(f"{name} must be a finite number, got {value}")


def _refuse_two_names(table: str, given: Net | None, asked: Mapping[str, Any]) -> None:
    if given is not None and asked.get("name", given) != given:
        one = given if isinstance(given, str) else _describe(given)
        raise errors.BadInput(
            f"{table} {one!r} and {table}.name={asked['name']!r} are both asked for: give one"
        )


def _loaded_at_once(source: Any, asked: recipe.Settings) -> LabelledData:
    """Arrays have no name: only what is in them tells a run on them from a run on others."""
    loading = signatures.settings_of(sources.load)
    given = {name: asked["data"].pop(name) for name in [*asked["data"]] if name in loading}
    return sources.load(source, **given)


def _bind_named(
    asked: Mapping[str, Any], resolve: Callable[[str], Callable[..., Any]], table: str
) -> dict[str, Any]:
    name = asked["name"]
    rest = {key: value for key, value in asked.items() if key != "name"}
    return {"name": name, **signatures.bind(resolve(name), table, rest)}


def _net_settings(net: Net, asked: dict[str, Any]) -> dict[str, Any]:
    """With all defaults where the net is one of ours; somebody else's are their own affair."""
    if isinstance(net, str) and net in nets.names():
        return _bind_named(asked, nets.resolve, "net")
    if net != "auto":
        nets.resolve(net)
    return asked


def _data_settings(source: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
    ours = signatures.settings_of(make_parts)
    loading = {key: value for key, value in asked.items() if key not in ours}
    parts = signatures.bind(
        make_parts, "data", {key: value for key, value in asked.items() if key in ours}
    )
    if isinstance(source, LabelledData):
        if loading:
            raise errors.BadInput(
                f"data.{next(iter(loading))} belongs to selfadapt.load: this data is loaded already"
            )
        return {**_same_data(source), **parts}
    known = signatures.settings_of(sources.load).keys() | ours.keys()
    for name in loading:
        if name not in known:
            raise errors.unknown("setting of data", name, known - {"progress"})
    loads = signatures.bind(sources.load, "data", loading, skip=("progress",))
    return {**sources.lasting(source, loads), **parts}


def _same_data(data: LabelledData) -> dict[str, Any]:
    """How to load it again; arrays that came from no file are known by their labels."""
    if data.source.get("source") is None:
        return {**data.source, "labels": corruption.fingerprint(data.labels)}
    return dict(data.source)


def _describe(net: Any) -> str:
    """A name that leads to the net again, or one that says that none does."""
    kind = type(net) if isinstance(net, nn.Module) else net
    name = f"{getattr(kind, '__module__', '')}:{getattr(kind, '__qualname__', repr(kind))}"
    return f"{NAMELESS}{name}" if isinstance(net, nn.Module) or "<" in name else name


def make_parts(
    data: LabelledData,
    seed: int,
    plan: Plan,
    machine: Machine,
    *,
    validation: float = 0.0,
    calibration: float = 0.0,
    augment: Augment | Literal["auto"] = "auto",
) -> Parts:
    """What trains and what measures.

    validation: the share of the training part held out, with its labels as given, to choose on.
    calibration: the share held out of training and of every choice, to set a threshold on.
    augment: none, crop (zero-padded, an eighth of the side), crop_flip (mirrored too); auto is what
      suits the source.
    """
    for name, share in (("validation", validation), ("calibration", calibration)):
        if not 0 <= share < 1:
            raise errors.BadInput(f"data.{name} must lie in [0, 1), got {share}")
    if validation + calibration >= 1:
        raise errors.BadInput(
            f"data.validation={validation} and data.calibration={calibration} leave nothing to "
            "train on: together they must be below 1"
        )
    readable = _readable(data)
    usable, held = _held_out(data, readable, "validation", validation, seed)
    of_rest = calibration * len(readable) / len(usable)
    usable, kept = _held_out(data, usable, "calibration", of_rest, seed)
    chosen = data.augment if augment == "auto" else augment
    shared: dict[str, Any] = {"workers": plan.workers, "device": machine.device}
    test = data.test
    return Parts(
        train=Feed(
            data.inputs,
            usable,
            seed=seed,
            batch=min(plan.batch, len(usable)),
            augment=chosen,
            **shared,
        ),
        labels=data.labels,
        ids=data.ids,
        validation=held,
        calibration=kept,
        true_labels=data.true_labels,
        corrupted=_corrupted(data),
        clean=None if data.clean_inputs is None else Feed(data.clean_inputs, usable, **shared),
        others=_others(data, plan, shared),
        test=None if test is None else Feed(test.inputs, _readable(test), **shared),
        test_labels=None if test is None else test.labels[_readable(test)],
        test_ids=None if test is None else test.ids,
    )


def _others(data: LabelledData, plan: Plan, shared: Mapping[str, Any]) -> Feed | None:
    """Read before anything is trained: a name that leads nowhere must not cost a run."""
    if plan.against is None:
        return None
    if plan.against == "left_out":
        if data.left_out is None:
            raise errors.BadInput(
                "train.against=left_out is for test samples of classes that are not trained on, "
                'and there are none: name classes, --set \'data.without=["cat", "dog"]\''
            )
        return Feed(data.left_out, np.arange(len(data.left_out)), **shared)
    root = data.source.get("root")
    reading = {} if root is None else {"root": root}
    found = read_inputs(plan.against, data.inputs.shape, reading, features=data.features)
    return Feed(found.inputs, found.readable(plan.against), **shared)


def _held_out(
    data: LabelledData, usable: Rows, part: str, share: float, seed: int
) -> tuple[Rows, Rows]:
    """(rows that go on, rows held out): a share of `usable`."""
    if not share:
        return usable, np.zeros(0, np.int64)
    stay, out = hold_out(data.labels[usable], share, f"{part} {seed}")
    return usable[stay], usable[out]


def _corrupted(data: LabelledData) -> NDArray[np.bool_] | None:
    """Where nothing is known of true labels, and no image was changed, nothing is known."""
    wrong = None if data.true_labels is None else data.labels != data.true_labels
    if data.noisy_images is None:
        return wrong
    return data.noisy_images if wrong is None else wrong | data.noisy_images


def _readable(data: LabelledData) -> Rows:
    return np.setdiff1d(np.arange(len(data)), np.array(list(data.quarantined), np.int64))


def build_method(
    experiment: Experiment,
    labels: Rows,
    num_classes: int,
    shape: Sequence[int],
    statistics: Mapping[str, list[float]],
) -> Method:
    """The method with fresh weights, which depend on the seed only. A module of the user's own is
    copied: it may be given to other runs too, which would go on from what this one learned."""
    net = net_for(shape) if experiment.net == "auto" else experiment.net
    net = copy.deepcopy(net) if isinstance(net, nn.Module) else net
    options = {k: v for k, v in experiment.settings["net"].items() if k != "name"}
    make_net = nets.maker(net, shape, **statistics, options=options)

    def make(num_outputs: int) -> nn.Module:
        built = make_net(num_outputs)
        if experiment.plan.compile:
            built.compile()
        return built

    settings = {k: v for k, v in experiment.settings["method"].items() if k != "name"}
    torch.manual_seed(key(experiment.seed, "init"))
    name = experiment.settings["method"]["name"]
    return methods.build(name, make, torch.tensor(labels), num_classes, settings)


def net_for(shape: Sequence[int]) -> str:
    """What `auto` stands for."""
    return "mlp" if len(shape) == 1 or min(shape[1:]) < 16 else "resnet18"
