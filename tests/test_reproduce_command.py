"""The commands of a study: what they list, estimate, show and refuse."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from selfadapt import cli, study, terminal
from selfadapt.data.sources import Size
from selfadapt.experiment.assembly import Experiment, plan_experiment
from selfadapt.reproduce import Group, Outcome, estimate, estimates, measure, plan, reproduce
from selfadapt.reproduce.estimates import memory_of, seconds_of
from selfadapt.reproduce.measure import Cost
from selfadapt.terminal import duration

RECIPE = """
title = "Two methods"
source = "nobody"
[base]
data = { name = "cifar10" }
corruption = { name = "uniform" }
net = { name = "small_cnn", width = 4 }
train = { epochs = 200, batch = 64, precision = "fp32" }
[small]
data = { name = "digits", limit = 200 }
net = { name = "mlp", width = 16 }
train = { epochs = 2 }
[grid]
"method.name" = ["erm", "sat"]
seed = [1, 2]
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    path = tmp_path / "toy.toml"
    path.write_text(RECIPE)
    return path


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = cli.run([str(argument) for argument in arguments])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_every_recipe_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, told, _ = call(capsys, "reproduce", "--list")
    assert code == 0
    for name in study.names():
        recipe = study.read(name)
        small, paper = len(recipe.cells("small")), len(recipe.cells("paper"))
        assert f"{name}: {small} cells at small scale, {paper} at paper scale" in told
        assert recipe.title in told
        assert recipe.source in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["reproduce"], "name a recipe: `selfadapt reproduce --list` shows them all"),
        (["reproduce", "ablaton"], "unknown recipe 'ablaton'. Did you mean 'ablation'?"),
        (["reproduce", "no.toml"], "the recipe no.toml cannot be read: No such file"),
        (["reproduce", "ablation", "--scale", "tiny"], "unknown scale 'tiny'"),
        (["reproduce", "ablation", "--jobs", "0"], "--jobs is how many cells"),
        (["reproduce", "ablation", "--jobs", "0", "--dry-run"], "--jobs is how many cells"),
        (["reproduce", "ablation", "--shard", "5/4", "--dry-run"], "must lie in 1 to 4"),
        (["reproduce", "ablation", "--where", "seed"], "--where takes key=value or key=value,"),
        (["reproduce", "ablation", "--where", "method.nam=sat"], "Did you mean 'method.name'?"),
        (["reproduce", "ablation", "--where", "seed=9"], "no cell is so; there is 1, 2, 3"),
        (["reproduce", "ablation", "--set", "train.epochs"], "--set takes table.key=value"),
        (["table", "no_such_run"], "no_such_run is not there"),
    ],
)
def test_what_cannot_be_asked_for(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, error = call(capsys, *arguments, *(["--out", tmp_path] * (len(arguments) > 2)))
    assert code == 2
    assert told in error


def test_a_dry_run_leaves_nothing_behind(
    toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs"
    code, told, error = call(capsys, "reproduce", toy, "--out", out, "--dry-run", "--jobs", 2)
    assert (code, error) == (0, "")
    assert "erm · mlp width=16 · digits · 2 epochs: 2 cells, each" in told
    assert "seed 1 2" in told
    assert f"4 cells, 0 of them done, into {out}/toy-small" in told
    assert "An estimate for this machine:" in told
    assert "2 at a time:" in told
    assert not out.exists()


def test_a_dry_run_says_what_is_done(
    toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reproduce(toy, out=tmp_path, shard="1/2")
    begun = tmp_path / "toy-small" / "cells" / "sat-seed1"
    (begun / "result.json").unlink()
    _, told, _ = call(capsys, "reproduce", toy, "--out", tmp_path, "--dry-run")
    assert "erm · mlp width=16 · digits · 2 epochs: 2 cells (1 done), each" in told
    assert "sat · mlp width=16 · digits · 2 epochs: 2 cells (1 begun), each" in told
    groups = estimate(plan(toy, out=tmp_path), 1, lambda _: None)
    for group in groups:
        assert group.needs is not None
        assert group.seconds_left == group.needs.seconds, "one done or at its end, one not begun"


def test_an_estimate_is_of_the_right_size(toy: Path, tmp_path: Path) -> None:
    """The machine may be busy, so no more than the order of it."""
    settings = {"train.epochs": 60}
    [task] = plan(toy, out=tmp_path, seeds=1, shard="1/2", settings=settings).tasks
    [group] = estimate(plan(toy, seeds=1, shard="1/2", settings=settings), 1, lambda _: None)
    assert group.needs is not None
    started = time.perf_counter()
    reproduce(toy, out=tmp_path, seeds=1, shard="1/2", settings=settings)
    took = time.perf_counter() - started
    assert took / 30 < group.needs.seconds < 3 * took
    assert task.epochs == group.epochs == 60


def test_each_method_and_net_is_measured_once(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[tuple[str, str, int]] = []

    def counted(planned: Experiment, size: Size, part: int) -> Cost:
        measured.append((planned.settings["method"]["name"], planned.settings["net"]["name"], part))
        return Cost(1.0, 0.5, 0.0, 1.0, 0.0, 0.0, 0.0)

    monkeypatch.setattr(estimates, "measure", counted)
    text = RECIPE.replace('"method.name"', '"net.width" = [4, 8]\n"method.name"')
    toy.write_text(
        text.replace('["erm", "sat"]', '["erm", "forward"]\n"corruption.rate" = [0, 0.5]')
    )
    groups = estimate(plan(toy, scale="paper"), 1, lambda _: None)
    per_width = {("erm", "small_cnn", 64), ("forward:Estimate", "small_cnn", 64)}
    per_width |= {("forward", "small_cnn", 64)}
    assert len(measured) == 6
    assert set(measured) == per_width
    assert len(groups) == 4
    for group in groups:
        assert group.needs is not None
        assert len(group.tasks) == 4
        stages = 2 if group.method == "forward" else 1
        assert group.needs.seconds == stages * 200 * (50_000 + 0.5 * 10_000)


def test_what_there_is_no_time_to_measure(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "PATIENCE_SECONDS", -1.0)
    groups = estimate(plan(toy), 1, lambda _: None)
    assert [group.needs for group in groups] == [None, None]
    assert groups[0].reason == "not measured: it would have taken too long"
    assert groups[0].seconds_left is None


def test_what_cannot_be_measured_is_told(
    toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.write_text(
        RECIPE.replace('name = "mlp", width = 16', 'name = "test_reproduce_command:broken"')
    )
    code, told, _ = call(capsys, "reproduce", toy, "--dry-run")
    assert code == 0
    assert "each ? (RuntimeError: not on this data)" in told
    assert "at least 0 s one after the other" in told
    toy.write_text(RECIPE.replace('name = "digits"', 'name = "no_such.csv"'))
    _, told, _ = call(capsys, "reproduce", toy, "--dry-run")
    assert "There is no file or folder 'no_such.csv'" in told


def broken(outputs: int) -> torch.nn.Module:
    raise RuntimeError("not on this data")


def experiment(**settings: Any) -> Experiment:
    asked = {"net.name": "mlp", "net.width": 16, "train.precision": "fp32", **settings}
    return plan_experiment("digits", method=None, net=None, seed=1, settings=asked)


def test_seconds_and_bytes_by_hand() -> None:
    cost = Cost(step=0.01, predict=0.001, own=0.1, more=2.0, activations=100, table=40, fixed=5000)
    size = Size(1000, 500, (1, 8, 8), 10)
    planned = experiment(**{"train.epochs": 3, "train.batch": 50, "data.validation": 0.1})
    epoch = 900 * 2 * 0.01 + 900 * 0.1 + (100 + 500) * 0.001
    assert seconds_of(planned, size, cost) == pytest.approx(3 * epoch)
    assert memory_of(planned, size, cost) == 1500 * 64 + 1000 * (40 + 4 * 10) + 5000 + 50 * 100
    halved = experiment(**{"train.batch": 50, "train.accumulate": 2, "train.curves": True})
    assert memory_of(planned, size, cost) - memory_of(halved, size, cost) == 25 * 100
    epoch = 1000 * 2 * 0.01 + 1000 * 0.1 + (1000 + 500) * 0.001
    assert seconds_of(halved, size, cost) == pytest.approx(200 * epoch)
    large = Size(1_281_167, 50_000, (3, 224, 224), 1000)
    rest = memory_of(planned, large, cost) - 1_281_167 * 40 - 5000 - 50 * 100
    assert rest == 0, "images that do not fit are read as they are needed, and signals left out"


def test_what_a_method_keeps_of_each_sample() -> None:
    """Its table is told from its weights, and never made as large as the true one."""
    size = Size(10**12, 100, (1, 8, 8), 10)
    erm = measure.measure(experiment(**{"method.name": "erm"}), size, 64)
    sat = measure.measure(experiment(**{"method.name": "sat"}), size, 64)
    assert sat.table - erm.table >= 4 * 10  # [N, C] of fp32
    net = (64 + 1) * 16 + (16 + 1) * 16 + (16 + 1) * 10
    assert erm.fixed == pytest.approx(3 * 4 * net, rel=0.2)  # weight, gradient, momentum
    assert erm.activations > 4 * 64
    assert min(sat.step, sat.predict) > 0
    assert (erm.more, sat.more) == (1, 1)


def test_a_method_of_two_nets_needs_twice_as_much() -> None:
    size = Size(1000, 100, (1, 8, 8), 10)
    one = measure.measure(experiment(**{"method.name": "erm"}), size, 16)
    two = measure.measure(experiment(**{"method.name": "co_teaching"}), size, 16)
    assert two.fixed == pytest.approx(2 * one.fixed, rel=0.1)


def test_a_net_with_as_many_channels_as_there_are_samples() -> None:
    """What tells tables from weights must not be fooled by a width."""
    size = Size(1000, 100, (1, 8, 8), 10)
    for width in (22, 23, 24):
        found = measure.measure(experiment(**{"method.name": "erm", "net.width": width}), size, 4)
        assert found.table <= 8


# what is shown


def shown(events: list[Mapping[str, Any]], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    screen = Console(width=200, force_terminal=False, record=True, quiet=False)
    with terminal.View(screen) as view:
        show = terminal.StudyView(view)
        for event in events:
            now[0] += 60
            show(event)
    return screen.export_text().splitlines()


def test_overall_progress_with_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = shown(
        [
            {"cell": "old", "outcome": Outcome("was done")},
            {"todo": {"a": 10, "b": 10, "c": 20}, "cells": 4},
            {"cell": "a", "epoch": 0, "step": 1, "steps": 2, "epochs": 10},
            {"cell": "a", "note": "the batch is cut"},
            {"cell": "a", "outcome": Outcome("done")},
            {"cell": "b", "note": "the batch is cut"},
            {"cell": "b", "stage": "first"},
            {"cell": "b", "epoch": 6, "step": 1, "steps": 1, "epochs": 7},
            {"cell": "b", "stage": None},
            {"cell": "b", "outcome": Outcome("failed", "no such thing\nat all")},
            {"cell": "c", "outcome": Outcome("in use", "by process 3")},
        ],
        monkeypatch,
    )
    assert told == [
        "the batch is cut",
        "a done · 2/4 cells, about 9 min left",  # 3 minutes for 9.5 of 40 epochs
        "b failed: no such thing · 3/4 cells, 1 failed, about 8 min left",
        "c in use: by process 3 · 4/4 cells, 1 failed",
    ]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0 s"),
        (0.234, "0.2 s"),
        (59.6, "60 s"),
        (100, "2 min"),
        (3600, "60 min"),
        (7260, "2 h 1 min"),
        (86400 * 3 + 7200, "3 days 2 h"),
    ],
)
def test_durations(seconds: float, told: str) -> None:
    assert duration(seconds) == told


# tables of any runs


@pytest.fixture
def runs(toy: Path, tmp_path: Path) -> Path:
    return reproduce(toy, out=tmp_path).study.folder


def test_a_table_of_any_runs(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = runs / "cells" / "erm-seed1", runs / "cells" / "sat-seed1"
    code, told, error = call(capsys, "table", one, two)
    assert (code, error) == (0, "")
    assert "erm" in told
    assert "sat" in told
    assert "One seed" in told
    _, told, _ = call(
        capsys, "table", runs, "--columns", "seed", "--metrics", "labels_right", "cost"
    )
    assert "training labels right" in told
    assert re.search(r"seed +1 +2", told)
    _, told, _ = call(capsys, "table", runs / "study.json", "--rows", "method.name", "net.width")
    assert "width" in told


def test_a_table_as_a_file(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for suffix in ("md", "tex", "csv"):
        code, told, _ = call(capsys, "table", runs, "--to", tmp_path / f"t.{suffix}")
        assert code == 0
        assert f"t.{suffix}: 4 runs" in told
    assert (tmp_path / "t.md").read_text().count("|") > 6
    assert "toprule" in (tmp_path / "t.tex").read_text()
    with (tmp_path / "t.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {line["method.name"] for line in lines} == {"erm", "sat"}
    code, _, error = call(capsys, "table", runs, "--to", tmp_path / "t.docx")
    assert code == 2
    assert "unknown kind of file '.docx'" in error
    code, _, error = call(capsys, "table", runs, "--rows", "method.nam")
    assert code == 2
    assert "Did you mean 'method.name'" in error


def test_a_group_of_one_cell_needs_no_list() -> None:
    group = Group("erm", "mlp", "digits", 2, None)
    assert group.seconds_left is None
    assert group.count("done") == 0
