"""What a run directory holds beside checkpoints and log: how it was made, and what came out."""

from __future__ import annotations

import functools
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

from selfadapt import corruption, distributed
from selfadapt.data.labelled import LabelledData
from selfadapt.engine.evaluate import probabilities
from selfadapt.engine.fit import Outcome
from selfadapt.engine.machine import Machine, hardware
from selfadapt.engine.work import Parts, Show
from selfadapt.experiment import stages
from selfadapt.experiment.assembly import Experiment, net_for
from selfadapt.experiment.left_out import left_out, write_unreadable
from selfadapt.experiment.silence import silence_figures
from selfadapt.labels_table import labels_table, to_bytes
from selfadapt.methods import Method
from selfadapt.rundir import RunDir, write_atomically


def write_start(
    run: RunDir,
    experiment: Experiment,
    data: LabelledData,
    parts: Parts,
    method: Method,
    machine: Machine,
    statistics: Mapping[str, Any],
) -> None:
    """run.json: enough to know, to repeat and to rebuild."""
    content = {
        "format": 1,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "settings": experiment.recorded(),
        "resolved": {
            "net": net_name(experiment, data),
            "parameters": sum(p.numel() for p in method.parameters()),
            "batch": parts.train.batch,
            "augment": parts.train.augment,
            "precision": machine.precision,
            "device": str(machine.device),
            "processes": distributed.processes(),
            "threads": torch.get_num_threads(),
            **method.facts(),
        },
        "data": _about(data, parts) | {"statistics": statistics},
        "noise": _noise(experiment, data, parts),
        "versions": _versions(),
        "commit": commit(),
        "machine": hardware(),
    }
    run.write_json(run.run_file, content)


def net_name(experiment: Experiment, data: LabelledData) -> str:
    name: str = experiment.settings["net"]["name"]
    return net_for(data.inputs.shape) if name == "auto" else name


def _about(data: LabelledData, parts: Parts) -> dict[str, Any]:
    return {
        "name": data.name,
        "samples": len(data),
        "training": len(parts.train),
        "validation": len(parts.validation),
        "calibration": len(parts.calibration),
        "test": 0 if parts.test is None else len(parts.test),
        "classes": list(data.classes),
        "shape": list(data.inputs.shape),
        "id_name": data.id_name,
        "features": None if data.features is None else list(data.features),
        "held_out": data.held_out,
        "quarantined": [
            {"row": int(row), "id": str(data.ids[row]), "reason": reason}
            for row, reason in sorted(data.quarantined.items())
        ],
        "notes": list(data.notes),
    }


def _noise(experiment: Experiment, data: LabelledData, parts: Parts) -> dict[str, Any]:
    """error_rate is over the samples that train; the fingerprints are over all labels given, and
    over the rows whose images were changed."""
    changed = data.noisy_images
    return {
        **experiment.settings["corruption"],
        "error_rate": _error_rate(parts),
        "fingerprint": corruption.fingerprint(data.labels),
        "noisy_images": None if changed is None else int(changed.sum()),
        "fingerprint_images": None if changed is None else corruption.fingerprint(changed),
    }


def _error_rate(parts: Parts) -> float | None:
    if parts.true_labels is None:
        return None
    rows = parts.train.rows
    return float((parts.labels[rows] != parts.true_labels[rows]).mean())


def write_outcome(
    run: RunDir,
    experiment: Experiment,
    data: LabelledData,
    parts: Parts,
    method: Method,
    machine: Machine,
    outcome: Outcome,
    show: Show,
) -> None:
    """labels.parquet and signals.safetensors, then result.json: its presence means done."""
    beliefs = method.beliefs()
    weights = None
    rows = np.setdiff1d(parts.train.rows, list(map(int, outcome.progress.unreadable)))
    if beliefs is None:

        def tick(done: int, total: int) -> None:
            show({"what": "predicting the training samples", "done": done, "total": total})

        known = probabilities(method, parts.train, machine, rows, tick).numpy()
    else:
        known = beliefs.cpu().numpy()[rows]
        weights = known.max(axis=1)
    silence = _silence(experiment, parts, method, machine, show)
    unreadable = left_out(data, outcome.progress)
    started = time.perf_counter()
    handed = {name: t.cpu().contiguous() for name, t in method.hand_over(parts.train).items()}
    outcome.progress.seconds += time.perf_counter() - started

    def write() -> None:
        table = labels_table(
            ids=data.ids,
            classes=data.classes,
            given=data.labels,
            true=data.true_labels,
            parts={
                "validation": parts.validation,
                "calibration": parts.calibration,
                "unreadable": np.array(list(unreadable["training"]), np.int64),
            },
            rows=rows,
            beliefs=known,
            weights=weights,
        )
        write_atomically(run.labels_file, to_bytes(table))
        if outcome.signals is not None and bool(outcome.signals.visits.any()):
            averages = {name: value.cpu() for name, value in outcome.signals.averages().items()}
            write_atomically(run.signals_file, save(averages))
        if handed:
            write_atomically(run.handed_file, save(handed))
        write_unreadable(run, data, unreadable, show)
        result = _result(run, experiment, data, parts, method, rows, known, outcome)
        counts = {f"unreadable_{part}": len(found) for part, found in unreadable.items()}
        run.write_json(run.result_file, result | silence | counts)

    distributed.on_first(write)


def _silence(
    experiment: Experiment, parts: Parts, method: Method, machine: Machine, show: Show
) -> dict[str, Any]:
    if experiment.plan.score == "none":
        return {}

    def tick(done: int, total: int) -> None:
        show({"what": "scoring", "done": done, "total": total})

    return silence_figures(method, parts, machine, score=experiment.plan.score, tick=tick)


def _result(
    run: RunDir,
    experiment: Experiment,
    data: LabelledData,
    parts: Parts,
    method: Method,
    rows: np.ndarray[Any, np.dtype[np.int64]],
    beliefs: np.ndarray[Any, np.dtype[np.float32]],
    outcome: Outcome,
) -> dict[str, Any]:
    log, progress = run.log(), outcome.progress
    best = max(log, key=lambda line: line["validation_accuracy"] or 0.0)  # the first of equals
    chosen = best["validation_accuracy"] is not None
    believed = beliefs.argmax(axis=1)
    true = None if data.true_labels is None else data.true_labels[rows]
    earlier = stages.results(run)
    return {
        "method": experiment.settings["method"]["name"],
        "seed": experiment.seed,
        "accuracy": log[-1]["test_accuracy"],
        "accuracy_best_validation": best["test_accuracy"] if chosen else None,
        "best_epoch": best["epoch"] if chosen else None,
        "best_validation_accuracy": best["validation_accuracy"],
        "validation_accuracy": log[-1]["validation_accuracy"],
        "error_rate": _error_rate(parts),
        "labels_right": None if true is None else float((believed == true).mean()),
        "labels_changed": float((believed != data.labels[rows]).mean()),
        "epochs": experiment.plan.epochs,
        "training": len(rows),
        "had_true_labels": method.needs_true_labels,
        "seconds": progress.seconds + progress.measuring,
        "training_seconds": progress.seconds,
        "training_seconds_of_all_stages": sum(
            [progress.seconds, *(stage["training_seconds"] for stage in earlier)]
        ),
        "stages": earlier,
        "samples_per_second": progress.samples / max(progress.seconds, 1e-9),
    }


def _versions() -> dict[str, str]:
    packages = ("selfadapt", "torch", "numpy", "accelerate", "safetensors", "pyarrow")
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found


@functools.cache
def commit() -> str | None:
    """The commit of this checkout, marked if it was changed; None for an installed package. Figures
    and pages change nothing that they are made by."""
    here = Path(__file__).parent.parent.parent
    if not (here / ".git").exists():
        return None
    git = ["git", "-C", str(here)]
    made = [":!results", ":!docs", ":!*.md"]
    try:
        name = _output([*git, "rev-parse", "--short=12", "HEAD"])
        changed = _output([*git, "status", "--porcelain", "-uno", "--", ".", *made])
    except (OSError, subprocess.TimeoutExpired):
        return None
    return f"{name}-dirty" if name and changed else name or None


def _output(command: list[str]) -> str:
    answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return answer.stdout.strip()
