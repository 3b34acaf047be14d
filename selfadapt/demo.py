"""The first thing a newcomer sees: ordinary training ruined by wrong labels, and what survives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from selfadapt import launched, terminal
from selfadapt.errors import BadInput
from selfadapt.experiment import Run, fit

METHODS = ("erm", "sat")
# start and momentum were chosen on noisy validation data: see benchmarks/demo_settings.py
SETTINGS: dict[str, Any] = {
    "corruption.name": "uniform",
    "corruption.rate": 0.4,
    "net.name": "small_cnn",
    "net.width": 64,  # large enough to learn the noise by heart
    "data.augment": "crop",
    "train.epochs": 60,
    "train.batch": 64,
    "train.optimizer": "adam",
    "train.lr": 0.002,
    "train.weight_decay": 0.0,
}
KNOBS: dict[str, dict[str, Any]] = {"erm": {}, "sat": {"method.start": 2, "method.momentum": 0.9}}


def run_demo(out: Path, seeds: int) -> list[Run]:
    if seeds < 1:
        raise BadInput(f"--seeds is how many seeds to run, at least 1; got {seeds}")
    names = {f"{method}-seed{seed}" for method in METHODS for seed in range(seeds)}
    _check_folder(out)
    screen = terminal.console()
    if launched.is_first():
        screen.print(
            "1,797 handwritten digits, of which 40 % of the training part got a random label.\n"
            "The same small net is trained twice: as usual (erm), and self-adaptively (sat).\n"
        )
    with terminal.View(screen) as view:
        views = {name: view.run(name) for name in sorted(names)}
        runs = [
            fit(
                "digits",
                out=out / f"{method}-seed{seed}",
                method=method,
                seed=seed,
                settings=SETTINGS | KNOBS[method],
                show=views[f"{method}-seed{seed}"],
            )
            for seed in range(seeds)
            for method in METHODS
        ]
    if launched.is_first():
        screen.print(terminal.result_table([_mean(m, runs) for m in METHODS]))
        screen.print(
            f"\nOne directory per run in {out}/: log.jsonl has the curves, labels.parquet each "
            "label as given and as corrected.\nOn your own data: selfadapt fit FOLDER --out RUN",
            markup=False,
        )
    return runs


def _check_folder(out: Path) -> None:
    if out.is_dir():
        for path in out.iterdir():
            if not path.name.startswith((".", *(f"{method}-seed" for method in METHODS))):
                raise BadInput(
                    f"{out} holds {path.name!r}, which is not from a demo: name an empty directory"
                )


def _mean(method: str, runs: list[Run]) -> dict[str, str | None]:
    results = [run.result for run in runs if run.result["method"] == method]
    mean = {
        key: float(np.mean([result[key] for result in results]))
        for key in ("accuracy", "error_rate", "labels_right", "seconds")
    }
    word = {"erm": "ordinary training", "sat": "self-adaptive training"}[method]
    before, after = (terminal.percent(x) for x in (1 - mean["error_rate"], mean["labels_right"]))
    return {
        "": word,
        "test accuracy": terminal.percent(mean["accuracy"]),
        "training labels right": f"{before} → {after}",
        "seconds": f"{mean['seconds']:.1f}",
        "seeds": str(len(results)),
    }
