"""Every method in a whole run: cut off and taken up again, and on several processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import Starter, blobs
from test_resume import assert_same_run

import selfadapt
from selfadapt import methods
from selfadapt.engine.checkpoint import latest_checkpoint
from selfadapt.errors import BadInput

# "name: variant", each with the knobs that make it one
VARIANTS = {
    "mentornet: data-driven": {"method.curriculum": "data_driven", "method.mentor_steps": 30},
}
NAMES = [*methods.names(), *VARIANTS]


def method_of(name: str) -> str:
    return name.partition(":")[0]


def settings_for(name: str, epochs: int) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "train.epochs": epochs,
        "train.batch": 12,
        "train.precision": "fp32",
        "train.lr": 0.05,
        "corruption.name": "uniform",
        "net.width": 16,
    }
    if methods.resolve(method_of(name)).needs_validation:
        asked["data.validation"] = 0.2
    knobs: dict[str, dict[str, Any]] = {
        **VARIANTS,
        "truncated_gce": {"method.prune": 2, "method.every": 2},
        "dividemix": {"method.warmup": 2, "method.ramp": 2},
        "self_filter": {"method.ramp": 2, "method.decay": 0.8},
    }
    return asked | knobs.get(name, {})


def train(folder: Path, name: str, epochs: int, show: Callable[..., None] | None = None) -> Path:
    settings = settings_for(name, epochs) | {"train.save_seconds": 0.0001 if show else 1000.0}
    method = method_of(name)
    selfadapt.fit(blobs(), out=folder, method=method, net="mlp", settings=settings, show=show)
    return folder


def stages_of(run: Path) -> list[Path]:
    return sorted((run / "stages").iterdir()) if (run / "stages").exists() else []


class CutOff(Exception):
    pass


def cut_off_at(stage: str | None, epoch: int, step: int) -> Callable[[Mapping[str, Any]], None]:
    now: list[str | None] = [None]

    def show(event: Mapping[str, Any]) -> None:
        now[0] = event.get("stage", now[0])
        if (now[0], event.get("epoch"), event.get("step")) == (stage, epoch, step):
            raise CutOff

    return show


@pytest.mark.parametrize("name", NAMES)
def test_cut_off_twice_in_each_stage_a_run_ends_as_if_it_had_not_been(
    name: str, tmp_path: Path
) -> None:
    whole = train(tmp_path / "whole", name, 6)
    result = selfadapt.open_run(whole).result
    stages = [(stage["stage"], stage["epochs"]) for stage in result["stages"]]
    for stage, epochs in [*stages, (None, 6)]:
        for epoch, step in ((1, 3), (epochs - 2, 5)):
            with pytest.raises(CutOff):
                train(tmp_path / "cut", name, 6, cut_off_at(stage, epoch, step))
    train(tmp_path / "cut", name, 6, lambda _: None)
    assert_same_run(whole, tmp_path / "cut")
    for stage in stages_of(whole):
        assert_same_run(stage, tmp_path / "cut" / "stages" / stage.name)


def state(folder: Path) -> dict[str, np.ndarray]:
    found = latest_checkpoint(folder / "checkpoints")
    assert found is not None
    return {key: value.numpy() for key, value in found.tensors.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_two_processes_are_as_one(name: str, tmp_path: Path, processes: Starter) -> None:
    if methods.resolve(method_of(name)).one_process:
        for member in processes.start_group(2, train, tmp_path / "2", name, 3):
            with pytest.raises(AssertionError, match="start it on one"):
                member.returned()
        return
    whole = train(tmp_path / "1", name, 3)
    processes.group(2, train, tmp_path / "2", name, 3)
    for run in (whole, *stages_of(whole)):
        one, two = state(run), state(tmp_path / "2" / run.relative_to(whole))
        assert one.keys() == two.keys()
        for key, value in one.items():
            np.testing.assert_allclose(two[key], value, rtol=0, atol=1e-5, err_msg=f"{run}: {key}")


@pytest.mark.parametrize(
    "name", [n for n in methods.names() if methods.resolve(n).needs_validation]
)
def test_a_method_that_chooses_needs_something_to_choose_by(name: str, tmp_path: Path) -> None:
    settings = settings_for(name, 2) | {"data.validation": 0.0}
    with pytest.raises(BadInput, match=r"nothing is held out: --set data\.validation=0\.1"):
        selfadapt.fit(blobs(), out=tmp_path / "run", method=name, net="mlp", settings=settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", [n for n in methods.names() if methods.resolve(n).needs_sgd])
def test_a_method_with_rates_of_its_own_needs_plain_sgd(name: str, tmp_path: Path) -> None:
    settings = settings_for(name, 2) | {"train.optimizer": "adam"}
    with pytest.raises(BadInput, match=r"--set train\.optimizer=sgd, not adam"):
        selfadapt.fit(blobs(), out=tmp_path / "run", method=name, net="mlp", settings=settings)
