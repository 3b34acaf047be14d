"""`selfadapt demo --seeds 3`, kept as data: the README's figures and curves.

python benchmarks/demo.py [--out runs/demo]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from writing import write

from selfadapt.demo import KNOBS, METHODS, SETTINGS, run_demo

CURVES = ("test_accuracy", "train_accuracy", "labels_right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/demo"))
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    runs = run_demo(asked.out, asked.seeds)
    figures = {
        "settings": SETTINGS | {f"{name} only": KNOBS[name] for name in METHODS},
        "runs": [
            {
                **run.result,
                "fingerprint": run.about["noise"]["fingerprint"],
                "curves": {name: [line[name] for line in run.log] for name in CURVES},
            }
            for run in runs
        ],
    }
    write("demo", figures)


if __name__ == "__main__":
    main()
