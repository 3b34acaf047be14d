"""Run directories written by hand: what tables and figures read, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

MACHINE = {"processor": "Made Up 9000", "cores": 2, "accelerator": None, "system": "Linux"}
LogLines = Sequence[Mapping[str, float | None]]


def make_run(
    path: Path,
    *,
    method: str = "sat",
    seed: int = 1,
    accuracy: float | None = 0.9,
    seconds: float = 10.0,
    log: LogLines = ({"test_accuracy": 0.9},),
    done: bool = True,
    classes: Sequence[str] = ("0", "1", "2"),
    machine: Mapping[str, Any] = MACHINE,
    noise: Mapping[str, Any] | None = None,
    results: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Path:
    """`settings` as table__key=value."""
    path.mkdir(parents=True)
    nested: dict[str, Any] = {
        "data": {"source": "digits", "root": "/somewhere"},
        "corruption": {"name": "uniform", "rate": 0.4},
        "net": {"name": "mlp"},
        "method": {"name": method},
        "train": {"epochs": len(log), "lr": 0.1},
    }
    for name, value in settings.items():
        table, key = name.split("__")
        nested[table][key] = value
    run = {
        "created": f"2026-01-0{seed}T00:00:00+00:00",
        "settings": {"seed": seed, **nested},
        "resolved": {"device": "cpu", "precision": "fp32", "threads": 1},
        "data": {"samples": 100, "classes": list(classes)},
        "noise": {"error_rate": 0.36, "fingerprint": "f" * 8, "noisy_images": None}
        | dict(noise or {}),
        "commit": "abc123",
        "machine": dict(machine),
    }
    (path / "run.json").write_text(json.dumps(run))
    lines = [json.dumps({"epoch": epoch, **line}) for epoch, line in enumerate(log)]
    (path / "log.jsonl").write_text("\n".join(lines) + "\n")
    if done:
        result = {
            "method": method,
            "seed": seed,
            "accuracy": accuracy,
            "accuracy_best_validation": None,
            "epochs": len(log),
            "labels_right": 0.95,
            "had_true_labels": False,
            "training_seconds_of_all_stages": seconds,
            "stages": [],
        }
        (path / "result.json").write_text(json.dumps(result | dict(results or {})))
    return path


def write_labels(
    run: Path,
    true: Sequence[Any],
    corrected: Sequence[Any],
    weight: Sequence[float | None] | None = None,
) -> None:
    """labels.parquet, as far as tables read it."""
    known = [None] * len(true) if weight is None else weight
    weights = pa.array(known, pa.float32())
    columns = {"true": pa.array(true), "corrected": pa.array(corrected), "weight": weights}
    pq.write_table(pa.table(columns), run / "labels.parquet")
