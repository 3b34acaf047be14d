"""Ordinary against self-adaptive training on 10,000 CIFAR-10 images of which 40 % got a label drawn
from all classes, with and without augmentation.

    python benchmarks/cifar10_noise.py CIFAR10_FOLDER --out runs/cifar10 [--seeds 3] [--shard 1/4]

CIFAR10_FOLDER holds train.parquet and test.parquet in the layout of a Hugging Face image set. Each
run is what `selfadapt fit` would do, in a directory of its own, and goes on where it was stopped.
Last-epoch test accuracy is reported; nothing is chosen on test data: `start` of the augmented runs
is what cifar10_settings.py found. --shard is explained there.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from cifar10_settings import AUGMENTED, SHARED
from writing import ROOT, share_of, write

import selfadapt

CHOSEN = json.loads((ROOT / "results" / "cifar10_settings.json").read_text())["figures"]["chosen"]
PROTOCOLS: dict[str, dict[str, Any]] = {
    # without augmentation a net learns by heart sooner: earlier and faster, as in the paper
    "plain": {
        "data.augment": "none",
        "train.epochs": 40,
        "method.start": 8,
        "method.momentum": 0.7,
    },
    "augmented": AUGMENTED | {"method.start": CHOSEN["start"]},
}
METHODS = ("erm", "sat")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cifar10", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--shard")
    asked = parser.parse_args()
    data = selfadapt.load(asked.cifar10, limit=10_000)
    seeds = range(1, asked.seeds + 1)
    order = list(itertools.product(seeds, PROTOCOLS, METHODS))
    results: list[dict[str, Any]] = []
    for seed, protocol, method in share_of(order, asked.shard):
        results.append(train(data, protocol, method, seed, asked.out))
        print(protocol, method, seed, results[-1]["accuracy"], flush=True)
        if asked.shard is None:
            write("cifar10_noise", {"summary": summary(results), "runs": results})


def train(data: Any, protocol: str, method: str, seed: int, out: Path) -> dict[str, Any]:
    name = f"{protocol}-{method}-seed{seed}"
    knobs = SHARED | PROTOCOLS[protocol]
    if method == "erm":
        knobs = {k: v for k, v in knobs.items() if not k.startswith("method.")}
    run = selfadapt.fit(
        data, out=out / name, method=method, net="small_cnn", seed=seed, settings=knobs
    )
    kept = ROOT / "results" / "cifar10_noise" / f"{name}.jsonl"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text("".join(json.dumps(line) + "\n" for line in run.log))
    about = run.about
    return {
        "protocol": protocol,
        **run.result,
        "train_accuracy": run.log[-1]["train_accuracy"],
        "settings": {k: v for k, v in about["settings"].items() if k != "data"},
        "fingerprint": about["noise"]["fingerprint"],
        "run_commit": about["commit"],
        "threads": about["resolved"]["threads"],
    }


def summary(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for protocol in PROTOCOLS:
        for method in METHODS:
            mine = [r for r in results if (r["protocol"], r["method"]) == (protocol, method)]
            if mine:
                rows.append({"protocol": protocol, "method": method} | means(mine))
    return rows


def means(results: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"seeds": [r["seed"] for r in results]}
    for name in ("accuracy", "labels_right", "train_accuracy", "error_rate"):
        values = [r[name] for r in results]
        found[name] = float(np.mean(values))
        found[f"{name}_std"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return found


if __name__ == "__main__":
    main()
