"""How `start` of the augmented CIFAR-10 runs was chosen: by accuracy on a held-out tenth of the
training set with its wrong labels as they are, on seeds that are not reported. No test data is
loaded.

    python benchmarks/cifar10_settings.py CIFAR10_FOLDER --out runs/cifar10_settings [--shard 1/4]

With --shard only every fourth run is made, and no figures are written: several may work side by
side, and the command without it then finds all runs finished.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from writing import share_of, write

import selfadapt

# what both protocols of cifar10_noise.py have in common, and the augmented one alone
SHARED: dict[str, Any] = {
    "corruption.name": "uniform",
    "corruption.rate": 0.4,
    "train.batch": 128,
}
AUGMENTED: dict[str, Any] = {
    "data.augment": "crop_flip",
    "train.epochs": 100,
    "method.momentum": 0.9,
}
STARTS = (10, 20, 30, 40, 50, 60)
SEEDS = (10, 11)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cifar10", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shard")
    asked = parser.parse_args()
    data = replace(selfadapt.load(asked.cifar10, limit=10_000), test=None)
    found: dict[int, list[float]] = {start: [] for start in STARTS}
    for start, seed in share_of(list(itertools.product(STARTS, SEEDS)), asked.shard):
        run = selfadapt.fit(
            data,
            out=asked.out / f"start{start}-seed{seed}",
            net="small_cnn",
            seed=seed,
            settings=SHARED | AUGMENTED | {"data.validation": 0.1, "method.start": start},
        )
        found[start].append(run.result["validation_accuracy"])
        print(start, seed, found[start][-1], flush=True)
    if asked.shard is None:
        rows = [{"start": start, "noisy_validation_accuracy": found[start]} for start in STARTS]
        best = max(rows, key=lambda row: mean(row["noisy_validation_accuracy"]))  # type: ignore[arg-type]
        settings = SHARED | AUGMENTED
        write(
            "cifar10_settings", {"settings": settings, "grid": rows, "chosen": best, "seeds": SEEDS}
        )


if __name__ == "__main__":
    main()
