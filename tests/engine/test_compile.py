"""A compiled net trains, is taken up again and predicts."""

from __future__ import annotations

import os
import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import PATIENCE, Arrays, Starter, blobs

import selfadapt
from selfadapt.errors import Interrupted

SETTINGS = {"train.epochs": 4, "train.batch": 50, "train.compile": True, "net.width": 8}


def train(folder: Path, stop_in: int | None) -> np.ndarray | None:
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # torch's own, as it compiles

    def show(event: dict[str, Any]) -> None:
        if event.get("epoch") == stop_in and event.get("step") == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    points: Arrays = blobs()
    settings = SETTINGS | {"train.precision": "fp32", "method.start": 1}
    try:
        run = selfadapt.fit(points, out=folder, net="mlp", settings=settings, show=show)
    except Interrupted:
        return None
    return run.predict_proba(points[0])


@pytest.mark.slow
def test_compiled(tmp_path: Path, processes: Starter) -> None:
    def result(*arguments: Any) -> Any:
        child = processes.start(train, *arguments)
        assert child.ended(4 * PATIENCE)
        return child.returned()

    assert result(tmp_path / "run", 2) is None
    assert result(tmp_path / "whole", None) is not None
    found = result(tmp_path / "run", None)
    whole = selfadapt.open_run(tmp_path / "whole")
    np.testing.assert_array_equal(found, result(tmp_path / "whole", None))
    assert selfadapt.open_run(tmp_path / "run").labels.equals(whole.labels)
