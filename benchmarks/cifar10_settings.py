"""How `start` of the augmented CIFAR-10 runs was chosen: by accuracy on a held-out tenth of the
training set with its wrong labels as they are, on a seed that is not reported. No test data is
loaded.

    python benchmarks/cifar10_settings.py CIFAR10_FOLDER --out runs/cifar10_settings
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from cifar10_noise import SHARED
from common import write

import selfadapt

STARTS = (12, 24)
SEED = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cifar10", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--starts", type=int, nargs="+", default=STARTS)
    asked = parser.parse_args()
    data = replace(selfadapt.load(asked.cifar10, limit=10_000), test=None)
    rows = []
    for start in asked.starts:
        run = selfadapt.fit(
            data,
            out=asked.out / f"start{start}",
            net="small_cnn",
            seed=SEED,
            settings=SHARED
            | {"data.validation": 0.1, "method.start": start, "method.momentum": 0.9},
        )
        rows.append(
            {
                "start": start,
                "momentum": 0.9,
                "noisy_validation_accuracy": run.result["validation_accuracy"],
            }
        )
        print(rows[-1], flush=True)
    best = max(rows, key=lambda row: row["noisy_validation_accuracy"])
    if set(asked.starts) == set(STARTS):
        write("cifar10_settings", {"grid": rows, "chosen": best, "seed": SEED})


if __name__ == "__main__":
    main()
