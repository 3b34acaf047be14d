"""Shared by all tests: tiny data, and processes that start at once (see support.py)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))  # scripts, tested too

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads of many small runs only wait for each other
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # tests compare tensors of the CPU; see test_devices.py

import numpy as np
import pytest
from support import Arrays, Starter, blobs


@pytest.fixture
def points() -> Arrays:
    return blobs()


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    """150 points of 3 classes, with 40 more to test on."""
    x, y = blobs(190)
    path = tmp_path / "points.npz"
    np.savez(path, x=x[:150], y=y[:150], x_test=x[150:], y_test=y[150:])
    return path


@pytest.fixture
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    starter = Starter(tmp_path_factory.mktemp("processes"))
    yield starter
    for child in starter.started:
        if not child.ended(0):
            child.process.kill()
            child.ended()
