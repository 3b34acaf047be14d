"""What the launcher of several processes says of this one, before it has joined the others."""

from __future__ import annotations

import os


def by_slurm() -> bool:
    """Whether srun started several processes, and no launcher within them."""
    return "RANK" not in os.environ and int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1


def count() -> int:
    """How many processes there are."""
    return int(os.environ.get("SLURM_STEP_NUM_TASKS" if by_slurm() else "WORLD_SIZE", "1"))


def is_first_here() -> bool:
    """The first of those on this machine: another machine's trouble may be its own."""
    return os.environ.get("SLURM_LOCALID" if by_slurm() else "LOCAL_RANK", "0") == "0"


def is_first() -> bool:
    """The one that speaks to people, as far as the environment tells."""
    rank = os.environ.get("SLURM_PROCID" if by_slurm() else "RANK", "0")
    return rank == "0"
