"""A run that is killed and taken up again ends with the same bytes as one that was not."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import Arrays, Child, Starter, blobs
from torch import nn

import selfadapt
from selfadapt.engine.checkpoint import Checkpoint, latest_checkpoint
from selfadapt.rundir import RunDir

TIMES = {"seconds", "samples_per_second", "training_seconds", "training_seconds_of_all_stages"}
SHORT = {
    "train.epochs": 8,
    "train.batch": 20,
    "train.precision": "fp32",
    "method.start": 2,
    "corruption.name": "uniform",
    "net.width": 16,
}
AT_EVERY_STEP = {"train.save_seconds": 0.0001}
VARIANTS: dict[str, dict[str, Any]] = {
    "batch norm": {"net.name": "small_cnn", "net.width": 4, "train.epochs": 4},
    "adam": {"train.optimizer": "adam", "train.schedule": "cosine_step", "train.warmup": 1.5},
    "bf16": {"train.precision": "bf16"},
    "accumulation": {"train.accumulate": 3, "train.clip": 0.5},
    "validation": {"data.validation": 0.2, "data.augment": "crop_flip", "net.width": 32},
    "ordinary": {"method.name": "erm"},
    "dropout": {"net.name": "test_resume:with_dropout"},
}


def with_dropout(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, outputs))


def pictures() -> Arrays:
    random_pixels = np.random.default_rng(0)
    y = random_pixels.integers(0, 3, 120)
    x = random_pixels.integers(0, 100, (120, 8, 8, 1)) + 50 * y[:, None, None, None]
    return x.astype(np.uint8), y


def train(folder: Path, settings: dict[str, Any]) -> str:
    settings = {**settings}
    if settings.get("method.name") == "erm":
        del settings["method.start"]
    if settings.get("net.name") == "test_resume:with_dropout":
        del settings["net.width"]
    images = settings.get("net.name") == "small_cnn" or "data.augment" in settings
    data = pictures() if images else blobs()
    net = settings.pop("net.name", "mlp")
    return selfadapt.fit(data, out=folder, net=net, settings=settings).files.status()


def train_to_event(number: int, folder: Path, settings: dict[str, Any]) -> str:
    """Train, and be killed just before the `number`-th thing done to a file of the run."""
    left = [number]
    watched = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate")

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in watched and str(arguments[0]).startswith(str(folder)):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    return train(folder, settings)


def stand(folder: Path) -> Checkpoint | None:
    return latest_checkpoint(folder / "checkpoints")


def saved(folder: Path) -> int:
    """How often the run has saved so far."""
    names = (path.name for path in (folder / "checkpoints").glob("[0-9]*"))
    return max(map(int, names), default=0)


def kill_after(child: Child, folder: Path, saves: int, seconds: float) -> bool:
    """Let it save so often, wait a moment, and kill it. False if it was done before."""
    goal = saved(folder) + saves
    while saved(folder) < goal and not child.ended(0):
        time.sleep(0.0003)
    time.sleep(seconds)
    child.kill(signal.SIGKILL)
    assert child.ended()
    return not child.to.exists()


def kill_often(
    processes: Starter, folder: Path, settings: dict[str, Any], kills: int, seed: int
) -> list[tuple[int, int]]:
    """Kill at random moments, then let the run end. Returns where it stood after each kill."""
    at = random.Random(seed)
    stood = []
    for _ in range(kills):
        child = processes.start(train, folder, settings | AT_EVERY_STEP)
        assert kill_after(child, folder, at.choice((0, 1, 1, 2, 3)), at.uniform(0, 0.006))
        found = stand(folder)
        stood.append((found.progress["epoch"], found.progress["step"]) if found else (0, 0))
    assert processes.start(train, folder, settings | AT_EVERY_STEP).returned() == "done"
    return stood


def without_times(line: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in line.items() if name not in TIMES}
    return kept | {"stages": [without_times(stage) for stage in line.get("stages", ())]}


def assert_same_run(one: Path, other: Path) -> None:
    assert (one / "labels.parquet").read_bytes() == (other / "labels.parquet").read_bytes()
    signals = [folder / "signals.safetensors" for folder in (one, other)]  # not of every method
    assert len({path.read_bytes() if path.exists() else None for path in signals}) == 1
    here, there = stand(one), stand(other)
    assert here is not None
    assert there is not None
    assert here.tensors.keys() == there.tensors.keys()
    for name, tensor in here.tensors.items():
        assert tensor.numpy().tobytes() == there.tensors[name].numpy().tobytes(), name
    torch.testing.assert_close(here.optimizer, there.optimizer, rtol=0, atol=0)
    logs = [[without_times(line) for line in RunDir(folder).log()] for folder in (one, other)]
    assert logs[0] == logs[1]
    assert [line["epoch"] for line in logs[0]] == list(range(len(logs[0])))
    results = [json.loads((folder / "result.json").read_text()) for folder in (one, other)]
    assert without_times(results[0]) == without_times(results[1])


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory where there is such a place: a killed process loses nothing it has written, and a
    thousand saves need not wait for a disk."""
    place = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=place if os.access(place, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture
def uninterrupted(tmp_path: Path, processes: Starter) -> Callable[[dict[str, Any]], Path]:
    def run(settings: dict[str, Any]) -> Path:
        folder = tmp_path / "uninterrupted"
        assert processes.start(train, folder, settings).returned() == "done"
        return folder

    return run


def test_killed_at_20_random_moments(
    tmp_path: Path, processes: Starter, uninterrupted: Callable[[dict[str, Any]], Path]
) -> None:
    settings = SHORT | {"train.epochs": 16}
    stood = kill_often(processes, tmp_path / "killed", settings, kills=20, seed=1)
    assert len([step for _, step in stood if step > 0]) >= 10, f"few stops mid-epoch: {stood}"
    assert len(set(stood)) >= 15, stood
    assert_same_run(tmp_path / "killed", uninterrupted(settings))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
def test_killed_at_many_random_moments(
    tmp_path: Path, processes: Starter, uninterrupted: Callable[[dict[str, Any]], Path], seed: int
) -> None:
    settings = SHORT | {"train.epochs": 30}
    kill_often(processes, tmp_path / "killed", settings, kills=40, seed=seed)
    assert_same_run(tmp_path / "killed", uninterrupted(settings))


@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_in_other_kinds_of_runs(
    tmp_path: Path,
    processes: Starter,
    uninterrupted: Callable[[dict[str, Any]], Path],
    variant: str,
) -> None:
    settings = SHORT | VARIANTS[variant]
    stood = kill_often(processes, tmp_path / "killed", settings, kills=4, seed=3)
    assert any(step > 0 for _, step in stood), stood
    assert_same_run(tmp_path / "killed", uninterrupted(settings))


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_often_in_other_kinds_of_runs(
    tmp_path: Path,
    processes: Starter,
    uninterrupted: Callable[[dict[str, Any]], Path],
    variant: str,
) -> None:
    settings = SHORT | VARIANTS[variant] | {"train.epochs": 16}
    kill_often(processes, tmp_path / "killed", settings, kills=12, seed=4)
    assert_same_run(tmp_path / "killed", uninterrupted(settings))


def killed_at_file_events(
    processes: Starter, folder: Path, settings: dict[str, Any], moments: list[int]
) -> None:
    for moment in moments:
        child = processes.start(train_to_event, moment, folder, settings | AT_EVERY_STEP)
        assert child.ended()
        assert not child.to.exists() or child.returned() == "done"
    assert processes.start(train, folder, settings | AT_EVERY_STEP).returned() == "done"


def test_killed_between_file_operations(
    tmp_path: Path, processes: Starter, uninterrupted: Callable[[dict[str, Any]], Path]
) -> None:
    """Within a save, between log line and save, between labels and result."""
    settings = SHORT | {"train.epochs": 3}
    at = random.Random(5)
    moments = [at.randrange(5, 60) for _ in range(12)]
    killed_at_file_events(processes, tmp_path / "killed", settings, moments)
    assert_same_run(tmp_path / "killed", uninterrupted(settings))


@pytest.mark.slow
def test_killed_at_every_file_operation(
    tmp_path: Path, processes: Starter, uninterrupted: Callable[[dict[str, Any]], Path]
) -> None:
    settings = SHORT | {"train.epochs": 2, "train.batch": 50, "method.start": 1}
    whole = uninterrupted(settings)
    for moment in range(1, 400):
        folder = tmp_path / str(moment)
        child = processes.start(train_to_event, moment, folder, settings | AT_EVERY_STEP)
        assert child.ended()
        if child.to.exists():
            break
        assert processes.start(train, folder, settings | AT_EVERY_STEP).returned() == "done"
        assert_same_run(folder, whole)
    assert 50 < moment < 399


def test_a_damaged_checkpoint_costs_a_few_steps(
    tmp_path: Path, processes: Starter, uninterrupted: Callable[[dict[str, Any]], Path]
) -> None:
    folder = tmp_path / "killed"
    child = processes.start(train, folder, SHORT | AT_EVERY_STEP)
    assert kill_after(child, folder, 12, 0)
    damaged = max((folder / "checkpoints").glob("[0-9]*")) / "tensors.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-5] ^= 1
    damaged.write_bytes(content)
    assert processes.start(train, folder, SHORT | AT_EVERY_STEP).returned() == "done"
    assert_same_run(folder, uninterrupted(SHORT))


def test_a_log_line_cut_off_by_a_crash_is_written_again(
    tmp_path: Path, processes: Starter, uninterrupted: Callable[[dict[str, Any]], Path]
) -> None:
    folder = tmp_path / "killed"
    child = processes.start(train, folder, SHORT | AT_EVERY_STEP)
    assert kill_after(child, folder, 20, 0)
    with (folder / "log.jsonl").open("a") as log:
        log.write('{"epoch": 5, "lr": 0.0')
    assert processes.start(train, folder, SHORT | AT_EVERY_STEP).returned() == "done"
    assert_same_run(folder, uninterrupted(SHORT))
