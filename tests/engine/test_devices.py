"""A whole run on each kind of device this machine has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import selfadapt

DEVICES = ["cpu", *(["cuda"] if Path("/dev/nvidia0").exists() else [])]
PROGRAM = """
import sys, numpy as np, selfadapt
x = np.load(sys.argv[1])["x"]
np.save(sys.argv[3], selfadapt.open_run(sys.argv[2]).predict_proba(x))
"""


def start(device: str, *words: str | Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    hidden = {} if device == "cuda" else {"CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([sys.executable, *words], env=env | hidden, check=True, timeout=200)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_a_run_and_its_predictions(device: str, tmp_path: Path) -> None:
    digits = selfadapt.load("digits", limit=400)
    x, y = digits.inputs.read(np.arange(400))[0].numpy(), digits.labels
    np.savez(tmp_path / "some.npz", x=x, y=y)
    settings = {
        "train.epochs": 8,
        "train.batch": 32,
        "train.precision": "fp32",
        "data.augment": "crop",
        "method.start": 4,
        "method.momentum": 0.5,
        "corruption.name": "uniform",
    }
    asked = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command = ["-m", "selfadapt", "fit", tmp_path / "some.npz", "--out", tmp_path / "run", *asked]
    start(device, *command, "--net", "small_cnn")
    run = selfadapt.open_run(tmp_path / "run")
    assert run.about["resolved"]["device"].startswith(device)
    assert (run.about["machine"]["accelerator"] is None) == (device == "cpu")
    assert run.result["labels_right"] > 1 - run.result["error_rate"]
    start(device, "-c", PROGRAM, tmp_path / "some.npz", tmp_path / "run", tmp_path / "there.npy")
    np.testing.assert_allclose(np.load(tmp_path / "there.npy"), run.predict_proba(x), atol=1e-3)
