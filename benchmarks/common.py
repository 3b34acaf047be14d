"""What every benchmark does alike: say where it ran, and keep its figures as data."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent


def write(name: str, figures: Any) -> None:
    """results/NAME.json: the figures, and what made them."""
    commit = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True,
        text=True,
        check=False,
    )
    content = {
        "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *_arguments()]),
        "commit": commit.stdout.strip(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "processor": processor(),
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


def _arguments() -> list[str]:
    """A path outside the repository is nobody else's: only its name is kept."""
    return [Path(a).name if a.startswith(("/", "..")) else a for a in sys.argv[1:]]


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
