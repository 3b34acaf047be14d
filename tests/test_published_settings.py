"""What METHODS.md 1-10, 12 and 17 give for each method, typed in once more: its defaults, and its
settings in the main table. Learning rates are compared in test_recipes_schedules.py."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from shipped import known

from selfadapt import methods, signatures
from selfadapt.methods.joint_optimization import JointOptimization

RATES = (0.2, 0.4, 0.6, 0.8)
SETS = ("cifar10", "cifar100")

DEFAULTS: dict[str, dict[str, Any]] = {
    "co_teaching": {"rate": 0.2, "ramp": 10},
    "dac": {
        "warmup": 20 / 200,
        "factor": 64,
        "final": 1,
        "mu": 0.05,
        "rule": "nonabstaining_error",
        "choose": "noisy",
    },
    "deep_gamblers": {"reward": 2.2, "pretrain": 0},
    "dividemix": {
        "warmup": 10,
        "threshold": 0.5,
        "temperature": 0.5,
        "beta": 4,
        "lambda_u": 25,
        "ramp": 16,
        "penalise_confidence": False,
    },
    "elr": {"beta": 0.7, "strength": 3},
    "erm": {"smoothing": 0},
    "forward": {"matrix": "estimated", "percentile": 0.97, "in_place": False, "best": True},
    "gce": {"q": 0.7},
    "joint_optimization": {
        "relabel_epochs": 200 / 120,
        "relabel_lr": None,
        "begin": 70 / 200,
        "prior": 1.2,
        "entropy": 0.8,
        "average": 10,
    },
    "mentornet": {
        "curriculum": "predefined",
        "percentile": 0.75,
        "decay": 0.5,
        "clean": 5000,
        "mentor_steps": 30_000,
    },
    "mixup": {"a": 1},
    "sat": {"start": 60 / 200, "momentum": 0.9, "reweight": True, "average": "kept"},
    "sat_sce": {"start": 60 / 200, "momentum": 0.9, "beta": 0.1},
    "sat_selective": {"preset": "paper", "pretrain": None, "momentum": None},
    "sce": {"a": 0.1, "b": 1},
    "selectivenet": {"coverage": 0.8, "penalty": 32, "mix": 0.5, "risk": "paper"},
    "selc": {"start": 40 / 200, "momentum": 0.9},
    "self_filter": {"rounds": 3, "momentum": 0.9, "decay": 0.99, "consistency": 100, "ramp": 5},
    "sop": {"lr_u": 1, "lr_v": 10},
    "truncated_gce": {"q": 0.7, "k": 0.5, "prune": 40 / 120, "every": 10},
}


@pytest.mark.parametrize("name", methods.names())
def test_defaults(name: str) -> None:
    settings = signatures.bind(methods.resolve(name), "method", {})
    assert settings == pytest.approx(DEFAULTS[name], nan_ok=True)


class Own(NamedTuple):
    epochs: int
    weight_decay: float
    optimizer: str = "sgd"
    nesterov: bool = False
    augment: str = "crop_flip"


OWN: dict[tuple[str, str], Own] = {
    ("co_teaching", "cifar10"): Own(200, 0.0, "adam", augment="none"),
    ("co_teaching", "cifar100"): Own(200, 0.0, "adam", augment="none"),
    ("dac", "cifar10"): Own(200, 5e-4),
    ("dac", "cifar100"): Own(200, 5e-4),
    ("dividemix", "cifar10"): Own(300, 5e-4),
    ("dividemix", "cifar100"): Own(300, 5e-4),
    ("elr", "cifar10"): Own(150, 1e-3),
    ("elr", "cifar100"): Own(150, 1e-3),
    ("forward", "cifar10"): Own(120, 1e-4),
    ("forward", "cifar100"): Own(150, 1e-3),
    ("gce", "cifar10"): Own(120, 1e-4),
    ("gce", "cifar100"): Own(150, 1e-4),
    ("joint_optimization", "cifar10"): Own(120, 1e-4),
    ("joint_optimization", "cifar100"): Own(120, 1e-4),
    ("mentornet", "cifar10"): Own(100, 2e-4),
    ("mentornet", "cifar100"): Own(100, 2e-4),
    ("mixup", "cifar10"): Own(200, 1e-4),
    ("mixup", "cifar100"): Own(200, 1e-4),
    ("sce", "cifar10"): Own(120, 5e-3),
    ("sce", "cifar100"): Own(150, 5e-3),
    ("selc", "cifar10"): Own(200, 1e-3),
    ("selc", "cifar100"): Own(200, 1e-3),
    ("self_filter", "cifar10"): Own(200, 2e-4, nesterov=True),
    ("self_filter", "cifar100"): Own(200, 2e-4, nesterov=True),
    ("sop", "cifar10"): Own(300, 1e-3),
    ("sop", "cifar100"): Own(300, 1e-3),
    ("truncated_gce", "cifar10"): Own(120, 1e-4),
    ("truncated_gce", "cifar100"): Own(150, 1e-4),
}


def test_every_own_schedule_is_here() -> None:
    own = known("cifar-noise", {"protocol": "own"})
    assert {(one["method.name"], one["data.name"]) for one in own} == OWN.keys()


@pytest.mark.parametrize(("method", "data"), OWN)
def test_own_schedules(method: str, data: str) -> None:
    wanted = {"method.name": method, "data.name": data, "protocol": "own"}
    for one in known("cifar-noise", wanted):
        assert OWN[method, data] == Own(
            one["train.epochs"],
            one["train.weight_decay"],
            one["train.optimizer"],
            one.get("train.nesterov", False),
            one["data.augment"],
        )
        assert (one["train.batch"], one["train.momentum"]) == (128, 0.9)


# knobs other than the defaults: method, protocol (any if none), set, knob, value at each rate
KNOBS: list[tuple[str, str | None, str, str, tuple[Any, Any, Any, Any]]] = [
    ("sat", None, "cifar10", "start", (60,) * 4),
    ("sat", None, "cifar100", "start", (60,) * 4),
    ("sat_sce", None, "cifar10", "start", (60,) * 4),
    ("sat_sce", None, "cifar100", "start", (60,) * 4),
    ("forward", None, "cifar100", "percentile", ("none",) * 4),
    ("sce", None, "cifar100", "a", (6,) * 4),
    ("sce", None, "cifar100", "b", (0.1,) * 4),
    ("elr", None, "cifar100", "beta", (0.9,) * 4),
    ("elr", None, "cifar100", "strength", (7,) * 4),
    ("dividemix", None, "cifar10", "lambda_u", (0, 25, 25, 25)),
    ("dividemix", None, "cifar100", "lambda_u", (25, 150, 150, 150)),
    ("dividemix", None, "cifar100", "warmup", (30,) * 4),
    ("truncated_gce", "own", "cifar10", "prune", (40,) * 4),
    ("truncated_gce", "own", "cifar100", "prune", (80,) * 4),
    ("dac", "own", "cifar10", "warmup", (20,) * 4),
    ("dac", "own", "cifar100", "warmup", (20,) * 4),
    ("selc", "own", "cifar10", "start", (40, 30, 30, 40)),
    ("selc", "own", "cifar100", "start", (30, 20, 30, 40)),
    *[
        ("joint_optimization", "own", data, knob, (value,) * 4)
        for data in SETS
        for knob, value in (
            *(("relabel_epochs", 200), ("relabel_lr", 0.08), ("begin", 70)),
            *(("prior", 1.2), ("entropy", 0.8)),
        )
    ],
]


@pytest.mark.parametrize(("method", "protocol", "data", "knob", "values"), KNOBS)
def test_knobs(
    method: str, protocol: str | None, data: str, knob: str, values: tuple[Any, ...]
) -> None:
    for rate, value in zip(RATES, values, strict=True):
        wanted = {"method.name": method, "data.name": data, "corruption.rate": rate}
        wanted |= {"protocol": protocol} if protocol else {}
        for one in known("cifar-noise", wanted):
            assert one[f"method.{knob}"] == value


def test_other_knobs_are_left_at_their_defaults() -> None:
    """But for those that the noise rate decides."""
    told = {(method, knob) for method, _, _, knob, _ in KNOBS} | {
        *(("co_teaching", "rate"), ("mentornet", "percentile"), ("mentornet", "curriculum")),
        *(("erm", "smoothing"), ("joint_optimization", "relabel_epochs")),
    }
    for one in known("cifar-noise", {}):
        method = one["method.name"]
        set_here = {k.removeprefix("method.") for k in one if k.startswith("method.")} - {"name"}
        for knob in set_here:
            default = DEFAULTS[method][knob]
            assert (method, knob) in told or one[f"method.{knob}"] == default, f"{knob} of {method}"


@pytest.mark.parametrize(
    ("variant", "values"),
    [(None, (0.75, 0.75, 0.625, 0.5)), ("data-driven", (0.8, 0.6, 0.55, 0.5))],
)
def test_percentiles_of_mentornet(variant: str | None, values: tuple[float, ...]) -> None:
    """60 % lies between: its authors have none."""
    for rate, value in zip(RATES, values, strict=True):
        wanted = {"method.name": "mentornet", "corruption.rate": rate}
        cells = [one for one in known("cifar-noise", wanted) if one.get("variant") == variant]
        assert {one["method.percentile"] for one in cells} == {value}


def test_the_first_stage_of_joint_optimization() -> None:
    """200 epochs at a constant 0.08, by its own schedule; else as long as the second."""
    for protocol, epochs, rate in (("own", 200, 0.08), ("equal", 200, 0.1)):
        wanted = {"method.name": "joint_optimization", "protocol": protocol}
        for one in known("cifar-noise", wanted):
            knobs = {
                k.removeprefix("method."): v for k, v in one.items() if k.startswith("method.")
            }
            del knobs["name"]
            settings = signatures.bind(JointOptimization, "method", knobs)
            [stage] = JointOptimization.stages(settings, {"epochs": one["train.epochs"]})
            assert (stage.train["epochs"], stage.train["schedule"]) == (epochs, "constant")
            assert stage.train.get("lr", one["train.lr"]) == rate


def test_label_smoothing() -> None:
    for one in known("cifar-noise", {"variant": "label smoothing"}):
        assert one["method.smoothing"] == 0.1


def test_the_weight_of_the_reverse_term() -> None:
    for name in ("sce", "cifar-noise"):
        for one in known(name, {"method.name": "sat_sce"}):
            settings = signatures.bind(
                methods.resolve("sat_sce"),
                "method",
                {"beta": one["method.beta"]} if "method.beta" in one else {},
            )
            assert settings["beta"] == 0.1
    for data, pair in (("cifar10", (0.1, 1.0)), ("cifar100", (6.0, 0.1))):
        for one in known("sce", {"method.name": "sce", "data.name": data}):
            assert (one.get("method.a", 0.1), one.get("method.b", 1.0)) == pair
