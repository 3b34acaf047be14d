"""What inputs are normalised with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import Arrays, Starter

import selfadapt
from selfadapt import errors, experiment
from selfadapt.data.feed import Feed
from selfadapt.data.labelled import InMemory, Rows
from selfadapt.experiment import statistics
from selfadapt.experiment.statistics import input_statistics


def silent(_: dict[str, Any]) -> None: ...


class Partly(InMemory):
    """Every seventh sample cannot be read."""

    def read(self, rows: Rows) -> tuple[torch.Tensor, dict[int, str]]:
        bad = rows % 7 == 0
        x = torch.where(torch.from_numpy(bad)[:, None], 0.0, super().read(rows)[0])
        return x, dict.fromkeys(rows[bad].tolist(), "zero bytes")


def test_against_numpy_where_the_mean_is_large() -> None:
    values = np.random.default_rng(0).normal(2000, 0.01, (1300, 5)).astype(np.float32)
    found = input_statistics(Feed(InMemory(torch.from_numpy(values)), np.arange(1300)), silent)
    np.testing.assert_allclose(found["mean"], values.mean(axis=0, dtype=float), rtol=1e-12)
    np.testing.assert_allclose(found["std"], values.std(axis=0, dtype=float), rtol=1e-6)


def test_of_pictures() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (600, 6, 6, 3), dtype=np.uint8)
    found = input_statistics(Feed(InMemory(torch.from_numpy(pixels)), np.arange(600)), silent)
    np.testing.assert_allclose(found["mean"], pixels.mean(axis=(0, 1, 2)) / 255, rtol=1e-6)
    np.testing.assert_allclose(found["std"], pixels.std(axis=(0, 1, 2)) / 255, rtol=1e-6)


def test_samples_that_cannot_be_read_do_not_count() -> None:
    values = np.random.default_rng(0).normal(5, 1, (700, 2)).astype(np.float32)
    feed = Feed(Partly(torch.from_numpy(values)), np.arange(700))
    read = values[np.arange(700) % 7 != 0]
    found = input_statistics(feed, silent)
    np.testing.assert_allclose(found["mean"], read.mean(axis=0, dtype=float), rtol=1e-6)
    np.testing.assert_allclose(found["std"], read.std(axis=0, dtype=float), rtol=1e-6)
    with pytest.raises(errors.BadInput, match=r"none of 100 samples .* zero bytes"):
        input_statistics(Feed(feed.inputs, np.arange(0, 700, 7)), silent)


def test_a_sample_of_all_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that lie class by class, of which only some are looked at; and progress is shown."""
    monkeypatch.setattr(statistics, "_SAMPLE", 100)
    values = torch.arange(1000.0)[:, None]
    shown: list[dict[str, Any]] = []
    found = input_statistics(Feed(InMemory(values), np.arange(1000)), shown.append)
    assert found["mean"][0] == pytest.approx(499.5, abs=1)
    assert found["std"][0] == pytest.approx(1000 / np.sqrt(12), rel=0.02)
    assert shown[-1] == {"what": "looking at the inputs", "done": 100, "total": 100}


def test_not_computed_again_when_a_run_goes_on(
    tmp_path: Path, points: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"train.epochs": 1, "net.width": 4}
    run = selfadapt.fit(points, out=tmp_path / "run", net="mlp", settings=settings)
    before = run.about
    run.files.result_file.unlink()
    monkeypatch.delattr(experiment, "input_statistics")
    again = selfadapt.fit(points, out=tmp_path / "run", net="mlp", settings=settings)
    assert again.about == before


def statistics_of_a_run(folder: Path, points: Arrays) -> Any:
    settings = {"train.epochs": 1, "net.width": 4}
    run = selfadapt.fit(points, out=folder, net="mlp", settings=settings)
    return run.about["data"]["statistics"]


def test_any_number_of_processes(tmp_path: Path, points: Arrays, processes: Starter) -> None:
    alone = processes.group(1, statistics_of_a_run, tmp_path / "1", points)
    assert processes.group(2, statistics_of_a_run, tmp_path / "2", points) == alone * 2
