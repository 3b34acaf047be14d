"""What every benchmark does alike: say where it ran, and keep its figures as data."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import torch

from selfadapt.engine.machine import hardware
from selfadapt.experiment.record import commit

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent


def write(name: str, figures: Any) -> None:
    """results/NAME.json: the figures, and what made them."""
    content = {
        "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *_arguments()]),
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            **hardware(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "figures": figures,
    }
    path = ROOT / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps(content, indent=2) + "\n")
    print(f"written to {path.relative_to(ROOT)}")


def share_of(runs: Sequence[T], shard: str | None) -> Sequence[T]:
    """Every n-th of the runs from the k-th on, for `k/n`; all of them for None."""
    if shard is None:
        return runs
    k, n = map(int, shard.split("/"))
    return runs[k - 1 :: n]


def _arguments() -> list[str]:
    """A path outside the repository is nobody else's: only its name is kept."""
    return [Path(a).name if a.startswith(("/", "..")) else a for a in sys.argv[1:]]
